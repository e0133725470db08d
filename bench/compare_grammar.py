#!/usr/bin/env python3
"""Times of grammars beside PyPI xgrammar: run it with a Python that has xgrammar.

    bench/compare_grammar.py [MODEL]     default: smollm2-135m of ~/.cache/vesper/models

Prints the table of build/grammar_bench, and one of xgrammar with the same vocabulary, grammars and
tokens. xgrammar computes masks while it compiles (on all processors), Vesper when they are first
needed.
"""

import importlib.metadata
import pathlib
import subprocess
import sys
import tempfile
import time

import xgrammar

from comparison import MODELS, ROOT, machine


def print_masks(compiled, tokens, bits):
    matcher = xgrammar.GrammarMatcher(compiled)
    times = []
    for token in tokens:
        start = time.perf_counter()
        matcher.fill_next_token_bitmask(bits)
        times.append((time.perf_counter() - start) * 1e6)
        if not matcher.accept_token(token):
            raise SystemExit("compare_grammar: xgrammar refuses a token of the text")
    times.sort()
    for value in (times[len(times) // 2], times[len(times) * 99 // 100], times[-1]):
        print(f" {value:8.0f}", end="")


def main():
    model = sys.argv[1] if len(sys.argv) > 1 else MODELS / "smollm2-135m"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        subprocess.run([ROOT / "build/grammar_bench", model, folder], check=True)
        lines = (folder / "vocabulary").read_text().split("\n")[:-1]
        start = time.perf_counter()
        info = xgrammar.TokenizerInfo([bytes.fromhex(line) for line in lines],
                                      vocab_type=xgrammar.VocabType.RAW,
                                      stop_token_ids=[len(lines) - 1])
        print(f"\nxgrammar {importlib.metadata.version('xgrammar')}, {machine()}\n"
              f"vocabulary of {len(lines)} tokens: {(time.perf_counter() - start) * 1000:.0f} ms")
        bits = xgrammar.allocate_token_bitmask(1, len(lines))
        for path in sorted(folder.glob("*.gbnf")):
            compiler = xgrammar.GrammarCompiler(info, cache_enabled=False)
            start = time.perf_counter()
            compiled = compiler.compile_grammar(path.read_text())
            compile_ms = (time.perf_counter() - start) * 1000
            tokens = [int(line) for line in path.with_suffix(".tokens").read_text().split()]
            print(f"{path.stem:14} {len(tokens):7} {compile_ms:10.2f} ", end="")
            print_masks(compiled, tokens, bits)
            print(" ", end="")
            print_masks(compiled, tokens, bits)
            print()


if __name__ == "__main__":
    main()
