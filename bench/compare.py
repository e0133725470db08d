#!/usr/bin/env python3
"""Times whole programs on the same weights: transcribe, whisper.cpp and faster-whisper.

    bench/compare_peers.sh    # once: gets the other programs into build/bench-peers
    bench/compare.py          # models and recordings by default; prints a Markdown table

All programs use the same settings: 2 threads, English, greedy (beam size 1, temperature 0, no
fallback), with or without previous text as prompt. Runs alternate, so that other load affects all
programs alike; the table has medians. A time is that of the whole process, including reading the
model and the recording. For faster-whisper the time after Python's imports is shown too.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from compare_recordings import make_recordings
from ctranslate2_to_ggml import convert
from word_errors import word_errors

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ROOT / "build" / "bench-peers"


@dataclass
class Run:
    """One run of one program."""

    wall_s: float         # the whole process
    cpu_s: float          # user and system time, of all threads
    peak_mb: float        # resident memory
    niceness: int         # the process's, at its end
    text: str
    start_s: float = 0.0  # of wall_s: start of the interpreter and imports
    details: dict = field(default_factory=dict)  # what the program itself reports


def run_process(command):
    """(stdout, stderr, Run without text) of a command; exits if it fails."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        start = time.perf_counter()
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                   stdout=stdout, stderr=stderr)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall_s = time.perf_counter() - start
        niceness = os.getpriority(os.PRIO_PROCESS, process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (stdout, stderr):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n"
                         f"exit status {process.returncode}\n{texts[1]}")
    run = Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, niceness, "")
    return (*texts, run)


def run_vesper(compute, model, recording, settings):
    stdout, stderr, run = run_process(
        [settings.program, "-m", model, "-t", settings.threads, "-l", "en", "--device", "cpu",
         "--compute", compute, "--temperature", "0", "--beam-size", "1", "--verbose",
         "--temperature-increment-on-fallback", "none",
         "--condition-on-previous-text", "true" if settings.previous_text else "false", recording])
    run.text = stdout
    match = re.search(r"transcribed in ([\d.]+) s", stderr)
    if match:
        run.details["transcribe_s"] = float(match[1])
    return run


def ggml_file(model):
    """The model in whisper.cpp's format, converted on first use."""
    path = PEERS / f"{pathlib.Path(model).name}.bin"
    if not path.exists():
        convert(model, path)
    return path


def run_whisper_cpp(_, model, recording, settings):
    stdout, stderr, run = run_process(
        [PEERS / "whisper-cli", "-m", ggml_file(model), "-t", settings.threads, "-l", "en",
         "-bs", "1", "-bo", "1", "-tp", "0", "-nf",
         *([] if settings.previous_text else ["-mc", "0"]), "-f", recording])
    run.text = " ".join(re.sub(r"^\[[^\]]*\]\s*", "", line) for line in stdout.splitlines())
    timings = dict(re.findall(r"whisper_print_timings:\s+(\w+) time =\s+([\d.]+) ms", stderr))
    if "total" in timings and "load" in timings:
        run.details["transcribe_s"] = (float(timings["total"]) - float(timings["load"])) / 1000
    for name, key in (("encode", "encode_ms"), ("decode", "decode_ms")):
        per_run = re.search(rf"{name} time =.*?([\d.]+) ms per run", stderr)
        if per_run:
            run.details[key] = float(per_run[1])
    system = re.search(r"system_info:.*", stderr)
    if system:
        run.details["system"] = system[0]
    return run


def run_faster_whisper(compute, model, recording, settings):
    stdout, _, run = run_process(
        [PEERS / "venv" / "bin" / "python", ROOT / "bench" / "compare_faster_whisper.py", model,
         recording, compute, settings.threads, "on" if settings.previous_text else "off"])
    report = json.loads(stdout)
    run.text, run.start_s = report["text"], report["ready_s"]
    run.details["transcribe_s"] = report["transcribe_s"]
    return run


# Name in the table, function that runs it, and its compute type.
PROGRAMS = {
    "vesper": ("transcribe", run_vesper, "auto"),
    "vesper-f32": ("transcribe, f32", run_vesper, "f32"),
    "vesper-int8": ("transcribe, int8", run_vesper, "int8"),
    "whisper.cpp": ("whisper.cpp f16", run_whisper_cpp, ""),
    "faster-whisper-int8": ("faster-whisper int8", run_faster_whisper, "int8"),
    "faster-whisper-f32": ("faster-whisper float32", run_faster_whisper, "float32"),
}


def median(values):
    values = list(values)
    return statistics.median(values) if values else None


def seconds(value):
    return "" if value is None else f"{value:.2f} s"


def duration_s(recording):
    """Seconds of audio by ffprobe or soxi, None without either."""
    for command in (["soxi", "-D", recording],
                    ["ffprobe", "-v", "error", "-show_entries", "format=duration", "-of",
                     "csv=p=0", recording]):
        try:
            return float(subprocess.run(command, capture_output=True, check=True).stdout)
        except (OSError, ValueError, subprocess.CalledProcessError):
            continue
    return None


def cpu_description():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text)
    flags = re.search(r"flags\s*: (.*)", text)
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
    present = [flag for flag in known if flags and flag in flags[1].split()]
    return f"{name[1] if name else platform.machine()} ({', '.join(present) or 'no AVX2'})"


