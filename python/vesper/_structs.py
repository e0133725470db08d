"""The structs, callbacks and constants of include/vesper/*.h for ctypes.

A test compares sizes, offsets and numbers with the headers. A class is named as its C type without
"vesper_": LoadOptions is vesper_load_options.
"""
from __future__ import annotations

import ctypes
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64,
                    c_size_t, c_uint32, c_uint64, c_void_p)

# enum constants, by their names in C without "VESPER_"
CONSTANTS = {
    "OK": 0,
    "LOG_INFO": 1,
    "LOG_WARNING": 2,
    "TASK_TRANSCRIBE": 0,
    "TASK_TRANSLATE": 1,
    "CHANNELS_MIX": 0,
    "CHANNELS_SPLIT": 1,
    "CHANNELS_DIARIZE": 2,
    "GRAMMAR_GBNF": 1,
    "GRAMMAR_JSON_SCHEMA": 2,
    "GRAMMAR_JSON": 3,
    "GRAMMAR_REGEX": 4,
    "END_MODEL": 0,
    "END_STOP": 1,
    "END_LIMIT": 2,
    "END_CONTEXT": 3,
    "END_CANCELLED": 4,
    "END_LOOP": 5,
    "MODEL_SPEECH": 0,
    "MODEL_VAD": 1,
    "MODEL_TEXT_ENCODER": 2,
    "MODEL_LANGUAGE": 3,
    "MODEL_DEFAULT": 2**32 - 1,
}

# ---- base.h -------------------------------------------------------------------------------------

OnLog = CFUNCTYPE(None, c_int, c_char_p, c_void_p)
OnDownload = CFUNCTYPE(c_int, c_char_p, c_uint64, c_uint64, c_void_p)


class Adapter(Structure):
    _fields_ = [
        ("path", c_char_p),
        ("scale", c_double),
    ]


class LoadOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_char_p),
        ("compute", c_char_p),
        ("threads", c_uint32),
        ("offline", c_int),
        ("on_download", OnDownload),
        ("on_download_user", c_void_p),
        ("weights", c_char_p),
        ("adapters", POINTER(Adapter)),
        ("n_adapters", c_size_t),
        ("reserved", c_uint64 * 5),
    ]


# ---- speech.h -----------------------------------------------------------------------------------

class WhisperOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("load", LoadOptions),
        ("max_candidates", c_uint32),
        ("batch_size", c_uint32),
        ("vad_model", c_char_p),
        ("kv_type", c_char_p),
    ]


OnProgress = CFUNCTYPE(None, c_double, c_double, c_void_p)
OnLanguage = CFUNCTYPE(None, c_char_p, c_double, c_void_p)


class TranscribeOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("language", c_char_p),
        ("task", c_int),
        ("language_detection_segments", c_uint32),
        ("language_detection_threshold", c_double),
        ("multilingual", c_int),
        ("temperatures", POINTER(c_double)),
        ("n_temperatures", c_size_t),
        ("beam_size", c_uint32),
        ("patience", c_double),
        ("best_of", c_uint32),
        ("length_penalty", c_double),
        ("repetition_penalty", c_double),
        ("no_repeat_ngram_size", c_uint32),
        ("top_k", c_uint32),
        ("top_p", c_double),
        ("min_p", c_double),
        ("seed", c_uint32),
        ("no_speech_threshold", c_double),
        ("logprob_threshold", c_double),
        ("compression_ratio_threshold", c_double),
        ("reference_rules", c_int),
        ("disabled_rules", POINTER(c_char_p)),
        ("n_disabled_rules", c_size_t),
        ("condition_on_previous_text", c_int),
        ("initial_prompt", c_char_p),
        ("carry_initial_prompt", c_int),
        ("hotwords", c_char_p),
        ("prefix", c_char_p),
        ("suppress_model_tokens", c_int),
        ("suppress_tokens", POINTER(c_int32)),
        ("n_suppress_tokens", c_size_t),
        ("suppress_regex", c_char_p),
        ("suppress_numerals", c_int),
        ("max_initial_timestamp_s", c_double),
        ("without_timestamps", c_int),
        ("max_new_tokens", c_uint32),
        ("word_timestamps", c_int),
        ("prepend_punctuations", c_char_p),
        ("append_punctuations", c_char_p),
        ("hallucination_silence_threshold_s", c_double),
        ("max_segment_length", c_uint32),
        ("split_on_word", c_int),
        ("clip_timestamps", POINTER(c_double)),
        ("n_clip_timestamps", c_size_t),
        ("vad", c_int),
        ("vad_threshold", c_double),
        ("vad_neg_threshold", c_double),
        ("vad_min_speech_ms", c_double),
        ("vad_min_silence_ms", c_double),
        ("vad_pad_ms", c_double),
        ("vad_max_speech_s", c_double),
        ("channels", c_int),
        ("channel", c_uint32),
        ("raw_encoding", c_char_p),
        ("raw_sample_rate_hz", c_uint32),
        ("raw_channels", c_uint32),
        ("cancellation", c_void_p),
        ("on_progress", OnProgress),
        ("on_progress_user", c_void_p),
        ("on_language", OnLanguage),
        ("on_language_user", c_void_p),
        ("grammar_notation", c_int),
        ("grammar", c_char_p),
    ]


