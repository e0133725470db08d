"""The exceptions of the library: one class per kind of error."""
from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """An error of the library. Its text says what was expected, what was found, and where.

    `setting` is the option that the error is about, "" if there is none. `status` is the exit status
    of the programs for the same kind of error.

    >>> try:
    ...     vesper.WhisperModel("no-such-model", local_files_only=True)
    ... except vesper.ModelError as error:
    ...     print(error.status)
    4
    """

    status: ClassVar[int] = 0

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


class UsageError(Error, ValueError):
    """A setting out of its range, or an object that is closed or in use."""

    status = 2


class InputError(Error):
    """Audio or text that cannot be read, or is too long."""

    status = 3


class ModelError(Error):
    """A model that is missing, damaged or of another kind."""

    status = 4


class DeviceError(Error):
    """No such device, a device that failed, or not enough memory."""

    status = 5


class OutputError(Error):
    """A result that cannot be written."""

    status = 6


class Stopped(Error):
    """The work was stopped before its end, by close() or a callback."""

    status = 7


class InternalError(Error):
    """A defect of the library."""

    status = 70


ERROR_OF_STATUS: dict[int, type[Error]] = {
    kind.status: kind
    for kind in (UsageError, InputError, ModelError, DeviceError, OutputError, Stopped, InternalError)
}
