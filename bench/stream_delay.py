#!/usr/bin/env python3
"""Measures the delay of words in live captions.

    bench/stream_delay.py [--model base] [--seconds 120] [--threads 2] [--device cpu]
                          [--url URL] [--streams N] RECORDING...

Feeds the beginning of each recording (16-bit mono WAV) to `transcribe --stream` in real time, 50 ms
at a time, and records when each final word is printed. The end of a word is that of
`--word-timestamps` for the whole recording. Prints the delays of common words, and of the last
words before a pause, whether a final word changed, the backlog of the stream, and the word errors
of the stream against the recording (without word times, which move the windows). Run it on an idle
machine.

With --url, a running `serve` hears the stream, by /v1/audio/stream; --streams N: N of them at once.
That needs the Python of tests/serve/fetch_clients.sh, which has a WebSocket.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import time
import wave

import word_errors

PIECE_S = 0.05
PAUSE_S = 0.5


def words_of(text):
    return re.findall(r"[\w']+", text.lower())


def aligned(expected, found):
    """(i, j) of the words that both have, at the least edit distance: text that comes again is not
    taken for another time that it comes, as difflib does.

    >>> aligned("a b c a b d".split(), "a x c a b".split())
    [(0, 0), (2, 2), (3, 3), (4, 4)]
    """
    n = len(found) + 1
    distances = [list(range(n))]
    for i, word in enumerate(expected, 1):
        above, row = distances[-1], [i]
        for j, other in enumerate(found, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != other)))
        distances.append(row)
    pairs, i, j = [], len(expected), len(found)
    while i > 0 and j > 0:
        same = expected[i - 1] == found[j - 1]
        if distances[i][j] == distances[i - 1][j - 1] + (not same):
            i, j = i - 1, j - 1
            pairs += [(i, j)] if same else []
        elif distances[i][j] == distances[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def read_beginning(path, seconds):
    with wave.open(str(path)) as recording:
        channels, width, rate, *_ = recording.getparams()
        if (channels, width) != (1, 2):
            raise SystemExit(f"{path}: expected 16-bit mono")
        return rate, recording.readframes(int(seconds * rate))


def transcribe_whole(command, rate, samples):
    """[(word, when it ended in s, when it began)], text."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "recording.wav"
        with wave.open(str(path), "wb") as recording:
            recording.setparams((1, 2, rate, 0, "NONE", ""))
            recording.writeframes(samples)
        def transcribe(*options):
            return json.loads(subprocess.run(command + [*options, "-f", "json", str(path)],
                                             check=True, capture_output=True).stdout)
        timed_transcript = transcribe("--word-timestamps")
        text = transcribe()["text"]
    ended = [(word, timed["end"], timed["start"]) for segment in timed_transcript["segments"]
             for timed in segment["words"] for word in words_of(timed["word"])]
    return ended, text


def feed(start, rate, samples, write, end):
    """Writes the samples in real time, on a thread."""
    def run():
        piece = int(PIECE_S * rate) * 2
        for at in range(0, len(samples), piece):
            # A block is available when its last sample has been spoken.
            due = start + min(at + piece, len(samples)) / 2 / rate
            time.sleep(max(0.0, due - time.monotonic()))
            write(samples[at:at + piece])
        end()

    threading.Thread(target=run, daemon=True).start()


