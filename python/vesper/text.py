"""Text from a language model: prompts, chats, streams of text."""
from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy
import numpy.typing

from vesper import _structs as c
from vesper._calls import Cancellation, Closable, Exchange, Handle, Worker, interruptible
from vesper._library import library, take_string, text
from vesper._options import (array_of, default_options, encoded, integer, load_options, messages_of,
                             path_bytes, real, unsigned)
from vesper.errors import UsageError
from vesper.tokenizer import Tokenizer

# A text to continue, messages to answer, or token ids to continue.
Prompt = Union[str, Sequence[Mapping[str, str]], Sequence[int]]

_ENDS = {c.CONSTANTS[name]: name[4:].lower() for name in c.CONSTANTS if name.startswith("END_")}

# A suspended consumer has at most this many pieces of text waiting.
_MOST_WAITING = 16


@dataclass(frozen=True)
class Answer:
    """An answer of a language model.

    `end`: "model" (the model ended it), "stop" (a stop text), "limit" (max_tokens), "context" (it is
    full), "cancelled" or "loop" (it repeated itself). `tokens` has the one that ended it, too;
    `logprobs` are theirs. `alternatives`: with top_logprobs, as in OpenAI's "logprobs" of chat
    completions. Times in seconds. `n_drafted`, `n_accepted`: tokens, with `speculate` or `draft`.
    """

    text: str
    thinking: str
    end: str
    seed: int
    tokens: list[int]
    logprobs: list[float]
    alternatives: Any
    n_prompt: int
    n_reused: int
    n_answer: int
    prompt_s: float
    answer_s: float
    n_drafted: int
    n_accepted: int


def _take_answer(pointer: ctypes.c_void_p, has_alternatives: bool) -> Answer:
    try:
        alternatives = None
        if has_alternatives:
            result = ctypes.c_void_p()
            library.answer_logprobs_json(pointer, ctypes.byref(result))
            alternatives = json.loads(take_string(result))
        n_tokens = library.answer_n_tokens(pointer)
        numbers = library.answer_statistics(pointer)
        drafts = library.answer_speculation(pointer)
        return Answer(text(library.answer_text(pointer)), text(library.answer_thinking(pointer)),
                      _ENDS[library.answer_end(pointer)], library.answer_seed(pointer),
                      list(library.answer_tokens(pointer)[:n_tokens]),
                      list(library.answer_logprobs(pointer)[:n_tokens]), alternatives, numbers.n_prompt,
                      numbers.n_reused, numbers.n_answer, numbers.prompt_s, numbers.answer_s,
                      drafts.n_drafted, drafts.n_accepted)
    finally:
        library.answer_free(pointer)


# Arguments that are grammars.
_NOTATIONS = {"grammar": c.CONSTANTS["GRAMMAR_GBNF"], "json_schema": c.CONSTANTS["GRAMMAR_JSON_SCHEMA"],
              "json_object": c.CONSTANTS["GRAMMAR_JSON"], "regex": c.CONSTANTS["GRAMMAR_REGEX"]}


def _set_grammar(options: c.GenerateOptions, grammars: Mapping[str, Any], after: str | None) -> None:
    given = {name: value for name, value in grammars.items() if value is not None}
    if len(given) > 1:
        raise UsageError(f"grammar: expected one of {', '.join(given)}, found {len(given)}", "grammar")
    for name, value in given.items():
        options.grammar_notation = _NOTATIONS[name]
        if name == "json_schema" and not isinstance(value, str):
            value = json.dumps(value)
        if name != "json_object":
            options.grammar = encoded(name, value)
    if after is not None:
        options.grammar_after = encoded("grammar_after", after)


def _bias_list(logit_bias: Mapping[int, float] | None) -> tuple[Any, int]:
    bias = [c.LogitBias(integer("logit_bias", token), real("logit_bias", value))
            for token, value in (logit_bias or {}).items()]
    return (c.LogitBias * len(bias))(*bias), len(bias)


def _add_adapters(load: c.LoadOptions, adapters: Any) -> None:
    if adapters is None:
        return
    scales = adapters if isinstance(adapters, Mapping) else {adapters: 1.0}
    array = [c.Adapter(path_bytes("adapters", path), real("adapters", scale)) for path, scale in scales.items()]
    load.adapters, load.n_adapters = (c.Adapter * len(array))(*array), len(array)


