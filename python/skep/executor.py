# SPDX-License-Identifier: MIT
"""skep.Executor: Python functions on the nodes of a hub."""
import collections
import concurrent.futures
import itertools
import pickle
import sys
import threading
import time
import weakref

from . import boot, errors, session as sessions
from .functions import CALL, FUNCTION_APART, Programs
from .functions import pickle_function, pickle_many, pickle_values
from .library import lib
from .session import CallFuture, CallInfo

MAX_RESULT = 1 << 28
# Calls of this executor that the hub has; others wait here, where cancelling
# them costs nothing.
IN_FLIGHT = 1024
BUFFER = 4096  # values that map takes ahead of its consumer


class Waiting:
    """A call that the hub does not have yet, or a part of a map."""

    __slots__ = ("future", "program", "pieces")

    def __init__(self, future, program, pieces):
        self.future, self.program, self.pieces = future, program, pieces


class Executor(concurrent.futures.Executor):
    """Runs Python functions on Linux nodes, as concurrent.futures does in processes.

    max_workers   calls that the hub has at a time; by default as many as wait
    initializer   called with ``initargs`` in each worker before its first call;
                  what it is given travels to each node once
    modules       modules, or their names, that nodes do not have: their source is
                  sent. Others must be importable by the node's Python.
    python        the path of the Python that nodes run; by default this one's, or
                  a system's Python of the same version
    environment   variables of the workers; each has one processor by default
    node          the name of the node that shall run all calls
    max_result    bytes that a result may have

    Nodes and this program trust each other: what is pickled can be any code.
    """

    def __init__(
        self,
        max_workers=None,
        *,
        initializer=None,
        initargs=(),
        modules=(),
        python=None,
        environment=None,
        node=None,
        max_result=MAX_RESULT,
        session=None,
    ):
        if max_workers is not None and max_workers < 1:
            raise ValueError("max_workers must be at least 1")
        if initializer is not None and not callable(initializer):
            raise TypeError("the initializer must be callable")
        self.session = session or sessions.current()
        initial = (initializer, tuple(initargs)) if initializer else None
        self._shared = bool(initializer)
        self._programs = Programs(
            self.session, node, python, environment or {}, initial, modules
        )
        self._limit = max_workers or IN_FLIGHT
        self._max_result = max_result
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._waiting = collections.deque()
        self._running = 0  # that the hub has, or is being given
        self._binding = threading.Lock()
        self._shut = False
        self._futures = weakref.WeakSet()  # that did not end, and some that did
        self._plain = self._programs.handle()
        EXECUTORS.add(self)

    # Calls -------------------------------------------------------------------

    def submit(self, fn, /, *args, **kwargs):
        """Calls fn(*args, **kwargs) on a node; answers its CallFuture.

        What it was given may be changed as soon as it returns.
        """
        function, program = self._function(fn)
        parts = [function] + pickle_values(args, kwargs)
        return self._enqueue(CallFuture(), program, parts, boot.ONE)

    def _function(self, fn):
        """A function's bytes, or b"" with the program whose workers have it."""
        parts = pickle_function(fn, self._shared)
        if len(parts) == 1 and len(parts[0]) < FUNCTION_APART:
            return parts[0], self._plain
        with self._binding:
            return b"", self._programs.handle(parts)

    def _enqueue(self, future, program, parts, kind):
        waiting = Waiting(future, program, boot.encode(kind, parts))
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._futures.add(future)
            now = self._running < self._limit and not self._waiting
            if now:
                self._running += 1
            else:
                # It may be changed before it is sent.
                waiting.pieces = [bytes(p) for p in waiting.pieces]
                self._waiting.append(waiting)
        if now:
            try:
                self._start(waiting)
            except BaseException:
                self._ended()
                raise
        return future

    def _start(self, waiting):
        future, pieces = waiting.future, waiting.pieces

        def send(client, tag):
            table = boot.piece_table(pieces)
            return lib.send(
                client, waiting.program, CALL, table, len(pieces), self._max_result, tag
            )

        def finish(e, error):
            try:
                if error is None:
                    value = read_result(e)
                    if not future.cancelled():
                        future.info = CallInfo(e)
                    future.settle(value)
                else:
                    future.settle(error=error)
            except BaseException as problem:
                future.settle(error=problem)
            finally:
                self._ended()

        withdraw = self.session.start(send, finish)
        future._withdraw = withdraw
        if future.cancelled():
            withdraw()

    def _ended(self):
        """The hub has one call less: the next that waits is sent."""
        while True:
            with self._lock:
                self._running -= 1
                while self._waiting and self._waiting[0].future.cancelled():
                    self._waiting.popleft()
                if not self._waiting:
                    self._idle.notify_all()
                    return
                waiting = self._waiting.popleft()
                self._running += 1
            try:
                self._start(waiting)
                return
            except BaseException as error:
                waiting.future.settle(error=error)

    # Maps --------------------------------------------------------------------

    def map(self, fn, *iterables, timeout=None, chunksize=None, buffersize=BUFFER):
        """The results of fn for the values of iterables, in their order.

        Values are taken as results are, at most ``buffersize`` ahead. ``chunksize``
        values are one call; by default as many as take a few hundredths of a
        second. An exception is raised where its result would come.
        """
        if chunksize is not None and chunksize < 1:
            raise ValueError("chunksize must be at least 1")
        if buffersize < 1:
            raise ValueError("buffersize must be at least 1")
        end = None if timeout is None else time.monotonic() + timeout
        function, program = self._function(fn)
        work = MapWork(self, function, program, zip(*iterables), chunksize, buffersize)
        work.fill()
        return work.results(end)

    def shutdown(self, wait=True, *, cancel_futures=False):
        """No more calls; waits for those that did not end, or cancels them all."""
        with self._lock:
            self._shut = True
            waiting = list(self._waiting) if cancel_futures else []
        for w in waiting:
            w.future.cancel()
        if not wait:
            return
        with self._lock:
            while self._running or any(not w.future.cancelled() for w in self._waiting):
                self._idle.wait()
            self._waiting.clear()

    def __exit__(self, kind, error, where):
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._withdraw_all()
        self.shutdown()
        return False

    def _withdraw_all(self):
        """After an interrupt nobody waits for what runs."""
        with self._lock:
            futures = list(self._futures)
        for future in futures:
            future.cancel()


