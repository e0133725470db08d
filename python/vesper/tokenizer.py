"""Text to token ids and back."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping

from vesper import _structs as c
from vesper._calls import Closable, Handle, interruptible
from vesper._library import library, take_string
from vesper._options import array_of, default_options, encoded, messages_of, path_bytes


class Tokenizer(Closable):
    """The tokenizer of any model (Whisper, language model, text encoder), without its weights.

    >>> tokenizer = vesper.Tokenizer("smollm2-135m")
    >>> tokenizer.decode(tokenizer.encode("Hello, world"))
    'Hello, world'
    """

    def __init__(self, model: str | os.PathLike[str], *, local_files_only: bool = False) -> None:
        options = default_options(c.LoadOptions, "load_options_init")
        options.offline = bool(local_files_only)
        pointer = ctypes.c_void_p()

        def work() -> None:
            library.tokenizer_open(path_bytes("model", model), ctypes.byref(options), ctypes.byref(pointer))

        interruptible(work)
        self._handle = Handle("Tokenizer", pointer, "tokenizer_close")

    def encode(self, text: str | bytes, *, parse_special: bool = False,
               add_special: bool = False) -> list[int]:
        """The token ids of a text.

        parse_special: spellings of special tokens become these tokens. add_special: with the model's
        special tokens around the text.
        """
        content = text if isinstance(text, bytes) else text.encode()
        tokens, n_tokens = ctypes.c_void_p(), ctypes.c_size_t()
        with self._handle.use() as pointer:
            library.tokenizer_encode(pointer, content, len(content), bool(parse_special),
                                     bool(add_special), ctypes.byref(tokens), ctypes.byref(n_tokens))
        try:
            return list(ctypes.cast(tokens, ctypes.POINTER(ctypes.c_int32))[:n_tokens.value])
        finally:
            library.tokens_free(tokens)

    def decode(self, tokens: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of token ids. Raises InputError for an id beyond the vocabulary."""
        array = array_of("tokens", ctypes.c_int32, tokens)
        result = ctypes.c_void_p()
        with self._handle.use() as pointer:
            library.tokenizer_decode(pointer, array, len(array), not skip_special_tokens,
                                     ctypes.byref(result))
        return take_string(result)

    def apply_chat_template(self, messages: Iterable[Mapping[str, str]], *, thinking: bool = True) -> str:
        """Messages in the format of the model, up to the start of its answer."""
        array = messages_of(messages)
        result = ctypes.c_void_p()
        with self._handle.use() as pointer:
            library.tokenizer_format_chat(pointer, array, len(array), not thinking, ctypes.byref(result))
        return take_string(result)

    def token_to_id(self, token: str) -> int | None:
        """The id of a token by its spelling; None if there is none.

        >>> tokenizer.token_to_id("<|im_end|>")
        2
        """
        with self._handle.use() as pointer:
            found = int(library.tokenizer_find(pointer, encoded("token", token)))
        return found if found >= 0 else None

    @property
    def n_vocab(self) -> int:
        """The number of token ids."""
        return int(self._handle.read("tokenizer_n_vocab"))

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a text; None if there is none."""
        found = int(self._handle.read("tokenizer_bos"))
        return found if found >= 0 else None

    @property
    def eos_token_id(self) -> int | None:
        """The token that ends a text; None if there is none."""
        found = int(self._handle.read("tokenizer_eos"))
        return found if found >= 0 else None

    def close(self) -> None:
        """Frees the tokenizer. Later calls do nothing."""
        self._handle.close()
