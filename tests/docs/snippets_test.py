#!/usr/bin/env python3
"""Runs every command and snippet of README.md and of the pages in docs/, with real models and recordings.

    tests/docs/snippets_test.py BUILD_FOLDER

The fenced blocks of a page (sh, c, python) run one after the other in a folder of the page, as a
reader would run them, without the network. Python blocks continue the earlier ones of their page. A
comment before a block says otherwise:

    <!-- fails -->          the commands end with an error
    <!-- not run: WHY -->   for what tests cannot do
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import wave

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path()  # the argument
RECORDINGS = pathlib.Path("/usr/share/pocketsphinx/test/data/librivox")  # Debian: pocketsphinx-testdata
FENCE = re.compile(r"(?:^<!-- (?P<note>[^>]*) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
ARECORD = "#!/bin/sh\nexec cat talk.wav\n"  # a microphone that hears this recording


def frames(path):
    with wave.open(str(path)) as recording:
        return recording.readframes(recording.getnframes())


def make_recordings(folder):
    """talk.wav, talk.mp4, lectures/*.wav, demo/*.wav, and call.wav, which has a speaker in each channel."""
    (folder / "lectures").mkdir()
    (folder / "demo").mkdir()
    sources = sorted(RECORDINGS.glob("*.wav"))
    for source in sources:
        number = source.stem.rsplit("-", 1)[1]
        (folder / "lectures" / f"{number}.wav").symlink_to(source)
        (folder / "demo" / f"sentence-{number}.wav").symlink_to(source)
    (folder / "talk.wav").write_bytes(sources[0].read_bytes())
    subprocess.run(["ffmpeg", "-loglevel", "error", "-i", "talk.wav", "talk.mp4"], cwd=folder, check=True)
    left, right = frames(sources[1]), frames(sources[2])
    silence = bytes(len(right))
    with wave.open(str(folder / "call.wav"), "wb") as call:
        call.setparams((2, 2, 16000, 0, "NONE", ""))
        left, right = left + silence, bytes(len(left)) + right
        call.writeframes(b"".join(left[i:i + 2] + right[i:i + 2] for i in range(0, len(left), 2)))


class Snippets(unittest.TestCase):
    def run_page(self, name):
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        blocks = list(FENCE.finditer(text))
        self.assertEqual(2 * len(blocks), len(re.findall("^```", text, re.MULTILINE)), "unpaired fences")
        with tempfile.TemporaryDirectory() as top:
            folder = pathlib.Path(top)
            make_recordings(folder)
            (folder / "build").symlink_to(BUILD)
            (folder / "scripts").symlink_to(ROOT / "scripts")
            (folder / "bin").mkdir()
            (folder / "bin/arecord").write_text(ARECORD)
            (folder / "bin/arecord").chmod(0o755)
            environment = os.environ | {
                # `python3` is the interpreter of this test, which has the packages of the set-up.
                "PATH": f"{folder}/bin:{BUILD}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
                "LD_LIBRARY_PATH": str(BUILD / "capi"),
                "PYTHONPATH": str(ROOT / "python"),
                "VESPER_LIBRARY": str(BUILD / "capi/libvesper.so"),
                "HF_ENDPOINT": "http://127.0.0.1:9",  # what is absent is an error, not a download
            }
            for block in blocks:
                note = block["note"] or ""
                if note.startswith("not run: "):
                    continue
                with self.subTest(page=name, line=text.count("\n", 0, block.start()) + 1):
                    self.assertIn(note, ("", "fails"))
                    self.run_block(block["language"], block["code"], folder, environment, fails=note == "fails")

    def run_block(self, language, code, folder, environment, fails):
        self.assertIn(language, ("sh", "c", "python"), "expected a language that this test runs")
        if language == "c":
            (folder / "snippet.c").write_text(code)
            code = (f"cc -std=c11 -Wall -Wextra -Werror -I'{ROOT}/include' snippet.c -L'{BUILD}/capi' -lvesper"
                    " -o snippet && ./snippet")
        elif language == "python":
            # As in one session: a block knows the names of the earlier ones.
            with open(folder / "snippet.py", "a") as file:
                file.write(code)
            code = f"'{sys.executable}' snippet.py"
        result = subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=folder, env=environment, text=True,
                                capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
        shown = f"{code}\n{result.stdout}{result.stderr}"
        self.assertEqual(result.returncode != 0, fails, shown)


def pages():
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in found if "```" in path.read_text(encoding="utf-8")]


for page_name in pages():
    setattr(Snippets, "test_" + re.sub(r"\W", "_", page_name.removesuffix(".md")),
            lambda self, name=page_name: self.run_page(name))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    if "VESPER_TEST_WITHOUT_MODELS" in os.environ:
        print("snippets_test: Skipped\nVESPER_TEST_WITHOUT_MODELS is set")
        sys.exit(0)
    unittest.main(verbosity=2)
