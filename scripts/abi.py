#!/usr/bin/env python3
"""Compares the binary interface of the public headers with that of the last release.

    scripts/abi.py             exit status 1 and a report if old callers would break
    scripts/abi.py --write     writes capi/abi/libvesper.abi, for a release

The interface is that of a library whose functions are those of the headers with empty bodies: its
description has the types of the interface and no others. tests/install/install_test.py compares the
functions of the real library with the headers.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
RELEASED = SOURCE / "capi/abi/libvesper.abi"
MARK = "VESPER_API_MARK"
# Bits of abidiff's exit status: 1 and 2 an error, 4 a change, 8 a change that surely breaks callers.
CHANGED = 4

# What abidiff says about a struct with new last fields, which callers do not notice: they get it from
# the library, or its first field is their size of it.
APPENDED = [re.compile(pattern) for pattern in (
    r"(Functions|Variables) changes summary: ",
    r"\d+ functions? with some indirect sub-type changes?:$", r"\[C\] 'function .*' has some (indirect )?sub-type changes:$",
    r"(parameter \d+ of|return) type .* (has sub-type changes|changed):$",
    r"in pointed to type ", r"in unqualified underlying type ", r"underlying type 'struct .*' changed:$",
    r"'?struct .*' changed:$",
    r"type size changed from \d+ to \d+ \(in bits\)$", r"type size hasn't changed$",
    r"\d+ data member insertions?:$", r"'.*', at offset \d+ \(in bits\)",
    r"details were reported earlier", r"type '.*' of .* changed, as reported earlier$")]


def interface(header_folder, header="vesper.h"):
    """The C source of a library with the functions of a header."""
    include = f'#include "{header}"'
    command = ["cc", "-E", "-P", f"-I{header_folder}", "-x", "c", "-"]
    macros = subprocess.run([*command, "-dM"], input=include, text=True, capture_output=True, check=True).stdout
    api = re.search(r"^#define VESPER_API (.*)$", macros, re.MULTILINE)[1]
    text = subprocess.run(command, input=include, text=True, capture_output=True, check=True).stdout
    text = text.replace(api, MARK)
    text, n_functions = re.subn(rf"{MARK}([^;]*);", r"\1 { __builtin_trap(); }", text)
    assert n_functions > 0, f"{header_folder}: no function with VESPER_API"
    return text


def build_library(source, folder):
    """The library of a C source, with debugging information, which has the types."""
    (folder / "interface.c").write_text(source)
    subprocess.run(["cc", "-g", "-w", "-shared", "-fPIC", f"-Wl,--version-script={SOURCE / 'capi/vesper.map'}",
                    "-Wl,-soname,libvesper.so.0", "-o", "libvesper.so", "interface.c"], cwd=folder, check=True)
    return folder / "libvesper.so"


def incompatibility(old, new):
    """A report if callers of `old` may break with `new`, else an empty text."""
    result = subprocess.run(["abidiff", "--no-added-syms", "--no-show-locs", "--no-architecture", old, new],
                            text=True, capture_output=True)
    if result.returncode == 0:
        return ""
    report = result.stdout + result.stderr
    if result.returncode != CHANGED:
        return report or f"abidiff: exit status {result.returncode}"
    least_offset = 0
    for line in map(str.strip, report.splitlines()):
        if line and not any(pattern.match(line) for pattern in APPENDED):
            return report
        if size := re.match(r"type size changed from (\d+) to", line):
            least_offset = int(size[1])
        elif line == "type size hasn't changed":
            return report
        elif offset := re.match(r"'.*', at offset (\d+)", line):
            # Not in the padding, because the size would not tell whether a caller has the field.
            if int(offset[1]) < least_offset:
                return report
    return ""


def main():
    with tempfile.TemporaryDirectory() as name:
        library = build_library(interface(SOURCE / "include"), pathlib.Path(name))
        if sys.argv[1:] == ["--write"]:
            RELEASED.parent.mkdir(exist_ok=True)
            subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path",
                            "--no-architecture", "--no-elf-needed", "--type-id-style", "hash",
                            "--out-file", RELEASED, library], check=True)
        elif report := incompatibility(RELEASED, library):
            sys.exit(f"abi: the headers are incompatible with {RELEASED.relative_to(SOURCE)}:\n{report}")


if __name__ == "__main__":
    main()