def _generate_options(
        *, max_tokens: int | None = None, temperature: float | None = None, top_k: int | None = None,
        top_p: float | None = None, min_p: float | None = None, typical_p: float | None = None,
        repetition_penalty: float | None = None, frequency_penalty: float | None = None,
        presence_penalty: float | None = None, penalty_window: int | None = None,
        no_repeat_ngram_size: int | None = None, seed: int | None = None,
        stop: str | Iterable[str] = (), top_logprobs: int = 0, thinking: bool = True,
        separate_thinking: bool = True, allow_loops: bool = False, context_shift: bool = False,
        reuse: bool = True, grammar: str | None = None,
        json_schema: str | Mapping[str, Any] | bool | None = None, json_object: bool = False,
        regex: str | None = None, grammar_after: str | None = None,
        logit_bias: Mapping[int, float] | None = None, ignore_end: bool = False,
) -> c.GenerateOptions:
    """The options of an answer; None: what the model's files recommend."""
    options = default_options(c.GenerateOptions, "generate_options_init")
    for name, value in locals().copy().items():
        if value is None or name in ("options", "stop", "thinking", "reuse", "seed", "logit_bias",
                                     *_NOTATIONS, "grammar_after"):
            continue
        if name in ("separate_thinking", "allow_loops", "context_shift", "ignore_end"):
            setattr(options, name, bool(value))
        elif isinstance(getattr(options, name), float):
            setattr(options, name, real(name, value))
        else:
            setattr(options, name, unsigned(name, value))
    if seed is not None:
        options.seed = integer("seed", seed)
    stops = [stop] if isinstance(stop, str) else list(stop)
    options.stops, options.n_stops = array_of("stop", ctypes.c_char_p, stops), len(stops)
    options.no_thinking, options.no_reuse = not thinking, not reuse
    _set_grammar(options, {"grammar": grammar, "json_schema": json_schema,
                           "json_object": json_object or None, "regex": regex}, grammar_after)
    options.logit_bias, options.n_logit_bias = _bias_list(logit_bias)
    return options


def _prompt(prompt: Prompt) -> c.Prompt:
    result = c.Prompt()
    if isinstance(prompt, str):
        result.text = encoded("prompt", prompt)
        return result
    parts: list[Any] = list(prompt)
    if parts and isinstance(parts[0], Mapping):
        result.messages, result.n_messages = messages_of(parts), len(parts)
    elif parts and not isinstance(parts[0], str):
        result.tokens, result.n_tokens = array_of("prompt", ctypes.c_int32, parts), len(parts)
    else:
        raise UsageError(f"prompt: expected a str, messages or token ids, found {prompt!r}", "prompt")
    return result


