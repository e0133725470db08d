"""Blocking calls of the library: Ctrl-C, one thread at a time, and the end of the interpreter.

A call runs on a thread of its own if the main thread makes it, because Python handles signals only
between the main thread's instructions. Ctrl-C then requests cancellation, and KeyboardInterrupt is
raised when the call has ended.
"""
from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from vesper import _structs as c
from vesper._library import library
from vesper.errors import UsageError

Result = TypeVar("Result")


class Cancellation:
    """Ends the calls that were given it, from any thread."""

    def __init__(self) -> None:
        pointer = ctypes.c_void_p()
        library.cancellation_new(ctypes.byref(pointer))
        self.pointer = pointer
        self._free = weakref.finalize(self, library.cancellation_free, pointer)
        # A call that still runs when the interpreter ends uses it.
        self._free.atexit = False

    def request(self) -> None:
        """Ends the calls."""
        library.cancellation_request(self.pointer)

    def reset(self) -> None:
        """Lets later calls run."""
        library.cancellation_reset(self.pointer)

    def is_requested(self) -> bool:
        """Whether the calls are to end."""
        return bool(library.cancellation_is_requested(self.pointer))


class Worker(threading.Thread):
    """Runs `work` on a thread that the interpreter cancels and joins before it ends."""

    _running: set[Worker] = set()

    def __init__(self, work: Callable[[], None], cancel: Callable[[], None]) -> None:
        super().__init__(name="vesper", daemon=True)
        self._work = work
        self._ended = threading.Event()
        self._lock = threading.Lock()  # of the two below
        self._has_begun = self._is_abandoned = False
        self.cancel = cancel

    def start(self) -> None:
        """Starts the thread."""
        self._running.add(self)
        super().start()

    def run(self) -> None:
        """What the thread does."""
        with self._lock:
            if self._is_abandoned:
                return
            self._has_begun = True
        try:
            self._work()
        finally:
            self._running.discard(self)
            self._ended.set()

    def wait(self) -> None:
        """Waits for the end of the work, also after a wait that Ctrl-C ended.

        join() of Python 3.11 takes a thread for ended once Ctrl-C has ended a join.
        """
        self._ended.wait()

    def end(self) -> None:
        """Cancels the work and waits for its end, or keeps it from beginning.

        Ctrl-C may end start() before the thread runs.
        """
        with self._lock:
            self._is_abandoned = not self._has_begun
        if self._is_abandoned:
            self._running.discard(self)
            return
        self.cancel()
        self.wait()

    @classmethod
    def end_all(cls) -> None:
        """Cancels and joins the threads that are left."""
        for worker in tuple(cls._running):
            worker.cancel()
        for worker in tuple(cls._running):
            worker.wait()
            worker.join()


class Exchange:
    """A call of the library on one thread, whose results another thread consumes.

    `changed` is the condition of both threads, with which all fields are guarded.
    """

    def __init__(self, changed: threading.Condition, cancellation: Cancellation) -> None:
        self.is_finished = False
        self._changed, self._cancellation = changed, cancellation
        self._collects = False  # all results are wanted, and none waits to be consumed
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """Ends the call soon."""
        with self._changed:
            self._cancellation.request()
            self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Waits for `condition`, which the end of the call must meet. Ctrl-C ends the call first."""
        try:
            self._changed.wait_for(condition)
        except KeyboardInterrupt:
            self._cancellation.request()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.is_finished)
            raise

    def _wait_for_the_end(self) -> None:
        """Waits for the end of the call without consuming its results, and raises its error."""
        with self._changed:
            self._collects = True
            self._changed.notify_all()
            self._wait(lambda: self.is_finished)
        if self._error:
            raise self._error

    def _finish(self) -> None:
        with self._changed:
            self.is_finished = True
            self._changed.notify_all()


def _ignore() -> None:
    """The call cannot be cancelled."""


def interruptible(work: Callable[[], Result], cancel: Callable[[], None] = _ignore) -> Result:
    """The result of `work`. Ctrl-C calls `cancel`, and is raised when `work` has ended."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    worker = Worker(run, cancel)
    try:
        worker.start()
        worker.wait()
    except BaseException:
        worker.end()
        raise
    if errors:
        raise errors[0]
    return results[0]


