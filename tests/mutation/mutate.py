#!/usr/bin/env python3
"""Mutation testing: applies each fault of faults.toml to a copy of the sources, builds the test
programs that must catch it, runs them, and prints which fault is killed and which survives.

    tests/mutation/mutate.py                  all faults
    tests/mutation/mutate.py --only mel       faults whose name or file contains "mel"
    tests/mutation/mutate.py --list           the faults; checks that each one applies

The copy and its build are kept in build-mutants/, so that the next run compiles only what changed.
Uncommitted changes are part of the copy. The exit status is 1 if a fault survives, does not apply
or does not build, or if a test program fails without a fault.
"""

import argparse
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.toml")

# Unity builds would compile up to 16 files for one fault.
CMAKE_OPTIONS = ["-DVESPER_UNITY=OFF"]


@dataclass
class Fault:
    name: str
    file: str
    old: str
    new: str
    tests: list[str]  # "program" or "program GTEST_FILTER", after "NAME=value" of its environment

    def problem(self, root):
        """Why the fault does not apply to the sources in `root`, or None."""
        path = root / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        n = path.read_text().count(self.old)
        return None if n == 1 else f"expected its text once in {self.file}, found it {n} times"


@dataclass
class Outcome:
    result: str  # killed, survived, does not build, does not apply
    detail: str
    seconds: float = 0


def read_faults(path):
    with open(path, "rb") as file:
        content = tomllib.load(file)
    folders = content["tests"]
    faults = []
    for entry in content["fault"]:
        unknown = set(entry) - {"name", "file", "old", "new", "tests"}
        if unknown:
            sys.exit(f"{path}: fault {entry.get('name')}: unknown key {sorted(unknown)[0]}")
        if entry["old"] == entry["new"]:
            sys.exit(f"{path}: fault {entry['name']}: old and new are equal")
        folder = max((f for f in folders if entry["file"].startswith(f)), key=len, default=None)
        tests = entry.get("tests") or folders.get(folder)
        if not tests:
            sys.exit(f"{path}: fault {entry['name']}: expected tests, found none for its folder")
        faults.append(Fault(entry["name"], entry["file"], entry["old"], entry["new"], tests))
    names = [fault.name for fault in faults]
    for name in names:
        if names.count(name) > 1:
            sys.exit(f"{path}: fault {name}: the name occurs twice")
    return faults


def copy_sources(copy):
    """Makes `copy` equal to the working tree; files that are equal keep their times."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for path in copy.rglob("*"):
        relative = path.relative_to(copy)
        if relative.parts[0] != "build" and path.is_file() and str(relative) not in wanted:
            path.unlink()
    for name in wanted:
        source, target = ROOT / name, copy / name
        content = source.read_bytes()
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        shutil.copymode(source, target)


def build(copy, programs, jobs):
    """Builds `programs`; returns the compiler's output if that fails."""
    # Other folders on one machine share compiled files.
    environment = dict(os.environ, CCACHE_NOHASHDIR="1")
    environment.setdefault("CCACHE_BASEDIR", str(copy))
    done = subprocess.run(
        ["cmake", "--build", "build", "--parallel", str(jobs), "--target", *programs],
        cwd=copy, env=environment, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stdout + done.stderr


def parts_of(test):
    """The environment, the program and the GoogleTest filter of one of Fault.tests."""
    words = test.split()
    environment = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    return environment, words[0], " ".join(words[1:])


def run_test(copy, test, timeout_s):
    """Runs a test program; returns what failed, or None."""
    environment, program, test_filter = parts_of(test)
    command = [str(copy / "build" / program), "--gtest_fail_fast", "--gtest_brief=0"]
    if test_filter:
        command.append(f"--gtest_filter={test_filter}")
    # A process group of its own: what the tests started ends with them.
    process = subprocess.Popen(command, cwd=copy / "build", env={**os.environ, **environment},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout_s)
        ending = f"exit status {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        ending = f"no end within {timeout_s:.0f} s"
    text = output.decode(errors="replace")
    if process.returncode == 0:
        return None
    failed = re.search(r"^\[  FAILED  \] (\S+?),? ", text, re.MULTILINE)
    started = re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE)
    if failed:
        return f"{program}: {failed[1]}"
    if process.returncode < 0 and "no end" not in ending:
        ending = signal.Signals(-process.returncode).name
    return f"{program}: {started[-1] if started else 'before the first test'} ({ending})"


