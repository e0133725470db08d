"""What the comparisons with other programs share: processes, statistics, the machine, results."""

import dataclasses
import datetime
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

from recordings import cache_folder

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = cache_folder() / "peers"
RESULTS = cache_folder() / "compare"
MODELS = pathlib.Path(os.environ.get("VESPER_MODELS") or cache_folder() / "models")


@dataclasses.dataclass
class Process:
    """A process that ended."""

    out: str
    err: str
    wall_s: float
    cpu_s: float    # user and system time, of all threads
    peak_mb: float  # resident memory


def run_process(command):
    """Exits if the command fails."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n"
                         f"exit status {process.returncode}\n{texts[1]}")
    return Process(*texts, wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def rotated(items, n):
    """The items in another order for each n, so that none is always first."""
    items = list(items)
    return items[n % len(items):] + items[:n % len(items)]


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text)
    flags = re.search(r"flags\s*: (.*)", text)
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
    present = [flag for flag in known if flags and flag in flags[1].split()]
    return (f"{len(os.sched_getaffinity(0))} processors of {name[1] if name else platform.machine()} "
            f"({', '.join(present) or 'no AVX2'})")


def vesper_version(program="transcribe"):
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    version = run_process([ROOT / "build" / program, "--version"]).out.split()[1]
    return f"Vesper {version}" + (f" at commit {commit}" if commit else "")


def peer_version(name):
    """Its version, and how it was built, as bench/peers.sh wrote them."""
    path = PEERS / f"{name}.version"
    if not path.exists():
        raise SystemExit(f"{path} is missing: run bench/peers.sh")
    version, _, build = path.read_text().strip().replace("==", " ").partition(", ")
    return f"{version} ({build})" if build else version


def conditions(versions, load_before):
    """Of all results: what is needed to repeat them."""
    return {"date": datetime.date.today().isoformat(), "machine": machine(), "load": load_before,
            "versions": versions}


def describe(results):
    """The line below a table."""
    line = f"{results['date']}, {results['machine']}; {'; '.join(results['versions'])}."
    if results["load"] > 0.5:
        line += f" The machine was busy at the start (load {results['load']:.1f})."
    return line


def save(name, results):
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


def spread(values, digits=2, unit=""):
    """The median with the range of the values."""
    median = statistics.median(values)
    text = f"{median:,.{digits}f}{unit}"
    if len(values) > 1:
        text += f" ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
    return text


def times_of(text, ratio):
    """A cell with how many times slower than ours it is."""
    return f"{text}, {ratio:.1f}x"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def header(cells):
    return [row(cells), "|---|" + "--:|" * (len(cells) - 1)]


def note(text):
    print(text, file=sys.stderr, flush=True)