class Word(Structure):
    _fields_ = [
        ("start_s", c_double),
        ("end_s", c_double),
        ("text", c_char_p),
        ("probability", c_double),
        ("speaker", c_char_p),
    ]


class Segment(Structure):
    _fields_ = [
        ("id", c_int32),
        ("seek", c_int64),
        ("start_s", c_double),
        ("end_s", c_double),
        ("text", c_char_p),
        ("language", c_char_p),
        ("speaker", c_char_p),
        ("channel", c_int32),
        ("avg_logprob", c_double),
        ("no_speech_prob", c_double),
        ("compression_ratio", c_double),
        ("temperature", c_double),
        ("tokens", POINTER(c_int32)),
        ("n_tokens", c_size_t),
        ("words", POINTER(Word)),
        ("n_words", c_size_t),
    ]


OnSegment = CFUNCTYPE(c_int, POINTER(Segment), c_void_p)
OnTranscript = CFUNCTYPE(c_int, c_size_t, c_void_p, c_int, c_char_p, c_void_p)


class FormatOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("file", c_char_p),
        ("model", c_char_p),
        ("max_line_width", c_uint32),
        ("max_line_count", c_uint32),
        ("max_words_per_line", c_uint32),
        ("highlight_words", c_int),
        ("colors", c_int),
    ]


class Pcm(Structure):
    _fields_ = [
        ("samples", POINTER(c_float)),
        ("n_frames", c_size_t),
        ("sample_rate_hz", c_uint32),
        ("channels", c_uint32),
    ]


class CaptionWord(Structure):
    _fields_ = [
        ("start_s", c_double),
        ("end_s", c_double),
        ("text", c_char_p),
        ("opens_segment", c_int),
        ("probability", c_double),
    ]


OnCaption = CFUNCTYPE(None, POINTER(CaptionWord), c_size_t, c_double, c_void_p)


class StreamOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("step_s", c_double),
        ("on_final", OnCaption),
        ("on_partial", OnCaption),
        ("on_segment", OnSegment),
        ("user", c_void_p),
    ]


class SpeechRange(Structure):
    _fields_ = [("start_s", c_double), ("end_s", c_double)]


# ---- text.h -------------------------------------------------------------------------------------

class LogitBias(Structure):
    _fields_ = [("token", c_int32), ("bias", c_float)]


class LanguageModelOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("load", LoadOptions),
        ("context", c_uint32),
        ("batch_size", c_uint32),
        ("kv_type", c_char_p),
        ("beam_size", c_uint32),
        ("length_penalty", c_double),
        ("logit_bias", POINTER(LogitBias)),
        ("n_logit_bias", c_size_t),
        ("ignore_end", c_int),
        ("chat_template", c_char_p),
        ("speculate", c_char_p),
        ("draft", c_char_p),
    ]


class Message(Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p)]


class Prompt(Structure):
    _fields_ = [
        ("text", c_char_p),
        ("messages", POINTER(Message)),
        ("n_messages", c_size_t),
        ("tokens", POINTER(c_int32)),
        ("n_tokens", c_size_t),
    ]