class MapWork:
    """A map under way: parts that were sent, in their order."""

    FIRST, GOAL, MOST = 1, 0.04, 4096

    def __init__(self, executor, function, program, values, chunksize, buffersize):
        self.executor, self.function, self.program = executor, function, program
        self.values, self.buffersize = values, buffersize
        self.fixed = chunksize
        self.size = chunksize or self.FIRST
        self.parts = collections.deque()  # (future, number of values)
        self.ahead = 0
        self.more = True

    def fill(self):
        while self.more and self.ahead < self.buffersize:
            size = min(self.size, self.buffersize - self.ahead)
            part = list(itertools.islice(self.values, size))
            if not part:
                self.more = False
                break
            parts = [self.function] + pickle_many(part)
            future = self.executor._enqueue(
                CallFuture(), self.program, parts, boot.MANY
            )
            self.parts.append((future, len(part)))
            self.ahead += len(part)
            self.adapt()

    def adapt(self):
        """Sizes parts by what the last ones took."""
        if self.fixed:
            return
        for future, count in self.parts:
            if future.done() and not future.cancelled() and future.info:
                each = future.info.exec_seconds / count
                want = self.GOAL / max(each, 1e-6)
                self.size = int(max(1, min(want, 4 * self.size, self.MOST)))

    def results(self, end):
        try:
            while self.parts:
                future, count = self.parts[0]
                left = None if end is None else end - time.monotonic()
                outcomes = future.result(left)
                self.parts.popleft()
                self.ahead -= count
                self.fill()
                for outcome in outcomes:
                    yield value_of(outcome, future.info)
        finally:
            for future, _ in self.parts:
                future.cancel()


def read_result(e):
    """The value of a result; raises what the worker's function raised."""
    if not e.result:
        raise errors.RemoteError("the worker's answer is empty")
    data = boot.adopt_memory(e.result, e.result_bytes, lib.drop)
    node = e.node.decode("utf-8", "replace")
    if bytes(data[:13]) == b"skep-refused:":
        text = bytes(data[13:]).decode("utf-8", "replace")
        raise errors.RefusedError("node %s:%s" % (node, text))
    try:
        kind, parts = boot.decode(data)
        if kind == boot.REFUSED:
            text = bytes(parts[0]).decode("utf-8", "replace")
            raise errors.RefusedError("node %s: %s" % (node, text))
        value = pickle.loads(parts[0], buffers=parts[1:])
    except (errors.RefusedError, MemoryError):
        raise
    except Exception as error:
        raise errors.RemoteError(
            "the result from node %s cannot be loaded: %s: %s"
            % (node, type(error).__name__, error)
        ) from error
    if kind == boot.RAISED:
        raise remote_exception(node, *value)
    return value


HINTS = {
    "ModuleNotFoundError": ": install it for the node's Python, let workers read its "
    "folder (--allow), or send its source with Executor(modules=[...])",
}


def remote_exception(node, problem, data, name, message, text):
    """The exception that a worker described, with its traceback as the cause."""
    cause = errors.RemoteTraceback("\n\non node %s:\n%s" % (node, text))
    error = None
    if data and not problem:
        try:
            error = pickle.loads(data[0], buffers=data[1:])
        except Exception:
            pass
    if not isinstance(error, BaseException):
        what = problem or "the exception cannot be had here"
        hint = HINTS.get(name, "") if problem else ""
        error = errors.RemoteError(
            "node %s: %s: %s: %s%s" % (node, what, name, message, hint), name, text
        )
    error.__cause__ = cause
    return error


def value_of(outcome, info):
    kind, value = outcome
    if kind == boot.PLAIN:
        return value
    node = info.node if info else "?"
    if kind == boot.FAILED:
        raise remote_exception(node, *value)
    try:
        return pickle.loads(value[0], buffers=value[1:])
    except Exception as error:
        raise errors.RemoteError(
            "a result from node %s cannot be loaded: %s: %s"
            % (node, type(error).__name__, error)
        ) from error


# The end of the program ------------------------------------------------------

EXECUTORS = weakref.WeakSet()


def end_executors():
    """As with concurrent.futures, the program waits for its calls."""
    for executor in list(EXECUTORS):
        if issubclass(getattr(sys, "last_type", type(None)), KeyboardInterrupt):
            executor._withdraw_all()
        executor.shutdown()


try:
    threading._register_atexit(end_executors)
except AttributeError:  # it is not a public function
    import atexit

    atexit.register(end_executors)
