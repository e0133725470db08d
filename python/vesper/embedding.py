"""Texts to vectors, and pairs of texts to scores, with sentence-transformers' names."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import numpy.typing

from vesper import _structs as c
from vesper._calls import Cancellation, Closable, Handle, interruptible
from vesper._library import library, take_string, text
from vesper._options import default_options, encoded, load_options, path_bytes, unsigned
from vesper.errors import UsageError


class Embedder(Closable):
    """A text encoder, or a language model with a pooling, on a device.

    pooling ("mean", "cls", "last"), max_seq_length and prompts are those of the model's files unless
    given. truncate_dim: only the first dimensions. The other arguments: see WhisperModel.

    >>> embedder = vesper.Embedder("all-minilm-l6-v2")
    >>> vectors = embedder.encode(["A cat sleeps.", "A kitten naps.", "Stocks fell."])
    >>> vectors.shape
    (3, 384)
    >>> similarities = embedder.similarity(vectors, vectors)
    >>> bool(similarities[0, 1] > similarities[0, 2])
    True
    """

    def __init__(self, model_name_or_path: str | os.PathLike[str], device: str = "auto",
                 device_index: int = 0, compute_type: str = "default", cpu_threads: int = 0, *,
                 local_files_only: bool = False, weights: str | None = None,
                 pooling: str | None = None, truncate_dim: int | None = None,
                 max_seq_length: int | None = None) -> None:
        self.name = os.fspath(model_name_or_path)
        self._options = default_options(c.EmbedderOptions, "embedder_options_init")
        load_options(self._options.load, device, device_index, compute_type, cpu_threads, local_files_only,
                     weights)
        if pooling is not None:
            self._options.pooling = encoded("pooling", pooling)
        self._options.dimensions = unsigned("truncate_dim", truncate_dim or 0)
        self._options.max_tokens = unsigned("max_seq_length", max_seq_length or 0)
        self._handle = Handle("Embedder", interruptible(self._open), "embedder_close")

    def _open(self) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        library.embedder_open(path_bytes("model", self.name), ctypes.byref(self._options),
                              ctypes.byref(pointer))
        return pointer

    def encode(self, sentences: str | Sequence[str], prompt_name: str | None = None,
               prompt: str | None = None, batch_size: int | None = None,
               show_progress_bar: bool | None = None, convert_to_numpy: bool = True,
               normalize_embeddings: bool = False) -> numpy.typing.NDArray[numpy.float32]:
        """The vectors of texts, f32 [n_texts, n_dimensions]; of one text, [n_dimensions].

        prompt_name: of the model's prompts ("query", "passage", ...); prompt: the text itself; neither:
        the model's default. batch_size has no effect: texts are packed as suits the device.
        normalize_embeddings: to length 1, if the model's files do not say so already.

        >>> embedder.encode("A cat sleeps.", normalize_embeddings=True).shape
        (384,)
        """
        for name, value, accepted in (("show_progress_bar", show_progress_bar, (None, False)),
                                      ("convert_to_numpy", convert_to_numpy, (True,))):
            if value not in accepted:
                raise UsageError(f"{name}: expected {accepted[-1]}, found {value!r}", name)
        if prompt is not None and prompt_name is not None:
            raise UsageError("prompt: expected prompt or prompt_name, found both", "prompt")
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        array = (ctypes.c_char_p * len(texts))(*(encoded("sentences", sentence) for sentence in texts))
        cancellation = Cancellation()

        def work() -> numpy.typing.NDArray[numpy.float32]:
            with self._use(normalize_embeddings) as pointer:
                prefix = prompt
                if prompt_name is not None:
                    prefix = self._prompt(pointer, prompt_name)
                vectors = numpy.empty((len(texts), library.embedder_dimensions(pointer)), numpy.float32)
                library.embed(pointer, array, len(texts),
                              None if prefix is None else encoded("prompt", prefix),
                              cancellation.pointer, vectors.ctypes.data, None)
                return vectors

        vectors = interruptible(work, cancellation.request)
        return vectors.reshape(-1) if isinstance(sentences, str) else vectors

    @contextmanager
    def _use(self, normalizes: bool) -> Iterator[ctypes.c_void_p]:
        """The model for the calling thread, opened again if its vectors are to have another length."""
        with self._handle.use() as pointer:
            normalize = 1 if normalizes else -1
            if normalize != self._options.normalize:
                previous = self._options.normalize
                self._options.normalize = normalize
                try:
                    pointer = self._open()
                except BaseException:
                    self._options.normalize = previous
                    raise
                self._handle.drop()
                self._handle.replace(pointer)
            yield pointer

    def prompt(self, name: str) -> str:
        """The text that the model's files put before a text of this kind; "" if they have none."""
        with self._handle.use() as pointer:
            return self._prompt(pointer, name)

    @staticmethod
    def _prompt(pointer: ctypes.c_void_p, name: str) -> str:
        result = ctypes.c_void_p()
        library.embedder_prompt(pointer, encoded("prompt_name", name), ctypes.byref(result))
        return take_string(result)

    def similarity(self, first: Any, second: Any) -> numpy.typing.NDArray[numpy.float32]:
        """Cosines between the vectors of two arrays: [n_first, n_second]."""
        return similarity(first, second)

    @property
    def description(self) -> str:
        """Device and precision."""
        return text(self._handle.read("embedder_description"))

    @property
    def max_seq_length(self) -> int:
        """Tokens of a text; the rest is cut."""
        return int(self._handle.read("embedder_max_tokens"))

    def get_sentence_embedding_dimension(self) -> int:
        """The length of a vector."""
        return int(self._handle.read("embedder_dimensions"))

    def close(self) -> None:
        """Frees the model. Later calls do nothing."""
        self._handle.close()


