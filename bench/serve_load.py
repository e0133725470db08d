#!/usr/bin/env python3
"""Load on a running server: clients that chat, embed, transcribe, leave early, read slowly or send
garbage. Prints the requests by kind and status, the times of /health, and the memory of the server.

    bench/serve_load.py URL --process ID --recording talk.wav [--seconds 60] [--clients 100]
"""
import argparse
import collections
import http.client
import json
import multiprocessing
import pathlib
import random
import socket
import statistics
import threading
import time
import urllib.parse
import urllib.request


def post(url, path, body, headers, timeout=300):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)
    connection.request("POST", path, body=body, headers=headers)
    return connection.getresponse()


def post_json(url, path, fields):
    return post(url, path, json.dumps(fields), {"Content-Type": "application/json"})


def multipart(fields, recording):
    body = b"".join(f'--cut\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
                    for name, value in fields.items())
    return (body + b'--cut\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' +
            recording + b"\r\n--cut--\r\n")


class Clients:
    def __init__(self, arguments):
        self.url = urllib.parse.urlsplit(arguments.url)
        self.recording = pathlib.Path(arguments.recording).read_bytes()
        self.end = time.monotonic() + arguments.seconds
        self.results = collections.Counter()
        self.lock = threading.Lock()
        self.models = {}
        for model in json.load(urllib.request.urlopen(arguments.url + "/v1/models"))["data"]:
            self.models.setdefault(model["kind"], model["id"])

    def chat(self, reads=None):
        """`reads`: bytes of the stream to read before leaving; None: all of it."""
        response = post_json(self.url, "/v1/chat/completions", {
            "model": self.models["language"], "max_tokens": 32, "stream": True,
            "messages": [{"role": "user", "content": f"Say something about {random.random()}."}]})
        if reads is None:
            body = response.read()
            return response.status if response.status != 200 or b"[DONE]" in body else "cut"
        response.read(reads)
        response.close()
        return "left"

    def leave_early(self):
        return self.chat(reads=100)

    def read_slowly(self):
        response = post_json(self.url, "/v1/completions", {
            "model": self.models["language"], "prompt": "Once", "max_tokens": 64, "stream": True})
        while response.read(64):
            time.sleep(0.05)
        return response.status

    def embed(self):
        return post_json(self.url, "/v1/embeddings", {
            "model": self.models["text encoder"], "input": [str(random.random())] * 4}).status

    def transcribe(self):
        return post(self.url, "/v1/audio/transcriptions", multipart({"model": self.models["speech"]}, self.recording),
                    {"Content-Type": "multipart/form-data; boundary=cut"}).status

    def send(self, data, stays_s):
        with socket.create_connection((self.url.hostname, self.url.port), timeout=60) as connection:
            connection.sendall(data)
            connection.settimeout(stays_s)
            try:
                while connection.recv(4096):
                    pass
                return "closed"
            except TimeoutError:
                return "left"

    def send_garbage(self):
        return self.send(random.randbytes(random.randrange(1, 4000)), 1)

    def send_half(self):
        return self.send(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{",
                         random.random() / 10)

    def send_too_much(self):
        return post(self.url, "/v1/chat/completions", "[" * 1_000_000, {"Content-Type": "application/json"}).status

    def run(self, kind):
        while time.monotonic() < self.end:
            try:
                status = kind()
            except OSError as error:
                status = type(error).__name__
            except http.client.HTTPException as error:
                status = type(error).__name__
            with self.lock:
                self.results[kind.__name__, status] += 1
            if status == 429:
                time.sleep(1)


def resident_mb(process):
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {process} has no VmRSS")


def watch_health(url, seconds, times):
    """Its own process, which the clients' threads do not delay."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        urllib.request.urlopen(url + "/health/live", timeout=60).read()
        times.append(time.monotonic() - start)
        time.sleep(0.1)


def run_load(arguments):
    times = multiprocessing.Manager().list()
    watcher = multiprocessing.Process(target=watch_health, args=(arguments.url, arguments.seconds, times))
    watcher.start()
    clients = Clients(arguments)
    kinds = [clients.chat] * 4 + [clients.embed] * 2 + [clients.transcribe, clients.leave_early, clients.read_slowly,
                                                       clients.send_garbage, clients.send_half, clients.send_too_much]
    threads = [threading.Thread(target=clients.run, args=(kinds[i % len(kinds)],)) for i in range(arguments.clients)]
    for thread in threads:
        thread.start()
    memory = []
    while time.monotonic() < clients.end:
        memory.append(resident_mb(arguments.process))
        time.sleep(0.1)
    watcher.join()
    health = sorted(times)
    for thread in threads:
        thread.join()
    for (kind, status), n in sorted(clients.results.items(), key=str):
        print(f"{kind:14} {status!s:24} {n:6}")
    print(f"/health/live: median {1e3 * statistics.median(health):.1f} ms, "
          f"p99 {1e3 * health[int(0.99 * len(health))]:.1f} ms, worst {1e3 * health[-1]:.1f} ms, {len(health)} requests")
    quarter = max(1, len(memory) // 4)
    print(f"memory: {memory[quarter]:.0f} MB after a quarter of the time, {memory[-1]:.0f} MB at the end, "
          f"{resident_mb(arguments.process):.0f} MB after it")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--process", type=int, required=True, help="of the server")
    parser.add_argument("--recording", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=100)
    given = parser.parse_args()
    given.url = given.url.rstrip("/")
    run_load(given)
