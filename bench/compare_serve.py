#!/usr/bin/env python3
"""Compares serve with llama-server, whisper-server and faster-whisper on the same weights, in turn.

    bench/compare_serve.py [--quick]    # after bench/peers.sh; prints a table

CHATS clients ask at the same time, each something else: the tokens of all answers per second, and the
time until a client has its first token. FILES clients send a recording each at the same time: the
time until the last one has its text. A server is started anew for each measurement, so that nothing
is cached. All have the same number of threads, answers at once, and beams.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import threading
import time
import wave

import recordings
from compare_generate import MODEL as CHAT_MODEL
from compare_speech import ggml_file
from comparison import (MODELS, PEERS, ROOT, conditions, describe, header, note, peer_version, row,
                        rotated, save, spread, times_of, vesper_version)
from word_errors import distance, normalize

THREADS = 2
CHATS = 16
TOKENS = 64   # of an answer
CONTEXT = 1024  # of a chat
FILES = 16
FILE_S = 20
BEAMS = 5  # the default of serve
SPEECH_MODEL = "base"
SUBJECTS = ("rivers", "bridges", "clocks", "bees", "glass", "bread", "lighthouses", "maps", "wolves", "paper",
            "volcanoes", "trains", "whales", "coffee", "mountains", "kites")
EQUAL_WORDS = 5
AGREEMENT = 0.12  # word errors of one server's texts with the other's as reference


class Server:
    def __init__(self, name, command, fields=None):
        self.name, self.command = name, [str(part) for part in command]
        self.fields = fields or {}  # of a transcription, beside those that all servers get

    def __enter__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen([*self.command, "--host", "127.0.0.1", "--port", str(self.port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.is_ready():
            if self.process.poll() is not None:
                raise SystemExit(f"{' '.join(self.command)}\nexit status {self.process.returncode}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def is_ready(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def post(self, path, body, content_type):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", path, body=body, headers={"Content-Type": content_type})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{self.name}: {path}: status {response.status}: {response.read(500)}")
        return response


def at_once(function, items):
    """The results of function(item), all started at the same time, and the seconds until the last."""
    results, errors = [None] * len(items), []

    def run(index, item):
        try:
            results[index] = function(item)
        except Exception as error:  # of another thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(items)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results, time.perf_counter() - start


def chat(server, subject):
    """(text, seconds to the first token, tokens)"""
    start = time.perf_counter()
    response = server.post("/v1/chat/completions", json.dumps({
        "model": CHAT_MODEL.stem, "max_tokens": TOKENS, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": f"Write a long story about {subject}."}]}),
        "application/json")
    text, first_s, n_tokens = "", None, 0
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if event.get("usage"):
            n_tokens = event["usage"]["completion_tokens"]
        for choice in event["choices"]:
            if choice["delta"].get("content"):
                first_s = first_s or time.perf_counter() - start
                text += choice["delta"]["content"]
    return text, first_s, n_tokens


def transcribe(server, recording):
    fields = {"model": SPEECH_MODEL, "language": "en", "response_format": "json", "temperature": "0",
              **server.fields}
    body = b"".join(f'--cut\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
                    for name, value in fields.items())
    body += b'--cut\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    body += recording.read_bytes() + b"\r\n--cut--\r\n"
    response = server.post("/v1/audio/transcriptions", body, "multipart/form-data; boundary=cut")
    return json.load(response)["text"]


def chat_servers():
    yield Server("serve", [ROOT / "build/serve", "-m", CHAT_MODEL, "-t", THREADS, "--device", "cpu", "--slots", CHATS,
                           "--ctx", CONTEXT])
    yield Server("llama-server", [PEERS / "llama-server", "-m", CHAT_MODEL, "-t", THREADS, "-np", CHATS, "-c",
                                  CHATS * CONTEXT])


def speech_servers():
    ours = [ROOT / "build/serve", "-m", MODELS / SPEECH_MODEL, "-t", THREADS, "--device", "cpu"]
    for name, fields in (("serve", {}), ("serve, chunking_strategy", {"chunking_strategy": "auto"})):
        yield Server(name, ours, fields)
    yield Server("whisper-server", [PEERS / "whisper-server", "-m", ggml_file(SPEECH_MODEL), "-t", THREADS, "-bs",
                                    BEAMS, "-bo", BEAMS, "--inference-path", "/v1/audio/transcriptions"])
    yield Server("faster-whisper", [PEERS / "venv/bin/python", ROOT / "bench/faster_whisper_server.py", "--model",
                                    MODELS / SPEECH_MODEL, "--threads", THREADS, "--beams", BEAMS])


def files():
    """Pieces of the long recording, cut on first use."""
    folder = recordings.FOLDER / "pieces"
    paths = [folder / f"{number:02}.wav" for number in range(FILES)]
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        with wave.open(str(recordings.recording("long")[0])) as source:
            for path in paths:
                with wave.open(str(path), "wb") as piece:
                    piece.setparams(source.getparams())
                    piece.writeframes(source.readframes(FILE_S * source.getframerate()))
    return paths


def beginning(text):
    return normalize(text)[:EQUAL_WORDS]


def check_answers(answers):
    """At different roundings greedy answers differ after a while; most begin alike."""
    first, *others = answers.items()
    for name, texts in others:
        n_equal = sum(beginning(a) == beginning(b) for a, b in zip(first[1], texts))
        if n_equal < CHATS / 2:
            raise SystemExit(f"{n_equal} of {CHATS} answers of {name} begin as those of {first[0]}: expected at least "
                             "half")


def check_transcripts(transcripts):
    reference = normalize(" ".join(transcripts["whisper-server"]))
    for name, texts in transcripts.items():
        errors = distance(reference, normalize(" ".join(texts))) / len(reference)
        if errors > AGREEMENT:
            raise SystemExit(f"the texts of {name} and whisper-server differ in {100 * errors:.1f}% of the words: "
                             f"expected at most {100 * AGREEMENT:.0f}%")


def measure(quick):
    load_before = os.getloadavg()[0]
    rates, firsts, seconds, answers, transcripts = {}, {}, {}, {}, {}
    paths = files()
    for repetition in range(1 if quick else 3):
        for server in rotated(chat_servers(), repetition):
            with server:
                results, wall_s = at_once(lambda subject: chat(server, subject), SUBJECTS)
            answers[server.name] = [text for text, _, _ in results]
            rates.setdefault(server.name, []).append(sum(n for _, _, n in results) / wall_s)
            firsts.setdefault(server.name, []).append(statistics.median(first for _, first, _ in results))
            note(f"{server.name}: {rates[server.name][-1]:.1f} tokens/s, first after {firsts[server.name][-1]:.2f} s")
        for server in rotated(speech_servers(), repetition):
            with server:
                transcripts[server.name], wall_s = at_once(lambda path: transcribe(server, path), paths)
            seconds.setdefault(server.name, []).append(wall_s)
            note(f"{server.name}: {FILES} recordings in {wall_s:.1f} s")
    check_answers(answers)
    check_transcripts(transcripts)
    versions = [vesper_version("serve"), peer_version("llama-server"), peer_version("whisper-server"),
                " ".join(peer_version("venv").split()[:2])]
    return {**conditions(versions, load_before), "rates": rates, "firsts": firsts, "seconds": seconds}


def table(results):
    yield from header([f"{CHATS} clients at once", "serve", "llama-server", "whisper-server",
                       "faster-whisper, int8, FastAPI"])
    rates, firsts, seconds = results["rates"], results["firsts"], results["seconds"]
    median = statistics.median
    yield row([f"{CHAT_MODEL.stem}: tokens per second", spread(rates["serve"], 0),
               times_of(spread(rates["llama-server"], 0), median(rates["serve"]) / median(rates["llama-server"])), "", ""])
    yield row(["the first token", spread(firsts["serve"], 2, " s"),
               times_of(spread(firsts["llama-server"], 2, " s"),
                        median(firsts["llama-server"]) / median(firsts["serve"])), "", ""])
    for name, title in (("serve", ""), ("serve, chunking_strategy", ", `chunking_strategy=auto`")):
        yield row([f"{SPEECH_MODEL}: {FILES} recordings of {FILE_S} s{title}", spread(seconds[name], 1, " s"), "",
                   *(times_of(spread(seconds[peer], 1, " s"), median(seconds[peer]) / median(seconds[name]))
                     for peer in ("whisper-server", "faster-whisper"))])
    yield ""
    yield (f"Median (range) of {len(rates['serve'])} runs in turn, and how many times slower than `serve`; the same "
           f"weights, {THREADS} threads, {CHATS} answers at once of {TOKENS} tokens, {BEAMS} beams. "
           f"{describe(results)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    results = measure(options.quick)
    save("serve", results)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
