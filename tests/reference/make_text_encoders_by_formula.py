#!/usr/bin/env python3
"""Makes the tiny text encoders of tests/encoder/text_encoders/ that transformers lacks. Their authors
publish the code beside the weights; this is an independent implementation in f64:

- `new`: GTE of 2024 (Alibaba-NLP/gte-base-en-v1.5 and others; Zhang et al., "mGTE", 2024).
  BERT with rotary embeddings and NTK scaling: a base `factor` times as large, and angles divided by
  factor^(2 / head_dim). Feed-forward blocks have a gate with exact GELU, below the up rows in one
  matrix.
- `jina-bert`: jina-embeddings-v2 (Guenther et al., "Jina Embeddings 2", 2023). BERT with ALiBi
  (Press et al., 2022) in both directions instead of position embeddings. The gate, with exact GELU,
  is above the up rows.

    python3 -m venv venv && venv/bin/pip install numpy safetensors
    venv/bin/python tests/reference/make_text_encoders_by_formula.py tests/encoder/text_encoders

Writes the same files as make_text_encoders.py: a random model in f32 with its config.json, and
reference.safetensors with `ids`, two texts of 5 and 23 tokens, concatenated, and `rows`, the last
hidden states of each text alone. The fixtures in the repository were made with numpy 2.4.6 and safetensors 0.8.0.
"""
import json
import math
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

LENGTHS = [5, 23]
COMMON = dict(vocab_size=64, intermediate_size=48, num_hidden_layers=2, hidden_act="gelu",
              layer_norm_eps=1e-12, max_position_embeddings=64)
CONFIGS = {
    "new": dict(COMMON, model_type="new", hidden_size=64, num_attention_heads=2,
                type_vocab_size=2, position_embedding_type="rope", rope_theta=10000.0,
                rope_scaling=dict(type="ntk", factor=8.0), layer_norm_type="layer_norm",
                logn_attention_scale=False, logn_attention_clip1=False),
    # Three heads, not a power of two, to test the slopes between others.
    "jina-bert": dict(COMMON, model_type="bert", hidden_size=96, num_attention_heads=3,
                      type_vocab_size=2, position_embedding_type="alibi",
                      feed_forward_type="geglu"),
}
erf = np.vectorize(math.erf)


def gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def slopes(n_heads):
    """The slope of each head's scores: those of the paper for a power of two; else those of the
    power of two below, then every second one of the power above."""
    def geometric(n):
        return [2 ** (-8 * (i + 1) / n) for i in range(n)]
    n = 2 ** int(math.log2(n_heads))
    return geometric(n) + geometric(2 * n)[0::2][:n_heads - n]


def rotate(x, config):
    """x [n, heads, head_dim], a pair being a number of each half."""
    head_dim, factor = x.shape[-1], config["rope_scaling"]["factor"]
    base = config["rope_theta"] * factor
    frequencies = base ** (-np.arange(0, head_dim, 2) / head_dim) / factor ** (2 / head_dim)
    angles = np.arange(len(x))[:, None] * frequencies
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


class Model:
    def __init__(self, name):
        self.name, self.config = name, CONFIGS[name]
        self.random = np.random.default_rng(sum(map(ord, name)))
        self.weights = {}

    def weight(self, key, *shape):
        if key not in self.weights:
            spread, mean = (0.3, 0.7) if "norm" in key.lower() or "_ln" in key else (0.25, 0.0)
            self.weights[key] = (self.random.standard_normal(shape) * spread + mean).astype("f4")
        return self.weights[key].astype(np.float64)

    def linear(self, key, x, n_out, bias=True):
        y = x @ self.weight(key + ".weight", n_out, x.shape[-1]).T
        return y + self.weight(key + ".bias", n_out) if bias else y

    def norm(self, key, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return x * self.weight(key + ".weight", x.shape[-1]) + self.weight(key + ".bias",
                                                                          x.shape[-1])

    def attention(self, q, k, v):
        """q, k, v [n, heads, head_dim] -> [n, heads * head_dim]."""
        n, n_heads, head_dim = q.shape
        scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(head_dim)
        if self.config["position_embedding_type"] == "alibi":
            at = np.arange(n)
            distance = abs(at[:, None] - at[None, :])
            scores -= np.array(slopes(n_heads))[:, None, None] * distance
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return np.einsum("hij,jhd->ihd", scores, v).reshape(n, -1)

    def rows(self, ids):
        config, d = self.config, self.config["hidden_size"]
        heads = (len(ids), config["num_attention_heads"], -1)
        x = (self.weight("embeddings.word_embeddings.weight", config["vocab_size"], d)[ids]
             + self.weight("embeddings.token_type_embeddings.weight", config["type_vocab_size"],
                           d)[0])
        x = self.norm("embeddings.LayerNorm", x)
        for layer in range(config["num_hidden_layers"]):
            block = self.new_layer if self.name == "new" else self.jina_layer
            x = block(f"encoder.layer.{layer}.", x, heads)
        return x

    def new_layer(self, at, x, heads):
        d, wide = x.shape[-1], self.config["intermediate_size"]
        qkv = self.linear(at + "attention.qkv_proj", x, 3 * d)
        q, k, v = (part.reshape(heads) for part in np.split(qkv, 3, axis=-1))
        attended = self.attention(rotate(q, self.config), rotate(k, self.config), v)
        x = self.norm(at + "attn_ln", x + self.linear(at + "attention.o_proj", attended, d))
        up, gate = np.split(self.linear(at + "mlp.up_gate_proj", x, 2 * wide, bias=False), 2, -1)
        return self.norm(at + "mlp_ln", x + self.linear(at + "mlp.down_proj", gelu(gate) * up, d))

    def jina_layer(self, at, x, heads):
        d, wide = x.shape[-1], self.config["intermediate_size"]
        q, k, v = (self.linear(at + "attention.self." + part, x, d).reshape(heads)
                   for part in ("query", "key", "value"))
        attended = self.linear(at + "attention.output.dense", self.attention(q, k, v), d)
        x = self.norm(at + "attention.output.LayerNorm", x + attended)
        gate, up = np.split(self.linear(at + "mlp.gated_layers", x, 2 * wide, bias=False), 2, -1)
        return self.norm(at + "mlp.layernorm", x + self.linear(at + "mlp.wo", gelu(gate) * up, d))


def main():
    target = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or CONFIGS:
        model, folder = Model(name), target / name
        texts = [model.random.integers(3, model.config["vocab_size"], n) for n in LENGTHS]
        rows = [model.rows(text) for text in texts]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(model.config, indent=2) + "\n")
        save_file(model.weights, folder / "model.safetensors")
        save_file({"ids": np.concatenate(texts).astype("i4"),
                   "rows": np.concatenate(rows).astype("f4")}, folder / "reference.safetensors")
        print(name, rows[-1][-1][:4].round(2).tolist())


if __name__ == "__main__":
    main()
