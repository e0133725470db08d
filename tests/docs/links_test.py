#!/usr/bin/env python3
"""Checks that README.md, THIRD-PARTY-NOTICES.md and docs/ name only files that exist.

Follows every relative link, and every path in back quotes that begins with a folder of the tree and
is not a placeholder (NAME). docs/measurements is history: only its links are checked.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ("audio", "bench", "capi", "cli", "cmake", "decoder", "docs", "embedder", "encoder", "error",
           "include", "llm", "scripts", "serve", "session", "shaders", "tests", "vad")


def missing_in(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target and not (page.parent / target).exists():
            yield target
    if "measurements" in page.parts:
        return
    for path in re.findall(r"`((?:%s)/[\w./-]*)`" % "|".join(FOLDERS), text):
        if "NAME" in path:
            continue
        # `audio/sources/reader` stands for reader.h and reader.cc.
        whole = ROOT / path
        if not whole.exists() and not list(whole.parent.glob(whole.name + ".*")):
            yield path


def main():
    pages = [ROOT / "README.md", ROOT / "THIRD-PARTY-NOTICES.md", *sorted((ROOT / "docs").rglob("*.md"))]
    problems = [f"{page.relative_to(ROOT)}: {target} does not exist"
                for page in pages for target in missing_in(page)]
    print("\n".join(problems) or f"{len(pages)} pages: every path exists")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
