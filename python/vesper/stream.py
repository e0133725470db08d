"""Live captions of sound that arrives piece by piece."""
from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy.typing

from vesper import _structs as c
from vesper._audio import Samples
from vesper._calls import Cancellation, Closable, Handle, interruptible
from vesper._library import library, text
from vesper._options import default_options, real, unsigned
from vesper._speech_options import most_candidates, transcribe_options
from vesper.errors import UsageError
from vesper.speech import WhisperModel, all_arguments
from vesper.transcript import Transcript


@dataclass(frozen=True)
class CaptionWord:
    """A word of a caption, with the space before it. Seconds from the start of the stream."""

    start: float
    end: float
    word: str
    opens_segment: bool
    probability: float


@dataclass(frozen=True)
class Caption:
    """Words of a live stream. Final ones do not change; the others replace the previous others.

    `received`: seconds of sound so far.
    """

    is_final: bool
    words: list[CaptionWord]
    received: float

    @property
    def text(self) -> str:
        """The words, joined."""
        return "".join(word.word for word in self.words)


class Stream(Closable):
    """Sound that is transcribed while it arrives.

    `samples`: an iterator of numpy arrays (as in WhisperModel.transcribe) or lists of floats; without
    it, the caller pushes. `step`: captions come after each so many seconds of sound, 0.2 to 20; None:
    no captions, only the transcript. `channels` of an array are averaged unless another option of
    WhisperModel.transcribe says otherwise; all options except clip_timestamps are accepted.

    The model does nothing else until the stream is finished or closed.

    >>> blocks = numpy.array_split(samples, 40)  # from a microphone, for example
    >>> with vesper.Stream(model, blocks, step=2) as stream:
    ...     final = [caption.text for caption in stream if caption.is_final]
    >>> "".join(final)[:18]
    ' And Mr. John Dash'
    >>> stream.transcript.text[:17]
    'And Mr. John Dash'
    """

    def __init__(self, model: WhisperModel, samples: Iterable[Any] | None = None, *,
                 sampling_rate: int = 16000, n_channels: int = 1, step: float | None = 1.0,
                 **options: Any) -> None:
        self.transcript: Transcript | None = None
        self.n_channels = unsigned("n_channels", n_channels)
        self._samples = samples
        self._model = model
        self._captions: list[Caption] = []
        self._cancellation = Cancellation()
        arguments, _, on_progress = all_arguments(options)
        if on_progress:
            raise UsageError("on_progress: expected None for a stream", "on_progress")
        self._sampling_rate = unsigned("sampling_rate", sampling_rate)
        self._options = transcribe_options(arguments)
        self._options.cancellation = self._cancellation.pointer
        callbacks = default_options(c.StreamOptions, "stream_options_init")
        callbacks.step_s = math.nan if step is None else real("step", step)
        callbacks.on_final = c.OnCaption(_collector(self._captions, True))
        callbacks.on_partial = c.OnCaption(_collector(self._captions, False))
        self._callbacks = callbacks
        self._handle = Handle("Stream", interruptible(self._open), "stream_close", model.handle)

    def _open(self) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        with self._model.use(most_candidates(self._options)) as model:
            library.stream_open(model, self._sampling_rate, self.n_channels,
                                ctypes.byref(self._options), ctypes.byref(self._callbacks),
                                ctypes.byref(pointer))
        return pointer

    def push(self, samples: Any) -> list[Caption]:
        """Adds samples, [n_frames] or [n_frames, n_channels]; the captions that they bring."""
        block = Samples(numpy.asarray(samples, None if hasattr(samples, "dtype") else numpy.float32),
                        self._sampling_rate)
        if block.channels != self.n_channels:
            raise UsageError(f"samples: expected {self.n_channels} channels, found {block.channels}",
                             "samples")
        return self._call(lambda pointer: library.stream_push(pointer, block.pointer, block.n_frames))

    def finish(self) -> list[Caption]:
        """Ends the sound; the last captions. Then `transcript` has the result. Once."""
        result = ctypes.c_void_p()
        captions = self._call(lambda pointer: library.stream_finish(pointer, ctypes.byref(result)))
        self.transcript = Transcript(result, self._options, "", self._model.name)
        self._handle.close()
        return captions

    def __iter__(self) -> Iterator[Caption]:
        if self._samples is None:
            raise UsageError("Stream: expected samples to iterate, found none: use push() and finish()")
        for block in self._samples:
            yield from self.push(block)
        yield from self.finish()

    def close(self) -> None:
        """Ends the stream without a result, unless it is finished. Later calls do nothing."""
        self._handle.close()

    def _call(self, call: Callable[[ctypes.c_void_p], Any]) -> list[Caption]:
        def work() -> None:
            with self._handle.use() as pointer:
                call(pointer)

        interruptible(work, self._cancellation.request)
        captions = self._captions[:]
        del self._captions[:len(captions)]
        return captions


def _collector(captions: list[Caption], is_final: bool) -> Callable[[Any, int, float, Any], None]:
    """A callback that keeps captions. It does not refer to the stream, which could not be freed."""
    def collect(words: Any, n_words: int, received_s: float, _: Any) -> None:
        copies = [CaptionWord(word.start_s, word.end_s, text(word.text), bool(word.opens_segment),
                              word.probability)
                  for word in words[:n_words]]
        captions.append(Caption(is_final, copies, received_s))

    return collect
