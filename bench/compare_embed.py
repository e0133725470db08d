#!/usr/bin/env python3
"""Compares embeddings per second with ONNX Runtime, same weights and token ids, alternating runs.

    bench/compare_embed.py [--threads 2] [--runs 7] [--build build] [--model FOLDER]
                           [--batch-tokens N]

Prints a table for the README. Two loads: 32 texts of 128 tokens, and 256 texts of 8 to 256 tokens,
sorted by length in padded batches of 32 for ONNX Runtime. Prints medians and compares vectors.
Needs: pip install onnxruntime onnx numpy; build/embedding_bench (cmake -DVESPER_BENCH=ON).
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime


class Ours:
    def __init__(self, build, model, compute, threads, ids_file, batch_tokens):
        self.vectors_file = ids_file + ".f32"
        self.process = subprocess.Popen(
            [f"{build}/embedding_bench", model, compute, str(threads), ids_file, *batch_tokens],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        answer = self.process.stdout.readline().split()
        if not answer or answer[0] != "ready":
            sys.exit("compare_embed: embedding_bench did not start")
        self.dimensions = int(answer[1])

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        return np.fromfile(self.vectors_file, np.float32).reshape(-1, self.dimensions)


class OnnxRuntime:
    def __init__(self, onnx_file, threads, texts):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(onnx_file, options,
                                                    providers=["CPUExecutionProvider"])
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        self.batches = []
        for first in range(0, len(order), 32):
            indices = order[first:first + 32]
            longest = max(len(texts[i]) for i in indices)
            ids = np.zeros((len(indices), longest), np.int32)
            mask = np.zeros_like(ids)
            for row, i in enumerate(indices):
                ids[row, :len(texts[i])] = texts[i]
                mask[row, :len(texts[i])] = 1
            self.batches.append((indices, {"input_ids": ids, "mask": mask}))
        self.vectors = np.zeros((len(texts), self.session.get_outputs()[0].shape[1]), np.float32)
        self.run()

    def run(self):
        start = time.perf_counter()
        for indices, batch in self.batches:
            self.vectors[indices] = self.session.run(None, batch)[0]
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--build", default="build")
    parser.add_argument("--batch-tokens", action="append", default=[],
                        help="of ours, at once (default: what embed takes)")
    parser.add_argument("--model", default=str(
        pathlib.Path.home() / ".cache/vesper/models/all-minilm-l6-v2"))
    options = parser.parse_args()
    random = np.random.default_rng(1)
    loads = {
        "32 texts of 128 tokens": [128] * 32,
        "256 texts of 8 to 256 tokens": random.integers(8, 257, 256).tolist(),
    }
    print(f"| embeddings/s, all-MiniLM-L6-v2, {options.threads} threads | ONNX Runtime "
          f"{onnxruntime.__version__} f32 | embed f32 | embed bf16 |")
    print("|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        onnx_file = f"{folder}/model.onnx"
        subprocess.run([sys.executable, str(pathlib.Path(__file__).with_name("bert_to_onnx.py")),
                        options.model, onnx_file], check=True)
        for name, lengths in loads.items():
            texts = [[101, *random.integers(1000, 30000, n - 2).tolist(), 102] for n in lengths]
            engines = {"onnx": OnnxRuntime(onnx_file, options.threads, texts)}
            for compute in ("f32", "bf16"):
                ids_file = f"{folder}/ids-{compute}"
                pathlib.Path(ids_file).write_text(
                    "".join(" ".join(map(str, text)) + "\n" for text in texts))
                engines[compute] = Ours(options.build, options.model, compute, options.threads,
                                        ids_file, options.batch_tokens)
            seconds = {engine: [] for engine in engines}
            for _ in range(options.runs):
                for engine, runner in engines.items():
                    # ONNX Runtime's threads spin for a while after their work.
                    time.sleep(0.3)
                    seconds[engine].append(runner.run())
            rate = {engine: len(texts) / statistics.median(times)
                    for engine, times in seconds.items()}
            print(f"| {name} | {rate['onnx']:.0f} | "
                  f"{rate['f32']:.0f} ({rate['f32'] / rate['onnx']:.2f}x) | "
                  f"{rate['bf16']:.0f} ({rate['bf16'] / rate['onnx']:.2f}x) |", flush=True)
            for compute in ("f32", "bf16"):
                vectors = engines[compute].end()
                cosine = np.sum(vectors * engines["onnx"].vectors, axis=1)
                print(f"compare_embed: {name}, {compute}: least cosine {cosine.min():.7f}; best "
                      f"{len(texts) / min(seconds[compute]):.0f}/s against "
                      f"{len(texts) / min(seconds['onnx']):.0f}/s", file=sys.stderr)


if __name__ == "__main__":
    main()
