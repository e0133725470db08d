#!/usr/bin/env python3
"""Checks which folders include headers of which: sibling folders have no cycle, at any level, and
the arrows of docs/map.md allow every inclusion between the folders that they name.
"""

import collections
import graphlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ("audio", "capi", "cli", "decoder", "embedder", "encoder", "error", "llm", "serve", "session", "vad")
ANYWHERE = {"error", "shaders"}  # every folder may include them


def arrows_of_map(text):
    """The pairs that each line "PARENT: a, b -> c" allows; those of the top level have no parent."""
    allowed = collections.defaultdict(set)
    parent = ""
    for line in re.search(r"^An arrow means.*?^The table", text, re.M | re.S)[0].splitlines():
        if "    " not in line:
            parent = ""
            continue
        named = re.match(r" +([\w/]+):", line)
        if named:
            parent = named[1]
            line = line[named.end():]
        groups = [re.findall(r"\w+", group) for group in re.split(r"\s{2,}", line.strip())[0].split("->")]
        for left, right in zip(groups, groups[1:]):
            allowed[parent].update((a, b) for a in left for b in right)
    assert allowed[""] and allowed["llm"], "docs/map.md: expected arrows, found none"
    return allowed


def closure(pairs):
    pairs = set(pairs)
    while True:
        more = {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs
        if not more:
            return pairs
        pairs |= more


def inclusions():
    """For each parent folder its pairs of sub-folders, with a file that includes."""
    found = collections.defaultdict(dict)
    for folder in FOLDERS:
        for source in sorted((ROOT / folder).rglob("*")):
            if source.suffix not in (".h", ".cc"):
                continue
            for header in re.findall(r'^#include "([\w/.-]+)"', source.read_text(encoding="utf-8"), re.M):
                a, b = source.relative_to(ROOT).parent.parts, pathlib.PurePath(header).parent.parts
                n = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
                if n is not None and (ROOT / header).exists():
                    found["/".join(a[:n])].setdefault((a[n], b[n]), source.relative_to(ROOT))
    return found


def problems(found, allowed):
    for parent, pairs in found.items():
        graph = collections.defaultdict(set)
        for a, b in pairs:
            graph[a].add(b)
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            yield f"{parent or '.'}: cycle {' <- '.join(error.args[1])}"
        arrows = closure(allowed[parent]) if parent in allowed else None
        for (a, b), source in pairs.items():
            if arrows is not None and b not in ANYWHERE and (a, b) not in arrows:
                yield f"{source}: {a} includes {b}, which docs/map.md does not allow"


def main():
    allowed = arrows_of_map((ROOT / "docs/map.md").read_text(encoding="utf-8"))
    found = inclusions()
    lines = list(problems(found, allowed))
    print("\n".join(lines) or f"{sum(map(len, found.values()))} arrows between folders, no cycle")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
