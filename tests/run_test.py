"""run.py accepts only the skips that allowed_skips.txt lists. A script stands in for ctest."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FAKE_CTEST = """#!/bin/sh
while [ "$1" != --output-junit ]; do shift; done
cp "$(dirname "$0")/results.xml" "$2"
exit $STATUS
"""
ALLOWED = "GpuNodes.LoadNoDriversWithoutAGpu", "this machine shows a GPU"


def passed(name, output=""):
    return f'<testcase name="{name}" status="run"><system-out>{output}</system-out></testcase>'


def skipped(name, reason):
    output = f"[ RUN      ] {name}\n/a/test.cc:64: Skipped\n{reason}\n\n[  SKIPPED ] {name} (0 ms)\n"
    return (f'<testcase name="{name}" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION"/>'
            f"<system-out>{output}</system-out></testcase>")


class Run(unittest.TestCase):
    def run_with(self, *cases, status=0, environment=None):
        with tempfile.TemporaryDirectory() as folder:
            ctest = pathlib.Path(folder, "ctest")
            ctest.write_text(FAKE_CTEST)
            ctest.chmod(0o755)
            pathlib.Path(folder, "results.xml").write_text(
                f"<testsuite>{''.join(cases)}</testsuite>")
            inherited = {name: value for name, value in os.environ.items()
                         if name != "VESPER_TEST_WITHOUT_MODELS"}
            result = subprocess.run(
                [sys.executable, pathlib.Path(__file__).with_name("run.py"), "--preset", "release"],
                env={**inherited, "PATH": f"{folder}:{os.environ['PATH']}", "STATUS": str(status),
                     **(environment or {})},
                capture_output=True, text=True)
            return result.returncode, result.stdout

    def test_passes_when_everything_ran(self):
        status, output = self.run_with(passed("A.B"))
        self.assertEqual(status, 0)
        self.assertIn("0 tests did not run", output)

    def test_fails_as_ctest_does(self):
        self.assertEqual(self.run_with(passed("A.B"), status=8)[0], 8)

    def test_prints_an_allowed_skip(self):
        status, output = self.run_with(passed("A.B"), skipped(*ALLOWED))
        self.assertEqual(status, 0)
        self.assertIn("1 tests did not run:\n  " + ": ".join(ALLOWED) + "\n", output)

    def test_fails_for_any_other_skip(self):
        for name, reason in [("A.B", ALLOWED[1]), (ALLOWED[0], "another reason")]:
            status, output = self.run_with(skipped(name, reason))
            self.assertEqual(status, 1)
            self.assertIn(f"{name}: {reason} (FAILED", output)

    def test_finds_a_skip_in_a_program_that_passed(self):
        output = "[ RUN      ] A.B\n/a.cc:6: Skipped\nno reason\n[  SKIPPED ] A.B (0 ms)\n"
        self.assertEqual(self.run_with(passed("a_on_avx2", output))[0], 1)

    def test_reads_the_reason_of_a_program_that_was_skipped(self):
        lacks = "not run: this CPU lacks AVX-512"
        output = f"/a.cc:15: Skipped\n{lacks}\n{lacks}\n[==========] 3 tests from 1 test suite ran.\n"
        case = (f'<testcase name="a_on_avx512" status="notrun"><skipped message="SKIP"/>'
                f"<system-out>{output}</system-out></testcase>")
        status, printed = self.run_with(case)
        self.assertEqual(status, 0)
        self.assertIn(f"  a_on_avx512: {lacks}\n", printed)

    def test_fails_for_a_filter_without_tests(self):
        output = "[==========] 0 tests from 0 test suites ran. (0 ms total)\n"
        self.assertEqual(self.run_with(passed("a_on_avx2", output))[0], 1)

    def test_fails_for_a_disabled_test(self):
        self.assertEqual(self.run_with('<testcase name="A.B" status="disabled"/>')[0], 1)

    def test_needs_the_variable_for_a_run_without_models(self):
        case = skipped("A.B", "VESPER_TEST_WITHOUT_MODELS is set")
        self.assertEqual(self.run_with(case)[0], 1)
        status, output = self.run_with(case, environment={"VESPER_TEST_WITHOUT_MODELS": "1"})
        self.assertEqual(status, 0)
        self.assertIn("1 tests that need models", output)


unittest.main()
