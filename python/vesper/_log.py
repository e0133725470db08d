"""The library's messages in Python's logging, as the logger "vesper"."""
from __future__ import annotations

import logging
from typing import Any

from vesper import _structs as c
from vesper._library import library, text

_logger = logging.getLogger("vesper")


def _log(level: int, message: bytes, _: Any) -> None:
    _logger.log(logging.WARNING if level == c.CONSTANTS["LOG_WARNING"] else logging.INFO, "%s", text(message))


_callback = c.OnLog(_log)
library.set_log(_callback, None)