OnText = CFUNCTYPE(c_int, c_char_p, c_void_p)


class GenerateOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("max_tokens", c_uint32),
        ("temperature", c_double),
        ("top_k", c_uint32),
        ("top_p", c_double),
        ("min_p", c_double),
        ("typical_p", c_double),
        ("repetition_penalty", c_double),
        ("frequency_penalty", c_double),
        ("presence_penalty", c_double),
        ("penalty_window", c_uint32),
        ("no_repeat_ngram_size", c_uint32),
        ("seed", c_int64),
        ("stops", POINTER(c_char_p)),
        ("n_stops", c_size_t),
        ("top_logprobs", c_uint32),
        ("no_thinking", c_int),
        ("separate_thinking", c_int),
        ("allow_loops", c_int),
        ("context_shift", c_int),
        ("no_reuse", c_int),
        ("cancellation", c_void_p),
        ("on_text", OnText),
        ("on_thinking", OnText),
        ("user", c_void_p),
        ("grammar_notation", c_int),
        ("grammar", c_char_p),
        ("grammar_after", c_char_p),
        ("logit_bias", POINTER(LogitBias)),
        ("n_logit_bias", c_size_t),
        ("ignore_end", c_int),
    ]


class GenerateStatistics(Structure):
    _fields_ = [
        ("n_prompt", c_uint64),
        ("n_reused", c_uint64),
        ("n_answer", c_uint64),
        ("prompt_s", c_double),
        ("answer_s", c_double),
    ]


class SpeculationStatistics(Structure):
    _fields_ = [("n_drafted", c_uint64), ("n_accepted", c_uint64)]


OnAnswer = CFUNCTYPE(c_int, c_size_t, c_void_p, c_int, c_char_p, c_void_p)


class PerplexityResult(Structure):
    _fields_ = [
        ("value", c_double),
        ("deviation", c_double),
        ("n_tokens", c_uint64),
        ("n_contexts", c_uint64),
    ]


OnRows = CFUNCTYPE(c_int, POINTER(c_float), c_size_t, c_void_p)


# ---- embedding.h --------------------------------------------------------------------------------

class EmbedderOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("load", LoadOptions),
        ("pooling", c_char_p),
        ("normalize", c_int),
        ("dimensions", c_uint32),
        ("max_tokens", c_uint32),
        ("batch_tokens", c_uint32),
        ("reranker", c_int),
        ("instruction", c_char_p),
    ]


# ---- inspect.h ----------------------------------------------------------------------------------

class InspectOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("load", LoadOptions),
        ("filters", POINTER(c_char_p)),
        ("n_filters", c_size_t),
        ("statistics", c_int),
        ("input", c_char_p),
        ("per_command", c_int),
    ]


OnConversion = CFUNCTYPE(c_int, c_uint64, c_uint64, c_void_p)


class ConvertOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("load", LoadOptions),
        ("on_progress", OnConversion),
        ("user", c_void_p),
        ("cancellation", c_void_p),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "vesper_adapter": Adapter,
    "vesper_load_options": LoadOptions,
    "vesper_convert_options": ConvertOptions,
    "vesper_whisper_options": WhisperOptions,
    "vesper_transcribe_options": TranscribeOptions,
    "vesper_word": Word,
    "vesper_segment": Segment,
    "vesper_format_options": FormatOptions,
    "vesper_pcm": Pcm,
    "vesper_caption_word": CaptionWord,
    "vesper_stream_options": StreamOptions,
    "vesper_speech_range": SpeechRange,
    "vesper_logit_bias": LogitBias,
    "vesper_language_model_options": LanguageModelOptions,
    "vesper_message": Message,
    "vesper_prompt": Prompt,
    "vesper_generate_options": GenerateOptions,
    "vesper_generate_statistics": GenerateStatistics,
    "vesper_speculation_statistics": SpeculationStatistics,
    "vesper_perplexity_result": PerplexityResult,
    "vesper_embedder_options": EmbedderOptions,
    "vesper_inspect_options": InspectOptions,
}
