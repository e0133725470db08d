#!/usr/bin/env python3
"""The server against its OpenAPI description, by requests that schemathesis derives from it.

    tests/serve/description_test.py PROGRAM

No request may fail with 5xx, all responses must be as described, and what the description forbids must be refused.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import openai_test

FOLDER = pathlib.Path(__file__).resolve().parent
DESCRIPTION = FOLDER.parents[1] / "serve" / "api" / "openapi.json"


class Description(unittest.TestCase):
    def test_the_server_does_as_described(self):
        program = openai_test.CACHE / "schemathesis-4.32.5" / "bin" / "schemathesis"
        self.assertTrue(program.exists(), f"{program}: expected what tests/serve/fetch_clients.sh installs")
        # A short context ends random answers soon.
        server = openai_test.Server("-m", "tiny.en", "-m", "smollm2-135m", "-m", "all-minilm-l6-v2", "--ctx", "64")
        with tempfile.TemporaryDirectory() as folder:
            # Valid requests may be refused: a prompt beyond the context, token ids beyond the vocabulary.
            found = subprocess.run(
                # schemathesis leaves out the operation that it has the description from, unless a filter includes it.
                [program, "run", server.url + "/openapi.json", "--include-path-regex", ".",
                 "--phases", "coverage,fuzzing", "--max-examples", "12",
                 "--exclude-checks", "positive_data_acceptance", "--seed", "1", "--generation-database", "none",
                 "--continue-on-failure", "--no-color"],
                env=os.environ | {"SCHEMATHESIS_HOOKS": "description_hooks", "PYTHONPATH": str(FOLDER)},
                cwd=folder, capture_output=True, text=True)
        log = server.text()
        self.assertEqual(server.stop(), 0)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        n_operations = sum(len(methods) for methods in json.loads(DESCRIPTION.read_text())["paths"].values())
        self.assertRegex(found.stdout, rf"Tested: {n_operations}\n")
        # The requests must reach the models, too.
        for path in ("chat/completions", "completions", "embeddings", "audio/transcriptions", "audio/translations"):
            self.assertIn(f"path=/v1/{path} status=200", log)


if __name__ == "__main__":
    if os.environ.get("VESPER_TEST_WITHOUT_MODELS"):
        print(": Skipped\nVESPER_TEST_WITHOUT_MODELS is set")
        sys.exit(0)
    openai_test.PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
