#!/usr/bin/env python3
"""scripts/abi.py accepts what old callers do not notice, and nothing else."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import abi  # noqa: E402

HEADER = """
#define VESPER_API __attribute__((visibility("default")))
typedef enum vesper_status { OK = 0, FAILED = 3 } vesper_status;
typedef struct vesper_thing vesper_thing;
typedef struct vesper_options { unsigned long size; int beams; float heat; float cold; } vesper_options;
typedef struct vesper_seen { double start; int n; } vesper_seen;
typedef int (*vesper_on_seen)(const vesper_seen* seen, void* user);
VESPER_API vesper_status vesper_open(const char* path, const vesper_options* given,
                                     vesper_thing** made, vesper_on_seen on_seen);
VESPER_API void vesper_options_init(vesper_options* options, unsigned long size);
VESPER_API void vesper_close(vesper_thing*);
"""


class Comparison(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.old = self.library("old", "", "")

    def library(self, name, before, after):
        folder = self.folder / name
        folder.mkdir()
        self.assertIn(before, HEADER)
        (folder / "vesper.h").write_text(HEADER.replace(before, after) if before else HEADER)
        return abi.build_library(abi.interface(folder), folder)

    def report(self, before, after):
        return abi.incompatibility(self.old, self.library(f"new{len(list(self.folder.iterdir()))}", before, after))

    def test_accepts_additions(self):
        for before, after in (("VESPER_API void vesper_close", "VESPER_API int vesper_new(void);\nVESPER_API void vesper_close"),
                              ("float cold;", "float cold; double depth;"),
                              ("float cold;", "float cold; double depth; const char* name;"),
                              ("FAILED = 3", "FAILED = 3, GONE = 9"), ("FAILED = 3", "GONE = 2, FAILED = 3"),
                              ("vesper_thing*)", "vesper_thing* renamed)")):
            with self.subTest(after):
                self.assertEqual(self.report(before, after), "")

    def test_rejects_what_breaks_old_callers(self):
        for before, after in (("VESPER_API void vesper_close(vesper_thing*);", ""),
                              ("VESPER_API void vesper_close", "VESPER_API int vesper_close"),
                              ("unsigned long size);", "unsigned long size, int flags);"),
                              ("unsigned long size);", "unsigned int size);"),
                              ("int beams;", "long beams;"), ("int beams;", "unsigned beams;"),
                              ("int beams; float heat;", "float heat; int beams;"),
                              ("int beams; float heat;", "int beams; int wide; float heat;"),
                              (" float cold;", ""),
                              # In the padding.
                              ("float cold;", "float cold; int depth;"), ("double start; int n;", "double start; int n; int m;"),
                              ("double start; int n;", "float start; int n;"),
                              ("FAILED = 3", "FAILED = 4"), ("OK = 0, FAILED = 3", "OK = 0")):
            with self.subTest(after):
                self.assertNotEqual(self.report(before, after), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
