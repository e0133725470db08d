"""The arguments of WhisperModel.transcribe as a vesper_transcribe_options."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from vesper import _structs as c
from vesper._options import array_of, default_options, encoded, real, real_or_off, unsigned
from vesper.errors import UsageError

_Convert = Callable[[str, Any], Any]


def _flag(name: str, value: Any) -> int:
    return int(bool(value))


def _optional_text(name: str, value: Any) -> bytes | None:
    return None if value is None else encoded(name, value)


def _prompt(name: str, value: Any) -> bytes | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, found {type(value).__name__}; token ids are not accepted")
    return _optional_text(name, value)


def _language(name: str, value: Any) -> bytes:
    return encoded(name, "auto" if value is None else value)


def _task(name: str, value: Any) -> int:
    tasks = {"transcribe": c.CONSTANTS["TASK_TRANSCRIBE"], "translate": c.CONSTANTS["TASK_TRANSLATE"]}
    if value not in tasks:
        raise UsageError(f"{name}: expected transcribe or translate, found {value!r}", name)
    return tasks[value]


def _limit(name: str, value: Any) -> int:
    if value is None:
        return 0
    limit = unsigned(name, value)
    if limit == 0:
        raise UsageError(f"{name}: expected 1 or more, or None, found 0", name)
    return limit


# Arguments of transcribe() that one field takes: the field and how it is converted.
_FIELDS: dict[str, tuple[str, _Convert]] = {
    "language": ("language", _language),
    "task": ("task", _task),
    "beam_size": ("beam_size", unsigned),
    "best_of": ("best_of", unsigned),
    "patience": ("patience", real),
    "gnmt_length_penalty": ("length_penalty", real_or_off),
    "repetition_penalty": ("repetition_penalty", real),
    "no_repeat_ngram_size": ("no_repeat_ngram_size", unsigned),
    "compression_ratio_threshold": ("compression_ratio_threshold", real_or_off),
    "log_prob_threshold": ("logprob_threshold", real_or_off),
    "no_speech_threshold": ("no_speech_threshold", real_or_off),
    "condition_on_previous_text": ("condition_on_previous_text", _flag),
    "initial_prompt": ("initial_prompt", _prompt),
    "prefix": ("prefix", _optional_text),
    "without_timestamps": ("without_timestamps", _flag),
    "max_initial_timestamp": ("max_initial_timestamp_s", real),
    "word_timestamps": ("word_timestamps", _flag),
    "prepend_punctuations": ("prepend_punctuations", _optional_text),
    "append_punctuations": ("append_punctuations", _optional_text),
    "multilingual": ("multilingual", _flag),
    "vad_filter": ("vad", _flag),
    "max_new_tokens": ("max_new_tokens", _limit),
    "hallucination_silence_threshold": ("hallucination_silence_threshold_s", real_or_off),
    "hotwords": ("hotwords", _optional_text),
    "language_detection_threshold": ("language_detection_threshold", real),
    "language_detection_segments": ("language_detection_segments", unsigned),
    "seed": ("seed", unsigned),
    "top_k": ("top_k", unsigned),
    "top_p": ("top_p", real),
    "min_p": ("min_p", real),
    "reference_rules": ("reference_rules", _flag),
    "carry_initial_prompt": ("carry_initial_prompt", _flag),
    "suppress_regex": ("suppress_regex", _optional_text),
    "suppress_numerals": ("suppress_numerals", _flag),
    "max_segment_length": ("max_segment_length", _limit),
    "split_on_word": ("split_on_word", _flag),
    "raw_encoding": ("raw_encoding", _optional_text),
    "raw_sample_rate": ("raw_sample_rate_hz", unsigned),
    "raw_channels": ("raw_channels", unsigned),
}

_VAD_FIELDS: dict[str, tuple[str, _Convert]] = {
    "threshold": ("vad_threshold", real),
    "neg_threshold": ("vad_neg_threshold", real_or_off),
    "min_speech_duration_ms": ("vad_min_speech_ms", real),
    "max_speech_duration_s": ("vad_max_speech_s", real),
    "min_silence_duration_ms": ("vad_min_silence_ms", real),
    "speech_pad_ms": ("vad_pad_ms", real),
}

# faster-whisper's arguments that the library has no counterpart for: the values that are accepted,
# and what to do instead.
_FIXED: dict[str, tuple[tuple[Any, ...], str]] = {
    "log_progress": ((False,), "on_progress reports it"),
    "prompt_reset_on_temperature": ((0.5,), "the previous text is dropped after a temperature above 0.5"),
    "suppress_blank": ((True,), "a window cannot begin with a space or its end"),
    "chunk_length": ((None, 30), "windows have 30 s"),
    "length_penalty": ((1,), "scores are divided by the length; gnmt_length_penalty is openai-whisper's "
                             "length penalty"),
}


def _vad(options: c.TranscribeOptions, parameters: Any) -> None:
    if parameters is None:
        return
    if not isinstance(parameters, Mapping):
        raise TypeError(f"vad_parameters: expected a dict, found {type(parameters).__name__}")
    for name, value in parameters.items():
        if name not in _VAD_FIELDS:
            raise UsageError(f"vad_parameters: expected the keys {', '.join(_VAD_FIELDS)}, found {name!r}",
                             "vad_parameters")
        field, convert = _VAD_FIELDS[name]
        setattr(options, field, convert(name, value))


def _temperatures(options: c.TranscribeOptions, temperature: Any) -> None:
    values = temperature if isinstance(temperature, (list, tuple)) else [temperature]
    options.temperatures = array_of("temperature", ctypes.c_double, values)
    options.n_temperatures = len(values)


def _suppress_tokens(options: c.TranscribeOptions, tokens: Any) -> None:
    tokens = [] if tokens is None else list(tokens)
    options.suppress_model_tokens = int(-1 in tokens)
    tokens = [token for token in tokens if token != -1]
    options.suppress_tokens = array_of("suppress_tokens", ctypes.c_int32, tokens)
    options.n_suppress_tokens = len(tokens)


def _clip_timestamps(options: c.TranscribeOptions, clips: Any) -> None:
    if isinstance(clips, str):
        try:
            clips = [float(clip) for clip in clips.split(",") if clip]
        except ValueError:
            raise UsageError(f"clip_timestamps: expected seconds with commas between, found {clips!r}",
                             "clip_timestamps") from None
    clips = list(clips)
    if clips == [0]:
        clips = []  # the whole recording
    options.clip_timestamps = array_of("clip_timestamps", ctypes.c_double, clips)
    options.n_clip_timestamps = len(clips)


def _disabled_rules(options: c.TranscribeOptions, rules: Any) -> None:
    options.disabled_rules = array_of("disabled_rules", ctypes.c_char_p, rules)
    options.n_disabled_rules = len(rules)


def _channels(options: c.TranscribeOptions, channels: Any) -> None:
    named = {"mix": c.CONSTANTS["CHANNELS_MIX"], "split": c.CONSTANTS["CHANNELS_SPLIT"],
             "diarize": c.CONSTANTS["CHANNELS_DIARIZE"]}
    if isinstance(channels, str) and channels in named:
        options.channels = named[channels]
    elif isinstance(channels, str) or _limit("channels", channels) == 0:
        raise UsageError(f"channels: expected mix, split, diarize or a number from 1, found {channels!r}",
                         "channels")
    else:
        options.channel = _limit("channels", channels)


def _grammar(options: c.TranscribeOptions, name: str, notation: str, text: Any) -> None:
    if text is None:
        return
    if options.grammar_notation:
        raise UsageError("grammar: expected grammar or regex, found both", "grammar")
    options.grammar_notation = c.CONSTANTS[notation]
    options.grammar = encoded(name, text)


# Arguments that several fields take.
_SEVERAL: dict[str, Callable[[c.TranscribeOptions, Any], None]] = {
    "temperature": _temperatures,
    "suppress_tokens": _suppress_tokens,
    "clip_timestamps": _clip_timestamps,
    "vad_parameters": _vad,
    "disabled_rules": _disabled_rules,
    "channels": _channels,
    "grammar": lambda options, text: _grammar(options, "grammar", "GRAMMAR_GBNF", text),
    "regex": lambda options, text: _grammar(options, "regex", "GRAMMAR_REGEX", text),
}


def transcribe_options(arguments: Mapping[str, Any]) -> c.TranscribeOptions:
    """The options of a transcription from all arguments of WhisperModel.transcribe except the audio.

    Raises UsageError or TypeError with the name of an argument that the library cannot honour.
    """
    options = default_options(c.TranscribeOptions, "transcribe_options_init")
    for name, value in arguments.items():
        if name in _FIELDS:
            field, convert = _FIELDS[name]
            setattr(options, field, convert(name, value))
        elif name in _SEVERAL:
            _SEVERAL[name](options, value)
        else:
            accepted, instead = _FIXED[name]
            if value not in accepted:
                raise UsageError(f"{name}: expected {accepted[-1]}, found {value!r}: {instead}", name)
    return options


def most_candidates(options: c.TranscribeOptions) -> int:
    """The largest number of beams or samples of a window."""
    return max(int(options.beam_size), int(options.best_of))
