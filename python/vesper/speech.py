"""Speech to text with faster-whisper's classes, arguments and results."""
from __future__ import annotations

import ctypes
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy

from vesper import _structs as c
from vesper._audio import Audio, Source
from vesper._calls import Cancellation, Closable, Handle, interruptible
from vesper._library import library, text
from vesper._options import default_options, encoded, load_options, path_bytes, unsigned
from vesper._speech_options import most_candidates, transcribe_options
from vesper.errors import Error, UsageError
from vesper.transcript import Transcript
from vesper.transcription import Run, Transcription, detect_languages, find_speech


class WhisperModel(Closable):
    """A Whisper model on a device.

    The model is a name ("tiny.en", "base", "large-v3", ...; downloaded if it is absent, unless
    local_files_only), a file or folder (CTranslate2, ggml, GGUF, safetensors), or
    hf://OWNER/NAME/FILE.

    device: "auto" (a GPU if there is one), "cpu", "vulkan", "vulkan:N", or "cuda", which means
    "vulkan". compute_type: "auto" or "default" (the fastest that keeps accuracy), "float32",
    "float16", "bfloat16" or "int8". cpu_threads 0: one per core. weights: "q8_0", "q4_k", ...
    quantizes the weights while they are loaded; None: as in the files. vad_model: a Silero VAD model; None:
    "silero-vad" if it is installed. kv_type: number format of the decoder's keys and values, "f16",
    "f32", "int8" or "k=int8,v=int4". num_workers: only 1; calls from several threads wait for each
    other.

    One object works for several threads. After a fork, the child opens its own.

    >>> with vesper.WhisperModel("tiny.en") as model:
    ...     print(model.transcribe("talk.wav", beam_size=1).text[:18])
    And Mr. John Dashw
    """

    def __init__(self, model_size_or_path: str | os.PathLike[str], device: str = "auto",
                 device_index: int = 0, compute_type: str = "default", cpu_threads: int = 0,
                 num_workers: int = 1, *, local_files_only: bool = False,
                 weights: str | None = None, vad_model: str | os.PathLike[str] | None = None,
                 kv_type: str = "f16") -> None:
        if num_workers != 1:
            raise UsageError(f"num_workers: expected 1, found {num_workers}: calls from several threads "
                             "wait for each other; open a model for each", "num_workers")
        self.name = os.fspath(model_size_or_path)
        self._options = default_options(c.WhisperOptions, "whisper_options_init")
        load_options(self._options.load, device, device_index, compute_type, cpu_threads, local_files_only,
                     weights)
        if vad_model is not None:
            self._options.vad_model = path_bytes("vad_model", vad_model)
        self._options.kv_type = encoded("kv_type", kv_type)
        self.handle = Handle("WhisperModel", interruptible(self._open), "whisper_close")

    def _open(self) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        library.whisper_open(path_bytes("model", self.name), ctypes.byref(self._options),
                             ctypes.byref(pointer))
        return pointer

    @contextmanager
    def use(self, n_candidates: int, batch_size: int = 1) -> Iterator[ctypes.c_void_p]:
        """The model for the calling thread.

        Memory for beams, samples and batches is reserved when a model is opened, so the model is
        opened again for more candidates or another batch size.
        """
        with self.handle.use() as pointer:
            options = self._options
            if n_candidates > options.max_candidates or batch_size != options.batch_size:
                previous = options.max_candidates, options.batch_size
                if self.handle.has_open_children:
                    raise UsageError("WhisperModel: expected no open stream when beam_size, best_of or "
                                     "batch_size need more memory")
                self.handle.drop()
                options.max_candidates = max(n_candidates, options.max_candidates)
                options.batch_size = batch_size
                try:
                    pointer = self._open()
                except BaseException:
                    options.max_candidates, options.batch_size = previous
                    self.handle.replace(self._open())
                    raise
                self.handle.replace(pointer)
            yield pointer

    def close(self) -> None:
        """Waits for calls of other threads, then frees the model. Later calls do nothing."""
        self.handle.close()

    @property
    def description(self) -> str:
        """Device and precision: "cpu (AMD EPYC 9K84), bf16"."""
        return text(self.handle.read("whisper_description"))

    @property
    def is_multilingual(self) -> bool:
        """Whether the model knows several languages."""
        return bool(self.handle.read("whisper_is_multilingual"))

    @property
    def supported_languages(self) -> list[str]:
        """The codes of the languages that the model knows.

        >>> model.supported_languages
        ['en']
        """
        if not self.is_multilingual:
            return ["en"]
        silence = Source(numpy.zeros(16000, numpy.float32), 16000)
        return sorted(code for code, _ in self._detect(silence, {}))

    def transcribe(
        self, audio: Audio, language: str | None = None, task: str = "transcribe",
        log_progress: bool = False, beam_size: int = 5, best_of: int = 5, patience: float = 1,
        length_penalty: float = 1, repetition_penalty: float = 1, no_repeat_ngram_size: int = 0,
        temperature: float | list[float] | tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        compression_ratio_threshold: float | None = 2.4, log_prob_threshold: float | None = -1.0,
        no_speech_threshold: float | None = 0.6, condition_on_previous_text: bool = True,
        prompt_reset_on_temperature: float = 0.5, initial_prompt: str | None = None,
        prefix: str | None = None, suppress_blank: bool = True,
        suppress_tokens: Iterable[int] | None = (-1,), without_timestamps: bool = False,
        max_initial_timestamp: float = 1.0, word_timestamps: bool = False,
        prepend_punctuations: str = "\"'“¿([{-", append_punctuations: str = "\"'.。,，!！?？:：”)]}、",
        multilingual: bool = False, vad_filter: bool = False,
        vad_parameters: Mapping[str, float | None] | None = None, max_new_tokens: int | None = None,
        chunk_length: int | None = None, clip_timestamps: str | Iterable[float] = "0",
        hallucination_silence_threshold: float | None = None, hotwords: str | None = None,
        language_detection_threshold: float = 0.5, language_detection_segments: int = 1, *,
        sampling_rate: int = 16000, channels: str | int = "mix", seed: int = 0, top_k: int = 0,
        top_p: float = 1, min_p: float = 0, gnmt_length_penalty: float | None = None,
        reference_rules: bool = False, disabled_rules: Iterable[str] = (),
        carry_initial_prompt: bool = False, suppress_regex: str | None = None,
        suppress_numerals: bool = False, max_segment_length: int | None = None,
        split_on_word: bool = False, raw_encoding: str | None = None, raw_sample_rate: int = 16000,
        raw_channels: int = 1, grammar: str | None = None, regex: str | None = None,
        on_progress: Callable[[float, float], None] | None = None,
    ) -> Transcription:
        """Transcribes a recording: a path, the bytes of a file, a binary file object, or samples.

        Samples are a numpy array [n_frames] or [n_frames, channels] of float32, full scale +-1, at
        `sampling_rate`; such an array is not copied (see vesper._audio.float_samples for others), and
        must not change before the end.

        Arguments up to language_detection_segments are faster-whisper's. A value that the library
        cannot honour raises UsageError (a ValueError) or TypeError with its name. channels: "mix" (the
        mean), "split" (each by itself), "diarize" (the louder of two is the speaker), or the number of
        one, from 1. raw_encoding: "s16le" or "f32le" for files of interleaved samples without a header.
        grammar (GBNF) or regex: the text of each window is one of it; windows are then searched greedily.
        on_progress(done_s, total_s) is called from another thread.

        The work begins when a segment or anything else of the result is asked for, and waits while
        segments are not consumed. If the consumer ends early, so does the work.

        >>> import numpy
        >>> model.transcribe(numpy.zeros(16000, numpy.float32)).text
        ''
        >>> model.transcribe("talk.wav", beam_width=3)
        Traceback (most recent call last):
        ...
        TypeError: WhisperModel.transcribe() got an unexpected keyword argument 'beam_width'
        """
        arguments = {name: value for name, value in locals().items() if name in _ARGUMENTS}
        return self._transcription(self, audio, sampling_rate, arguments, on_progress)

    def _transcription(self, model: Any, audio: Audio, sampling_rate: int, arguments: dict[str, Any],
                       on_progress: Callable[[float, float], None] | None) -> Transcription:
        self.handle.check()
        options = transcribe_options(arguments)
        source = Source(audio, unsigned("sampling_rate", sampling_rate))
        run = Run(model, source, options, most_candidates(options), on_progress)
        return Transcription(run, arguments, self.is_multilingual)

    def transcribe_files(self, paths: Iterable[str | os.PathLike[str]], *, batch_size: int = 1,
                         **options: Any) -> list[Transcript | Error]:
        """Transcribes files with the options of transcribe(); those that fail have their error.

        batch_size files are decoded at once, with vad_filter also several parts of one.

        >>> [transcript.language for transcript in model.transcribe_files(["talk.wav"])]
        ['en']
        """
        names = [os.fspath(path) for path in paths]
        array = (ctypes.c_char_p * len(names))(*(path_bytes("paths", name) for name in names))
        arguments, _, on_progress = all_arguments(options)
        own = transcribe_options(arguments)
        if on_progress:
            raise UsageError("on_progress: expected None for several files", "on_progress")
        cancellation = Cancellation()
        own.cancellation = cancellation.pointer
        results: list[Transcript | Error] = []

        def on_transcript(index: int, pointer: int | None, status: int, message: bytes, _: Any) -> int:
            if pointer:
                results.append(Transcript(ctypes.c_void_p(pointer), own, names[index], self.name))
            else:
                results.append(library.error(status, text(message)))
            return 0

        def call() -> None:
            with self.use(most_candidates(own), unsigned("batch_size", batch_size)) as model:
                library.whisper_transcribe_files(model, array, len(names), ctypes.byref(own),
                                                 c.OnTranscript(on_transcript), None)

        interruptible(call, cancellation.request)
        return results

    def detect_language(self, audio: Audio, vad_filter: bool = False,
                        vad_parameters: Mapping[str, float | None] | None = None,
                        language_detection_segments: int = 1, language_detection_threshold: float = 0.5,
                        *, sampling_rate: int = 16000) -> tuple[str, float, list[tuple[str, float]]]:
        """The most likely language, its probability, and those of all languages.

        >>> model.detect_language("talk.wav")
        ('en', 1.0, [('en', 1.0)])
        """
        options = {"vad_filter": vad_filter, "vad_parameters": vad_parameters,
                   "language_detection_segments": language_detection_segments,
                   "language_detection_threshold": language_detection_threshold}
        probabilities = self._detect(Source(audio, unsigned("sampling_rate", sampling_rate)), options)
        return (*probabilities[0], probabilities)

    def _detect(self, source: Source, options: dict[str, Any]) -> list[tuple[str, float]]:
        if not self.is_multilingual:
            return [("en", 1.0)]
        return detect_languages(self, source, transcribe_options(options))

    def find_speech(self, audio: Audio, vad_parameters: Mapping[str, float | None] | None = None, *,
                    sampling_rate: int = 16000) -> list[tuple[float, float]]:
        """Start and end, in seconds, of each piece of speech that the VAD model finds.

        >>> [(round(start), round(end)) for start, end in model.find_speech("talk.wav")]
        [(0, 7)]
        """
        source = Source(audio, unsigned("sampling_rate", sampling_rate))
        return find_speech(self, source, transcribe_options({"vad_parameters": vad_parameters}))

    def load_vad(self, model: str | os.PathLike[str] | None) -> None:
        """Loads another VAD model, or removes it."""
        name = path_bytes("model", model) if model is not None else None
        with self.handle.use() as pointer:
            library.whisper_load_vad(pointer, name)
        self._options.vad_model = name or b""


