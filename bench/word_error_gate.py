#!/usr/bin/env python3
"""Fails if transcribe makes more word errors than its bounds, on recordings of Debian packages.

    bench/word_error_gate.py [--program build/transcribe]    # transcribes; the test word_errors
    bench/word_error_gate.py --fetch                         # only makes the recordings

Dialogue of bench/recordings.py, whole and in single clips; digits of telephone announcements in two
languages; music and silence, of which every word is invented. Options are transcribe's defaults. A
bound is the figure of 2026-11-23 (AMD Zen 5, bf16) and one point more. bench/word_error_tables.sh
measures the whole corpus. Needs ffmpeg, the models tiny.en, base and silero-vad, and a download of
80 MB on first use.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys

import recordings
from word_errors import distance, normalize, split_digits

FOLDER = recordings.FOLDER / "gate"
SOUNDS = {"en": ("asterisk-core-sounds-en-wav", "usr/share/asterisk/sounds/en_US_f_Allison/digits"),
          "fr": ("asterisk-core-sounds-fr-wav", "usr/share/asterisk/sounds/fr_CA_f_June/digits")}
MUSIC = ("frozen-bubble-data", "usr/share/games/frozen-bubble/snd")
MUSIC_S = 40

# Greatest errors in percent of the words by group; for "nothing said", the words that are invented.
BOUNDS = {"dialogue, tiny.en": 12.5, "dialogue, base": 9.8, "single clips, base": 14.0,
          "digits, en": 1.0, "digits, fr": 1.7, "nothing said": 0}


def made(name, samples, text):
    """The path of a recording, written if it is absent."""
    path = FOLDER / f"{name}.wav"
    if not path.exists():
        recordings.write_recording(path, samples(), text)
    return path


def single_clips():
    clips = recordings.dialogue()
    chosen = sorted(clips, key=lambda name: hashlib.sha256(name.encode()).digest())[:40]
    return [(made(name, lambda name=name: recordings.decode(clips[name].mp3), clips[name].text),
             clips[name].text) for name in sorted(chosen)]


def strings_of_digits(language):
    """Ten strings of fifteen digits with pauses, as numbers are read out."""
    package, folder = SOUNDS[language]
    sounds = recordings.unpacked(package) / folder
    for n in range(10):
        chance = random.Random(f"{language} {n}")
        digits = [chance.randrange(10) for _ in range(15)]

        def samples(digits=digits):
            parts = [recordings.silence(0.4)]
            for i, digit in enumerate(digits):
                parts += [recordings.decode((sounds / f"{digit}.wav").read_bytes()),
                          recordings.silence(0.6 if i % 5 == 4 else 0.1)]
            return b"".join(parts)

        text = " ".join(map(str, digits))
        yield made(f"digits-{language}-{n}", samples, text), text


def nothing_said():
    package, folder = MUSIC
    for path in sorted((recordings.unpacked(package) / folder).glob("*zik*.ogg")):
        def samples(path=path):
            start = 2 * recordings.RATE_HZ * MUSIC_S
            return recordings.decode(path.read_bytes())[start:2 * start]

        yield made(path.stem, samples, ""), ""
    yield made("silence", lambda: recordings.silence(60), ""), ""


def groups():
    """(group, model, options, [(recording, text)])."""
    yield "dialogue, tiny.en", "tiny.en", [], [recordings.recording("long")]
    yield "dialogue, base", "base", ["-l", "en"], [recordings.recording("medium")]
    yield "single clips, base", "base", ["-l", "en"], single_clips()
    for language in SOUNDS:
        yield f"digits, {language}", "base", ["-l", language], list(strings_of_digits(language))
    yield "nothing said", "base", [], list(nothing_said())


def count(program, group, model, options, clips):
    """(errors, words)."""
    process = subprocess.run(
        [program, "-m", model, "--device", "cpu", "-q", "-f", "jsonl", *options,
         *(str(path) for path, _ in clips)], stdout=subprocess.PIPE, check=True, text=True)
    texts = {}
    for line in process.stdout.splitlines():
        segment = json.loads(line)
        texts[segment["file"]] = texts.get(segment["file"], "") + segment["text"]
    language = options[1] if options else "en"
    errors = words = 0
    for path, text in clips:
        expected, found = normalize(text, language), normalize(texts.get(str(path), ""), language)
        if group.startswith("digits"):
            expected, found = split_digits(expected), split_digits(found)
        errors += distance(expected, found)
        words += len(expected)
    return errors, words


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "build/transcribe")
    parser.add_argument("--fetch", action="store_true")
    options = parser.parse_args()
    if not options.fetch and "VESPER_TEST_WITHOUT_MODELS" in os.environ:
        print("word_error_gate.py: Skipped\nVESPER_TEST_WITHOUT_MODELS is set")  # for tests/run.py
        sys.exit()
    failed = False
    for group, model, program_options, clips in groups():
        if options.fetch:
            continue
        errors, words = count(options.program, group, model, program_options, clips)
        found = 100 * errors / words if words else errors
        failed |= found > BOUNDS[group]
        print(f"{group}: {errors} errors" + (f" of {words} words, {found:.1f}%" if words else "")
              + f", at most {BOUNDS[group]}{'%' if words else ''}"
              + (": too many" if found > BOUNDS[group] else ""), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