def rows_of(name, model, length, results, transcript):
    """Lines of the table for one model and one recording, relative to the first program."""
    first = median(run.wall_s for run in next(iter(results.values())))
    label = f"{pathlib.Path(model).name}, {f'{length:.0f} s' if length else name}"
    for program, runs in results.items():
        wall = median(run.wall_s for run in runs)
        without_start = median(run.wall_s - run.start_s for run in runs)
        errors = sorted({word_errors(transcript, run.text) for run in runs}) if transcript else []
        yield "| " + " | ".join([
            label, PROGRAMS[program][0], seconds(wall),
            seconds(without_start) if runs[0].start_s else "",
            seconds(median(run.details["transcribe_s"] for run in runs
                           if "transcribe_s" in run.details)),
            f"{wall / first:.2f}",
            f"{length / wall:.0f}" if length else "",
            f"{median(run.cpu_s for run in runs):.2f} s",
            f"{max(run.peak_mb for run in runs):.0f} MB",
            ", ".join(f"{wrong}/{words}" for wrong, words in errors),
        ]) + " |"


HEADER = """\
| model, recording | program | whole process | after Python's start | transcribing alone | \
ratio | x real time | CPU time | peak memory | word errors |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"""


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "transcribe")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    models = pathlib.Path(os.environ.get("VESPER_MODELS") or cache / "vesper" / "models")
    parser.add_argument("--models", nargs="+", metavar="FOLDER",
                        default=[str(models / "tiny.en"), str(models / "base")],
                        help="CTranslate2 folders (default: tiny.en and base where "
                             "scripts/fetch-models.sh puts them)")
    for name in ("short", "long"):
        parser.add_argument(f"--{name}", type=pathlib.Path, metavar="RECORDING",
                            help=f"a {name} recording (default: of pocketsphinx-testdata)")
        parser.add_argument(f"--{name}-text", type=pathlib.Path, metavar="FILE",
                            help="the words spoken in it")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, metavar="NAME",
                        default=["vesper", "whisper.cpp", "faster-whisper-int8",
                                 "faster-whisper-f32"],
                        help=f"of {', '.join(PROGRAMS)}; ratios are to the first")
    parser.add_argument("--only", choices=("short", "long"), help="one recording only")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpus", type=int, help="use only so many of the processors")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--previous-text", action="store_true",
                        help="prompt each window with the text before it")
    parser.add_argument("--json", type=pathlib.Path, help="write every run there")
    return parser.parse_args()


def recordings_of(arguments):
    """[(name, path, transcript or None)]; generated if none is given."""
    made = None
    chosen = []
    for index, name in enumerate(("short", "long")):
        if arguments.only not in (None, name):
            continue
        path, text = getattr(arguments, name), getattr(arguments, f"{name}_text")
        if path is None:
            made = made or make_recordings(PEERS / "recordings")
            path, words = made[index]
        else:
            words = text.read_text("utf-8") if text else None
        chosen.append((name, path, words))
    return chosen


def check(arguments):
    """Exits with instructions if a needed file is absent."""
    needed = {"vesper": arguments.program, "whisper.cpp": PEERS / "whisper-cli",
              "faster-whisper": PEERS / "venv" / "bin" / "python"}
    for program in arguments.programs:
        for prefix, path in needed.items():
            if program.startswith(prefix) and not path.exists():
                remedy = "make" if prefix == "vesper" else "bench/compare_peers.sh"
                raise SystemExit(f"{path} is missing: run {remedy}")
    for model in arguments.models:
        if not (pathlib.Path(model) / "model.bin").is_file():
            raise SystemExit(f"{model} has no model.bin: run scripts/fetch-models.sh")


def warn(everything, load_before):
    """Prints conditions that make the times unreliable."""
    if load_before > 0.5:
        print(f"\nNot for publication: the machine was busy before the start (load {load_before:.1f}).")
    if len({run["niceness"] for run in everything}) > 1:
        print("\nNot comparable: programs ran at different priorities, "
              + ", ".join(sorted({f"{run['program']} at {run['niceness']}" for run in everything}))
              + ".")


def main():
    arguments = read_arguments()
    arguments.program = arguments.program.resolve()
    check(arguments)
    if arguments.cpus:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:arguments.cpus])
    load_before = os.getloadavg()[0]
    everything, table, system = [], [HEADER], None
    for model in arguments.models:
        if "whisper.cpp" in arguments.programs:
            ggml_file(model)
        for name, recording, transcript in recordings_of(arguments):
            results = {program: [] for program in arguments.programs}
            for repetition in range(-1, arguments.repetitions):  # the first fills the page cache
                for program, runs in results.items():
                    _, runner, compute = PROGRAMS[program]
                    run = runner(compute, model, recording, arguments)
                    system = run.details.get("system", system)
                    if repetition >= 0:
                        runs.append(run)
                    print(f"{pathlib.Path(model).name} {name} {repetition + 1}"
                          f"/{arguments.repetitions} {program}: {run.wall_s:.2f} s",
                          file=sys.stderr)
                    everything.append({"model": model, "recording": str(recording),
                                       "program": program, "counted": repetition >= 0,
                                       **vars(run)})
            table += rows_of(name, model, duration_s(recording), results, transcript)
            if arguments.json:
                arguments.json.write_text(json.dumps(everything, indent=1))
    print("\n".join(table))
    warn(everything, load_before)
    previous = "with" if arguments.previous_text else "without"
    print(f"\nMedians of {arguments.repetitions} runs in turn, {arguments.threads} threads, greedy, "
          f"{previous} the previous text as prompt, on {len(os.sched_getaffinity(0))} processors "
          f"of {cpu_description()}.")
    encode = {run["model"]: run["details"] for run in everything if "encode_ms" in run["details"]}
    for model, details in encode.items():
        print(f"whisper.cpp's own timings, {pathlib.Path(model).name}: "
              f"{details['encode_ms']:.0f} ms a window in the encoder, "
              f"{details.get('decode_ms', float('nan')):.2f} ms a token in the decoder.")
    if system:
        print(f"whisper.cpp's {system}")


if __name__ == "__main__":
    main()
