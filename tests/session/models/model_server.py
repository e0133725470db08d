#!/usr/bin/env python3
"""A model hub for tests: serves one file under every path; the first part of a path sets the behavior.

usage: model_server.py FILE LOG    prints its port, logs "PATH RANGE" for each request, and ends
                                   when its standard input is closed

/plain/...       ranges; the digest in x-linked-etag
/redirect/...    a redirection with the digest, to a URL without one
/nodigest/...    ranges; no digest
/baddigest/...   a digest of zeros
/norange/...     always the whole file
/wrongrange/...  another range than requested
/cut/...         closes the connection after a million bytes
/stall/...       the first time, stops after a million bytes and keeps the connection open
/slow/...        takes about a second
/flaky/...       the first time, "503 Service Unavailable"
/dead/...        always "503 Service Unavailable"
/missing/...     "404 Not Found"
"""
import hashlib
import http.server
import re
import sys
import threading
import time

content = open(sys.argv[1], "rb").read()
sha256 = hashlib.sha256(content).hexdigest()
log = open(sys.argv[2], "w", buffering=1)
seen = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def fail(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        mode = self.path.split("/")[1]
        requested = self.headers.get("Range", "-")
        log.write(f"{self.path} {requested}\n")
        first_time = mode not in seen
        seen.add(mode)
        if mode == "missing":
            return self.fail(404)
        if mode == "dead" or (mode == "flaky" and first_time):
            return self.fail(503)
        if mode == "redirect":
            self.send_response(302)
            self.send_header("Location", self.path.replace("/redirect/", "/nodigest/", 1))
            self.send_header("X-Linked-Etag", f'"{sha256}"')
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"moved")
            return

        match = re.fullmatch(r"bytes=(\d+)-", requested)
        start = int(match[1]) if match and mode != "norange" else 0
        if match and mode == "wrongrange":
            start += 1
        if start >= len(content) and match:
            return self.fail(416)
        body = content[start:]
        self.send_response(206 if match and mode != "norange" else 200)
        if match and mode != "norange":
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if mode != "nodigest":
            self.send_header("X-Linked-Etag", '"' + ("0" * 64 if mode == "baddigest" else sha256) + '"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if mode == "cut" or (mode == "stall" and first_time):
            self.wfile.write(body[:1_000_000])
            self.wfile.flush()
            if mode == "stall" and len(body) > 1_000_000:
                time.sleep(60)
            self.close_connection = True
        elif mode == "slow":
            for at in range(0, len(body), 100_000):
                self.wfile.write(body[at : at + 100_000])
                time.sleep(0.03)
        else:
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):  # a client that goes away is part of the tests
        pass


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
