#!/usr/bin/env python3
"""Compares generate with llama.cpp on one GGUF file, runs in turn.

    bench/compare_generate.py [--quick] [MODEL.gguf]    # after bench/peers.sh; prints a table

A prompt of N tokens (time to the first token), and the tokens per second of 128 tokens of text. Each
of our answers is a new process; llama-bench warms up before it measures. Both continue the same
prompts greedily: the first words have to be equal, at different roundings more cannot be expected.
"""

import argparse
import json
import os
import pathlib
import random
import re
import statistics

from comparison import (MODELS, PEERS, ROOT, conditions, describe, header, note, peer_version, row,
                        rotated, run_process, save, spread, times_of, vesper_version)
from word_errors import normalize

MODEL = MODELS / "smollm2-135m" / "SmolLM2-135M-Instruct.Q4_1.gguf"
THREADS = 2
PROMPTS = (16, 512, 2048)  # tokens
TEXT = 128                 # tokens
CONTINUED = ("Rivers are", "The capital of France is", "Once upon a time there was a")
EQUAL_WORDS = 5
TIMING = re.compile(r"(prompt eval|eval) time =\s*([\d.]+) ms /\s*(\d+) (?:tokens|runs)")


class Generate:
    name = "generate"

    def __init__(self, model):
        self.command = [ROOT / "build/generate", "-m", model, "--device", "cpu", "-t", THREADS]

    def times(self, *arguments):
        """{"prompt eval": (ms, tokens), "eval": ...} as --stats prints them."""
        process = run_process([*self.command, "--stats", "--ignore-eos", *arguments])
        return {kind: (float(ms), int(n)) for kind, ms, n in TIMING.findall(process.err)}

    def prompt_ms(self, n):
        chance = random.Random(n)
        # Ids that every known vocabulary has, without special tokens.
        ids = ",".join(str(chance.randrange(300, 30000)) for _ in range(n))
        return self.times("--prompt-ids", ids, "-n", "2")["prompt eval"][0]

    def tokens_per_second(self):
        ms, n = self.times("--no-chat", "-n", str(TEXT + 1), "Rivers")["eval"]
        return 1e3 * n / ms

    def continuation(self, prompt):
        return run_process([*self.command, "--no-chat", "--temperature", "0", "-n", "24", prompt]).out


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, model):
        self.model = model

    def bench(self, n_prompt, n_text):
        process = run_process([PEERS / "llama-bench", "-m", self.model, "-t", THREADS, "-r", "1", "-o",
                               "json", "-p", n_prompt, "-n", n_text])
        return json.loads(process.out[process.out.index("["):])[0]["avg_ns"] / 1e6

    def prompt_ms(self, n):
        return self.bench(n, 0)

    def tokens_per_second(self):
        return 1e3 * TEXT / self.bench(0, TEXT)

    def continuation(self, prompt):
        return run_process([PEERS / "llama-completion", "-m", self.model, "-t", THREADS, "-no-cnv",
                            "--temp", "0", "-n", "24", "--no-display-prompt", "-p", prompt]).out


def check_texts(programs):
    for prompt in CONTINUED:
        texts = [normalize(program.continuation(prompt))[:EQUAL_WORDS] for program in programs]
        if texts[0] != texts[1]:
            raise SystemExit(f"\"{prompt}\" is continued by generate with \"{' '.join(texts[0])}\", by "
                             f"llama.cpp with \"{' '.join(texts[1])}\": expected the same words")


def measure(model, quick):
    load_before = os.getloadavg()[0]
    programs = [Generate(model), LlamaCpp(model)]
    check_texts(programs)
    versions = [vesper_version("generate"), peer_version("llama-bench")]
    tests = [(f"first token after {n:,} tokens", "ms", lambda program, n=n: program.prompt_ms(n))
             for n in PROMPTS]
    tests.append((f"{TEXT} tokens of text, tokens per second", "",
                  lambda program: program.tokens_per_second()))
    results = []
    for name, unit, run in tests:
        values = {program.name: [] for program in programs}
        for repetition in range(3 if quick else 5):
            for program in rotated(programs, repetition):
                values[program.name].append(run(program))
                note(f"{name}, {program.name}: {values[program.name][-1]:.1f} {unit}")
        results.append({"name": name, "unit": unit, "values": values})
    return {**conditions(versions, load_before), "model": pathlib.Path(model).stem, "tests": results}


def table(results):
    yield from header([results["model"], "generate", "llama.cpp"])
    for test in results["tests"]:
        ours, theirs = test["values"].values()
        unit = f" {test['unit']}" if test["unit"] else ""
        ratio = statistics.median(theirs) / statistics.median(ours)
        if not test["unit"]:  # a rate
            ratio = 1 / ratio
        yield row([test["name"], spread(ours, 0, unit), times_of(spread(theirs, 0, unit), ratio)])
    yield ""
    yield (f"Median (range) of {len(results['tests'][0]['values']['generate'])} runs in turn, and how "
           f"many times slower than `generate`; the same file, {THREADS} threads. Each answer of `generate` is a new "
           "process; llama-bench warms up first. Both continue three prompts with the same "
           f"{EQUAL_WORDS} words. {describe(results)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=MODEL)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    results = measure(options.model, options.quick)
    save("generate", results)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