class Handle:
    """An object of the library, used by one thread at a time: others wait.

    `close_function` is called at close() or when the object is collected, unless the process was
    forked since: a child must not use the threads of its parent. `parent` is closed after it.
    """

    _open: weakref.WeakSet[Handle] = weakref.WeakSet()
    _numbers = itertools.count()

    def __init__(self, what: str, pointer: ctypes.c_void_p, close_function: str,
                 parent: Handle | None = None) -> None:
        self.what = what
        self.pid = os.getpid()
        self.condition = threading.Condition()
        self.n_waiting = 0
        self.children: weakref.WeakSet[Handle] = weakref.WeakSet()
        self._number = next(self._numbers)
        self._is_busy = False
        self._close_function, self._parent = close_function, parent
        self.replace(pointer)
        self._open.add(self)
        if parent:
            parent.children.add(self)

    def replace(self, pointer: ctypes.c_void_p) -> None:
        """Becomes another object, after drop()."""
        self._pointer = pointer
        # Holds the parent, so that it is collected later, also as part of a cycle.
        self._close = weakref.finalize(self, _close_in_process, self.pid, self._close_function, pointer,
                                       self._parent)
        self._close.atexit = False

    def drop(self) -> None:
        """Closes the object for the thread that uses it."""
        self._close()

    @property
    def has_open_children(self) -> bool:
        """Whether an object that needs this one is open."""
        return any(child._close.alive for child in self.children)

    def check(self) -> None:
        """Raises UsageError if the object cannot be used."""
        if not self._close.alive:
            raise UsageError(f"{self.what}: expected an open object, found a closed one")
        if self.pid != os.getpid():
            raise UsageError(f"{self.what}: expected an object of process {os.getpid()}, found one that "
                             f"process {self.pid} opened before a fork: open it after the fork")

    @contextmanager
    def use(self) -> Iterator[ctypes.c_void_p]:
        """Waits until no other thread uses the object, then has it for the caller."""
        self.check()
        with self.condition:
            self.n_waiting += 1
            self.condition.notify_all()  # a suspended transcription goes on when others wait
            try:
                while self._is_busy:
                    self.condition.wait()
                self.check()
                self._is_busy = True
            finally:
                self.n_waiting -= 1
        try:
            yield self._pointer
        finally:
            with self.condition:
                self._is_busy = False
                self.condition.notify_all()

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The object, for a call that needs no waiting."""
        self.check()
        return self._pointer

    def read(self, function: str) -> Any:
        """The result of a function of the object that needs no waiting."""
        return getattr(library, function)(self.pointer)

    def close(self) -> None:
        """Waits for other threads, then closes the object and its children. Later calls do nothing."""
        if not self._close.alive or self.pid != os.getpid():
            return
        for child in tuple(self.children):
            child.close()
        with self.use():
            self.drop()

    @classmethod
    def close_all(cls) -> None:
        """Closes what is open, the latest first."""
        for handle in sorted(cls._open, key=lambda handle: handle._number, reverse=True):
            handle.close()


def _close_in_process(pid: int, function: str, pointer: ctypes.c_void_p, _: Handle | None) -> None:
    if pid == os.getpid():
        getattr(library, function)(pointer)


def _end() -> None:
    Worker.end_all()
    Handle.close_all()
    library.set_log(ctypes.cast(0, c.OnLog), None)


atexit.register(_end)


class Closable:
    """A Python object around a Handle: a context manager that cannot be copied or pickled."""

    def close(self) -> None:
        """Closes the object and frees its memory. Later calls do nothing."""
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle or copy a {type(self).__name__}: open one in each process")


Self = TypeVar("Self", bound=Closable)