class LanguageModel(Closable):
    """A language model on a device.

    context: tokens of a prompt and its answer; 0: 4096, or the model's limit if that is less.
    batch_size: answers at once in generate_many(). chat_template replaces the model's. speculate:
    "ngram" drafts tokens from earlier text; draft: a smaller model with the same tokens drafts them. The
    answers are the same. adapters: a LoRA adapter (a folder
    of PEFT or a GGUF file), or several with their scales, {path: 1.0}. The other arguments: see
    WhisperModel.

    The methods that answer take these options: max_tokens, temperature (0: the most probable token),
    top_k, top_p, min_p, typical_p, repetition_penalty, frequency_penalty, presence_penalty,
    penalty_window, no_repeat_ngram_size, seed, stop (a text, or several), top_logprobs, thinking
    (False: ask for an answer without), separate_thinking, allow_loops, context_shift, reuse (of a
    cached prefix), logit_bias and ignore_end. One of grammar (GBNF), json_schema (a mapping, or its
    text), json_object (True) and regex: the answer is such a text, from the text grammar_after on.
    What is not given is what the model's files recommend.

    >>> model = vesper.LanguageModel("smollm2-135m")
    >>> model.generate("The capital of France is", max_tokens=2, temperature=0).text
    ' Paris.'
    >>> answer = model.chat([{"role": "user", "content": "Hi"}], temperature=0, max_tokens=8)
    >>> answer.end in ("limit", "model")
    True
    """

    def __init__(self, model: str | os.PathLike[str], device: str = "auto", device_index: int = 0,
                 compute_type: str = "default", cpu_threads: int = 0, *, context: int = 0,
                 batch_size: int = 1, kv_type: str = "f16", beam_size: int = 1,
                 length_penalty: float = 1, logit_bias: Mapping[int, float] | None = None,
                 ignore_end: bool = False, chat_template: str | None = None, speculate: str = "off",
                 draft: str | os.PathLike[str] | None = None,
                 weights: str | None = None,
                 adapters: str | os.PathLike[str] | Mapping[str | os.PathLike[str], float] | None = None,
                 local_files_only: bool = False) -> None:
        self.name = os.fspath(model)
        options = default_options(c.LanguageModelOptions, "language_model_options_init")
        load_options(options.load, device, device_index, compute_type, cpu_threads, local_files_only,
                     weights)
        _add_adapters(options.load, adapters)
        options.context = unsigned("context", context)
        options.batch_size = unsigned("batch_size", batch_size)
        options.kv_type = encoded("kv_type", kv_type)
        options.beam_size = unsigned("beam_size", beam_size)
        options.length_penalty = real("length_penalty", length_penalty)
        options.logit_bias, options.n_logit_bias = _bias_list(logit_bias)
        options.ignore_end = bool(ignore_end)
        options.speculate = encoded("speculate", speculate)
        if draft is not None:
            options.draft = path_bytes("draft", os.fspath(draft))
        if chat_template is not None:
            options.chat_template = encoded("chat_template", chat_template)
        pointer = ctypes.c_void_p()

        def work() -> None:
            library.language_model_open(path_bytes("model", self.name), ctypes.byref(options),
                                        ctypes.byref(pointer))

        interruptible(work)
        self.handle = Handle("LanguageModel", pointer, "language_model_close")
        self._tokenizer: Tokenizer | None = None

    def generate(self, prompt: Prompt, **options: Any) -> Answer:
        """The answer to a prompt: a text to continue, messages, or token ids.

        >>> model.generate("1, 2, 3,", temperature=0, stop=",").text
        ' 4'
        """
        return _answer(self.handle, _generate_options(**options), self._call(_prompt(prompt)))

    def chat(self, messages: Sequence[Mapping[str, str]], **options: Any) -> Answer:
        """The answer to messages, {"role": ..., "content": ...}, by the model's chat template."""
        if isinstance(messages, str):
            raise TypeError("messages: expected a list of messages, found a str; generate() continues it")
        return self.generate(messages, **options)

    def stream(self, prompt: Prompt, **options: Any) -> TextStream:
        """The answer as an iterator of pieces of text, as they are generated.

        >>> "".join(model.stream("1, 2, 3,", temperature=0, max_tokens=3))
        ' 4,'
        """
        return TextStream(self.handle, _generate_options(**options), self._call(_prompt(prompt)))

    def generate_many(self, prompts: Iterable[Prompt], *,
                      each: Iterable[Mapping[str, Any]] | None = None,
                      **options: Any) -> list[Answer | Exception]:
        """The answers to prompts, batch_size at once; the error of those that failed.

        each: options of each prompt, besides those of all; without it, equal prompts get different
        seeds. An answer does not depend on the others.
        """
        given = [_prompt(prompt) for prompt in prompts]
        array = (c.Prompt * len(given))(*given)
        # They own the texts that the array refers to.
        owners = ([_generate_options(**options)] if each is None else
                  [_generate_options(**{**options, **own}) for own in each])
        if each is not None and len(owners) != len(given):
            raise UsageError(f"each: expected {len(given)} options, one for each prompt, found "
                             f"{len(owners)}", "each")
        cancellation = Cancellation()
        for own in owners:
            own.cancellation = cancellation.pointer
        list_of_options = (c.GenerateOptions * len(owners))(*owners)
        answers: list[Any] = [None] * len(given)

        def of(index: int) -> c.GenerateOptions:
            return owners[0 if each is None else index]

        def on_answer(index: int, pointer: int | None, status: int, message: bytes, _: Any) -> int:
            try:
                answers[index] = (_take_answer(ctypes.c_void_p(pointer), bool(of(index).top_logprobs)) if pointer
                                  else library.error(status, text(message)))
            except BaseException as error:
                answers[index] = error
            return 0

        def call() -> None:
            with self.handle.use() as model:
                library.generate_many(model, array, len(given), list_of_options, len(owners),
                                      c.OnAnswer(on_answer), None)

        interruptible(call, cancellation.request)
        return answers

    def generate_long(self, instruction: str, content: str, *, system: str | None = None,
                      **options: Any) -> Answer:
        """The answer to an instruction about a text of any length: about its parts, then joined."""
        def call(model: Any, own: c.GenerateOptions, answer: Any) -> None:
            library.generate_long(model, None if system is None else encoded("system", system),
                                  encoded("instruction", instruction), encoded("content", content),
                                  ctypes.byref(own), answer)

        return _answer(self.handle, _generate_options(**options), call)

    def perplexity(self, content: str) -> float:
        """How well the model predicts a text: exp of the mean of -log p, as llama-perplexity."""
        result = c.PerplexityResult()
        cancellation = Cancellation()

        def call() -> float:
            with self.handle.use() as model:
                library.perplexity(model, encoded("content", content), cancellation.pointer,
                                   ctypes.byref(result))
            return float(result.value)

        return interruptible(call, cancellation.request)

    def logits(self, tokens: Iterable[int]) -> numpy.typing.NDArray[numpy.float32]:
        """The logits after each token, f32 [n_tokens, n_vocab]."""
        array = array_of("tokens", ctypes.c_int32, tokens)
        rows = numpy.empty((len(array), self.n_vocab), numpy.float32)
        n_done = 0

        def on_rows(pointer: Any, n_rows: int, _: Any) -> int:
            nonlocal n_done
            rows[n_done:n_done + n_rows] = numpy.ctypeslib.as_array(pointer, (n_rows, rows.shape[1]))
            n_done += n_rows
            return 0

        def call() -> None:
            with self.handle.use() as model:
                library.logits(model, array, len(array), c.OnRows(on_rows), None)

        interruptible(call)
        return rows

    def save_prompt(self, path: str | os.PathLike[str]) -> None:
        """Writes the cached keys and values of the last prompt and its answer to a file."""
        with self.handle.use() as model:
            library.language_model_save_prompt(model, path_bytes("path", path))

    def restore_prompt(self, path: str | os.PathLike[str]) -> None:
        """Reads a file of save_prompt(), so that this prompt is not computed again."""
        with self.handle.use() as model:
            library.language_model_restore_prompt(model, path_bytes("path", path))

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self.name)
        return self._tokenizer

    @property
    def description(self) -> str:
        """Device and precision."""
        return text(self.handle.read("language_model_description"))

    @property
    def context(self) -> int:
        """Tokens of a prompt and its answer."""
        return int(self.handle.read("language_model_context"))

    @property
    def n_vocab(self) -> int:
        """The number of token ids."""
        return int(self.handle.read("language_model_n_vocab"))

    @property
    def has_chat_template(self) -> bool:
        """Whether the model answers messages."""
        return bool(self.handle.read("language_model_has_chat_template"))

    def close(self) -> None:
        """Frees the model and its chats. Later calls do nothing."""
        self.handle.close()

    @staticmethod
    def _call(prompt: c.Prompt) -> Callable[[Any, c.GenerateOptions, Any], None]:
        def call(model: Any, options: c.GenerateOptions, answer: Any) -> None:
            library.generate(model, ctypes.byref(prompt), ctypes.byref(options), answer)

        return call


