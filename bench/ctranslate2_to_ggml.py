#!/usr/bin/env python3
"""Converts a CTranslate2 Whisper folder to whisper.cpp's f16 .bin, for equal weights.

    bench/ctranslate2_to_ggml.py MODEL_FOLDER OUTPUT.bin

The folder has model.bin (f16 or f32), and vocabulary.txt or vocabulary.json. f16 matrices are copied
bit by bit; f32 tensors of whisper.cpp (biases, norms, positions) are widened without loss.

Layout of a .bin, little-endian:

    i32 0x67676d6c, then 11 i32: vocabulary, audio context, width, heads and layers of the encoder,
        text context, width, heads and layers of the decoder, mel bands, 1 for f16
    i32 bands, i32 201, f32 [bands, 201]     the mel filters
    i32 tokens, then i32 length and bytes of each: all below <|endoftext|>
    tensors to the end of the file: i32 rank, i32 name length, i32 type (0 f32, 1 f16),
        i32 dimensions (innermost first), name, data
"""

import json
import math
import pathlib
import struct
import sys

SPECTRUM_BINS = 201
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


def byte_of_character():
    """Byte-level BPE's characters of bytes: printable Latin-1 unchanged, the others from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    table.update({chr(0x100 + i): byte for i, byte in enumerate(others)})
    return table


def read_tokens(folder):
    """The bytes of every token below <|endoftext|>, by id."""
    if (folder / "vocabulary.json").is_file():
        spellings = json.loads((folder / "vocabulary.json").read_text("utf-8"))
    else:
        spellings = (folder / "vocabulary.txt").read_text("utf-8").split("\n")
    table = byte_of_character()
    end = spellings.index("<|endoftext|>")
    return [bytes(table[character] for character in spelling) for spelling in spellings[:end]]


def slaney_filters(n_mels):
    """[n_mels, 201] triangles of equal area, evenly spaced from 0 to 8 kHz on Slaney's mel scale."""
    hz_per_mel, break_hz, step = 200 / 3, 1000.0, math.log(6.4) / 27
    break_mel = break_hz / hz_per_mel

    def mel_of(hz):
        return hz / hz_per_mel if hz < break_hz else break_mel + math.log(hz / break_hz) / step

    def hz_of(mel):
        return mel * hz_per_mel if mel < break_mel else break_hz * math.exp((mel - break_mel) * step)

    corners = [hz_of(mel_of(8000.0) * i / (n_mels + 1)) for i in range(n_mels + 2)]
    filters = []
    for low, middle, high in zip(corners, corners[1:], corners[2:]):
        for bin_number in range(SPECTRUM_BINS):
            hz = 40.0 * bin_number
            rising, falling = (hz - low) / (middle - low), (high - hz) / (high - middle)
            filters.append(max(0.0, min(rising, falling)) * 2 / (high - low))
    return filters


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


def convert(folder, output):
    folder, output = pathlib.Path(folder), pathlib.Path(output)
    variables = read_model_bin(folder / "model.bin")
    for name, variable in variables.items():
        if name.endswith("weight") and variable.type_number not in CT2_FLOATS:
            raise SystemExit(f"{folder}: expected f16 or f32 weights, found type "
                             f"{variable.type_number} in {name}")

    def n_layers(side):
        return len({name.split("/")[1] for name in variables if name.startswith(f"{side}/layer_")
                    and not name.startswith(f"{side}/layer_norm")})

    def n_heads(side):
        return struct.unpack("<h", variables[f"{side}/num_heads"].data)[0]

    n_vocabulary, text_width = variables["decoder/embeddings/weight"].shape
    audio_context, audio_width = variables["encoder/position_encodings/encodings"].shape
    text_context = variables["decoder/position_encodings/encodings"].shape[0]
    n_mels = variables["encoder/conv1/weight"].shape[1]
    tokens = read_tokens(folder)

    unfinished = output.with_name(output.name + ".unfinished")
    with open(unfinished, "wb") as file:
        file.write(struct.pack(
            "<12i", 0x67676D6C, n_vocabulary, audio_context, audio_width, n_heads("encoder"),
            n_layers("encoder"), text_context, text_width, n_heads("decoder"), n_layers("decoder"),
            n_mels, 1))
        filters = slaney_filters(n_mels)
        file.write(struct.pack(f"<2i{len(filters)}f", n_mels, SPECTRUM_BINS, *filters))
        file.write(struct.pack("<i", len(tokens)))
        for token in tokens:
            file.write(struct.pack("<i", len(token)) + token)
        for name, shape, type_number, data in ggml_tensors(variables):
            file.write(struct.pack(f"<3i{len(shape)}i", len(shape), len(name), type_number,
                                   *reversed(shape)))
            file.write(name.encode() + data)
    unfinished.rename(output)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: ctranslate2_to_ggml.py MODEL_FOLDER OUTPUT.bin")
    convert(sys.argv[1], sys.argv[2])
