# SPDX-License-Identifier: MIT
"""skep.Executor: Python functions on the nodes of a hub."""
from __future__ import annotations

import collections
import concurrent.futures
import functools
import itertools
import pickle
import sys
import threading
import time
import weakref
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, TypeVar

from . import boot, errors, session as sessions
from .functions import CALL, FUNCTION_APART, Programs
from .functions import pickle_function, pickle_many, pickle_values
from .library import lib
from .session import CallFuture, CallInfo

T = TypeVar("T")

MAX_RESULT = 1 << 28
# Calls of this executor that the hub has; others wait here, where cancelling
# them costs nothing.
IN_FLIGHT = 1024
PACES_MAX = 1000
BUFFER = 4096  # values that map takes ahead of its consumer


# A function is fast if a call takes less. Calls of one that follow each other
# travel together: they wait LINGER for others, and last GOAL together.
FAST, LINGER, GOAL = 0.002, 0.0005, 0.01
TOGETHER = 128


class Waiting:
    """A call that the hub does not have yet."""

    __slots__ = ("future", "program", "function", "parts", "pieces")

    def __init__(self, future, program, function, parts):
        self.future, self.program = future, program
        self.function, self.parts = function, parts
        self.pieces = None

    def encode(self, kind):
        self.pieces = boot.encode(kind, [self.function] + self.parts)

    def own(self):
        """Copies what the caller may change before it is sent."""
        self.parts = [bytes(p) for p in self.parts]


