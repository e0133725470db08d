#!/usr/bin/env python3
"""The web page of `serve`, in headless Chromium with a fake microphone, on real models.

    tests/serve/page_test.py BUILD_FOLDER [--screenshots FOLDER]

Needs Chromium and axe-core, which `scripts/setup.sh browser` installs.
"""
import hashlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
import wave

import browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path()  # the argument
SCREENSHOTS = None      # a folder, if they are wanted
RECORDINGS = pathlib.Path("/usr/share/pocketsphinx/test/data/librivox")  # Debian: pocketsphinx-testdata
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "vesper"
AXE = CACHE / "axe-core-python-0.1.0" / "axe_core_python" / "axe.min.js"
KEY = "sk-page-test"


class Serve:
    """A server with these models, and further arguments."""

    def __init__(self, models, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        named = [argument for model in models for argument in ("-m", str(CACHE / "models" / model))]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([BUILD / "serve", *named, "--port", str(self.port), *arguments],
                                        stderr=self.log)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except urllib.error.HTTPError:
                pass  # not ready
            except OSError:
                if self.process.poll() is not None:
                    break
            time.sleep(0.1)
        self.close()
        self.log.seek(0)
        raise AssertionError(f"serve did not start: {self.log.read()}")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        if self.process.returncode == 0:
            self.log.close()


def samples_of(path):
    with wave.open(str(path)) as recording:
        return recording.readframes(recording.getnframes())


def write_wav(path, samples):
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16000)
        out.writeframes(samples)


def words_of(text):
    return re.findall(r"[a-z']+", text.lower())


