#!/usr/bin/env python3
"""Checks THIRD-PARTY-NOTICES.md against built files and sources: it lists all that they link, include
and load, and none of that is under the GPL.

    tests/docs/notices_test.py BUILD_FOLDER
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path()  # the argument
PROGRAMS = ("embed", "generate", "inspect", "serve", "transcribe", "vesper")
# Licences by which MIT-licensed programs may link a library and be passed on.
ALLOWED = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Attribution", "BSL-1.0", "MIT", "OLDAP-2.8", "Zlib",
           "curl", "LGPL-2.1-or-later", "LGPL-3.0-or-later", "GPL-3.0-or-later WITH GCC-exception-3.1"}
# Folders whose code is in the programs and the library.
FOLDERS = ("audio", "capi", "cli", "decoder", "embedder", "encoder", "error", "include", "llm", "serve", "session", "vad")


def table(page, heading):
    """The rows of the table under a heading: {name: (other cells)}, one entry for each name of a row."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## )", page, re.DOTALL | re.MULTILINE)[1]
    lines = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
    rows = {}
    for line in lines[1:]:
        names, *cells = line.split(" | ")
        rows |= {name.strip("`"): cells for name in names.split(", ")}
    return rows


def without_version(file):
    return re.sub(r"(-\d+\.\d+)?\.so.*", "", file)


def printed(*command):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, check=True).stdout


class Notices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = (ROOT / "THIRD-PARTY-NOTICES.md").read_text(encoding="utf-8")
        cls.linked = table(cls.page, "Linked libraries")
        cls.compiled_in = table(cls.page, "Compiled in")
        cls.tables = table(cls.page, "Tables")
        cls.loaded = table(cls.page, "Loaded by the linked libraries")
        cls.binaries = [*(BUILD / name for name in PROGRAMS), *BUILD.glob("**/libvesper.so")]

    def test_every_linked_library_is_listed_and_every_listed_one_is_linked(self):
        self.assertEqual(len(self.binaries), len(PROGRAMS) + 1)
        needed = set()
        for binary in self.binaries:
            needed |= {without_version(name) for name in
                       re.findall(r"\(NEEDED\).*\[(.*)\]", printed("readelf", "--dynamic", binary))}
        self.assertLessEqual(needed, self.linked.keys())
        self.assertLessEqual(self.linked.keys() - needed - {"ld-linux-x86-64", "ld-linux-aarch64"},
                             set() if "libvulkan" in needed else {"libvulkan"})

    def test_every_library_that_these_load_is_listed(self):
        for binary in self.binaries:
            for line in printed("ldd", binary).splitlines():
                file = pathlib.Path(line.split()[0]).name
                if not file.startswith("linux-vdso"):
                    self.assertIn(without_version(file), self.linked.keys() | self.loaded.keys(), binary)

    def test_every_folder_of_headers_is_that_of_a_listed_project(self):
        included = set()
        for folder in FOLDERS:
            for path in (ROOT / folder).rglob("*.*"):
                if path.suffix in (".cc", ".h"):
                    included |= set(re.findall(r"#include <(\w+)/", path.read_text(encoding="utf-8")))
        of_linked = {"curl", "openssl", "vulkan"}
        self.assertEqual(included - {"arpa", "linux", "netinet", "sys", "vesper"} - of_linked, set(self.compiled_in))

    def test_tables_are_in_the_files_that_are_named(self):
        for file in self.tables:
            self.assertTrue((ROOT / file).is_file(), file)

    def test_nothing_is_under_the_gpl(self):
        rows = [*self.linked.items(), *self.compiled_in.items(), *self.tables.items(), *self.loaded.items()]
        for name, cells in rows:
            licence = cells[{1: 0, 3: 1, 4: 2}[len(cells)]]
            self.assertTrue(ALLOWED & set(licence.split(" OR ")), f"{name}: {licence}")

    def test_the_text_of_every_licence_of_code_in_the_binaries_is_there(self):
        licences = {cells[1] for cells in self.compiled_in.values()} | {cells[2] for cells in self.tables.values()}
        self.assertEqual(licences, set(re.findall(r"^### (\S+)$", self.page, re.MULTILINE)))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