class Pace:
    """What is known of a function: the seconds of a call, and calls under way."""

    __slots__ = ("each", "running")

    def __init__(self):
        self.each, self.running = None, 0

    def learn(self, seconds, calls):
        now = seconds / calls
        self.each = now if self.each is None else 0.7 * self.each + 0.3 * now

    def together(self):
        """How many calls may be one."""
        if self.each is None or self.each > FAST:
            return 1
        return int(max(1, min(TOGETHER, GOAL / max(self.each, 1e-6))))


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
        max_workers: Optional[int] = None,
        *,
        initializer: Optional[Callable[..., Any]] = None,
        initargs: Iterable[Any] = (),
        modules: Iterable[Any] = (),
        python: Optional[str] = None,
        environment: Optional[Mapping[str, str]] = None,
        node: Optional[str] = None,
        max_result: int = MAX_RESULT,
        session: Optional[sessions.Session] = None,
    ) -> None:
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
        self._max_workers = max_workers  # dask and others look at it
        self._limit = max_workers or IN_FLIGHT
        self._paces = collections.OrderedDict()  # by program and function
        self._fast = collections.deque()  # short calls that the courier sends
        self._courier = None
        self._may_join = max_workers is None
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

    def submit(
        self, fn: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> CallFuture[T]:
        """Calls fn(*args, **kwargs) on a node; answers its CallFuture.

        What it was given may be changed as soon as it returns.
        """
        function, program = self._function(fn)
        parts = pickle_values(args, kwargs)
        waiting = Waiting(CallFuture(), program, function, parts)
        return self._enqueue(waiting, boot.ONE)

    def _function(self, fn):
        """A function's bytes, or b"" with the program whose workers have it."""
        parts = pickle_function(fn, self._shared)
        if len(parts) == 1 and len(parts[0]) < FUNCTION_APART:
            return parts[0], self._plain
        with self._binding:
            return b"", self._programs.handle(parts)

    def _pace(self, program, function):
        """With the lock held."""
        key = (program, function)
        pace = self._paces.get(key)
        if pace is None:
            pace = self._paces[key] = Pace()
            if len(self._paces) > PACES_MAX:
                self._paces.popitem(last=False)
        return pace

    def _enqueue(self, waiting, kind):
        future = waiting.future
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._futures.add(future)
            pace = self._pace(waiting.program, waiting.function)
            joins = (
                kind == boot.ONE
                and self._may_join
                and pace.running
                and len(waiting.parts) == 1
                and pace.together() > 1
            )
            now = not joins and self._running < self._limit and not self._waiting
            if now:
                self._running += 1
                pace.running += 1
            elif joins:
                self._fast.append(waiting)
                self._wake_courier()
            else:
                waiting.own()
                self._waiting.append((waiting, kind))
        if now:
            try:
                self._start([waiting], kind, pace)
            except BaseException:
                self._ended(pace)
                raise
        return future

    def _start(self, members, kind, pace):
        """Sends one call, which may be several that were submitted."""
        first = members[0]
        if len(members) > 1:
            parts = [first.function] + [m.parts[0] for m in members]
            pieces = boot.encode(boot.SEVERAL, parts)
        else:
            first.encode(kind)
            pieces = first.pieces

        def send(client, tag):
            table = boot.piece_table(pieces)
            return lib.send(
                client, first.program, CALL, table, len(pieces), self._max_result, tag
            )

        def finish(e, error):
            try:
                if e is not None and error is None:
                    pace.learn(e.exec_ns / 1e9, calls_of(first, members, kind))
                if len(members) > 1:
                    self._settle_several(members, e, error)
                else:
                    settle_one(first.future, e, error)
            finally:
                self._ended(pace)

        withdraw = self.session.start(send, finish)
        for member in members:
            member.future._withdraw = functools.partial(
                withdraw_unwanted, members, withdraw
            )
            if member.future.cancelled():
                withdraw_unwanted(members, withdraw)

    def _settle_several(self, members, e, error):
        if isinstance(error, errors.WorkerError):
            # It may be the fault of one of them: each gets its own call.
            for member in members:
                self._start_again(member)
            return
        try:
            if error:
                raise error
            outcomes = read_result(e)
        except BaseException as problem:
            for member in members:
                member.future.settle(error=problem)
            return
        info = CallInfo(e)
        for member, outcome in zip(members, outcomes):
            member.future.info = info
            try:
                member.future.settle(value_of(outcome, info))
            except BaseException as problem:
                member.future.settle(error=problem)

    def _start_again(self, member):
        if member.future.cancelled():
            return
        with self._lock:
            self._running += 1
            pace = self._pace(member.program, member.function)
            pace.running += 1
        try:
            self._start([member], boot.ONE, pace)
        except BaseException as error:
            member.future.settle(error=error)
            self._ended(pace)

    def _ended(self, pace):
        """The hub has one call less: the next that waits is sent."""
        while True:
            with self._lock:
                self._running -= 1
                pace.running -= 1
                while self._waiting and self._waiting[0][0].future.cancelled():
                    self._waiting.popleft()
                if not self._waiting:
                    self._idle.notify_all()
                    return
                waiting, kind = self._waiting.popleft()
                self._running += 1
                pace = self._pace(waiting.program, waiting.function)
                pace.running += 1
            try:
                self._start([waiting], kind, pace)
                return
            except BaseException as error:
                waiting.future.settle(error=error)

    # Short calls -------------------------------------------------------------

    def _wake_courier(self):
        """With the lock held."""
        if self._courier is None:
            self._courier = threading.Thread(
                target=carry_short_calls,
                args=(weakref.ref(self),),
                name="skep-courier",
                daemon=True,
            )
            self._courier.start()

    def _carry_all(self):
        """Sends the short calls that came together; False if there are none."""
        with self._lock:
            if not self._fast:
                self._courier = None
                self._idle.notify_all()
                return False
        while self._carry():
            pass
        return True

    def _carry(self):
        with self._lock:
            if not self._fast or self._running >= self._limit:
                return False
            first = self._fast.popleft()
            pace = self._pace(first.program, first.function)
            members, most = [first], pace.together()
            while self._fast and len(members) < most:
                member = self._fast[0]
                if member.function != first.function:
                    break
                if member.program != first.program:
                    break
                self._fast.popleft()
                if not member.future.cancelled():
                    members.append(member)
            self._running += 1
            pace.running += 1
        try:
            self._start(members, boot.ONE, pace)
        except BaseException as error:
            for member in members:
                member.future.settle(error=error)
            self._ended(pace)
        return True

    # Maps --------------------------------------------------------------------

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: Optional[float] = None,
        chunksize: Optional[int] = None,
        buffersize: int = BUFFER,
    ) -> Iterator[T]:
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

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more calls; waits for those that did not end, or cancels them all."""
        with self._lock:
            self._shut = True
            waiting = [w.future for w, _ in self._waiting]
            waiting += [w.future for w in self._fast]
        for future in waiting if cancel_futures else ():
            future.cancel()
        if not wait:
            return
        with self._lock:
            while self._running or self._fast or self._left():
                self._idle.wait()
            self._waiting.clear()

    def __exit__(self, kind, error, where):
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._withdraw_all()
        self.shutdown()
        return False

    def _left(self):
        return any(not w.future.cancelled() for w, _ in self._waiting)

    def _withdraw_all(self):
        """After an interrupt nobody waits for what runs."""
        with self._lock:
            futures = list(self._futures)
        for future in futures:
            future.cancel()


def calls_of(first, members, kind):
    return first.future.values if kind == boot.MANY else len(members)


def withdraw_unwanted(members, withdraw):
    """A call that several share ends early only if nobody wants it."""
    if all(m.future.cancelled() for m in members):
        withdraw()


def settle_one(future, e, error):
    try:
        if error:
            raise error
        value = read_result(e)
        if not future.cancelled():
            future.info = CallInfo(e)
        future.settle(value)
    except BaseException as problem:
        future.settle(error=problem)


def carry_short_calls(reference):
    """The courier's thread, which ends when there is nothing to carry."""
    while True:
        time.sleep(LINGER)
        executor = reference()
        if executor is None or not executor._carry_all():
            return
        del executor


