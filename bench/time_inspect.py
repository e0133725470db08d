#!/usr/bin/env python3
"""Times `inspect` on a large model: a sparse GGUF file of 4.5 GB in the shape of Llama-3.1-8B, Q4_0,
with a vocabulary of 128,256 tokens.

    bench/time_inspect.py [--build build] [--runs 15] [INSPECT OPTION]...

Prints minimum and median milliseconds of whole processes with the header in the page cache: all
devices, CPU only, and `--devices`, the time of the drivers.
"""
import argparse
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile
import time

N_TOKENS, N_SPECIAL, N_LAYERS, WIDTH, WIDE, KEYS = 128000, 256, 32, 4096, 14336, 1024
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
F32, Q4_0 = 0, 2


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def vocabulary():
    """Tokens that merge from letters, and every merge of two tokens to a third."""
    rng = random.Random(1)
    tokens = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256),
                               *range(256, 324)]]
    letters = [*"abcdefghijklmnopqrstuvwxyz", "\u0120"]
    known, pool = set(tokens), list(letters)
    while len(tokens) < N_TOKENS:
        token = rng.choice(pool) + rng.choice(letters)
        if len(token) <= 12 and token not in known:
            known.add(token)
            tokens.append(token)
            pool.append(token)
    merges = [f"{t[:i]} {t[i:]}" for t in tokens[256:] for i in range(1, len(t))
              if t[:i] in known and t[i:] in known]
    return tokens, merges


def write_model(path):
    tokens, merges = vocabulary()
    types = [1] * len(tokens) + [3] * N_SPECIAL
    tokens += [f"<|special_{i}|>" for i in range(N_SPECIAL)]
    entries = []

    def add(key, kind, value):
        entries.append(text(key) + struct.pack("<I", kind) + value)

    def add_array(key, kind, values):
        add(key, ARRAY, struct.pack("<IQ", kind, len(values)) + b"".join(values))

    add("general.architecture", STRING, text("llama"))
    for key, value in {"block_count": N_LAYERS, "context_length": 8192, "embedding_length": WIDTH,
                       "feed_forward_length": WIDE, "attention.head_count": 32,
                       "attention.head_count_kv": 8, "rope.dimension_count": 128,
                       "vocab_size": len(tokens)}.items():
        add("llama." + key, UINT32, struct.pack("<I", value))
    add("llama.rope.freq_base", FLOAT32, struct.pack("<f", 500000))
    add("llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", 1e-5))
    add("tokenizer.ggml.model", STRING, text("gpt2"))
    add("tokenizer.ggml.pre", STRING, text("llama-bpe"))
    add_array("tokenizer.ggml.tokens", STRING, [text(token) for token in tokens])
    add_array("tokenizer.ggml.token_type", INT32, [struct.pack("<i", kind) for kind in types])
    add_array("tokenizer.ggml.merges", STRING, [text(merge) for merge in merges])

    tensors = [("token_embd.weight", (WIDTH, len(tokens))), ("output_norm.weight", (WIDTH,)),
               ("output.weight", (WIDTH, len(tokens)))]
    for layer in range(N_LAYERS):
        for name, shape in {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH),
                            "attn_k": (WIDTH, KEYS), "attn_v": (WIDTH, KEYS),
                            "attn_output": (WIDTH, WIDTH), "ffn_gate": (WIDTH, WIDE),
                            "ffn_up": (WIDTH, WIDE), "ffn_down": (WIDE, WIDTH)}.items():
            tensors.append((f"blk.{layer}.{name}.weight", shape))
    directory, offset = b"", 0
    for name, shape in tensors:
        is_vector = len(shape) == 1
        n_bytes = shape[0] * 4 if is_vector else shape[0] * shape[1] // 32 * 18
        directory += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape,
                                              F32 if is_vector else Q4_0, offset)
        offset += (n_bytes + 31) // 32 * 32
    header = (b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
              + directory)
    header += b"\0" * (-len(header) % 32)
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + offset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--runs", type=int, default=15)
    options, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "sparse.gguf"
        write_model(model)
        print(f"a file of {model.stat().st_size / 1e9:.1f} GB")
        for arguments in ([str(model), *more], ["--device", "cpu", str(model), *more],
                          ["--devices"]):
            times = []
            for _ in range(options.runs + 1):
                start = time.perf_counter()
                subprocess.run([f"{options.build}/inspect", *arguments], check=True,
                               stdout=subprocess.DEVNULL)
                times.append(1000 * (time.perf_counter() - start))
            shown = " ".join(arguments).replace(str(model), "FILE")
            print(f"inspect {shown}: least {min(times[1:]):.0f} ms, "
                  f"median {statistics.median(times[1:]):.0f} ms")


if __name__ == "__main__":
    main()
