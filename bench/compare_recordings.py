"""The default recordings for comparing programs.

Made from the five sentences of "Sense and Sensibility" (LibriVox, public domain) in Debian's
pocketsphinx-testdata: a short one of about 11 s, and a long one of about eight minutes.
"""

import pathlib
import re
import wave

SENTENCES = pathlib.Path("/usr/share/pocketsphinx/test/data/librivox")
SHORT = ["0870", "0930"]
ALL = ["0870", "0880", "0890", "0920", "0930"]
SAMPLE_RATE = 16000
PAUSE_S = 1.5
LONG_REPETITIONS = 15


def read_sentences():
    """Samples (16-bit, mono, 16 kHz) and words of each sentence, by the number in its name."""
    samples, words = {}, {}
    for path in SENTENCES.glob("*.wav"):
        with wave.open(str(path)) as recording:
            if recording.getparams()[:3] != (1, 2, SAMPLE_RATE):
                raise SystemExit(f"{path}: expected 16-bit mono at 16 kHz")
            samples[path.stem[-4:]] = recording.readframes(recording.getnframes())
    for line in (SENTENCES / "transcription").read_text().splitlines():
        match = re.fullmatch(r"<s> (.*) </s> \(.*-(\d+)\)", line)
        if match:
            words[match[2]] = match[1]
    return samples, words


def write_recording(path, samples):
    with wave.open(str(path), "wb") as recording:
        recording.setparams((1, 2, SAMPLE_RATE, 0, "NONE", ""))
        recording.writeframes(samples)


def make_recordings(folder):
    """((short, its text), (long, its text)): paths in `folder` and transcripts."""
    if not SENTENCES.is_dir():
        raise SystemExit(f"expected recordings in {SENTENCES} (Debian package "
                         "pocketsphinx-testdata); or name your own with --short and --long")
    folder.mkdir(parents=True, exist_ok=True)
    samples, words = read_sentences()
    pause = bytes(2 * int(PAUSE_S * SAMPLE_RATE))
    made = []
    for name, sentences in (("short", SHORT), ("long", ALL * LONG_REPETITIONS)):
        path = folder / f"{name}.wav"
        gap = b"" if name == "short" else pause
        write_recording(path, gap.join(samples[sentence] for sentence in sentences))
        made.append((path, " ".join(words[sentence] for sentence in sentences)))
    return made
