"""The shared library libvesper.so.0, with a prototype for each function of include/vesper/*.h.

The library is, in this order: the file that the environment variable VESPER_LIBRARY names, the file
in this folder (a wheel), or the one that the system's loader finds (a Debian package).
"""
from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import (POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_void_p)
from typing import Any, cast

from vesper import _structs as c
from vesper.errors import ERROR_OF_STATUS, Error, InternalError

_SONAME = "libvesper.so.0"


class Status(c_int):
    """A result that says whether the call succeeded."""


_out = POINTER(c_void_p)  # an object, a string or an array that the function makes
_options_init = [c_void_p, c_size_t]
_whisper_call = [c_void_p, POINTER(c.TranscribeOptions), c.OnSegment, c_void_p, _out]
_inspect_call = [c_char_p, POINTER(c.InspectOptions), _out]

# Functions by their names without "vesper_": result and arguments. Objects and callers' buffers are
# c_void_p.
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    # base.h
    "status_name": (c_char_p, [c_int]),
    "version": (c_char_p, []),
    "has_feature": (c_int, [c_char_p]),
    "last_error": (c_char_p, []),
    "last_error_setting": (c_char_p, []),
    "error_of": (c_char_p, [c_void_p]),
    "string_free": (None, [c_void_p]),
    "set_log": (None, [c.OnLog, c_void_p]),
    "cancellation_new": (Status, [_out]),
    "cancellation_request": (None, [c_void_p]),
    "cancellation_reset": (None, [c_void_p]),
    "cancellation_is_requested": (c_int, [c_void_p]),
    "cancellation_free": (None, [c_void_p]),
    "load_options_init": (None, _options_init),
    # speech.h
    "whisper_options_init": (None, _options_init),
    "whisper_open": (Status, [c_char_p, POINTER(c.WhisperOptions), _out]),
    "whisper_close": (None, [c_void_p]),
    "whisper_description": (c_char_p, [c_void_p]),
    "whisper_is_multilingual": (c_int, [c_void_p]),
    "whisper_load_vad": (Status, [c_void_p, c_char_p]),
    "transcribe_options_init": (None, _options_init),
    "transcript_free": (None, [c_void_p]),
    "transcript_text": (c_char_p, [c_void_p]),
    "transcript_language": (c_char_p, [c_void_p]),
    "transcript_language_probability": (c_double, [c_void_p]),
    "transcript_duration_s": (c_double, [c_void_p]),
    "transcript_n_segments": (c_size_t, [c_void_p]),
    "transcript_segment": (POINTER(c.Segment), [c_void_p, c_size_t]),
    "format_options_init": (None, _options_init),
    "transcript_format": (Status, [c_void_p, c_char_p, POINTER(c.FormatOptions), _out]),
    "whisper_transcribe_file": (Status, [c_void_p, c_char_p, *_whisper_call[1:]]),
    "whisper_transcribe_pcm": (Status, [c_void_p, POINTER(c.Pcm), *_whisper_call[1:]]),
    "whisper_transcribe_files": (Status, [c_void_p, POINTER(c_char_p), c_size_t,
                                          POINTER(c.TranscribeOptions), c.OnTranscript, c_void_p]),
    "whisper_detect_languages_file": (Status, [c_void_p, c_char_p, POINTER(c.TranscribeOptions), _out]),
    "whisper_detect_languages_pcm": (Status, [c_void_p, POINTER(c.Pcm), POINTER(c.TranscribeOptions),
                                              _out]),
    "stream_options_init": (None, _options_init),
    "stream_open": (Status, [c_void_p, c_uint32, c_uint32, POINTER(c.TranscribeOptions),
                             POINTER(c.StreamOptions), _out]),
    "stream_push": (Status, [c_void_p, c_void_p, c_size_t]),
    "stream_finish": (Status, [c_void_p, _out]),
    "stream_close": (None, [c_void_p]),
    "whisper_find_speech_file": (Status, [c_void_p, c_char_p, POINTER(c.TranscribeOptions), _out,
                                          POINTER(c_size_t)]),
    "whisper_find_speech_pcm": (Status, [c_void_p, POINTER(c.Pcm), POINTER(c.TranscribeOptions), _out,
                                         POINTER(c_size_t)]),
    "ranges_free": (None, [c_void_p]),
    # text.h
    "language_model_options_init": (None, _options_init),
    "language_model_open": (Status, [c_char_p, POINTER(c.LanguageModelOptions), _out]),
    "language_model_close": (None, [c_void_p]),
    "language_model_description": (c_char_p, [c_void_p]),
    "language_model_context": (c_uint32, [c_void_p]),
    "language_model_n_vocab": (c_uint32, [c_void_p]),
    "language_model_has_chat_template": (c_int, [c_void_p]),
    "generate_options_init": (None, _options_init),
    "generate_options_init_for": (Status, [c_void_p, c_void_p, c_size_t]),
    "answer_free": (None, [c_void_p]),
    "answer_text": (c_char_p, [c_void_p]),
    "answer_thinking": (c_char_p, [c_void_p]),
    "answer_end": (c_int, [c_void_p]),
    "answer_seed": (c_uint32, [c_void_p]),
    "answer_n_tokens": (c_size_t, [c_void_p]),
    "answer_tokens": (POINTER(c_int32), [c_void_p]),
    "answer_logprobs": (POINTER(c_float), [c_void_p]),
    "answer_logprobs_json": (Status, [c_void_p, _out]),
    "answer_statistics": (c.GenerateStatistics, [c_void_p]),
    "answer_speculation": (c.SpeculationStatistics, [c_void_p]),
    "generate": (Status, [c_void_p, POINTER(c.Prompt), POINTER(c.GenerateOptions), _out]),
    "generate_many": (Status, [c_void_p, POINTER(c.Prompt), c_size_t, POINTER(c.GenerateOptions),
                               c_size_t, c.OnAnswer, c_void_p]),
    "chat_open": (Status, [c_void_p, c_char_p, POINTER(c.GenerateOptions), _out]),
    "chat_close": (None, [c_void_p]),
    "chat_say": (Status, [c_void_p, c_char_p, _out]),
    "chat_regenerate": (Status, [c_void_p, _out]),
    "chat_messages": (Status, [c_void_p, _out]),
    "chat_set_messages": (Status, [c_void_p, POINTER(c.Message), c_size_t]),
    "generate_long": (Status, [c_void_p, c_char_p, c_char_p, c_char_p, POINTER(c.GenerateOptions), _out]),
    "language_model_save_prompt": (Status, [c_void_p, c_char_p]),
    "language_model_restore_prompt": (Status, [c_void_p, c_char_p]),
    "perplexity": (Status, [c_void_p, c_char_p, c_void_p, POINTER(c.PerplexityResult)]),
    "logits": (Status, [c_void_p, POINTER(c_int32), c_size_t, c.OnRows, c_void_p]),
    "tokenizer_open": (Status, [c_char_p, POINTER(c.LoadOptions), _out]),
    "tokenizer_close": (None, [c_void_p]),
    "tokenizer_n_vocab": (c_uint32, [c_void_p]),
    "tokenizer_bos": (c_int32, [c_void_p]),
    "tokenizer_eos": (c_int32, [c_void_p]),
    "tokenizer_find": (c_int32, [c_void_p, c_char_p]),
    "tokenizer_encode": (Status, [c_void_p, c_char_p, c_size_t, c_int, c_int, _out, POINTER(c_size_t)]),
    "tokens_free": (None, [c_void_p]),
    "tokenizer_decode": (Status, [c_void_p, POINTER(c_int32), c_size_t, c_int, _out]),
    "tokenizer_format_chat": (Status, [c_void_p, POINTER(c.Message), c_size_t, c_int, _out]),
    # embedding.h
    "embedder_options_init": (None, _options_init),
    "embedder_open": (Status, [c_char_p, POINTER(c.EmbedderOptions), _out]),
    "embedder_close": (None, [c_void_p]),
    "embedder_description": (c_char_p, [c_void_p]),
    "embedder_dimensions": (c_uint32, [c_void_p]),
    "embedder_max_tokens": (c_uint32, [c_void_p]),
    "embedder_prompt": (Status, [c_void_p, c_char_p, _out]),
    "embed": (Status, [c_void_p, POINTER(c_char_p), c_size_t, c_char_p, c_void_p, c_void_p, c_void_p]),
    "embed_tokens": (Status, [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "rerank": (Status, [c_void_p, POINTER(c_char_p), POINTER(c_char_p), c_size_t, c_void_p, c_void_p,
                        c_void_p]),
    "similarity": (c_double, [c_void_p, c_void_p, c_size_t]),
    # inspect.h
    "model_find": (Status, [c_char_p, c_int, POINTER(c.LoadOptions), c_void_p, _out]),
    "model_find_installed": (Status, [c_char_p, _out]),
    "models_installed": (Status, [_out]),
    "models_known": (Status, [_out]),
    "file_digest": (Status, [c_char_p, c_char_p, _out]),
    "inspect_options_init": (None, _options_init),
    "inspect_model": (Status, _inspect_call),
    "inspect_metadata": (Status, _inspect_call),
    "inspect_tensors": (Status, _inspect_call),
    "inspect_tokens": (Status, [c_char_p, *_inspect_call]),
    "inspect_checksums": (Status, _inspect_call),
    "inspect_verify": (Status, [*_inspect_call[:2], POINTER(c_int), _out]),
    "inspect_diff": (Status, [c_char_p, *_inspect_call[:2], POINTER(c_int), _out]),
    "inspect_table": (Status, _inspect_call),
    "inspect_profile": (Status, [*_inspect_call, _out, _out]),
    "inspect_devices": (Status, [_out]),
    "convert_options_init": (None, _options_init),
    "convert": (Status, [c_char_p, c_char_p, c_char_p, POINTER(c.ConvertOptions), _out]),
}


class Library:
    """The functions of PROTOTYPES as methods. Those that return a status raise vesper.Error."""

    def __init__(self) -> None:
        given = os.environ.get("VESPER_LIBRARY")
        beside = pathlib.Path(__file__).with_name(_SONAME)
        self.path = given or (str(beside) if beside.exists() else _SONAME)
        try:
            self._functions = ctypes.CDLL(self.path)
        except OSError as error:
            raise ImportError(f"vesper: the shared library cannot be loaded: {error}") from None

    def __getattr__(self, name: str) -> Any:
        if name not in PROTOTYPES:
            raise AttributeError(name)
        result, arguments = PROTOTYPES[name]
        try:
            function: Any = self._functions["vesper_" + name]
        except AttributeError:
            raise ImportError(f"vesper: {self.path} has no function vesper_{name}: expected the version "
                              "of the library that this package was made for") from None
        function.argtypes = arguments
        function.restype = c_int if result is Status else result
        if result is Status:
            function.errcheck = self._check
        setattr(self, name, function)
        return function

    def _check(self, status: int, function: Any, arguments: Any) -> int:
        """Raises the error of a failed call, which is the last one on this thread."""
        if status:
            raise self.error(status, text(self.last_error()), text(self.last_error_setting()))
        return status

    @staticmethod
    def error(status: int, message: str, setting: str = "") -> Error:
        """The exception for a status and its message."""
        return ERROR_OF_STATUS.get(status, InternalError)(message, setting)


def text(value: bytes | None) -> str:
    """A string of the library."""
    return (value or b"").decode("utf-8", "replace")


library = Library()


def take_string(pointer: c_void_p) -> str:
    """A string that the caller owns; frees it."""
    try:
        return text(ctypes.string_at(cast(int, pointer.value)))
    finally:
        library.string_free(pointer)