def transcribe_live(command, rate, samples):
    """[(word, when it came out in s of the stream)], events, what was said on standard error."""
    process = subprocess.Popen(
        command + ["--stream", "-f", "jsonl", "--pcm", "s16le", "--pcm-rate", str(rate), "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(2)  # the model is loaded
    start = time.monotonic()

    def write(piece):
        process.stdin.write(piece)
        process.stdin.flush()

    errors = []
    feed(start, rate, samples, write, process.stdin.close)
    threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True).start()
    came, events = [], []
    for line in process.stdout:
        now = time.monotonic() - start
        event = json.loads(line)
        events.append((now, event))
        if event["event"] == "final":
            came += [(word, now) for timed in event["words"] for word in words_of(timed["word"])]
    if process.wait() != 0:
        raise SystemExit(b"".join(errors).decode())
    return came, events, [line.decode().rstrip() for line in errors]


def hear_by_server(url, model, rate, samples):
    """As transcribe_live, by a running server."""
    import websockets.sync.client
    address = url.rstrip("/").replace("http", "ws", 1) + "/v1/audio/stream"
    with websockets.sync.client.connect(address) as stream:
        stream.send(json.dumps({"model": model, "sample_rate": rate}))
        if (first := json.loads(stream.recv()))["type"] != "ready":
            raise SystemExit(first)
        start = time.monotonic()
        feed(start, rate, samples, stream.send, lambda: stream.send(json.dumps({"type": "end"})))
        came, events = [], []
        for message in stream:
            now = time.monotonic() - start
            event = json.loads(message)
            # By the names of `transcribe --stream`.
            event["event"] = "segment" if event["type"] == "done" else event["type"]
            if "received_s" in event:
                event["received"] = event["received_s"]
            events.append((now, event))
            if event["type"] == "final":
                came += [(word, now) for timed in event["words"] for word in words_of(timed["word"])]
        if not events or events[-1][1]["type"] != "done":
            raise SystemExit(f"{url}: expected the end of the stream, found {events[-1:]}")
    return came, events, []


def measure(path, rate, samples, whole, live):
    ended, whole_text = whole
    came, events, errors = live
    pairs = aligned([w for w, *_ in ended], [w for w, _ in came])
    delays = sorted(came[j][1] - ended[i][1] for i, j in pairs)
    # The last words of phrases: nothing is said for half a second after them.
    last = sorted(came[j][1] - ended[i][1] for i, j in pairs
                  if i + 1 == len(ended) or ended[i + 1][2] - ended[i][1] > PAUSE_S)
    finals = "".join(event["text"] for _, event in events if event["event"] == "final")
    segments = "".join(event["text"] for _, event in events if event["event"] == "segment")
    behind = max(now - event["received"] for now, event in events if "received" in event)
    wrong, total = word_errors.word_errors(whole_text, finals)
    print(f"{path.name}: {len(delays)} words of {len(ended)}: median "
          f"{statistics.median(delays):.2f} s, 95 % within {delays[int(0.95 * len(delays))]:.2f} s,"
          f" all within {delays[-1]:.2f} s; {len(last)} before a pause: median "
          f"{statistics.median(last):.2f} s, all within {last[-1]:.2f} s")
    print(f"  at most {behind:.2f} s from the last sound heard to what was made of it; "
          f"{wrong}/{total} words differ from the recording's; "
          f"{'nothing' if finals == segments else 'SOMETHING'} final was taken back")
    expected, found = word_errors.normalize(whole_text), word_errors.normalize(finals)
    a = c = 0
    for b, d in aligned(expected, found) + [(len(expected), len(found))]:
        if a < b or c < d:
            print(f"  \"{' '.join(expected[a:b])}\" is \"{' '.join(found[c:d])}\"")
        a, c = b + 1, d + 1
    for line in errors:
        print("  " + line)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=pathlib.Path, metavar="RECORDING")
    parser.add_argument("--transcribe", default=str(
        pathlib.Path(__file__).parent.parent / "build" / "transcribe"))
    parser.add_argument("--model", default="base")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--url", help="of a server")
    parser.add_argument("--streams", type=int, default=1, help="with --url")
    arguments = parser.parse_args()
    command = [arguments.transcribe, "-m", arguments.model, "-t", arguments.threads, "--device",
               arguments.device, "--offline"]
    for path in arguments.recordings:
        rate, samples = read_beginning(path, arguments.seconds)
        whole = transcribe_whole(command, rate, samples)
        if not arguments.url:
            measure(path, rate, samples, whole, transcribe_live(command, rate, samples))
            continue
        with concurrent.futures.ThreadPoolExecutor(arguments.streams) as pool:
            for live in pool.map(lambda _: hear_by_server(arguments.url, arguments.model, rate, samples),
                                 range(arguments.streams)):
                measure(path, rate, samples, whole, live)


if __name__ == "__main__":
    main()