class BatchedInferencePipeline:
    """Transcribes recordings by pieces of speech that are decoded in batches.

    The model is opened again at the first transcription, and when the batch size changes.

    >>> batched = vesper.BatchedInferencePipeline(model)
    >>> segments, info = batched.transcribe("talk.wav", batch_size=4)
    >>> len(list(segments)) > 0
    True
    """

    def __init__(self, model: WhisperModel) -> None:
        self.model = model

    def transcribe(self, audio: Audio, *, batch_size: int = 8, vad_filter: bool = True,
                   **options: Any) -> Transcription:
        """WhisperModel.transcribe in batches. vad_filter: only True, which finds the pieces."""
        if not vad_filter:
            raise UsageError("vad_filter: expected True, found False: batches are of the speech that the "
                             "VAD model finds", "vad_filter")
        arguments, sampling_rate, on_progress = all_arguments({**options, "vad_filter": True})
        model = _InBatches(self.model, unsigned("batch_size", batch_size))
        return self.model._transcription(model, audio, sampling_rate, arguments, on_progress)


class _InBatches:
    """A model that is used with a batch size."""

    def __init__(self, model: WhisperModel, batch_size: int) -> None:
        self.model, self.batch_size = model, batch_size
        self.name, self.handle = model.name, model.handle

    def use(self, n_candidates: int) -> Any:
        return self.model.use(n_candidates, self.batch_size)


_SIGNATURE = inspect.signature(WhisperModel.transcribe)
# The arguments of transcribe() that become fields of the options.
_ARGUMENTS = frozenset(_SIGNATURE.parameters) - {"self", "audio", "sampling_rate", "on_progress"}


def all_arguments(
        options: dict[str, Any]) -> tuple[dict[str, Any], int, Callable[[float, float], None] | None]:
    """The options of transcribe() with defaults, its sampling rate and progress callback.

    Raises TypeError for a name that transcribe() does not have.
    """
    bound = _SIGNATURE.bind(None, None, **options)
    bound.apply_defaults()
    arguments = {name: value for name, value in bound.arguments.items() if name in _ARGUMENTS}
    return arguments, bound.arguments["sampling_rate"], bound.arguments["on_progress"]