class MapFuture(CallFuture):
    """Of a part of a map."""

    values = 1


class MapWork:
    """A map under way: parts that were sent, in their order."""

    GOAL = 0.04  # seconds of a part
    UNKNOWN = 64  # parts with one value that are sent before one came back
    FIRST_WAIT = 0.05  # that is waited for the first of them

    def __init__(self, executor, function, program, values, chunksize, buffersize):
        self.executor, self.function, self.program = executor, function, program
        self.values, self.buffersize = values, buffersize
        self.fixed = chunksize
        self.most = max(1, buffersize // 16)  # so that many nodes get some
        with executor._lock:
            self.pace = executor._pace(program, function)
        self.parts = collections.deque()
        self.ahead = 0
        self.more = True

    def size(self):
        if self.fixed:
            return self.fixed
        if self.pace.each is None:
            return 1
        return int(max(1, min(self.GOAL / max(self.pace.each, 1e-6), self.most)))

    def fill(self, patient=True):
        """Sends parts; few while nothing is known of the function's time."""
        while self.more and self.ahead < self.buffersize:
            unknown = self.pace.each is None and not self.fixed
            if unknown and patient and len(self.parts) >= self.UNKNOWN:
                break
            size = min(self.size(), self.buffersize - self.ahead)
            part = list(itertools.islice(self.values, size))
            if not part:
                self.more = False
                break
            future = MapFuture()
            future.values = len(part)
            parts = pickle_many(part)
            waiting = Waiting(future, self.program, self.function, parts)
            self.executor._enqueue(waiting, boot.MANY)
            self.parts.append(future)
            self.ahead += len(part)

    def outcomes(self, future, end):
        """Of the first part. Slow functions are noticed, and more is sent."""
        left = None if end is None else end - time.monotonic()
        if self.pace.each is None and (left is None or left > self.FIRST_WAIT):
            done, _ = concurrent.futures.wait([future], self.FIRST_WAIT)
            if not done:
                self.fill(patient=False)
                left = None if end is None else end - time.monotonic()
        return future.result(left)

    def results(self, end):
        try:
            while self.parts:
                future = self.parts[0]
                outcomes = self.outcomes(future, end)
                self.parts.popleft()
                self.ahead -= future.values
                self.fill()
                for outcome in outcomes:
                    yield value_of(outcome, future.info)
        finally:
            for future in self.parts:
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
        what = problem or "the exception cannot be loaded here"
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
