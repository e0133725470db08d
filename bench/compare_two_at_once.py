#!/usr/bin/env python3
"""Runs two transcriptions at once on two processors, and one alone; prints the median ratio.

    bench/compare_two_at_once.py [-m MODEL] [RECORDING] [--goal 2.3]

Two programs of two threads each on two processors reach 2.0 at best. Threads that spin while they
wait are worse. Exits with status 1 if the median ratio is above the goal.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

import recordings

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run_at_once(command, n):
    """Seconds of each of n processes that start together."""
    start = time.perf_counter()
    processes = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE) for _ in range(n)]
    elapsed = []
    for _ in processes:
        pid, status = os.waitpid(-1, 0)
        elapsed.append(time.perf_counter() - start)
        process = next(process for process in processes if process.pid == pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"exit status {process.returncode}: "
                             f"{process.stderr.read().decode().strip()}")
    return elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", nargs="?", type=pathlib.Path,
                        help="default: four minutes made by bench/recordings.py")
    parser.add_argument("-m", "--model", default="tiny.en")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "transcribe")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--goal", type=float, default=2.3)
    arguments = parser.parse_args()

    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise SystemExit("expected two processors to run on, found one")
    os.sched_setaffinity(0, allowed[:2])
    recording = arguments.recording or recordings.recording("medium")[0]
    command = [str(arguments.program.resolve()), "-m", arguments.model, "-t", str(arguments.threads),
               "--device", "cpu", "-q", str(recording)]
    ratios = []
    run_at_once(command, 1)  # fills the page cache
    for repetition in range(arguments.repetitions):
        (alone,) = run_at_once(command, 1)
        together = run_at_once(command, 2)
        ratios += [max(together) / alone]
        print(f"{repetition + 1}: alone {alone:.2f} s, two at once "
              f"{together[0]:.2f} s and {together[1]:.2f} s, ratio {ratios[-1]:.2f}")
    ratio = statistics.median(ratios)
    print(f"median ratio {ratio:.2f}, goal at most {arguments.goal}")
    sys.exit(0 if ratio <= arguments.goal else 1)


if __name__ == "__main__":
    main()
