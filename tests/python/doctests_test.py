"""The examples in the docstrings of python/vesper, with real models.

    doctests_test.py RECORDING      16 kHz mono WAV, which the examples call talk.wav
"""
import doctest
import importlib
import os
import pathlib
import shutil
import sys
import tempfile
import wave

import numpy
import vesper

MODELS = {"vesper.speech": ("WhisperModel", "tiny.en"), "vesper.transcription": ("WhisperModel", "tiny.en"),
          "vesper.stream": ("WhisperModel", "tiny.en"), "vesper.text": ("LanguageModel", "smollm2-135m"),
          "vesper.embedding": ("Embedder", "all-minilm-l6-v2"), "vesper.tokenizer": ("Tokenizer", "smollm2-135m")}
VARIABLES = {"Embedder": "embedder", "Tokenizer": "tokenizer"}


def main():
    if "VESPER_TEST_WITHOUT_MODELS" in os.environ:
        sys.exit("doctests_test.py: Skipped\nVESPER_TEST_WITHOUT_MODELS is set")
    recording = pathlib.Path(sys.argv[1])
    n_failed = n_examples = 0
    with wave.open(str(recording)) as file:
        samples = numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(recording, f"{folder}/talk.wav")
        os.chdir(folder)
        for path in sorted(pathlib.Path(vesper.__file__).parent.glob("*.py")):
            name = "vesper" if path.stem == "__init__" else f"vesper.{path.stem}"
            scope = {"vesper": vesper, "numpy": numpy, "samples": samples}
            if name in MODELS:
                kind, model = MODELS[name]
                scope[VARIABLES.get(kind, "model")] = getattr(vesper, kind)(model, local_files_only=True)
            result = doctest.testmod(importlib.import_module(name), extraglobs=scope,
                                     optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            n_failed, n_examples = n_failed + result.failed, n_examples + result.attempted
        os.chdir("/")
    print(f"{n_examples} examples, {n_failed} failed")
    sys.exit(n_failed > 0 or n_examples == 0)


main()
