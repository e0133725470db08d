"""A finished transcript and its parts."""
from __future__ import annotations

import ctypes
import os
import pathlib
import threading
import weakref
from dataclasses import dataclass
from typing import Any

from vesper import _structs as c
from vesper._library import library, take_string, text
from vesper._options import default_options, encoded, path_bytes, unsigned
from vesper.errors import OutputError, UsageError


@dataclass(frozen=True)
class Word:
    """A word of a segment; `word` has the space before and the punctuation around it. Seconds."""

    start: float
    end: float
    word: str
    probability: float
    speaker: str = ""


@dataclass(frozen=True)
class Segment:
    """A piece of a transcript, with faster-whisper's field names.

    `start` and `end` are seconds from the start of the recording, `seek` is the first frame of its
    window in 10 ms. `words` is None without word_timestamps. `speaker` and `channel` are set with
    channels="split" or "diarize".
    """

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: list[Word] | None
    temperature: float
    language: str
    speaker: str
    channel: int


def segment_of(segment: c.Segment, has_words: bool) -> Segment:
    """A copy of a segment of the library."""
    words = [Word(word.start_s, word.end_s, text(word.text), word.probability, text(word.speaker))
             for word in segment.words[:segment.n_words]] if has_words else None
    return Segment(segment.id, segment.seek, segment.start_s, segment.end_s, text(segment.text),
                   list(segment.tokens[:segment.n_tokens]), segment.avg_logprob, segment.compression_ratio,
                   segment.no_speech_prob, words, segment.temperature, text(segment.language),
                   text(segment.speaker), segment.channel)


class Transcript:
    """A finished transcript: text, segments, and every format of the programs."""

    def __init__(self, pointer: ctypes.c_void_p, options: c.TranscribeOptions, file: str,
                 model: str) -> None:
        self._pointer = pointer
        self._file, self._model = file, model
        self._has_words = bool(options.word_timestamps)
        weakref.finalize(self, library.transcript_free, pointer).atexit = False

    @property
    def text(self) -> str:
        """The text of all segments, "" without speech."""
        return text(library.transcript_text(self._pointer))

    @property
    def language(self) -> str:
        """Code of the first language, "" without speech."""
        return text(library.transcript_language(self._pointer))

    @property
    def language_probability(self) -> float:
        """Probability of the language."""
        return float(library.transcript_language_probability(self._pointer))

    @property
    def duration(self) -> float:
        """Seconds of the recording."""
        return float(library.transcript_duration_s(self._pointer))

    @property
    def segments(self) -> list[Segment]:
        """All segments."""
        n_segments = library.transcript_n_segments(self._pointer)
        return [segment_of(library.transcript_segment(self._pointer, index).contents, self._has_words)
                for index in range(n_segments)]

    def to(self, format: str, *, max_line_width: int = 0, max_line_count: int = 0,
           max_words_per_line: int = 0, highlight_words: bool = False) -> str:
        """The transcript as "txt", "srt", "vtt", "tsv", "csv", "lrc", "json" or "jsonl".

        The bytes are those of `transcribe --format`. The other arguments lay out lines of srt and vtt;
        0: no limit. They need word_timestamps.
        """
        options = default_options(c.FormatOptions, "format_options_init")
        options.file = path_bytes("file", self._file)
        options.model = path_bytes("model", self._model)
        options.max_line_width = unsigned("max_line_width", max_line_width)
        options.max_line_count = unsigned("max_line_count", max_line_count)
        options.max_words_per_line = unsigned("max_words_per_line", max_words_per_line)
        options.highlight_words = bool(highlight_words)
        result = ctypes.c_void_p()
        library.transcript_format(self._pointer, encoded("format", format), ctypes.byref(options),
                                  ctypes.byref(result))
        return take_string(result)

    def write(self, path: str | os.PathLike[str], format: str | None = None, **layout: Any) -> None:
        """Writes the transcript to a file, in the format of its extension unless one is given.

        `layout`: as in to(). The file appears under its name when it is complete.
        """
        target = pathlib.Path(path)
        kind = format or target.suffix[1:]
        if not kind:
            raise UsageError(f"path: expected a name with the extension of a format, found {target}; "
                             "to() returns the text", "path")
        content = self.to(kind, **layout)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            try:
                temporary.write_bytes(content.encode())
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{target}: cannot be written: {error.strerror}") from error
