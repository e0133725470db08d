#!/usr/bin/env python3
"""Converts a Hugging Face BERT (safetensors, f32) to an ONNX file for bench/compare_embed.py.

    bench/bert_to_onnx.py MODEL_FOLDER OUT.onnx

The graph uses the fused operators of ONNX Runtime's optimizer (EmbedLayerNormalization, Attention,
SkipLayerNormalization, BiasGelu), for its best speed.
Inputs: input_ids, mask, int32 [texts, tokens]. Output: embeddings, mean over the mask, L2 norm 1.
Needs: pip install onnx numpy
"""
import json
import pathlib
import struct
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + size + begin:8 + size + end], np.float32)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def main():
    folder, target = pathlib.Path(sys.argv[1]), sys.argv[2]
    config = json.loads((folder / "config.json").read_text())
    weights = read_safetensors(folder / "model.safetensors")
    heads, epsilon = config["num_attention_heads"], config["layer_norm_eps"]
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def tensor(name):
        return constant(name, weights[name])

    def node(kind, inputs, outputs, domain="com.microsoft", **attributes):
        nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def linear(stem, x, out):
        product = node("MatMul", [x, constant(stem + ".t", weights[stem + ".weight"].T)],
                       [out + ".product"], "")
        return product

    x = node("EmbedLayerNormalization",
             ["input_ids", "", tensor("embeddings.word_embeddings.weight"),
              constant("positions", weights["embeddings.position_embeddings.weight"] +
                       weights["embeddings.token_type_embeddings.weight"][0]),
              "", tensor("embeddings.LayerNorm.weight"), tensor("embeddings.LayerNorm.bias"),
              "mask"], ["x", "lengths"], epsilon=epsilon)
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        parts = [layer + f"attention.self.{part}." for part in ("query", "key", "value")]
        qkv = constant(layer + "qkv", np.concatenate([weights[p + "weight"] for p in parts]).T)
        bias = constant(layer + "qkv.bias", np.concatenate([weights[p + "bias"] for p in parts]))
        attended = node("Attention", [x, qkv, bias, "mask"], [layer + "attended"],
                        num_heads=heads)
        out = linear(layer + "attention.output.dense", attended, layer + "attention")
        x = node("SkipLayerNormalization",
                 [out, x, tensor(layer + "attention.output.LayerNorm.weight"),
                  tensor(layer + "attention.output.LayerNorm.bias"),
                  tensor(layer + "attention.output.dense.bias")], [layer + "x1"], epsilon=epsilon)
        up = linear(layer + "intermediate.dense", x, layer + "up")
        hidden = node("BiasGelu", [up, tensor(layer + "intermediate.dense.bias")],
                      [layer + "hidden"])
        down = linear(layer + "output.dense", hidden, layer + "down")
        x = node("SkipLayerNormalization",
                 [down, x, tensor(layer + "output.LayerNorm.weight"),
                  tensor(layer + "output.LayerNorm.bias"), tensor(layer + "output.dense.bias")],
                 [layer + "x2"], epsilon=epsilon)
    node("Cast", ["mask"], ["mask.f32"], "", to=TensorProto.FLOAT)
    node("Unsqueeze", ["mask.f32", constant("last", np.array([2], np.int64))], ["mask.3d"], "")
    node("Mul", [x, "mask.3d"], ["masked"], "")
    node("ReduceSum", ["masked", constant("tokens", np.array([1], np.int64))], ["sum"], "",
         keepdims=0)  # a mean but for its length, which goes with the next step
    node("LpNormalization", ["sum"], ["embeddings"], "", axis=1, p=2)
    ids = [helper.make_tensor_value_info(name, TensorProto.INT32, ["texts", "tokens"])
           for name in ("input_ids", "mask")]
    result = helper.make_tensor_value_info("embeddings", TensorProto.FLOAT,
                                           ["texts", config["hidden_size"]])
    graph = helper.make_graph(nodes, "bert", ids, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                    helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 9
    save(model, target)


if __name__ == "__main__":
    main()
