# SPDX-License-Identifier: MIT
"""One session with the hub: the table of calls, and the thread that ends them.

The table is guarded by the session's lock. A request of the C library is used
only while its call is in the table, and with the lock held, because the thread
that takes it out also frees it. Whoever takes a call out ends it, so each ends
once. The C library's client is used only inside use(), because close frees it.
"""
from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import threading
import weakref
from typing import Any, Generator, Generic, Iterator, Optional, Sequence, TypeVar

from . import errors
from .called import INSIDE, refuse_inside
from .library import Ended, last_error, lib

T = TypeVar("T")

TAKE_MAX = 64
HOLDER = 'printf "%s\\n" "$SKEP_SOCKET"; exec cat >/dev/null'
SYSTEM_DIRS = ("/usr", "/bin", "/opt", "/etc")  # that all programs may read


class CallInfo:
    """Where and how a call ran: node, substrate, attempt, seconds and bytes."""

    SUBSTRATES = ("", "linux", "bee-windows", "bee-linux", "bare")

    node: str
    substrate: str
    attempt: int
    exec_seconds: float
    wall_seconds: float
    bytes_in: int
    bytes_out: int

    def __init__(self, e: Ended) -> None:
        self.node = e.node.decode("utf-8", "replace")
        known = e.substrate < len(self.SUBSTRATES)
        self.substrate = self.SUBSTRATES[e.substrate] if known else ""
        self.attempt = e.attempt
        self.exec_seconds = e.exec_ns / 1e9
        self.wall_seconds = e.wall_ns / 1e9
        self.bytes_in, self.bytes_out = e.bytes_in, e.bytes_out

    def __repr__(self):
        return "<call on %s (%s), %.6f s>" % (
            self.node,
            self.substrate,
            self.exec_seconds,
        )


class CallFuture(concurrent.futures.Future, Generic[T]):
    """The future of a call. ``cancel`` also ends a call that runs.

    It can be awaited in a coroutine. ``info`` is a CallInfo once the call has a
    result; until then, and for calls that failed before they ran, it is None.
    """

    info: Optional[CallInfo] = None
    _made_inside = 0  # the key of the call whose function made this one
    _withdraw = None  # tells the hub
    _cancelling = threading.Lock()

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        with CallFuture._cancelling:
            if self._state == concurrent.futures._base.CANCELLED:
                self.set_running_or_notify_cancel()
        withdraw, self._withdraw = self._withdraw, None
        if withdraw:
            withdraw()
        return True

    def result(self, timeout: Optional[float] = None) -> T:
        self._refuse_wait()
        return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        self._refuse_wait()
        return super().exception(timeout)

    def _refuse_wait(self):
        """A call from elsewhere may need the slot of the one that waits here."""
        if self._made_inside != INSIDE.key and not self.done():
            refuse_inside("wait for a call that it did not make")

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self).__await__()

    def settle(self, value=None, error=None):
        """Sets how it ended, unless it was cancelled."""
        self._withdraw = None
        try:
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)
        except concurrent.futures.InvalidStateError:
            pass


class Call:
    """An entry of the table. finish(ended, error) is called once, by the reader."""

    __slots__ = ("finish", "request", "unwanted")

    def __init__(self, finish):
        self.finish = finish
        self.request = None
        self.unwanted = False


