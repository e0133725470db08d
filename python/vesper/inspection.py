"""What models and devices are, and the models of this machine."""
from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from vesper import _structs as c
from vesper._calls import Cancellation, interruptible
from vesper._library import library, take_string, text
from vesper._options import array_of, default_options, encoded, load_options, path_bytes
from vesper.errors import UsageError

_KINDS = {"speech": "MODEL_SPEECH", "voice activity": "MODEL_VAD", "text encoder": "MODEL_TEXT_ENCODER",
          "language": "MODEL_LANGUAGE"}
_PARTS = ("model", "metadata", "tensors", "checksums", "table", "verify", "profile")


def inspect(model: str | os.PathLike[str], what: str = "model", *, device: str = "auto",
            compute_type: str = "default", filters: Iterable[str] = (), statistics: bool = False,
            input: str | os.PathLike[str] | None = None, per_command: bool = False,
            local_files_only: bool = False) -> Any:
    """What `inspect --json` prints about a model, as dicts and lists.

    what: "model" (the description, with the memory that it needs), "metadata", "tensors", "checksums",
    "table" (the commands that it runs), "verify" (reads everything) or "profile" (runs it). filters:
    globs for names of tensors and keys. statistics: of each tensor. input, per_command: of a profile.

    >>> vesper.inspect("tiny.en")["family"]
    'whisper'
    """
    if what not in _PARTS:
        raise UsageError(f"what: expected one of {', '.join(_PARTS)}, found {what!r}", "what")
    options = _options(device, compute_type, local_files_only)
    options.filters, options.n_filters = _filters(filters)
    options.statistics, options.per_command = bool(statistics), bool(per_command)
    if input is not None:
        options.input = path_bytes("input", input)
    more: tuple[Any, ...] = (None, None) if what == "profile" else ()
    before: tuple[Any, ...] = (None,) if what == "verify" else ()
    function = getattr(library, "inspect_" + what)
    return _json(lambda result: function(path_bytes("model", model), ctypes.byref(options), *before, result,
                                         *more))


def diff(model: str | os.PathLike[str], other: str | os.PathLike[str]) -> Any:
    """What differs between two models, in any formats, as `inspect --json --diff`."""
    options = _options("auto", "default", False)
    return _json(lambda result: library.inspect_diff(path_bytes("model", model), path_bytes("other", other),
                                                     ctypes.byref(options), None, result))


def convert(model: str | os.PathLike[str], output: str | os.PathLike[str], type: str, *,
            cpu_threads: int = 0, local_files_only: bool = False) -> dict[str, Any]:
    """Writes a model as one GGUF file, or Whisper as a ggml file, and returns what was written.

    type: the format of most matrices, "q8_0", "q4_k", "f16", ... The output has its name only when it is
    complete and has been read back.
    """
    options = default_options(c.ConvertOptions, "convert_options_init")
    load_options(options.load, "auto", 0, "default", cpu_threads, local_files_only)
    cancellation = Cancellation()
    options.cancellation = cancellation.pointer
    result = ctypes.c_void_p()

    def work() -> None:
        library.convert(path_bytes("model", model), path_bytes("output", output), encoded("type", type),
                        ctypes.byref(options), ctypes.byref(result))

    interruptible(work, cancellation.request)
    report: dict[str, Any] = json.loads(take_string(result))
    return report


def devices() -> list[dict[str, Any]]:
    """The devices of this machine, usable or not, as `inspect --json --devices` lists them."""
    found: list[dict[str, Any]] = _json(library.inspect_devices)["devices"]
    return found


def installed_models() -> list[dict[str, str]]:
    """The models of this machine: [{"name", "kind", "path"}, ...]."""
    models: list[dict[str, str]] = _json(library.models_installed)
    return models


def known_models() -> list[dict[str, Any]]:
    """The models that can be named: [{"name", "kind", "repository", "revision", "files"}, ...].

    >>> "tiny.en" in [model["name"] for model in vesper.known_models()]
    True
    """
    models: list[dict[str, Any]] = _json(library.models_known)
    return models


def find_model(model: str, kind: str = "speech", *, local_files_only: bool = False,
               on_download: Callable[[str, int, int], None] | None = None) -> str:
    """The file or folder of a model, which is downloaded if it is not there.

    kind: "speech", "voice activity", "text encoder" or "language". on_download(model, done_bytes,
    total_bytes) reports progress; total_bytes 0: unknown.
    """
    if kind not in _KINDS:
        raise UsageError(f"kind: expected one of {', '.join(_KINDS)}, found {kind!r}", "kind")
    options = default_options(c.LoadOptions, "load_options_init")
    options.offline = bool(local_files_only)
    cancellation = Cancellation()
    errors: list[BaseException] = []

    def report(name: bytes, done_bytes: int, total_bytes: int, _: Any) -> int:
        try:
            if on_download:
                on_download(text(name), done_bytes, total_bytes)
        except BaseException as error:
            errors.append(error)
        return len(errors)

    options.on_download = c.OnDownload(report)
    result = ctypes.c_void_p()

    def call() -> None:
        library.model_find(encoded("model", model), c.CONSTANTS[_KINDS[kind]], ctypes.byref(options),
                           cancellation.pointer, ctypes.byref(result))

    try:
        interruptible(call, cancellation.request)
    except Exception:
        if errors:
            raise errors[0] from None
        raise
    return take_string(result)


def _options(device: str, compute_type: str, local_files_only: bool) -> c.InspectOptions:
    options = default_options(c.InspectOptions, "inspect_options_init")
    load_options(options.load, device, 0, compute_type, 0, local_files_only)
    return options


def _filters(filters: Iterable[str]) -> tuple[Any, int]:
    globs = array_of("filters", ctypes.c_char_p, filters)
    return globs, len(globs)


def _json(call: Callable[[Any], Any]) -> Any:
    result = ctypes.c_void_p()

    def work() -> None:
        call(ctypes.byref(result))

    interruptible(work)
    return json.loads(take_string(result))
