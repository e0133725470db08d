#!/usr/bin/env python3
"""Times whole programs on the same weights: transcribe, whisper.cpp and faster-whisper.

    bench/compare_speech.py [--quick]    # after bench/peers.sh; prints a Markdown table

All programs use the same settings: 2 threads, English, greedy (beam size 1, temperature 0, no
fallback), no previous text as prompt. Programs run in turn, in another order each time, so that other
load affects all alike. A time is that of the whole process, with reading the model and the recording.
The texts of programs have to agree: differences between two greedy texts of the same weights are a
few percent of the words, so more than AGREEMENT means that a program did not do the same work.
"""

import argparse
import json
import os
import re
import statistics

import recordings
from comparison import (MODELS, PEERS, ROOT, conditions, describe, header, note, peer_version, row,
                        rotated, run_process, save, spread, times_of, vesper_version)
from word_errors import distance, normalize, word_errors

# Greatest word errors of a program's text with the one it is compared with as reference.
AGREEMENT = 0.12
THREADS = 2
BATCH = 8


def run_vesper(arguments, model, recording):
    process = run_process(
        [ROOT / "build/transcribe", "-m", MODELS / model, "-t", THREADS, "-l", "en", "--device", "cpu",
         "--temperature", "0", "--beam-size", "1", "--verbose",
         "--temperature-increment-on-fallback", "none", "--condition-on-previous-text", "false",
         *arguments, recording])
    precision = re.search(r"transcribe: cpu \([^)]*\), (\w+);", process.err)
    return process, process.out, 0, precision[1] if precision else ""


def ggml_file(model):
    """The model in whisper.cpp's format, converted on first use."""
    path = PEERS / f"{model}.bin"
    if not path.exists():
        run_process([ROOT / "build/inspect", "--convert", path, "--type", "f16", MODELS / model])
    return path


def run_whisper_cpp(arguments, model, recording):
    process = run_process(
        [PEERS / "whisper-cli", "-m", ggml_file(model), "-t", THREADS, "-l", "en", "-bs", "1", "-bo",
         "1", "-tp", "0", "-nf", "-mc", "0", *arguments, "-f", recording])
    text = " ".join(re.sub(r"^\[[^\]]*\]\s*", "", line) for line in process.out.splitlines())
    return process, text, 0, "f16"


def run_faster_whisper(arguments, model, recording):
    process = run_process(
        [PEERS / "venv/bin/python", ROOT / "bench/compare_faster_whisper.py", MODELS / model,
         recording, THREADS, *arguments])
    report = json.loads(process.out)
    return process, report["text"], report["ready_s"], arguments[0]


# By name: title in the table, function that runs it, its arguments, and the program that it is
# compared with. Two decode segments of speech in batches.
PROGRAMS = {
    "vesper": ("transcribe", run_vesper, [], None),
    "whisper.cpp": ("whisper.cpp", run_whisper_cpp, [], "vesper"),
    "faster-whisper-int8": ("faster-whisper", run_faster_whisper, ["int8", "0"], "vesper"),
    "faster-whisper-f32": ("faster-whisper", run_faster_whisper, ["float32", "0"], "vesper"),
    "vesper-batched": (f"transcribe --vad --batch-size {BATCH}", run_vesper,
                       ["--vad", "--batch-size", BATCH], None),
    "faster-whisper-batched": (f"faster-whisper, batches of {BATCH}", run_faster_whisper,
                               ["int8", BATCH], "vesper-batched"),
}
ONE_WINDOW = ["vesper", "whisper.cpp", "faster-whisper-int8", "faster-whisper-f32"]

# Model, recording, programs, repetitions of a full and of a quick run.
LOADS = [("tiny.en", "short", ONE_WINDOW, 5, 5), ("base", "short", ONE_WINDOW, 5, 5),
         ("base", "medium", list(PROGRAMS), 5, 3), ("tiny.en", "long", list(PROGRAMS), 3, 1)]


