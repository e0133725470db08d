#!/usr/bin/env python3
"""Makes the recordings for comparisons from Debian packages, with their texts.

    bench/recordings.py        # prints their paths, lengths and numbers of words

short.wav: 11 s of "Sense and Sensibility" (LibriVox, public domain), of pocketsphinx-testdata.
long.wav: 2,000 different words, spoken by many actors, of bench/game_dialogue.py. Only so much of the
dialogue is chosen as has these words, in the order of the game, with pauses.
medium.wav: every tenth clip of it.
Packages are downloaded with apt-get and unpacked, not installed. Recordings and packages are kept in
vesper/recordings in the user's cache folder. Decoding needs ffmpeg.
"""

import concurrent.futures
import hashlib
import heapq
import os
import pathlib
import re
import subprocess
import wave

import game_dialogue
from word_errors import normalize

SENTENCES = pathlib.Path("usr/share/pocketsphinx/test/data/librivox")
SHORT = ["0870", "0930"]
RATE_HZ = 16000
PAUSE_S = 0.6
DIFFERENT_WORDS = 2000


def cache_folder():
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (pathlib.Path(cache) if cache.startswith("/") else pathlib.Path.home() / ".cache") / "vesper"


FOLDER = cache_folder() / "recordings"


def download(package, folder):
    command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package]
    try:
        if subprocess.run(command, cwd=folder, stderr=subprocess.DEVNULL).returncode == 0:
            return
        if os.geteuid() == 0:  # the lists of packages may be missing or old
            subprocess.run(["apt-get", "-qq", "update"])
        subprocess.run(command, cwd=folder, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"recordings: Debian package {package} cannot be downloaded: {error}; run "
                         f"apt-get update, or copy the package into {folder}") from None


def unpacked(package, folder=FOLDER):
    """The folder with the contents of a Debian package, downloaded on first use."""
    target = folder / "packages" / package
    if target.exists():
        return target
    archives = folder / "debian"
    archives.mkdir(parents=True, exist_ok=True)
    if not list(archives.glob(package + "_*.deb")):
        print("recordings: downloading", package, flush=True)
        download(package, archives)
    target.parent.mkdir(exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    subprocess.run(["dpkg", "-x", next(archives.glob(package + "_*.deb")), unfinished], check=True)
    unfinished.rename(target)
    return target


def decode(sound):
    """Samples, 16 bit, mono, 16 kHz, of the bytes of an audio file."""
    try:
        return subprocess.run(["ffmpeg", "-loglevel", "error", "-i", "-", "-f", "s16le", "-ac", "1",
                               "-ar", str(RATE_HZ), "-"], input=sound, check=True,
                              stdout=subprocess.PIPE).stdout
    except FileNotFoundError:
        raise SystemExit("recordings: ffmpeg is not installed") from None


def silence(seconds):
    return bytes(2 * int(seconds * RATE_HZ))


def write_recording(path, samples, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".txt").write_text(text + "\n", encoding="utf-8")
    unfinished = path.with_suffix(".unfinished")
    with wave.open(str(unfinished), "wb") as recording:
        recording.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        recording.writeframes(samples)
    unfinished.rename(path)


def make_short(path):
    folder = unpacked("pocketsphinx-testdata") / SENTENCES
    words = {}
    for line in (folder / "transcription").read_text().splitlines():
        match = re.fullmatch(r"<s> (.*) </s> \((.*-(\d+))\)", line)
        if match:
            words[match[3]] = (match[1], folder / f"{match[2]}.wav")
    chosen = [words[number] for number in SHORT]
    write_recording(path, b"".join(decode(sound.read_bytes()) for _, sound in chosen),
                    " ".join(text for text, _ in chosen))


def dialogue(folder=FOLDER):
    """Clips of three words and more whose duration fits their text, by name."""
    clips = game_dialogue.read_clips(unpacked(game_dialogue.PACKAGE, folder))
    return {name: clip for name, clip in sorted(clips.items())
            if len(normalize(clip.text)) >= 3
            and 1 < len(normalize(clip.text)) / clip.seconds < 5}


def clips_of_different_words(clips, n_words):
    """Names of clips that together have n_words different words: those with the most new words per
    second first."""
    words = {name: set(normalize(clip.text)) for name, clip in clips.items()}
    found, chosen = set(), []

    def entry(name):
        order = hashlib.sha256(name.encode()).digest()
        return -len(words[name] - found) / (clips[name].seconds + PAUSE_S), order, name

    queue = [entry(name) for name in clips]
    heapq.heapify(queue)
    while queue and len(found) < n_words:
        value, _, name = heapq.heappop(queue)
        now = entry(name)
        if now[0] > value:  # other clips had some of its words
            heapq.heappush(queue, now)
            continue
        found |= words[name]
        chosen.append(name)
    if len(found) < n_words:
        raise SystemExit(f"recordings: expected {n_words} different words in "
                         f"{game_dialogue.PACKAGE}, found {len(found)}")
    return sorted(chosen)


def make_dialogue(path, step):
    clips = dialogue()
    chosen = clips_of_different_words(clips, DIFFERENT_WORDS)[::step]
    print(f"recordings: decoding {len(chosen)} clips", flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        sounds = list(pool.map(lambda name: decode(clips[name].mp3), chosen))
    write_recording(path, silence(PAUSE_S).join(sounds),
                    " ".join(clips[name].text for name in chosen))


MAKERS = {"short": make_short, "medium": lambda path: make_dialogue(path, 10),
          "long": lambda path: make_dialogue(path, 1)}


def recording(name):
    """(path, text) of a recording, made on first use."""
    path = FOLDER / f"{name}.wav"
    if not path.exists():
        MAKERS[name](path)
    return path, path.with_suffix(".txt").read_text(encoding="utf-8")


def seconds_of(path):
    with wave.open(str(path)) as file:
        return file.getnframes() / file.getframerate()


def main():
    for name in MAKERS:
        path, text = recording(name)
        words = normalize(text)
        print(f"{path}: {seconds_of(path):.0f} s, {len(words)} words, {len(set(words))} different")


if __name__ == "__main__":
    main()
