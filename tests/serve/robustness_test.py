#!/usr/bin/env python3
"""The server under clients that it does not expect, and after a crash, with real models.

    tests/serve/robustness_test.py PROGRAM RECORDING
"""
import json
import os
import random
import re
import signal
import socket
import tempfile
import threading
import time
import unittest

import openai_test

MODELS = ("-m", "tiny.en", "-m", "smollm2-135m")
SLOW = {"model": "smollm2-135m", "prompt": "Once", "max_tokens": 3000, "stream": True, "extra_body": {"ignore_eos": True}}


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="any", max_retries=0, timeout=120)


def connect(server):
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


def send_half_an_upload(server):
    """A connection on which the rest of a recording is missing."""
    connection = connect(server)
    connection.sendall(b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data;"
                       b" boundary=cut\r\nContent-Length: 50000000\r\n\r\n--cut\r\nContent-Disposition: form-data;"
                       b' name="file"; filename="a.wav"\r\n\r\n' + bytes(2_000_000))
    return connection


def hear_live(server):
    """Begins a live stream."""
    stream = websockets.sync.client.connect(server.url.replace("http", "ws") + "/v1/audio/stream")
    stream.send(json.dumps({"model": "tiny.en"}))
    assert json.loads(stream.recv())["type"] == "ready"
    stream.send(bytes(64000))


class AfterAKill(unittest.TestCase):
    def test_it_starts_again_at_once_and_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            first = openai_test.Server(*MODELS, TMPDIR=folder)
            port = first.url.rsplit(":", 1)[1]
            client = client_of(first)
            uploads = [send_half_an_upload(first) for _ in range(4)]
            answers = [client.completions.create(**SLOW) for _ in range(4)]
            for answer in answers:
                next(iter(answer))
            hear_live(first)
            first.process.kill()
            self.assertEqual(first.stop(), -signal.SIGKILL)
            self.assertEqual(os.listdir(folder), [])
            # The connections are still open on this side: the port is free nevertheless.
            second = openai_test.Server(*MODELS, "--port", port, TMPDIR=folder)
            self.assertEqual(second.url, first.url)
            self.assertTrue(client_of(second).completions.create(model="smollm2-135m", prompt="a", max_tokens=1).choices)
            for upload in uploads:
                upload.close()
            self.assertEqual(second.stop(), 0)
            self.assertEqual(os.listdir(folder), [])


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = openai_test.Server(*MODELS, "--max-upload", "1", "--max-json", "0.1", "--stall-time", "3",
                                        "--max-streams", "1", TMPDIR=cls.folder.name)
        cls.client = client_of(cls.server)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        files = os.listdir(cls.folder.name)
        cls.folder.cleanup()
        assert (status, files) == (0, []), (status, files)

    def answer(self, n_tokens=8):
        return self.client.completions.create(model="smollm2-135m", prompt="1, 2,", max_tokens=n_tokens).choices[0].text

    def n_left(self):
        """Requests whose client has left."""
        return self.server.text().count("status=499")

    def wait_for_left(self, n):
        self.server.wait_for("(?s)" + "status=499.*" * n)

    def test_who_does_not_read_delays_nobody(self):
        body = json.dumps({key: value for key, value in SLOW.items() if key != "extra_body"} | SLOW["extra_body"]).encode()
        before = self.n_left()
        deaf = connect(self.server)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.assertTrue(deaf.recv(1))  # the answer has begun
        for _ in range(3):
            self.assertTrue(self.answer())
        self.assertEqual(self.n_left(), before)
        deaf.close()
        self.wait_for_left(before + 1)

    def test_half_requests_are_ended_and_delay_nobody(self):
        half = [send_half_a_json(self.server) for _ in range(20)]
        self.assertTrue(self.answer())
        for connection in half:
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 408 "))
            connection.close()

    def test_large_bodies_are_refused(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            self.client.completions.create(model="smollm2-135m", prompt="a" * 200_000)
        self.assertEqual(caught.exception.status_code, 413)
        with self.assertRaises(openai.APIStatusError) as caught:
            self.client.audio.transcriptions.create(model="tiny.en", file=("a.wav", bytes(2_000_000)))
        self.assertEqual(caught.exception.status_code, 413)

    def test_many_leave_in_the_middle_of_an_answer(self):
        def leave():
            answer = self.client.completions.create(**SLOW)
            next(iter(answer))
            answer.close()

        before = self.n_left()
        threads = [threading.Thread(target=leave) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # 12 answers of 3000 tokens would take minutes.
        self.wait_for_left(before + 12)
        self.assertTrue(self.answer())

    def test_who_leaves_a_live_stream_frees_its_place(self):
        for _ in range(3):
            live = self.hear_live_when_free()
            live.send(bytes(640000))
            live.socket.shutdown(socket.SHUT_RDWR)

    def test_who_sends_faster_than_is_decoded_waits(self):
        """An hour of audio: the server keeps a minute and a MiB of it, and sockets hold some MB."""
        live = self.hear_live_when_free()
        memory = self.resident_mb()
        n_sent = 0

        def send():
            nonlocal n_sent
            piece = random.randbytes(32000)  # silence is not decoded
            try:
                for _ in range(3600):
                    live.send(piece)
                    n_sent += 1
            except websockets.exceptions.ConnectionClosed:
                pass  # below

        thread = threading.Thread(target=send)
        thread.start()
        thread.join(5)
        self.assertTrue(thread.is_alive(), f"{n_sent} s were taken")
        self.assertLess(self.resident_mb(), memory + 100)
        live.socket.shutdown(socket.SHUT_RDWR)
        thread.join()

    def resident_mb(self):
        with open(f"/proc/{self.server.process.pid}/status") as status:
            return int(re.search(r"^VmRSS:\s+(\d+) kB$", status.read(), re.MULTILINE)[1]) / 1024

    def hear_live_when_free(self):
        for _ in range(100):
            stream = websockets.sync.client.connect(self.server.url.replace("http", "ws") + "/v1/audio/stream")
            stream.send(json.dumps({"model": "tiny.en"}))
            event = json.loads(stream.recv())
            if event["type"] == "ready":
                return stream
            self.assertEqual(event["error"]["code"], "too_many_streams")
            stream.close()
            time.sleep(0.1)
        raise AssertionError("the place of a stream that was left is never free")


def send_half_a_json(server):
    connection = connect(server)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: 5000\r\n\r\n{")
    return connection


if __name__ == "__main__":
    openai_test.use_client()
    import openai
    import websockets.sync.client

    unittest.main(verbosity=2)