class Session:
    """A session with the hub that ``socket`` (or SKEP_SOCKET) names.

    Without either, ``skep run`` is started: it uses the hub that runs on this
    computer, or starts one that ends with the session. ``options`` are for it.
    """

    def __init__(
        self, socket: Optional[str] = None, options: Sequence[str] = ()
    ) -> None:
        self._lock = threading.Lock()
        self._users = 0  # threads inside use()
        self._unused = threading.Condition(self._lock)
        self._calls = {}
        self._tags = itertools.count(1)
        self._modules = {}
        self._binding = threading.Lock()
        self._holder = None
        self._closed = None  # the error for further calls
        socket = socket or os.environ.get("SKEP_SOCKET")
        if not socket:
            self._holder = start_holder(options)
            socket = self._holder.socket
        self._client = lib.open(os.fsencode(socket))
        if not self._client:
            error = last_error()
            self._end_holder()
            raise error
        self._reader = threading.Thread(
            target=read_ends, args=(self,), name="skep", daemon=True
        )
        self._reader.start()
        SESSIONS.add(self)

    # Calls -------------------------------------------------------------------

    def start(self, send, finish):
        """Starts a call by send(client, tag); answers a function that cancels it."""
        call = Call(finish)
        tag = next(self._tags)
        with self.use() as client:
            with self._lock:
                self._calls[tag] = call
            request = send(client, tag)
            error = None if request else last_error()
            with self._lock:
                if not request:
                    del self._calls[tag]
                    raise self._closed or error
                if self._calls.get(tag) is call:
                    call.request = request
                    if call.unwanted:
                        lib.cancel(client, request)
        return lambda: self._cancel(tag, call)

    def _cancel(self, tag, call):
        with self._lock:
            call.unwanted = True
            if call.request and self._calls.get(tag) is call:
                lib.cancel(self._client, call.request)

    def bind(self, name):
        """The C library's handle of a module: NAME, /PATH or HOST@ before them."""
        with self._binding:
            if name not in self._modules:
                with self.use() as client:
                    handle = lib.bind(client, os.fsencode(name))
                    if not handle:
                        raise self._closed or last_error()
                self._modules[name] = handle
            return self._modules[name]

    @contextlib.contextmanager
    def use(self) -> Iterator[Any]:
        """The C library's client, which close does not free meanwhile."""
        with self._lock:
            if self._closed:
                raise self._closed
            self._users += 1
        try:
            yield self._client
        finally:
            with self._lock:
                self._users -= 1
                self._unused.notify_all()

    # The end -----------------------------------------------------------------

    def close(self) -> None:
        """Ends the session; calls that did not end are dropped.

        In a callback of a future it returns at once, and the rest follows.
        """
        refuse_inside("end the session")
        try:
            with self.use() as client:
                closed = errors.HubError("the session was closed")
                self._closed = self._closed or closed
                lib.end(client)  # nobody waits for the hub any longer
        except errors.Error:
            return
        if threading.current_thread() is not self._reader:
            self._reader.join()
            self._end_holder()

    def _release(self):
        """The reader's last step: frees the client, and ends the calls left."""
        with self._lock:
            if not self._closed:
                self._closed = errors.HubError("the hub ended the session")
            while self._users:
                self._unused.wait()
            calls, self._calls = list(self._calls.values()), {}
        lib.close(self._client)  # from here on nothing is written to arguments
        for call in calls:
            finish_call(call, None, self._closed)

    def _end_holder(self):
        holder, self._holder = self._holder, None
        if holder:
            holder.stdin.close()
            holder.wait()

    def _forget(self):
        """In a child after fork: what the parent has is not ours."""
        self._lock = threading.Lock()
        self._users = 0
        self._unused = threading.Condition(self._lock)
        if self._closed:
            return
        self._closed = errors.ForkError(
            "this process was forked from one that has a session with the hub: "
            "open a session of its own with skep.connect()"
        )
        lib.forget(self._client)
        if self._holder:
            os.close(self._holder.stdin.fileno())
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            call.finish(None, self._closed)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def read_ends(session):
    """The reader's thread: ends calls until the session is over."""
    ended = (Ended * TAKE_MAX)()
    client = session._client
    count = 1
    while count and not session._closed:
        count = lib.next(client, ended, TAKE_MAX)
        for i in range(count):
            end_call(session, client, ended[i])
    session._release()


def end_call(session, client, e):
    error = result = None
    with session._lock:
        call = session._calls.pop(e.tag, None)
        if e.code:
            error = errors.error_of(e.code, e.text.decode("utf-8", "replace"))
        elif e.result:
            result = lib.take(e.request)
        lib.free(client, e.request)
    if call is None:
        if result:
            lib.drop(result)
        return
    finish_call(call, e, error)


def finish_call(call, e, error):
    try:
        call.finish(e, error)
    except Exception:  # a callback's; the others still want their ends
        sys.excepthook(*sys.exc_info())


# Sessions of this process ----------------------------------------------------

SESSIONS = weakref.WeakSet()
_default = None
_default_lock = threading.Lock()


def start_holder(options):
    """Starts `skep run`, which keeps a run open until its input ends."""
    skep = os.environ.get("SKEP_PROGRAM") or shutil.which("skep")
    if not skep:
        raise errors.HubError(
            "there is no hub to work with: start the program with "
            "`skep run -- python3 PROGRAM`, or put skep into the PATH"
        )
    options = list(options) or own_prefix(skep)
    holder = subprocess.Popen(
        [skep, "run", *options, "--", "/bin/sh", "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # an interrupt is for this program
    )
    line = holder.stdout.readline()
    if not line.endswith(b"\n"):
        holder.stdin.close()
        raise errors.HubError(
            "`skep run` ended with %d: it says why on standard error" % holder.wait()
        )
    holder.stdout.close()
    holder.socket = line[:-1].decode()
    return holder


def own_prefix(skep):
    """Lets workers read this Python if it is not the system's.

    Only a hub of our own accepts that: elsewhere the node's owner decides.
    """
    wanted = {os.path.realpath(p) for p in (sys.prefix, sys.base_prefix)}
    wanted = sorted(p for p in wanted if not p.startswith(SYSTEM_DIRS))
    if not wanted:
        return []
    there = subprocess.run(
        [skep, "nodes"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if there.returncode == 0:
        return []
    return [word for p in wanted for word in ("--allow", p)]


def connect(socket: Optional[str] = None, options: Sequence[str] = ()) -> Session:
    """Opens the session that this program's executors and modules use."""
    global _default
    with _default_lock:
        if _default is not None and not _default._closed:
            raise errors.Error("there is a session already: close it first")
        _default = Session(socket, options)
        return _default


def current() -> Session:
    """The program's session, which is opened when it is first wanted."""
    global _default
    with _default_lock:
        if _default is None or isinstance(_default._closed, errors.ForkError):
            _default = Session()
        return _default


def end_sessions():
    for session in list(SESSIONS):
        session.close()


def forget_sessions():
    global _default_lock
    _default_lock = threading.Lock()
    for session in list(SESSIONS):
        session._forget()


atexit.register(end_sessions)
os.register_at_fork(after_in_child=forget_sessions)
