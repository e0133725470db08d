"""A transcription that runs: its segments as they become final, and what is known about it."""
from __future__ import annotations

import ctypes
import json
import os
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from vesper import _structs as c
from vesper._audio import Source
from vesper._calls import Cancellation, Exchange, Handle, Worker, interruptible
from vesper._library import library, take_string
from vesper.errors import Stopped
from vesper.transcript import Segment, Transcript, segment_of

# A suspended consumer has at most this many segments waiting.
_MOST_WAITING = 16


class Model(Protocol):
    """What a transcription needs of its model."""

    name: str
    handle: Handle

    def use(self, n_candidates: int) -> AbstractContextManager[ctypes.c_void_p]:
        """The model for the calling thread, with memory for so many beams or samples."""


class Run(Exchange):
    """The transcription's call of the library, on a thread of its own.

    It waits while _MOST_WAITING segments are not consumed, unless all are wanted or another call waits
    for the model.
    """

    def __init__(self, model: Model, source: Source, options: c.TranscribeOptions, n_candidates: int,
                 on_progress: Callable[[float, float], None] | None) -> None:
        super().__init__(model.handle.condition, Cancellation())
        self.model, self.source, self.options = model, source, options
        self.segments: list[Segment] = []
        self.n_consumed = 0
        self.total_s = source.duration_s or 0.0
        self.language: tuple[str, float] | None = None  # and its probability; known before the segments
        self.transcript: Transcript | None = None
        self.is_started = False
        self._n_candidates = n_candidates
        self._on_progress = on_progress

    def start(self) -> None:
        """Starts the call, once."""
        with self._changed:
            if self.is_started:
                return
            self.is_started = True
        Worker(self._work, self.cancel).start()

    def collect(self) -> Transcript:
        """Waits for the end. Raises the error that ended the call."""
        self.start()
        self._wait_for_the_end()
        if self.transcript is None:
            raise Stopped("the transcription was stopped before its end")
        return self.transcript

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Waits until `condition` or the end."""
        self.start()
        with self._changed:
            self._wait(lambda: self.is_finished or condition())

    def __iter__(self) -> Iterator[Segment]:
        self.start()
        index = 0
        while True:
            with self._changed:
                self._wait(lambda: self.is_finished or index < len(self.segments))
                if index >= len(self.segments):
                    break
                segment = self.segments[index]
                index += 1
                self.n_consumed = max(self.n_consumed, index)
                self._changed.notify_all()
            yield segment
        if self._error:
            raise self._error

    def _work(self) -> None:
        progress = c.OnProgress(self._progress)
        on_language = c.OnLanguage(self._language)
        on_segment = c.OnSegment(self._segment)
        self.options.on_progress = progress
        self.options.on_language = on_language
        self.options.cancellation = self._cancellation.pointer
        result = ctypes.c_void_p()
        try:
            with self.model.use(self._n_candidates) as pointer:
                transcribe = getattr(library, "whisper_transcribe_" + self.source.suffix)
                transcribe(pointer, self.source.argument, ctypes.byref(self.options), on_segment, None,
                           ctypes.byref(result))
            self.transcript = Transcript(result, self.options, self.source.name, self.model.name)
        except BaseException as error:
            self._error = self._error or error
        finally:
            self._finish()

    def _segment(self, segment: Any, _: Any) -> int:
        try:
            copy = segment_of(segment.contents, bool(self.options.word_timestamps))
            with self._changed:
                self.segments.append(copy)
                self._changed.notify_all()
                self._changed.wait_for(self._may_go_on)
        except BaseException as error:
            self._error = self._error or error
        return int(self._error is not None or self._cancellation.is_requested())

    def _may_go_on(self) -> bool:
        return (self._collects or len(self.segments) - self.n_consumed < _MOST_WAITING
                or self.model.handle.n_waiting > 0 or self._cancellation.is_requested())

    def _language(self, language: bytes, probability: float, _: Any) -> None:
        try:
            with self._changed:
                self.language = language.decode(), probability
                self._changed.notify_all()
        except BaseException as error:
            self._error = self._error or error
            self._cancellation.request()

    def _progress(self, done_s: float, total_s: float, _: Any) -> None:
        try:
            with self._changed:
                self.total_s = total_s
                self._changed.notify_all()
            if self._on_progress:
                self._on_progress(done_s, total_s)
        except BaseException as error:
            self._error = self._error or error
            self._cancellation.request()


class Transcription:
    """The result of WhisperModel.transcribe.

    It unpacks into segments, a generator that transcribes while it is iterated, and information, as in
    faster-whisper. Its own properties wait for the end.

    >>> segments, info = model.transcribe("talk.wav")
    >>> next(segments).text[:24]
    ' And Mr. John Dashwood h'
    >>> info.language
    'en'
    >>> print(model.transcribe("talk.wav").text[:30])
    And Mr. John Dashwood had then
    """

    def __init__(self, run: Run, arguments: dict[str, Any], is_multilingual: bool) -> None:
        self._run = run
        self._cancel = weakref.finalize(self, run.cancel)
        self.info = TranscriptionInfo(self, run, arguments, is_multilingual)

    def __iter__(self) -> Iterator[Any]:
        return iter((self._segments(), self.info))

    def _segments(self) -> Iterator[Segment]:
        try:
            yield from self._run
        finally:
            if not self._run.is_finished:
                self._run.cancel()

    @property
    def transcript(self) -> Transcript:
        """The finished transcript."""
        return self._run.collect()

    @property
    def segments(self) -> list[Segment]:
        """All segments."""
        return self.transcript.segments

    @property
    def text(self) -> str:
        """The text of all segments, "" without speech."""
        return self.transcript.text

    @property
    def language(self) -> str:
        """Code of the first language, "" without speech."""
        return self.transcript.language

    @property
    def language_probability(self) -> float:
        """Probability of the language."""
        return self.transcript.language_probability

    @property
    def duration(self) -> float:
        """Seconds of the recording."""
        return self.transcript.duration

    def to(self, format: str, **layout: Any) -> str:
        """The transcript in a format, as Transcript.to.

        >>> print(model.transcribe("talk.wav").to("srt").splitlines()[0])
        1
        """
        return self.transcript.to(format, **layout)

    def write(self, path: str | os.PathLike[str], format: str | None = None, **layout: Any) -> None:
        """Writes the transcript to a file, as Transcript.write."""
        self.transcript.write(path, format, **layout)

    def cancel(self) -> None:
        """Ends the transcription before its end, from any thread."""
        self._run.cancel()


class TranscriptionInfo:
    """What is known about a recording besides its segments, with faster-whisper's names.

    A property that is asked for before the segments starts the transcription, and waits until it is known.
    """

    def __init__(self, owner: Transcription, run: Run, arguments: dict[str, Any],
                 is_multilingual: bool) -> None:
        self._owner, self._run = owner, run
        self._given = None if is_multilingual else "en"
        if arguments["language"] not in (None, "auto"):
            self._given = arguments["language"]
        self._probabilities: list[tuple[str, float]] | None = None
        self._duration_after_vad: float | None = None
        vad = arguments["vad_parameters"] or {}
        self.vad_options = types.SimpleNamespace(**vad) if arguments["vad_filter"] else None
        self.transcription_options = types.SimpleNamespace(**arguments)

    @property
    def language(self) -> str:
        """Code of the language."""
        if self._given:
            return self._given
        return self._found()[0]

    @property
    def language_probability(self) -> float:
        """Probability of the language; 1 if it was given."""
        return 1.0 if self._given else self._found()[1]

    @property
    def all_language_probs(self) -> list[tuple[str, float]] | None:
        """The probability of each language, the greatest first; None if it was given."""
        if self._given:
            return None
        if self._probabilities is None:
            run = self._run
            self._probabilities = detect_languages(run.model, run.source, run.options)
        return self._probabilities

    @property
    def duration(self) -> float:
        """Seconds of the recording."""
        run = self._run
        run.wait_for(lambda: run.total_s > 0)
        return run.transcript.duration if run.transcript else run.total_s

    @property
    def duration_after_vad(self) -> float:
        """Seconds of speech with vad_filter, else of the recording."""
        if self.vad_options is None:
            return self.duration
        if self._duration_after_vad is None:
            ranges = find_speech(self._run.model, self._run.source, self._run.options)
            self._duration_after_vad = sum(end - start for start, end in ranges)
        return self._duration_after_vad

    def _found(self) -> tuple[str, float]:
        run = self._run
        run.wait_for(lambda: run.language is not None)
        if run.language:
            return run.language
        transcript = run.collect()
        if transcript.language:
            return transcript.language, transcript.language_probability
        probabilities = self.all_language_probs  # of a recording without speech
        return probabilities[0] if probabilities else ("", 0.0)


def detect_languages(model: Model, source: Source, options: c.TranscribeOptions) -> list[tuple[str, float]]:
    """Codes and probabilities of the languages of a recording, the greatest first."""
    result = ctypes.c_void_p()
    _call_with_options(model, "whisper_detect_languages_", source, options, ctypes.byref(result))
    return [(entry["language"], entry["probability"]) for entry in json.loads(take_string(result))]


def find_speech(model: Model, source: Source, options: c.TranscribeOptions) -> list[tuple[float, float]]:
    """Start and end of each piece of speech in seconds."""
    ranges, n_ranges = ctypes.c_void_p(), ctypes.c_size_t()
    _call_with_options(model, "whisper_find_speech_", source, options, ctypes.byref(ranges),
                       ctypes.byref(n_ranges))
    try:
        array = ctypes.cast(ranges, ctypes.POINTER(c.SpeechRange))
        return [(array[index].start_s, array[index].end_s) for index in range(n_ranges.value)]
    finally:
        library.ranges_free(ranges)


def _call_with_options(model: Model, function: str, source: Source, options: c.TranscribeOptions,
                       *results: Any) -> None:
    """Calls a function of a recording; Ctrl-C ends it."""
    cancellation = Cancellation()
    own = c.TranscribeOptions.from_buffer_copy(options)
    own.cancellation = cancellation.pointer
    own.on_progress = ctypes.cast(0, c.OnProgress)

    def call() -> None:
        with model.use(1) as pointer:
            getattr(library, function + source.suffix)(pointer, source.argument, ctypes.byref(own), *results)

    interruptible(call, cancellation.request)