class CrossEncoder(Closable):
    """A reranker on a device: a cross-encoder with one label (ms-marco-MiniLM, bge-reranker), or a
    Qwen3-Reranker.

    max_length: tokens of a pair, the rest is cut; the model's files say how many unless given.
    instruction: the task, for a Qwen3-Reranker. The other arguments: see WhisperModel.
    """

    def __init__(self, model_name_or_path: str | os.PathLike[str], device: str = "auto",
                 device_index: int = 0, compute_type: str = "default", cpu_threads: int = 0, *,
                 local_files_only: bool = False, weights: str | None = None,
                 max_length: int | None = None, instruction: str | None = None) -> None:
        self.name = os.fspath(model_name_or_path)
        self._options = default_options(c.EmbedderOptions, "embedder_options_init")
        load_options(self._options.load, device, device_index, compute_type, cpu_threads, local_files_only,
                     weights)
        self._options.reranker = 1
        self._options.max_tokens = unsigned("max_length", max_length or 0)
        if instruction is not None:
            self._options.instruction = encoded("instruction", instruction)
        self._handle = Handle("CrossEncoder", interruptible(self._open), "embedder_close")

    def _open(self) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        library.embedder_open(path_bytes("model", self.name), ctypes.byref(self._options),
                              ctypes.byref(pointer))
        return pointer

    def predict(self, sentences: Sequence[tuple[str, str]]) -> numpy.typing.NDArray[numpy.float32]:
        """How well the second text of each pair answers the first: [n_pairs], more is better.

        Probabilities, unless the model's files say that they are logits.
        """
        pairs = list(sentences)
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise UsageError("sentences: expected pairs of texts", "sentences")
        queries = (ctypes.c_char_p * len(pairs))(*(encoded("sentences", query) for query, _ in pairs))
        documents = (ctypes.c_char_p * len(pairs))(*(encoded("sentences", text) for _, text in pairs))
        scores = numpy.empty(len(pairs), numpy.float32)
        cancellation = Cancellation()

        def work() -> None:
            with self._handle.use() as pointer:
                library.rerank(pointer, queries, documents, len(pairs), cancellation.pointer,
                               scores.ctypes.data, None)

        interruptible(work, cancellation.request)
        return scores

    def rank(self, query: str, documents: Sequence[str], top_k: int | None = None,
             return_documents: bool = False) -> list[dict[str, Any]]:
        """The documents by descending score: dictionaries with corpus_id (from 0), score and, on
        request, text."""
        scores = self.predict([(query, document) for document in documents])
        order = numpy.argsort(-scores, kind="stable")[:top_k]
        return [{"corpus_id": int(i), "score": float(scores[i]),
                 **({"text": documents[i]} if return_documents else {})} for i in order]

    @property
    def description(self) -> str:
        """Device and precision."""
        return text(self._handle.read("embedder_description"))

    @property
    def max_length(self) -> int:
        """Tokens of a pair; the rest is cut."""
        return int(self._handle.read("embedder_max_tokens"))

    def close(self) -> None:
        """Frees the model. Later calls do nothing."""
        self._handle.close()


def similarity(first: Any, second: Any) -> numpy.typing.NDArray[numpy.float32]:
    """Cosines between vectors: [n_first, n_second]. A vector without length has the cosine 0.

    >>> vesper.similarity([[1.0, 0.0]], [[0.0, 2.0], [3.0, 0.0]]).tolist()
    [[0.0, 1.0]]
    """
    def normalized(vectors: Any) -> numpy.typing.NDArray[numpy.float64]:
        rows = numpy.atleast_2d(numpy.asarray(vectors, numpy.float64))
        lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
        result: numpy.typing.NDArray[numpy.float64] = rows / numpy.where(lengths > 0, lengths, 1)
        return result

    return (normalized(first) @ normalized(second).T).astype(numpy.float32)