_Call = Callable[[Any, c.GenerateOptions, Any], None]


def _answer(handle: Handle, options: c.GenerateOptions, call: _Call,
            cancellation: Cancellation | None = None) -> Answer:
    """The answer of a call; Ctrl-C ends it."""
    cancellation = cancellation or Cancellation()
    options.cancellation = cancellation.pointer

    def work() -> Answer:
        answer = ctypes.c_void_p()
        with handle.use() as pointer:
            call(pointer, options, ctypes.byref(answer))
        return _take_answer(answer, bool(options.top_logprobs))

    return interruptible(work, cancellation.request)


class TextStream(Iterator[str]):
    """Pieces of an answer as they are generated; `answer` is the whole, and waits for its end.

    Generation waits while pieces are not consumed, unless another call waits for the model. close()
    ends it, and so does the end of the stream's life.
    """

    def __init__(self, handle: Handle, options: c.GenerateOptions, call: _Call,
                 sink: Callable[[_Pieces], None] | None = None,
                 cancellation: Cancellation | None = None) -> None:
        cancellation = cancellation or Cancellation()
        self._pieces = _Pieces(handle, cancellation)
        pieces = self._pieces
        if sink:
            sink(pieces)
        else:
            options.on_text = pieces.callback
        Worker(lambda: pieces.run(lambda: _answer(handle, options, call, cancellation)),
               pieces.cancel).start()

    def __next__(self) -> str:
        return self._pieces.next()

    @property
    def answer(self) -> Answer:
        """The answer. Waits for its end; its text remains to be iterated."""
        return self._pieces.wait()

    def close(self) -> None:
        """Ends the answer."""
        self._pieces.cancel()

    def __del__(self) -> None:
        if hasattr(self, "_pieces"):
            self._pieces.cancel()


