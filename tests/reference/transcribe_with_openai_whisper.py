#!/usr/bin/env python3
"""Prints what openai-whisper makes of a recording with the weights of a CTranslate2 folder, in f32 on
the CPU, for the goldens of tests/decoder/windows/long_recording_test.cc:

    transcribe_with_openai_whisper.py MODEL_FOLDER RECORDING [OPTION=VALUE]...

OPTION is one of whisper.transcribe, such as language=fr beam_size=5. Without one: temperature 0.

Needs: pip install openai-whisper==20250625, and ffmpeg
"""
import ast
import pathlib
import sys

import numpy
import torch
import whisper

import ctranslate2_whisper


def load(folder):
    variables = ctranslate2_whisper.read_model_bin(pathlib.Path(folder) / "model.bin")

    def n_layers(side):
        return len({name.split("/")[1] for name in variables if name.startswith(f"{side}/layer_")
                    and name.split("/")[1] != "layer_norm"})

    def n_heads(side):
        return int.from_bytes(variables[f"{side}/num_heads"].data, "little")

    n_vocab, width = variables["decoder/embeddings/weight"].shape
    model = whisper.model.Whisper(whisper.ModelDimensions(
        n_mels=variables["encoder/conv1/weight"].shape[1],
        n_audio_ctx=variables["encoder/position_encodings/encodings"].shape[0],
        n_audio_state=width, n_audio_head=n_heads("encoder"), n_audio_layer=n_layers("encoder"),
        n_vocab=n_vocab, n_text_ctx=variables["decoder/position_encodings/encodings"].shape[0],
        n_text_state=width, n_text_head=n_heads("decoder"), n_text_layer=n_layers("decoder")))
    state = model.state_dict()
    for name, _, type_number, data in ctranslate2_whisper.ggml_tensors(variables):
        is_f16 = type_number == ctranslate2_whisper.F16
        values = numpy.frombuffer(data, "<f2" if is_f16 else "<f4").astype("f4")
        state[name] = torch.from_numpy(values).reshape(state[name].shape)
    model.load_state_dict(state)
    return model


def value_of(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def main():
    folder, recording, *given = sys.argv[1:]
    options = {"temperature": 0, **{name: value_of(value) for name, value in
                                    (option.split("=", 1) for option in given)}}
    result = load(folder).transcribe(recording, fp16=False, **options)
    for segment in result["segments"]:
        print(f"{segment['seek'] / 100:6.2f} {segment['start']:6.2f} {segment['end']:6.2f}"
              f" {segment['avg_logprob']:.4f} {segment['text']!r}")


main()
