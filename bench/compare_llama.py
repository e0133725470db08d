#!/usr/bin/env python3
"""Compares language models with llama.cpp on one GGUF file, alternating runs: llama-bench's table.

    bench/compare_llama.py MODEL.gguf [--build build] [--threads 2] [--runs 3] [--batch 16]
                           [--tests pp16,pp512,pp4000,tg128,tg64@d4000,batch]
                           [--llama-bench COMMAND] [--device cpu]

Tests: ppN, a prompt of N tokens (tokens per second, and ms to the first token); tgN, N generated
tokens; tgN@dD, the same after D tokens; batch, 64 tokens of each of B texts at once (tg64@bB).
Prints mean and deviation of the runs, and the median time.
llama.cpp is skipped if it is absent. Debian's works without installation: unpack the packages of
llama.cpp's tools, ggml and the C library into a folder, and pass

    --llama-bench 'FOLDER/lib64/ld-linux-x86-64.so.2 --library-path FOLDERS FOLDER/bin/llama-bench'

with GGML_BACKEND_PATH set to the backend library for the processor.
"""
import argparse
import json
import os
import random
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

TIMING = re.compile(r"(prompt eval|eval) time =\s*([\d.]+) ms /\s*(\d+) (?:tokens|runs)")


class Ours:
    name = "vesper"

    def __init__(self, options):
        self.command = [f"{options.build}/generate", "-m", options.model, "--device",
                        options.device, "-t", str(options.threads), "--stats", "--ignore-eos"]
        self.batch = options.batch

    def run(self, *arguments):
        """The times that --stats prints: {"prompt eval": (ms, tokens), "eval": ...}."""
        result = subprocess.run([*self.command, *arguments], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True)
        times = {kind: (float(ms), int(n)) for kind, ms, n in TIMING.findall(result.stderr)}
        if result.returncode != 0 or len(times) < 2:
            sys.exit(f"compare_llama: generate failed: {result.stderr.strip()}")
        return times

    def ids(self, n):
        generator = random.Random(n)
        # Ids that every known vocabulary has, without special tokens.
        return ",".join(str(generator.randrange(300, 30000)) for _ in range(n))

    def prompt(self, n):
        return self.run("--prompt-ids", self.ids(n), "-n", "2")["prompt eval"]

    def text(self, n, depth=0):
        if depth > 0:
            return self.run("--prompt-ids", self.ids(depth), "-n", str(n + 1))["eval"]
        return self.run("--no-chat", "-n", str(n + 1), "Rivers")["eval"]

    def texts(self, n):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as prompts:
            for i in range(self.batch):
                prompts.write(f"Rivers of country {i}\n")
            prompts.flush()
            return self.run("--no-chat", "-n", str(n), "--input", prompts.name, "--batch",
                            str(self.batch))["eval"]


class LlamaBench:
    name = "llama.cpp"

    def __init__(self, options):
        self.command = [*shlex.split(options.llama_bench), "-m", options.model, "-t",
                        str(options.threads), "-r", "1", "-o", "json"]

    def run(self, n_prompt, n_text, depth=0):
        output = subprocess.run([*self.command, "-p", str(n_prompt), "-n", str(n_text),
                                 "-d", str(depth)],
                                capture_output=True, text=True, check=True).stdout
        test = json.loads(output[output.index("["):])[0]
        return test["avg_ns"] / 1e6, n_prompt or n_text

    def prompt(self, n):
        return self.run(n, 0)

    def text(self, n, depth=0):
        return self.run(0, n, depth)

    def texts(self, n):
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--build", default="build")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tests", default="pp16,pp512,pp4000,tg128,tg64@d4000,batch")
    parser.add_argument("--llama-bench", default="llama-bench")
    options = parser.parse_args()

    programs = [Ours(options)]
    if shutil.which(shlex.split(options.llama_bench)[0]):
        programs.append(LlamaBench(options))
    tests = []
    for test in options.tests.split(","):
        if test == "batch":
            tests.append((f"tg64@b{options.batch}", lambda program: program.texts(64)))
        elif re.fullmatch(r"pp\d+", test):
            tests.append((test, lambda program, n=int(test[2:]): program.prompt(n)))
        elif found := re.fullmatch(r"tg(\d+)(?:@d(\d+))?", test):
            tests.append((test, lambda program, n=int(found[1]), depth=int(found[2] or 0):
                          program.text(n, depth)))
        else:
            parser.error(f"--tests: expected ppN, tgN, tgN@dD or batch, found '{test}'")
    size = f"{os.path.getsize(options.model) / 2**20:.1f} MiB"
    model = os.path.basename(options.model).removesuffix(".gguf")
    print(f"| {'model':<32} | {'size':>10} | {'program':<9} | {'threads':>7} | {'test':>10} "
          f"| {'ms':>9} | {'t/s':>18} |")
    print(f"| {'-' * 32} | {'-' * 9}: | {'-' * 9} | {'-' * 6}: | {'-' * 9}: | {'-' * 8}: "
          f"| {'-' * 17}: |")
    for name, measure in tests:
        found = {program.name: [] for program in programs}
        for _ in range(options.runs):
            for program in programs:
                times = measure(program)
                if times is not None:
                    found[program.name].append(times)
        for program, times in found.items():
            if not times:
                continue
            rates = [1e3 * n / ms for ms, n in times]
            spread = statistics.stdev(rates) if len(rates) > 1 else 0.0
            rate = f"{statistics.mean(rates):.2f} ± {spread:.2f}"
            print(f"| {model:<32} | {size:>10} | {program:<9} | {options.threads:>7} | {name:>10} "
                  f"| {statistics.median(ms for ms, _ in times):>9.1f} | {rate:>18} |", flush=True)


main()
