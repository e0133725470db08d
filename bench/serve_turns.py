#!/usr/bin/env python3
"""Measures how long a short recording takes while a server transcribes a long one.

    bench/serve_turns.py URL MODEL LONG SHORT [--rounds 3] [--at-once 16] [--whole]

Sends the short recording alone, then 0.5 s after the long one, and then many of it at once. All
requests have chunking_strategy=auto, or none of it with --whole. Prints the seconds of each.
"""
import argparse
import pathlib
import threading
import time
import urllib.parse

from serve_load import multipart, post


def transcribe(url, fields, recording):
    """Seconds until the text is there."""
    start = time.monotonic()
    body = multipart(fields, recording)
    answer = post(url, "/v1/audio/transcriptions", body,
                  {"Content-Type": "multipart/form-data; boundary=cut"}, timeout=3600)
    text = answer.read()
    if answer.status != 200 or not text.strip():
        raise SystemExit(f"status {answer.status}: {text[:200]}")
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", type=urllib.parse.urlsplit)
    parser.add_argument("model")
    parser.add_argument("long", type=pathlib.Path)
    parser.add_argument("short", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--whole", action="store_true", help="without chunking_strategy")
    arguments = parser.parse_args()
    long, short = arguments.long.read_bytes(), arguments.short.read_bytes()

    fields = {"model": arguments.model, "response_format": "text"}
    if not arguments.whole:
        fields["chunking_strategy"] = "auto"

    def timed(recording):
        return transcribe(arguments.url, fields, recording)

    for _ in range(arguments.rounds):
        alone = timed(short)
        times = {}
        other = threading.Thread(target=lambda: times.update(long=timed(long)))
        other.start()
        time.sleep(0.5)
        beside = timed(short)
        other.join()
        start = time.monotonic()
        many = [threading.Thread(target=timed, args=[short]) for _ in range(arguments.at_once)]
        for thread in many:
            thread.start()
        for thread in many:
            thread.join()
        print(f"alone {alone:.2f} s, beside the long one {beside:.2f} s, the long one {times['long']:.2f} s, "
              f"{arguments.at_once} at once {time.monotonic() - start:.2f} s")


if __name__ == "__main__":
    main()