def measure_load(model, name, programs, repetitions):
    path, reference = recordings.recording(name)
    runs = {program: [] for program in programs}
    for repetition in range(repetitions):
        for program in rotated(programs, repetition):
            _, runner, arguments, _ = PROGRAMS[program]
            process, text, start_s, precision = runner(arguments, model, path)
            errors, words = word_errors(reference, text)
            note(f"{model} {name} {repetition + 1}/{repetitions} {program}: {process.wall_s:.2f} s "
                 f"({process.cpu_s:.2f} s of CPU time, {process.peak_mb:.0f} MB), {errors} word "
                 f"errors of {words}")
            runs[program].append({
                "wall_s": process.wall_s, "cpu_s": process.cpu_s, "peak_mb": process.peak_mb,
                "start_s": start_s, "precision": precision, "errors": errors, "text": text})
    disagreements = {}
    for program in programs:
        against = PROGRAMS[program][3]
        if against:
            expected = normalize(runs[against][-1]["text"])
            found = normalize(runs[program][-1]["text"])
            disagreements[program] = distance(expected, found) / max(1, len(expected))
    words = normalize(reference)
    return {"model": model, "recording": name, "seconds": recordings.seconds_of(path),
            "words": len(words), "different_words": len(set(words)), "runs": runs,
            "disagreements": disagreements}


def measure(quick):
    load_before = os.getloadavg()[0]
    for model in ("tiny.en", "base"):
        if not (MODELS / model / "model.bin").is_file():
            raise SystemExit(f"{MODELS / model} has no model.bin: run scripts/fetch-models.sh")
        ggml_file(model)
    versions = [vesper_version(), peer_version("whisper-cli"), " ".join(peer_version("venv").split()[:2])]
    loads = []
    for model, name, programs, full_repetitions, quick_repetitions in LOADS:
        loads.append(measure_load(model, name, programs,
                                  quick_repetitions if quick else full_repetitions))
    return {**conditions(versions, load_before), "loads": loads}


def length_text(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def cell(load, program):
    runs = load["runs"].get(program)
    if not runs:
        return ""
    text = spread([run["wall_s"] for run in runs], unit=" s")
    against = PROGRAMS[program][3]
    if against:
        ratio = (statistics.median(run["wall_s"] for run in runs)
                 / statistics.median(run["wall_s"] for run in load["runs"][against]))
        text = times_of(text, ratio)
    return text


def table(results):
    loads = results["loads"]
    precisions = [loads[-1]["runs"][program][0]["precision"] for program in PROGRAMS]
    yield from header(["model, recording", *(f"{PROGRAMS[program][0]}, {precision}"
                                             for program, precision in zip(PROGRAMS, precisions))])
    for load in loads:
        yield row([f"{load['model']}, {length_text(load['seconds'])}",
                   *(cell(load, program) for program in PROGRAMS)])
    for load in loads:
        if load["recording"] != "short":
            errors = [load["runs"][program][-1]["errors"] for program in PROGRAMS]
            yield row([f"word errors of {load['words']:,} ({load['different_words']:,} different "
                       f"words): {load['model']}, {length_text(load['seconds'])}",
                       *(f"{n} ({n / load['words']:.1%})" for n in errors)])
    starts = [run["start_s"] for run in loads[0]["runs"]["faster-whisper-int8"]]
    most = max(value for load in loads for value in load["disagreements"].values())
    repetitions = ", ".join(str(len(load["runs"]["vesper"])) for load in loads)
    yield ""
    yield (f"Time of whole processes: median (range) of {repetitions} runs in turn, and how many times "
           f"slower than `transcribe`, with batches than `transcribe` with batches. The same weights, {THREADS} "
           "threads, greedy search, English, no previous text as prompt. faster-whisper's times have "
           f"{statistics.median(starts):.2f} s of Python's start. The texts differ from ours in at "
           f"most {most:.1%} of the words. {describe(results)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    results = measure(parser.parse_args().quick)
    save("speech", results)
    print("\n".join(table(results)))
    for load in results["loads"]:
        for program, disagreement in load["disagreements"].items():
            if disagreement > AGREEMENT:
                raise SystemExit(f"{load['model']}, {load['recording']}: the text of {program} differs "
                                 f"from ours in {disagreement:.1%} of the words, expected at most "
                                 f"{AGREEMENT:.0%}")


if __name__ == "__main__":
    main()