class Page(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.talk = pathlib.Path(cls.folder.name, "talk.wav")
        cls.long = pathlib.Path(cls.folder.name, "long.wav")
        cls.downloads = pathlib.Path(cls.folder.name, "downloads")
        cls.downloads.mkdir()
        sentences = [samples_of(path) for path in sorted(RECORDINGS.glob("*.wav"))]
        write_wav(cls.talk, b"".join(sentences))
        write_wav(cls.long, b"".join(sentences) * 40)
        cls.server = Serve(["tiny.en", "smollm2-135m", "all-minilm-l6-v2"])
        cls.browser = browser.Browser(microphone=cls.talk, downloads=cls.downloads)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.close()
        cls.folder.cleanup()

    def setUp(self):
        self.browser.emulate()
        self.open(self.server)

    def open(self, server):
        self.browser.open(server.url + "/")
        self.browser.wait("document.documentElement.dataset.ready !== undefined", "the page starts")
        self.browser.log()

    def transcribe(self, path, state="done"):
        self.browser.type("#files", str(path))
        self.browser.wait(f"document.querySelector('#recording-list li:last-child').dataset.state === '{state}'",
                          f"{path} is {state}", 120)

    def text(self, selector):
        return self.browser.script("return document.querySelector(arguments[0]).innerText", selector)

    def downloaded(self, name):
        """The text of a file that the page saves. Chromium reserves the name with an empty file, and
        renames the complete file to it."""
        path = self.downloads / name
        for _ in range(600):
            if path.exists() and path.stat().st_size > 0:
                return path.read_text(encoding="utf-8")
            time.sleep(0.05)
        self.fail(f"{name} is not saved within 30 s")

    def screenshot(self, name):
        if SCREENSHOTS:
            self.browser.screenshot(SCREENSHOTS / f"{name}.png")

    def assert_accessible(self, what):
        violations = self.browser.promise(
            "return (await axe.run()).violations.map(({id, help, nodes}) => "
            "`${id}: ${help}: ${nodes.map((node) => node.html).join(' ')}`)")
        self.assertEqual([], violations, what)

    # ---- What the server says

    def get(self, path, **headers):
        request = urllib.request.Request(self.server.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def test_files_are_served_as_they_are_with_strict_headers(self):
        for path, content_type in [("/", "text/html"), ("/index.html", "text/html"), ("/app.js", "text/javascript"),
                                   ("/style.css", "text/css"), ("/icon.svg", "image/svg+xml")]:
            status, headers, body = self.get(path)
            self.assertEqual(200, status, path)
            self.assertEqual((ROOT / "serve" / "page" / (path[1:] or "index.html")).read_bytes(), body, path)
            self.assertIn(content_type, headers["Content-Type"])
            self.assertEqual("nosniff", headers["X-Content-Type-Options"])
            policy = headers["Content-Security-Policy"]
            for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"]:
                self.assertIn(part, policy)
            self.assertNotIn("unsafe", policy)
            status, _, body = self.get(path, **{"If-None-Match": headers["ETag"]})
            self.assertEqual((304, b""), (status, body))
            self.assertEqual(200, self.get(path, **{"If-None-Match": '"other"'})[0])

    def test_other_paths_are_not_found(self):
        for path in ["/none.js", "/../README.md", "/%2e%2e/README.md", "/page_files.cc", "//index.html"]:
            self.assertIn(self.get(path)[0], (400, 404), path)

    def test_nothing_comes_from_elsewhere(self):
        for path in (ROOT / "serve" / "page").glob("*.*"):
            if path.suffix in (".html", ".js", ".css", ".svg"):
                found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", path.read_text(encoding="utf-8"))
                self.assertEqual([], [url for url in found if url != "http://www.w3.org"], path)
        urls = self.browser.script("return performance.getEntriesByType('resource').map(({name}) => name)")
        self.assertGreater(len(urls), 5)
        self.assertEqual([], [url for url in urls if not url.startswith(self.server.url)])

    # ---- Recordings

    def test_a_recording_becomes_text_that_plays(self):
        self.transcribe(self.talk)
        expected = json.loads(subprocess.run(
            [BUILD / "transcribe", "-m", CACHE / "models/tiny.en", "-f", "json", "--word-timestamps", self.talk],
            check=True, capture_output=True).stdout)
        shown = self.browser.script(
            "return [...document.querySelectorAll('#segments li:not(.partial) p')].map((p) => p.textContent.trim())")
        self.assertEqual([segment["text"].strip() for segment in expected["segments"]], shown)

        # A click on a word plays from there, and the word being played is marked.
        word = expected["segments"][3]["words"][2]
        index = sum(len(segment["words"]) for segment in expected["segments"][:3]) + 2
        self.browser.script("document.querySelectorAll('.word')[arguments[0]].click()", index)
        self.browser.wait("!document.querySelector('audio').paused", "the recording plays")
        started = self.browser.script("return document.querySelector('audio').currentTime")
        self.assertLess(abs(started - word["start"]), 0.5)
        marked = "[...document.querySelectorAll('.word')].indexOf(document.querySelector('.playing'))"
        self.browser.wait(f"{marked} > {index + 1}", "the mark moves with the sound")
        self.assertEqual(1, self.browser.script("return document.querySelectorAll('.playing').length"))
        self.browser.script("document.querySelector('audio').pause()")
        self.assertEqual([], self.browser.log())

    def test_exports_are_those_of_transcribe(self):
        self.transcribe(self.talk)
        formats = self.browser.script("return [...document.getElementById('export-format').options].map((o) => o.value)")
        self.assertEqual(["txt", "srt", "vtt", "tsv", "csv", "lrc", "json"], formats)
        expected = pathlib.Path(self.folder.name, "expected")
        subprocess.run([BUILD / "transcribe", "-m", CACHE / "models/tiny.en", "-f", ",".join(formats),
                        "--word-timestamps", "-o", expected, self.talk], check=True, capture_output=True)
        for name in formats:
            self.browser.script("document.getElementById('export-format').value = arguments[0]", name)
            self.browser.click("#save")
            saved = self.downloaded(f"talk.{name}")
            wanted = (expected / f"talk.{name}").read_text(encoding="utf-8")
            if name == "json":  # the page has fewer fields
                saved, wanted = json.loads(saved), json.loads(wanted)
                self.assertEqual(wanted["text"], saved["text"])
                self.assertEqual([[word["start"] for word in segment["words"]] for segment in wanted["segments"]],
                                 [[word["start"] for word in segment["words"]] for segment in saved["segments"]])
            else:
                self.assertEqual(wanted, saved, name)

    def test_text_appears_while_it_is_decoded_and_can_be_cancelled(self):
        self.browser.type("#files", str(self.long))
        self.browser.wait("document.querySelectorAll('#segments .word').length > 50", "text appears")
        self.assertEqual("decoding", self.browser.script("return document.querySelector('#recording-list li').dataset.state"))
        self.browser.wait("document.querySelector('progress').value > 0", "progress is shown")
        self.browser.click("#recording-list li button[aria-label^=Cancel]")
        self.browser.wait("document.querySelector('#recording-list li').dataset.state === 'cancelled'", "it is cancelled")
        # What was decoded stays, and the server is free.
        self.assertGreater(self.browser.script("return document.querySelectorAll('.word').length"), 50)
        self.transcribe(self.talk)

    def test_what_is_no_recording_is_a_clear_error(self):
        bad = pathlib.Path(self.folder.name, "notes.txt")
        bad.write_text("no audio\n" * 100)
        self.transcribe(bad, state="failed")
        self.assertIn("cannot read", self.text("#recording-list .state"))
        self.assertNotIn(self.folder.name, self.text("body"))
        self.transcribe(self.talk)  # the next one is not affected

    def test_an_unreachable_server_is_a_clear_error(self):
        server = Serve(["tiny.en"])
        self.open(server)
        server.close()
        self.transcribe(self.talk, state="failed")
        self.assertIn("The server cannot be reached", self.text("#recording-list .state"))

    # ---- Keyboard

    def focus(self):
        return self.browser.script(
            "const it = document.activeElement; return (it.tagName !== 'AUDIO' && it.id) || it.getAttribute('aria-label') || it.textContent.trim()")

    def test_everything_is_reached_by_keyboard(self):
        self.transcribe(self.talk)
        self.browser.script("document.activeElement.blur(); scrollTo(0, 0)")
        reached = []
        for _ in range(80):
            self.browser.press("Tab")
            reached.append(self.focus())
            outline = self.browser.script("return getComputedStyle(document.activeElement).outlineStyle")
            if reached[-1] == "ask":
                break
            if reached[-1] != "Player":  # whose controls are the browser's
                self.assertNotEqual("none", outline, reached[-1])
        for wanted in ["Skip to the transcript", "speech-model", "choose", "speak", "export-format", "save", "copy",
                       "Play from 0:00", "Player", "speed", "query", "chat-model", "question", "ask"]:
            self.assertIn(wanted, reached)

    def test_arrows_move_between_words_and_keys_play_and_edit(self):
        self.transcribe(self.talk)
        self.browser.script("document.querySelector('.word').focus()")
        self.browser.press("ArrowRight", "ArrowRight", "ArrowLeft")
        first = self.browser.script("return [...document.querySelectorAll('.word')].slice(0, 2).map((w) => w.textContent)")
        self.assertEqual(first[1], self.focus())
        self.browser.press("Enter")
        self.browser.wait("!document.querySelector('audio').paused", "Enter plays")
        self.browser.press(" ")
        self.browser.wait("document.querySelector('audio').paused", "Space pauses")

        self.browser.press("F2")
        self.assertIn("Text of the segment", self.focus())
        self.browser.script("document.activeElement.value = 'Spaces here: ' + document.activeElement.value")
        self.browser.press("Enter")
        self.assertIn("Edit the segment", self.focus())
        self.assertTrue(self.text("#segments li p").startswith("Spaces here: And "), self.text("#segments li p"))
        times = self.browser.promise(
            "const {editedSegment} = await import('./segments.js');"
            "const words = [['one', 0, 1], ['two', 1, 2], ['three', 2, 3]]"
            "  .map(([word, start, end]) => ({word: ' ' + word, start, end}));"
            "return editedSegment({start: 0, end: 3, text: ' one two three', words}, 'one 2 3 three').words")
        self.assertEqual([(" one", 0), (" 2", 1), (" 3", 1.5), (" three", 2)],
                         [(word["word"], word["start"]) for word in times])
        # Escape restores.
        self.browser.press("Enter")
        self.browser.script("document.activeElement.value = 'lost'")
        self.browser.press("Escape")
        self.assertTrue(self.text("#segments li p").startswith("Spaces here: And "))

    # ---- Speech, chat, search

    def test_speech_becomes_text_while_it_is_spoken(self):
        self.browser.click("#speak")
        self.browser.wait("document.querySelectorAll('#segments .word').length > 5", "words appear while one speaks")
        self.assertEqual("listening", self.browser.script("return document.querySelector('#recording-list li').dataset.state"))
        time.sleep(12)
        self.browser.click("#speak")
        self.browser.wait("document.querySelector('#recording-list li').dataset.state === 'done'", "the rest is decoded")
        said = words_of(self.text("#segments"))
        for word in ["dashwood", "leisure", "consider", "power"]:
            self.assertIn(word, said)
        # It can be played like a file.
        self.browser.script("document.querySelectorAll('.word')[3].click()")
        self.browser.wait("document.querySelector('audio').duration > 10 && !document.querySelector('audio').paused",
                          "what was spoken plays")
        self.assertEqual([], self.browser.log())

    def test_answers_stream_and_can_be_stopped(self):
        self.transcribe(self.talk)
        self.browser.type("#question", "Write a long story about this man.")
        self.browser.press("Enter")
        # In the page, because an answer takes less than a second.
        self.browser.promise("""
            const stop = document.getElementById("stop");
            const n_shown = () => document.querySelector("#messages .assistant p")?.textContent.length ?? 0;
            while (stop.hidden || n_shown() <= 20) await new Promise((resolve) => setTimeout(resolve, 5));
            stop.click();""")
        self.browser.wait("!document.getElementById('ask').hidden", "the answer stops")
        self.assertEqual(1, self.browser.script("return document.querySelectorAll('#messages .assistant').length"))
        self.assertFalse(self.browser.script("return Boolean(document.querySelector('#messages .problem'))"))

    def test_search_finds_by_meaning_and_plays(self):
        self.transcribe(self.talk)
        self.browser.type("#query", "a nicer wife would have improved him")
        self.browser.press("Enter")
        self.browser.wait("document.querySelectorAll('.result').length > 0", "results appear")
        self.assertIn("amiable woman", self.text(".result"))
        self.browser.click(".result")
        self.browser.wait("!document.querySelector('audio').paused", "a result plays")
        self.assertGreater(self.browser.script("return document.querySelector('audio').currentTime"), 5)

    # ---- Servers that lack something

    def test_parts_without_a_model_say_how_to_get_one(self):
        server = Serve(["all-minilm-l6-v2"])
        try:
            self.open(server)
            self.assertIn("serve -m base", self.text("#recordings"))
            self.assertIn("serve -m smollm2-135m", self.text("#side"))
            for hidden, expected in [("drop", True), ("chat", True), ("search", False)]:
                self.assertEqual(expected, self.browser.script("return document.getElementById(arguments[0]).hidden", hidden))
            self.assertEqual([], self.browser.log())
        finally:
            server.close()

    def test_a_key_is_asked_for_and_kept_for_the_tab(self):
        keys = pathlib.Path(self.folder.name, "keys.txt")
        keys.write_text(f"page {hashlib.sha256(KEY.encode()).hexdigest()}\n")
        server = Serve(["tiny.en"], "--api-keys", str(keys))
        try:
            self.browser.open(server.url + "/")
            for key in ["wrong", KEY]:
                self.browser.wait("document.getElementById('key-dialog').open", "a key is asked for")
                self.browser.type("#key", key)
                self.browser.press("Enter")
            self.browser.wait("document.getElementById('speech-model').value === 'tiny.en'", "the models are there")
            self.assertEqual({"api-key": KEY}, self.browser.script("return {...sessionStorage}"))
            self.assertEqual(0, self.browser.script("return localStorage.length"))
            self.transcribe(self.talk)
            self.browser.click("#speak")
            self.browser.wait("document.querySelector('#recording-list li:last-child').dataset.state === 'listening'",
                              "the microphone is open")
            self.browser.wait("document.querySelectorAll('#segments .word').length > 5", "live captions have the key")
            self.browser.click("#speak")
        finally:
            server.close()

    # ---- How it looks

    def test_has_no_accessibility_violations_and_fits(self):
        axe = AXE.read_text(encoding="utf-8")
        for name, look in [("light", {}), ("dark", {"dark": True}), ("phone", {"phone": True}),
                           ("phone-dark", {"phone": True, "dark": True}), ("calm", {"reduced_motion": True})]:
            self.browser.emulate(**look)
            self.open(self.server)
            # As a browser's extension does: the page's policy allows no other scripts.
            self.browser.script(axe)
            self.screenshot(f"{name}-empty")
            self.assert_accessible(f"{name}, empty")
            self.transcribe(self.talk)
            self.browser.type("#query", "marriage")
            self.browser.press("Enter")
            self.browser.wait("document.querySelectorAll('.result').length > 0", "results appear")
            self.browser.type("#question", "Who is this about?")
            self.browser.press("Enter")
            self.browser.wait("document.querySelector('#messages .assistant p')?.textContent.length > 5", "an answer")
            self.browser.script("document.getElementById('stop').click()")
            self.browser.wait("!document.getElementById('ask').hidden", "the answer stops")
            self.browser.script("document.querySelectorAll('.word')[30].click(); scrollTo(0, 0)")
            self.browser.wait("document.querySelector('.playing')", "a word is marked")
            self.browser.script("document.querySelector('audio').pause()")
            self.screenshot(name)
            self.assert_accessible(name)
            widths = self.browser.script("return [document.documentElement.scrollWidth, innerWidth]")
            self.assertLessEqual(*widths, name)
            if look.get("phone"):
                self.browser.script("document.getElementById('side').scrollIntoView()")
                self.screenshot(f"{name}-side")
            self.assertEqual([], self.browser.log())


if __name__ == "__main__":
    if "VESPER_TEST_WITHOUT_MODELS" in os.environ:
        print(": Skipped\nVESPER_TEST_WITHOUT_MODELS is set")
        sys.exit()
    if not browser.is_installed() or not AXE.is_file():
        print(": Skipped\nno browser here: scripts/setup.sh browser installs Chromium (300 MB) and axe-core")
        sys.exit()
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    if "--screenshots" in sys.argv:
        at = sys.argv.index("--screenshots")
        SCREENSHOTS = pathlib.Path(sys.argv.pop(at + 1))
        sys.argv.pop(at)
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    unittest.main()