def mirror_filter(copy, file):
    """A GoogleTest filter of the tests in the file that mirrors a source file, or if there is none,
    in the folder; None without such tests."""
    mirror = copy / "tests" / Path(file).with_name(Path(file).stem.removesuffix("-inl") + "_test.cc")
    files = [mirror] if mirror.is_file() else sorted(mirror.parent.glob("*_test.cc"))
    suites = re.findall(r"^TEST(?:_F|_P)?\((\w+),", "\n".join(f.read_text() for f in files),
                        re.MULTILINE)
    return ":".join(f"{suite}.*:*/{suite}.*" for suite in dict.fromkeys(suites)) or None


def test_fault(fault, copy, jobs, limits):
    problem = fault.problem(copy)
    if problem:
        return Outcome("does not apply", problem)
    path = copy / fault.file
    original = path.read_text()
    start = time.monotonic()
    path.write_text(original.replace(fault.old, fault.new))
    try:
        for test in fault.tests:
            failure = build(copy, [parts_of(test)[1]], jobs)
            if failure:
                errors = re.findall(r"error: .*", failure)
                return Outcome("does not build", errors[0] if errors else failure[-200:])
            # First the tests that are most likely to fail.
            first = mirror_filter(copy, fault.file) if not parts_of(test)[2] else None
            killer = run_test(copy, f"{test} {first}", limits[test]) if first else None
            killer = killer or run_test(copy, test, limits[test])
            if killer:
                return Outcome("killed", killer, time.monotonic() - start)
        return Outcome("survived", ", ".join(fault.tests), time.monotonic() - start)
    finally:
        path.write_text(original)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="PATTERN", action="append",
                        help="only faults whose name or file matches this regular expression")
    parser.add_argument("--list", action="store_true",
                        help="print the faults and whether they apply; build nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, default=ROOT / "build-mutants",
                        help="of the copy and its build")
    options = parser.parse_args()

    faults = read_faults(FAULTS)
    if options.only:
        faults = [f for f in faults if any(re.search(p, f.name) or re.search(p, f.file)
                                           for p in options.only)]
        if not faults:
            sys.exit(f"no fault matches {' '.join(options.only)}")
    if options.list:
        problems = [fault.problem(ROOT) for fault in faults]
        for fault, problem in zip(faults, problems):
            print(f"{fault.name}  {fault.file}  {', '.join(fault.tests)}"
                  + (f"  DOES NOT APPLY: {problem}" if problem else ""))
        print(f"{len(faults)} faults, {sum(p is not None for p in problems)} do not apply")
        return int(any(problems))

    # A shell starts background jobs with SIGINT ignored, and the tests' programs inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    copy = options.folder.resolve()
    copy.mkdir(exist_ok=True)
    lock = os.open(copy, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"another run uses {copy}")
    copy_sources(copy)
    subprocess.run(["cmake", "--preset", "release", *CMAKE_OPTIONS], cwd=copy, check=True,
                   stdout=subprocess.DEVNULL)
    tests = list(dict.fromkeys(test for fault in faults for test in fault.tests))
    failure = build(copy, list(dict.fromkeys(parts_of(test)[1] for test in tests)), options.jobs)
    if failure:
        sys.exit(f"the sources do not build without a fault:\n{failure}")
    limits = {}
    for test in tests:
        _, program, test_filter = parts_of(test)
        listed = subprocess.run([str(copy / "build" / program), "--gtest_list_tests",
                                 f"--gtest_filter={test_filter or '*'}"],
                                cwd=copy / "build", capture_output=True, text=True)
        if "\n  " not in listed.stdout:
            sys.exit(f"{test}: expected tests, found none")
        start = time.monotonic()
        failure = run_test(copy, test, 1800)
        if failure:
            sys.exit(f"a test fails without a fault: {failure}")
        limits[test] = 60 + 10 * (time.monotonic() - start)

    outcomes = []
    for fault in faults:
        outcome = test_fault(fault, copy, options.jobs, limits)
        outcomes.append(outcome)
        print(f"{outcome.result:15} {fault.name} ({outcome.seconds:.0f} s): {outcome.detail}",
              flush=True)

    print("\n| fault | file | result | by |\n|---|---|---|---|")
    for fault, outcome in zip(faults, outcomes):
        print(f"| {fault.name} | {fault.file} | {outcome.result} | {outcome.detail} |")
    results = [outcome.result for outcome in outcomes]
    counts = {result: results.count(result)
              for result in ("killed", "survived", "does not build", "does not apply")}
    print(f"\n{len(faults)} faults: " + ", ".join(f"{n} {result}" for result, n in counts.items()))
    return int(counts["killed"] != len(faults))


if __name__ == "__main__":
    sys.exit(main())
