#!/usr/bin/env python3
"""The error of embeddings: their distance from the same model computed in f64.

    bench/embedding_error.py MODEL_FOLDER TEXTS.txt VECTORS.f32...

MODEL_FOLDER is all-minilm-l6-v2 or another BERT with mean pooling and normalized vectors. Each
VECTORS.f32 is the output of `embed --model MODEL_FOLDER --input TEXTS.txt --format f32`. Prints the
largest and the root mean square distance of the vectors of each file. Needs numpy, scipy,
safetensors and tokenizers.
"""

import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer


class Bert:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {name: tensor.astype(np.float64)
                        for name, tensor in load_file(folder / "model.safetensors").items()}

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return x * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def layer(self, x, name):
        n_heads = self.config["num_attention_heads"]
        q, k, v = (self.linear(x, f"{name}.attention.self.{part}")
                   .reshape(len(x), n_heads, -1).transpose(1, 0, 2)
                   for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = weights / weights.sum(-1, keepdims=True) @ v
        mixed = mixed.transpose(1, 0, 2).reshape(x.shape)
        x = self.norm(self.linear(mixed, f"{name}.attention.output.dense") + x,
                      f"{name}.attention.output.LayerNorm")
        hidden = self.linear(x, f"{name}.intermediate.dense")
        hidden = 0.5 * hidden * (1 + erf(hidden / np.sqrt(2)))
        return self.norm(self.linear(hidden, f"{name}.output.dense") + x,
                         f"{name}.output.LayerNorm")

    def embed(self, ids):
        tables = [f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")]
        x = (self.weights[tables[0]][ids] + self.weights[tables[1]][:len(ids)]
             + self.weights[tables[2]][0])
        x = self.norm(x, "embeddings.LayerNorm")
        for i in range(self.config["num_hidden_layers"]):
            x = self.layer(x, f"encoder.layer.{i}")
        vector = x.mean(0)
        return vector / np.linalg.norm(vector)


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    bert = Bert(folder)
    texts = pathlib.Path(sys.argv[2]).read_text().splitlines()
    exact = np.array([bert.embed(tokenizer.encode(text).ids) for text in texts])
    for path in sys.argv[3:]:
        vectors = np.fromfile(path, np.float32).astype(np.float64).reshape(exact.shape)
        distance = np.linalg.norm(vectors - exact, axis=1)
        print(f"{path}: largest {distance.max():.2e}, rms {np.sqrt((distance ** 2).mean()):.2e}")


if __name__ == "__main__":
    main()
