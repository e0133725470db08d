#!/usr/bin/env python3
"""Compares with other programs and writes the tables of the README.

    bench/compare.py [--quick] [speech] [generate] [embed] [serve]    # measures (default: all)
    bench/compare.py tables                                   # only writes the tables

Needs bench/peers.sh, scripts/fetch-models.sh, bench/recordings.py, and a build with VESPER_BENCH=ON.
The last results of each part are kept in vesper/compare in the user's cache folder. The part of the
README between the lines <!-- compare:cpu --> and <!-- /compare:cpu --> is replaced by their tables,
the part of compare:gpu by that of bench/gpu_results.json.
"""

import argparse
import json
import subprocess
import sys

import compare_embed
import compare_generate
import compare_serve
import compare_speech
import gpu_table
from comparison import RESULTS, ROOT

PARTS = ("speech", "generate", "embed", "serve")
README = ROOT / "README.md"


def table_of(part):
    path = RESULTS / f"{part}.json"
    if not path.exists():
        return [f"{part} is not measured: `bench/compare.py {part}`."]
    module = {"speech": compare_speech, "generate": compare_generate, "embed": compare_embed,
              "serve": compare_serve}[part]
    return list(module.table(json.loads(path.read_text(encoding="utf-8"))))


def write_between_markers(name, lines):
    text = README.read_text(encoding="utf-8")
    begin, end = f"<!-- compare:{name} -->\n", f"<!-- /compare:{name} -->"
    before, _, rest = text.partition(begin)
    _, marker, after = rest.partition(end)
    if not marker:
        raise SystemExit(f"{README}: expected the lines {begin.strip()} and {end}")
    README.write_text(before + begin + "\n".join(["", *lines, ""]) + "\n" + end + after,
                      encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*PARTS, "tables", []])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    for part in options.parts or PARTS:
        if part != "tables":
            subprocess.run([sys.executable, ROOT / f"bench/compare_{part}.py",
                            *["--quick"] * options.quick], check=True, stdout=subprocess.DEVNULL)
    lines = []
    for part in PARTS:
        lines += ["", *table_of(part)] if lines else table_of(part)
    write_between_markers("cpu", lines)
    write_between_markers("gpu", gpu_table.table())
    print("\n".join(lines))


if __name__ == "__main__":
    main()
