"""Audio for the library: a path, the content of a file, or samples in a numpy array."""
from __future__ import annotations

import ctypes
import os
from typing import Any, BinaryIO, Union

import numpy
import numpy.typing

from vesper import _structs as c
from vesper._options import path_bytes
from vesper.errors import InputError, UsageError

# A path ("-": standard input), the bytes of an audio file, a file object, or samples.
Audio = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, BinaryIO, "numpy.typing.NDArray[Any]"]


def float_samples(samples: numpy.typing.NDArray[Any]) -> numpy.typing.NDArray[numpy.float32]:
    """Samples as C-contiguous float32, [n_frames] or [n_frames, channels], full scale +-1.

    Such an array of the machine's byte order is used without a copy. float16, float32 of any strides
    or byte order, and int16 (full scale 32768) are converted, without loss. Raises UsageError for
    other types, which would lose digits or have no scale, and for other shapes.
    """
    if samples.ndim not in (1, 2):
        raise UsageError(f"audio: expected an array [n_frames] or [n_frames, channels], found the shape "
                         f"{list(samples.shape)}", "audio")
    kind = samples.dtype.newbyteorder("=")
    if kind == numpy.int16:
        return numpy.ascontiguousarray(samples, numpy.float32) / numpy.float32(32768)
    if kind not in (numpy.float16, numpy.float32):
        raise UsageError(f"audio: expected an array of float32, float16 or int16, found {samples.dtype}; "
                         "audio.astype(numpy.float32) converts float64", "audio")
    return numpy.ascontiguousarray(samples, numpy.float32)


class Samples:
    """Samples for a C call, and the struct that describes them."""

    def __init__(self, samples: numpy.typing.NDArray[Any], sample_rate_hz: int) -> None:
        self.array = float_samples(samples)
        self.n_frames = self.array.shape[0]
        self.channels = 1 if self.array.ndim == 1 else self.array.shape[1]
        if not 1 <= self.channels <= 256:
            raise UsageError(f"audio: expected 1 to 256 channels, found an array "
                             f"{list(self.array.shape)} of [n_frames, channels]", "audio")
        self.pointer = self.array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self.pcm = c.Pcm(self.pointer, self.n_frames, sample_rate_hz, self.channels)
        self.duration_s = self.n_frames / max(sample_rate_hz, 1)


class Content:
    """The bytes of an audio file, as a file in memory that has a path."""

    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        self._file = os.memfd_create("audio")
        with open(self._file, "wb", closefd=False) as file:
            file.write(content)
        # A program that decodes it is another process.
        self.path = f"/proc/{os.getpid()}/fd/{self._file}".encode()

    def __del__(self) -> None:
        os.close(self._file)


class Source:
    """Audio of any kind: an argument for the C functions that end with `suffix`, "file" or "pcm"."""

    def __init__(self, audio: Audio, sample_rate_hz: int) -> None:
        self._kept: Samples | Content | None = None
        self.duration_s: float | None = None
        self.argument: Any
        self.suffix = "file"
        self.name = ""
        if isinstance(audio, numpy.ndarray):
            self._kept = Samples(audio, sample_rate_hz)
            self.suffix, self.argument = "pcm", ctypes.byref(self._kept.pcm)
            self.duration_s = self._kept.duration_s
            return
        if isinstance(audio, (str, os.PathLike)):
            self.argument = path_bytes("audio", audio)
            self.name = os.fspath(audio)
            return
        if hasattr(audio, "read"):
            audio = audio.read()
        if not isinstance(audio, (bytes, bytearray, memoryview)):
            raise TypeError("audio: expected a path, bytes, a binary file or a numpy array, found "
                            f"{type(audio).__name__}")
        if not audio:
            raise InputError("audio: expected an audio file, found no bytes")
        self._kept = Content(audio)
        self.argument = self._kept.path

