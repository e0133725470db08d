#!/usr/bin/env python3
"""The server behind nginx with TLS, by the example of docs/serve.md.

    tests/serve/nginx_test.py PROGRAM RECORDING

Needs nginx, which `scripts/setup.sh proxy` installs.
"""
import getpass
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import wave

import openai_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")  # not in the PATH of all users
NAME = "vesper.example.org"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def documented_site(port, server, folder):
    """The example, with other ports and the certificate of the test."""
    page = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
    text = re.search(r"^```nginx\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[1]
    for documented, own in (("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
                            ("http://127.0.0.1:8080;", server + ";"),
                            ("/etc/ssl/certs/vesper.pem", str(folder / "vesper.pem")),
                            ("/etc/ssl/private/vesper.key", str(folder / "vesper.key"))):
        assert text.count(documented) == 1, f"expected {documented} once in the example"
        text = text.replace(documented, own)
    return text


class Nginx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.top.name)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}",
                        "-keyout", folder / "vesper.key", "-out", folder / "vesper.pem"], check=True, capture_output=True)
        cls.server = openai_test.Server("-m", "tiny.en", "-m", "smollm2-135m", "--allow-host", NAME)
        cls.port = free_port()
        paths = "".join(f"{kind}_temp_path {folder / kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            f"user {getpass.getuser()};\ndaemon off;\nworker_processes 1;\npid {folder / 'pid'};\nevents {{}}\n"
            f"http {{\naccess_log off;\n{paths}\n{documented_site(cls.port, cls.server.url, folder)}}}\n")
        cls.nginx = subprocess.Popen([NGINX, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "errors"],
                                     stderr=subprocess.DEVNULL)
        cls.context = ssl.create_default_context(cafile=folder / "vesper.pem")
        for _ in range(100):
            try:
                return cls.connect().close()
            except ConnectionRefusedError:
                time.sleep(0.1)
        raise AssertionError("nginx did not start: " + (folder / "errors").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.nginx.terminate()
        cls.nginx.wait(60)
        status = cls.server.stop()
        cls.top.cleanup()
        assert status == 0, status

    @classmethod
    def connect(cls):
        plain = socket.create_connection(("127.0.0.1", cls.port), timeout=60)
        return cls.context.wrap_socket(plain, server_hostname=NAME)

    def request(self, method, path, body=b"", content_type="application/json"):
        """A connection that has sent a request."""
        connection = self.connect()
        connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nContent-Type: {content_type}"
                           f"\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        return connection

    def pieces(self, connection):
        """What comes until the end of the connection, as it comes."""
        with connection:
            while piece := connection.recv(1 << 20):
                yield piece

    def test_a_request_and_its_error(self):
        whole = b"".join(self.pieces(self.request("GET", "/v1/models")))
        self.assertTrue(whole.startswith(b"HTTP/1.1 200 "), whole)
        self.assertIn(b"smollm2-135m", whole)
        self.assertTrue(b"".join(self.pieces(self.request("GET", "/v2"))).startswith(b"HTTP/1.1 404 "))

    def test_a_long_upload(self):
        """Beyond the megabyte that nginx allows by itself."""
        with wave.open(openai_test.RECORDING) as file:
            header, frames = file.getparams(), file.readframes(file.getnframes())
        path = pathlib.Path(self.top.name) / "long.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams(header)
            file.writeframes(frames + bytes(2_000_000))
        body = b"".join(b'--cut\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % part for part in (
            (b"model", b"tiny.en"), (b"response_format", b"text"), (b'file"; filename="a.wav', path.read_bytes())))
        whole = b"".join(self.pieces(self.request("POST", "/v1/audio/transcriptions", body + b"--cut--\r\n",
                                                  "multipart/form-data; boundary=cut")))
        self.assertTrue(whole.startswith(b"HTTP/1.1 200 "), whole)
        self.assertIn(b"dashwood", whole.lower())

    def test_events_come_one_by_one(self):
        body = json.dumps({"model": "smollm2-135m", "prompt": "Once", "max_tokens": 30, "temperature": 0, "stream": True,
                           "ignore_eos": True}).encode()
        pieces = list(self.pieces(self.request("POST", "/v1/completions", body)))
        whole = b"".join(pieces)
        self.assertIn(b"[DONE]", whole)
        # A buffer of nginx has 4 KB or more, and the answer is smaller than two.
        self.assertLess(len(whole), 12000)
        self.assertGreater(sum(b"data: " in piece for piece in pieces), 5, pieces)

    def test_live_captions(self):
        with websockets.sync.client.connect(f"wss://{NAME}/v1/audio/stream", sock=self.plain_socket(), ssl=self.context,
                                            server_hostname=NAME, origin=f"https://{NAME}") as stream:
            stream.send(json.dumps({"model": "tiny.en", "step": 0.5}))
            self.assertEqual(json.loads(stream.recv())["type"], "ready")
            with wave.open(openai_test.RECORDING) as file:
                stream.send(file.readframes(file.getnframes()))
            self.assertIn(json.loads(stream.recv())["type"], ("partial", "final"))  # before the end
            stream.send(json.dumps({"type": "end"}))
            for message in stream:
                done = json.loads(message)
        self.assertEqual(done["type"], "done")
        self.assertIn("dashwood", done["text"].lower())

    def plain_socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


if __name__ == "__main__":
    if NGINX is None:
        print(": Skipped\nno nginx here: scripts/setup.sh proxy installs it")
        sys.exit(0)
    openai_test.use_client()
    import websockets.sync.client

    unittest.main(verbosity=2)