class _Pieces(Exchange):
    """Text between the thread that generates it and the one that consumes it."""

    def __init__(self, handle: Handle, cancellation: Cancellation) -> None:
        super().__init__(handle.condition, cancellation)
        self.callback = c.OnText(self.on_text)
        self._handle = handle
        self._texts: list[str] = []
        self._answer: Answer | None = None

    def on_text(self, piece: bytes, _: Any) -> int:
        """Called by the library."""
        with self._changed:
            self._texts.append(text(piece))
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._texts) < _MOST_WAITING or self._collects
                                   or self._handle.n_waiting > 0 or self._cancellation.is_requested())
        return int(self._cancellation.is_requested())

    def run(self, work: Callable[[], Answer]) -> None:
        """Generates, on its own thread."""
        try:
            self._answer = work()
        except BaseException as error:
            self._error = error
        finally:
            self._finish()

    def next(self) -> str:
        """The next piece."""
        with self._changed:
            self._wait(lambda: self.is_finished or bool(self._texts))
            if self._texts:
                self._changed.notify_all()
                return self._texts.pop(0)
        if self._error:
            raise self._error
        raise StopIteration

    def wait(self) -> Answer:
        """The whole answer."""
        self._wait_for_the_end()
        assert self._answer
        return self._answer


class Chat(Closable):
    """A conversation. When the context is full, its oldest messages are dropped.

    The options are those of LanguageModel.generate, for every answer.

    >>> with vesper.Chat(model, system="Answer in one word.", temperature=0, max_tokens=4) as chat:
    ...     answer = chat.say("What colour is the sky?")
    ...     [message["role"] for message in chat.messages]
    ['system', 'user', 'assistant']
    """

    def __init__(self, model: LanguageModel, system: str | None = None, **options: Any) -> None:
        self._options = _generate_options(**options)
        self._cancellation = Cancellation()
        self._options.cancellation = self._cancellation.pointer
        self._sink = _Sink()
        self._options.on_text = self._sink.callback
        pointer = ctypes.c_void_p()
        with model.handle.use() as opened:
            library.chat_open(opened, None if system is None else encoded("system", system),
                              ctypes.byref(self._options), ctypes.byref(pointer))
        self._model = model.handle
        self._handle = Handle("Chat", pointer, "chat_close", model.handle)

    def say(self, message: str) -> Answer:
        """The answer to the next message. Ctrl-C ends the answer, not the chat."""
        self._begin()
        return _answer(self._model, self._options, self._say(message), self._cancellation)

    def stream(self, message: str) -> TextStream:
        """The answer to the next message, piece by piece."""
        self._begin()
        return TextStream(self._model, self._options, self._say(message), self._sink.set,
                          self._cancellation)

    def regenerate(self) -> Answer:
        """Answers the last message again, with another seed."""
        self._begin()
        return _answer(self._model, self._options, self._regenerate, self._cancellation)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages so far, the system message first. They can be replaced."""
        result = ctypes.c_void_p()
        with self._model.use():
            library.chat_messages(self._handle.pointer, ctypes.byref(result))
        messages: list[dict[str, str]] = json.loads(take_string(result))
        return messages

    @messages.setter
    def messages(self, messages: Sequence[Mapping[str, str]]) -> None:
        array = messages_of(messages)
        with self._model.use():
            library.chat_set_messages(self._handle.pointer, array, len(array))

    def close(self) -> None:
        """Ends the chat. Later calls do nothing."""
        self._handle.close()

    def _begin(self) -> None:
        self._handle.check()
        self._sink.pieces = None
        self._cancellation.reset()

    def _say(self, message: str) -> _Call:
        content = encoded("message", message)

        def call(_: Any, __: c.GenerateOptions, answer: Any) -> None:
            library.chat_say(self._handle.pointer, content, answer)

        return call

    def _regenerate(self, _: Any, __: c.GenerateOptions, answer: Any) -> None:
        library.chat_regenerate(self._handle.pointer, answer)


class _Sink:
    """Gives the text of a chat to the stream of the current answer, if there is one."""

    def __init__(self) -> None:
        self.pieces: _Pieces | None = None
        self.callback = c.OnText(self._on_text)

    def set(self, pieces: _Pieces) -> None:
        """The stream of the current answer."""
        self.pieces = pieces

    def _on_text(self, piece: bytes, user: Any) -> int:
        return self.pieces.on_text(piece, user) if self.pieces else 0
