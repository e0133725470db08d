#!/usr/bin/env python3
"""Runs ctest with the given arguments, then prints the tests that did not run, and why.

A skip that allowed_skips.txt does not list fails the run. Tests that need models are skipped only
with the environment variable VESPER_TEST_WITHOUT_MODELS.

    tests/run.py --preset release --parallel 2
"""
import fnmatch
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

WITHOUT_MODELS = "VESPER_TEST_WITHOUT_MODELS"
ALLOWED = pathlib.Path(__file__).with_name("allowed_skips.txt")


def allowed_skips():
    lines = ALLOWED.read_text().splitlines()
    return [line.split(": ", 1) for line in lines if line and not line.startswith("#")]


def skips_of(case):
    """(name, reason) of each test that did not run in a test case of ctest."""
    name, output = case.get("name"), case.findtext("system-out") or ""
    # GoogleTest prints the reason behind the line "FILE:LINE: Skipped", then the name of the test,
    # or no name if the whole program was skipped.
    reason = ""
    found = []
    lines = output.splitlines()
    for line, next_line in zip(lines, lines[1:] + [""]):
        skipped = re.match(r"\[  SKIPPED \] (\S+)(, where .*)? \(\d+ ms\)$", line)
        if line.endswith(": Skipped"):
            reason = next_line
        elif skipped:
            found.append((skipped[1], reason))
    if re.search(r"^\[==========\] 0 tests .* ran", output, re.MULTILINE):
        found.append((name, "its filter matches no test"))
    if not found and case.get("status") not in ("run", "fail"):
        skip = case.find("skipped")
        found.append((name, reason or (case.get("status") if skip is None else skip.get("message"))))
    return found


def main():
    # A shell starts background jobs with SIGINT ignored, and programs inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder, "results.xml")
        limits = [f"--test-output-size-{result}=1000000" for result in ("passed", "failed")]
        status = subprocess.run(
            ["ctest", *sys.argv[1:], *limits, "--no-tests=error", "--output-junit", results]).returncode
        if not results.is_file():
            sys.exit(status or 1)
        cases = list(xml.etree.ElementTree.parse(results).getroot().iter("testcase"))
    skips = [skip for case in cases for skip in skips_of(case)]
    without_models = [skip for skip in skips
                      if WITHOUT_MODELS in os.environ and skip[1] == f"{WITHOUT_MODELS} is set"]
    print(f"\n{len(skips)} tests did not run" + (":" if skips else ""))
    if without_models:
        print(f"  {len(without_models)} tests that need models: {WITHOUT_MODELS} is set")
    allowed, n_forbidden = allowed_skips(), 0
    for name, reason in sorted(set(skips) - set(without_models)):
        is_allowed = any(fnmatch.fnmatchcase(name, pattern) and reason == permitted
                         for pattern, permitted in allowed)
        n_forbidden += not is_allowed
        print(f"  {name}: {reason}" + ("" if is_allowed else f" (FAILED: not in {ALLOWED.name})"))
    sys.exit(status or (1 if n_forbidden else 0))


main()
