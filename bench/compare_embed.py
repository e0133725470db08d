#!/usr/bin/env python3
"""Compares embed with ONNX Runtime on the same weights and token ids, runs in turn.

    bench/compare_embed.py [--quick] [MODEL_FOLDER]    # after bench/peers.sh; prints a table

Two loads: 32 texts of 128 tokens, and 256 texts of 8 to 256 tokens, which ONNX Runtime gets sorted by
length, in padded batches of 32. ONNX Runtime's graph has the fused operators of its optimizer; int8 is
its dynamic quantization. Vectors have to agree with ONNX Runtime's at f32. Needs
build/embedding_bench (cmake -DVESPER_BENCH=ON).
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from comparison import (MODELS, PEERS, ROOT, conditions, describe, header, machine, note, row,
                        rotated, save, spread, times_of, vesper_version)

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnxruntime.quantization import quantize_dynamic
except ImportError:  # main() runs the peers' Python, which has them; the table needs none
    pass

MODEL = MODELS / "all-minilm-l6-v2"
THREADS = 2
# Least cosine of a vector with ONNX Runtime's at f32, by precision; int8 is shown, not checked.
AGREEMENT = {"f32": 0.9999, "bf16": 0.999}


class Embed:
    def __init__(self, precision, folder, texts):
        self.ids_file = folder / f"ids-{precision}"
        self.ids_file.write_text("".join(" ".join(map(str, text)) + "\n" for text in texts))
        self.process = subprocess.Popen(
            [ROOT / "build/embedding_bench", folder / "model", precision, str(THREADS),
             self.ids_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        answer = self.process.stdout.readline().split()
        if not answer or answer[0] != "ready":
            raise SystemExit("compare_embed: embedding_bench did not start")
        self.dimensions = int(answer[1])

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        """The vectors."""
        self.process.stdin.close()
        self.process.wait()
        vectors = np.fromfile(self.ids_file.with_name(self.ids_file.name + ".f32"), np.float32)
        return vectors.reshape(-1, self.dimensions)


class OnnxRuntime:
    def __init__(self, file, texts):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        self.session = onnxruntime.InferenceSession(file, options,
                                                    providers=["CPUExecutionProvider"])
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        self.batches = []
        for first in range(0, len(order), 32):
            indices = order[first:first + 32]
            longest = max(len(texts[i]) for i in indices)
            ids = np.zeros((len(indices), longest), np.int32)
            mask = np.zeros_like(ids)
            for i, text in enumerate(indices):
                ids[i, :len(texts[text])] = texts[text]
                mask[i, :len(texts[text])] = 1
            self.batches.append((indices, {"input_ids": ids, "mask": mask}))
        self.vectors = np.zeros((len(texts), self.session.get_outputs()[0].shape[1]), np.float32)
        self.run()

    def run(self):
        start = time.perf_counter()
        for indices, batch in self.batches:
            self.vectors[indices] = self.session.run(None, batch)[0]
        return time.perf_counter() - start

    def end(self):
        return self.vectors


def measure_load(name, texts, folder, repetitions):
    # The first is the default of this CPU.
    precisions = ["bf16", "f32"] if "bf16" in machine() else ["f32"]
    engines = {
        **{f"embed, {precision}": Embed(precision, folder, texts) for precision in precisions},
        "ONNX Runtime, f32": OnnxRuntime(folder / "model.onnx", texts),
        "ONNX Runtime, int8": OnnxRuntime(folder / "model-int8.onnx", texts),
    }
    rates = {engine: [] for engine in engines}
    for repetition in range(repetitions):
        for engine in rotated(engines, repetition):
            time.sleep(0.3)  # ONNX Runtime's threads spin for a while after their work
            rates[engine].append(len(texts) / engines[engine].run())
            note(f"{name}, {engine}: {rates[engine][-1]:.0f} texts/s")
    vectors = {engine: runner.end() for engine, runner in engines.items()}
    cosines = {engine: float(np.sum(found * vectors["ONNX Runtime, f32"], axis=1).min())
               for engine, found in vectors.items()}
    for precision in precisions:
        least = AGREEMENT[precision]
        if cosines[f"embed, {precision}"] < least:
            raise SystemExit(f"{name}: embed's vectors at {precision} have a cosine of "
                             f"{cosines[f'embed, {precision}']:.5f} with ONNX Runtime's, expected at "
                             f"least {least}")
    return {"name": name, "rates": rates, "cosines": cosines}


def measure(model, quick):
    load_before = os.getloadavg()[0]
    versions = [vesper_version("embed"), f"ONNX Runtime {onnxruntime.__version__}"]
    chance = np.random.default_rng(1)
    loads = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "model").symlink_to(model)
        subprocess.run([sys.executable, ROOT / "bench/bert_to_onnx.py", model, folder / "model.onnx"],
                       check=True)
        quantize_dynamic(folder / "model.onnx", folder / "model-int8.onnx",
                         per_channel=True,
                         extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
        for name, lengths in (("32 texts of 128 tokens", [128] * 32),
                              ("256 texts of 8 to 256 tokens", chance.integers(8, 257, 256))):
            texts = [[101, *chance.integers(1000, 30000, n - 2).tolist(), 102] for n in lengths]
            loads.append(measure_load(name, texts, folder, 7 if quick else 9))
    return {**conditions(versions, load_before), "model": pathlib.Path(model).name, "loads": loads}


def table(results):
    loads = results["loads"]
    engines = list(loads[0]["rates"])
    yield from header([f"{results['model']}, texts per second", *engines])
    for load in loads:
        ours = statistics.median(load["rates"][engines[0]])
        yield row([load["name"], *(
            spread(rates, 0) if engine == engines[0] else
            times_of(spread(rates, 0), ours / statistics.median(rates))
            for engine, rates in load["rates"].items())])
    yield row(["least cosine with ONNX Runtime, f32", *(
        f"{min(load['cosines'][engine] for load in loads):.4f}" for engine in engines)])
    yield ""
    yield (f"Median (range) of {len(loads[0]['rates'][engines[0]])} runs in turn, and how many times "
           f"slower than `{engines[0]}`, the default on this CPU; {THREADS} threads. {describe(results)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=MODEL)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    python = PEERS / "venv/bin/python"
    if not python.exists():
        raise SystemExit(f"{python} is missing: run bench/peers.sh")
    if pathlib.Path(sys.prefix).resolve() != (PEERS / "venv").resolve():
        os.execv(python, [str(python), *sys.argv])
    results = measure(options.model, options.quick)
    save("embed", results)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
