"""Fills options structs from Python values."""
from __future__ import annotations

import ctypes
import math
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from vesper import _structs as c
from vesper._library import library
from vesper.errors import UsageError

Struct = TypeVar("Struct", bound=ctypes.Structure)


def default_options(kind: type[Struct], init: str) -> Struct:
    """A struct with the library's defaults."""
    options = kind()
    getattr(library, init)(ctypes.byref(options), ctypes.sizeof(options))
    return options


def encoded(name: str, value: str) -> bytes:
    """A C string. Raises UsageError for a text with a zero byte, or with half a surrogate pair."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, found {type(value).__name__}")
    if "\0" in value:
        raise UsageError(f"{name}: expected a text without zero bytes, found one at {value.index(chr(0))}",
                         name)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name}: expected Unicode text, found a lone surrogate at {error.start}",
                         name) from None


def path_bytes(name: str, path: str | os.PathLike[str]) -> bytes:
    """The path as the system has it, also if it is not UTF-8."""
    value = os.fsencode(path)
    if b"\0" in value:
        raise UsageError(f"{name}: expected a path without zero bytes", name)
    return value


def unsigned(name: str, value: int) -> int:
    """An integer of 32 bits without sign. Raises TypeError, and UsageError if it is out of range."""
    number = integer(name, value)
    if not 0 <= number < 2**32:
        raise UsageError(f"{name}: expected 0 to {2**32 - 1}, found {number}", name)
    return number


def integer(name: str, value: int) -> int:
    """An integer, also one of numpy. Raises TypeError."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, found {type(value).__name__}") from None


def real(name: str, value: float) -> float:
    """A number. Raises TypeError."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name}: expected a number, found {type(value).__name__}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number, found {type(value).__name__}") from None


def real_or_off(name: str, value: float | None) -> float:
    """A number, NaN for None. Raises UsageError for a NaN, which would switch the setting off."""
    if value is None:
        return math.nan
    number = real(name, value)
    if math.isnan(number):
        raise UsageError(f"{name}: expected a number or None, found nan", name)
    return number


def array_of(name: str, kind: Any, values: Iterable[Any]) -> Any:
    """A C array of integers, numbers or C strings."""
    try:
        if kind is ctypes.c_char_p:
            converted: list[Any] = [encoded(name, value) for value in values]
        elif kind is ctypes.c_double:
            converted = [real(name, value) for value in values]
        else:
            converted = [integer(name, value) for value in values]
    except TypeError:
        raise TypeError(f"{name}: expected a list of {kind.__name__[2:]}") from None
    if kind is ctypes.c_int32 and any(not -2**31 <= value < 2**31 for value in converted):
        raise UsageError(f"{name}: expected integers of 32 bits", name)
    return (kind * len(converted))(*converted)


def messages_of(messages: Iterable[Mapping[str, str]]) -> Any:
    """A C array of messages, {"role": ..., "content": ...}."""
    array = []
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            raise UsageError(f'messages[{index}]: expected {{"role": ..., "content": ...}}, '
                             f"found {message!r}", "messages")
        array.append(c.Message(encoded("role", message["role"]), encoded("content", message["content"])))
    return (c.Message * len(array))(*array)


_COMPUTE = {
    "auto": "auto", "default": "auto", "f32": "f32", "float32": "f32", "f16": "f16", "float16": "f16",
    "bf16": "bf16", "bfloat16": "bf16", "int8": "int8", "int8_float32": "int8", "int8_float16": "int8",
    "int8_bfloat16": "int8",
}


def load_options(load: c.LoadOptions, device: str, device_index: int, compute_type: str,
                 cpu_threads: int, local_files_only: bool, weights: str | None = None) -> None:
    """Fills in how a model is found and loaded. "cuda" is the GPU that Vulkan has."""
    device = {"cuda": "vulkan", "gpu": "vulkan"}.get(device, device)
    if device_index:
        device = f"{device}:{unsigned('device_index', device_index)}"
    if compute_type not in _COMPUTE:
        raise UsageError(f"compute_type: expected one of {', '.join(_COMPUTE)}, found {compute_type!r}",
                         "compute_type")
    load.device = encoded("device", device)
    load.compute = encoded("compute_type", _COMPUTE[compute_type])
    load.threads = unsigned("cpu_threads", cpu_threads)
    load.offline = bool(local_files_only)
    if weights is not None:
        load.weights = encoded("weights", weights)
