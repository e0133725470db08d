"""Reads the weights of a CTranslate2 Whisper folder, named as in OpenAI's checkpoints."""

import struct

F32, F16 = 0, 1
# Type numbers of CTranslate2, with struct's letter.
CT2_FLOATS = {0: "f", 4: "e"}


class Variable:
    """A variable of model.bin: shape, type number and raw little-endian data."""

    def __init__(self, shape, type_number, data):
        self.shape, self.type_number, self.data = shape, type_number, data

    def values(self):
        letter = CT2_FLOATS[self.type_number]
        return struct.unpack(f"<{len(self.data) // struct.calcsize('<' + letter)}{letter}", self.data)

    def rows(self, first, last):
        """Rows [first, last) of the outermost dimension."""
        row_bytes = len(self.data) // self.shape[0]
        return Variable((last - first,) + self.shape[1:], self.type_number,
                        self.data[first * row_bytes:last * row_bytes])

    def as_f16(self):
        if self.type_number == 4:
            return self.data
        values = self.values()
        return struct.pack(f"<{len(values)}e", *values)

    def as_f32(self):
        if self.type_number == 0:
            return self.data
        values = self.values()
        return struct.pack(f"<{len(values)}f", *values)


def read_model_bin(path):
    """The variables of a CTranslate2 model.bin by name."""
    data = path.read_bytes()
    position = 0

    def take(layout):
        nonlocal position
        (value,) = struct.unpack_from("<" + layout, data, position)
        position += struct.calcsize("<" + layout)
        return value

    def take_string():
        nonlocal position
        length = take("H")
        text = data[position:position + length - 1].decode()
        position += length
        return text

    version, spec = take("I"), take_string()
    take("I")  # revision of the spec
    if version != 6 or spec != "WhisperSpec":
        raise SystemExit(f"{path}: expected WhisperSpec of version 6, found {spec} of {version}")
    variables = {}
    for _ in range(take("I")):
        name = take_string()
        shape = tuple(take("I") for _ in range(take("B")))
        type_number, n_bytes = take("B"), take("I")
        variables[name] = Variable(shape, type_number, data[position:position + n_bytes])
        position += n_bytes
    return variables


def ggml_tensors(variables):
    """Yields (name as in OpenAI's checkpoints, shape, type, data)."""

    def vector(name, variable):
        return name, variable.shape, F32, variable.as_f32()

    def matrix(name, variable):
        return name, variable.shape, F16, variable.as_f16()

    def linear(name, source, first=None, last=None, bias=True):
        weight, offsets = variables[source + "/weight"], variables[source + "/bias"]
        if first is not None:
            weight, offsets = weight.rows(first, last), offsets.rows(first, last)
        yield matrix(name + ".weight", weight)
        if bias:
            yield vector(name + ".bias", offsets)

    def norm(name, source):
        yield vector(name + ".weight", variables[source + "/gamma"])
        yield vector(name + ".bias", variables[source + "/beta"])

    def layers(side):
        n = 0
        while f"{side}/layer_{n}/ffn/linear_0/weight" in variables:
            yield n, f"{side}/layer_{n}", f"{side}.blocks.{n}"
            n += 1

    width = variables["encoder/position_encodings/encodings"].shape[1]
    for conv in ("conv1", "conv2"):
        yield matrix(f"encoder.{conv}.weight", variables[f"encoder/{conv}/weight"])
        bias = variables[f"encoder/{conv}/bias"]
        yield vector(f"encoder.{conv}.bias", Variable((width, 1), bias.type_number, bias.data))
    for side in ("encoder", "decoder"):
        yield vector(f"{side}.positional_embedding", variables[f"{side}/position_encodings/encodings"])
        for _, source, name in layers(side):
            yield from norm(name + ".attn_ln", source + "/self_attention/layer_norm")
            fused = source + "/self_attention/linear_0"
            yield from linear(name + ".attn.query", fused, 0, width)
            yield from linear(name + ".attn.key", fused, width, 2 * width, bias=False)
            yield from linear(name + ".attn.value", fused, 2 * width, 3 * width)
            yield from linear(name + ".attn.out", source + "/self_attention/linear_1")
            if side == "decoder":
                yield from norm(name + ".cross_attn_ln", source + "/attention/layer_norm")
                yield from linear(name + ".cross_attn.query", source + "/attention/linear_0")
                fused = source + "/attention/linear_1"
                yield from linear(name + ".cross_attn.key", fused, 0, width, bias=False)
                yield from linear(name + ".cross_attn.value", fused, width, 2 * width)
                yield from linear(name + ".cross_attn.out", source + "/attention/linear_2")
            yield from norm(name + ".mlp_ln", source + "/ffn/layer_norm")
            yield from linear(name + ".mlp.0", source + "/ffn/linear_0")
            yield from linear(name + ".mlp.2", source + "/ffn/linear_1")
    yield from norm("encoder.ln_post", "encoder/layer_norm")
    yield from norm("decoder.ln", "decoder/layer_norm")
    yield matrix("decoder.token_embedding.weight", variables["decoder/embeddings/weight"])
