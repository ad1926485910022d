# SPDX-License-Identifier: MIT
"""Python functions that a worker calls while it runs a remote function.

They run in a thread of the C library. All that they get is Python's own: the
library frees its memory when they return, and somebody may have kept an array.
"""
import ctypes
import itertools
import struct
import threading

from . import manifest
from .errors import ArgumentError, RefusedError
from .library import HOOK, Hook

IN, OUT = manifest.IN, manifest.OUT


class Inside(threading.local):
    """The call for which this thread runs a function: its key, or 0."""

    key = 0


INSIDE = Inside()
CALLS = {}  # those that have functions, by key
KEYS = itertools.count(1)


def refuse_inside(what):
    if INSIDE.key:
        raise RefusedError("a function that a worker calls cannot %s" % what)


class Called:
    """The functions of one call; ``error`` is what the first that failed raised."""

    def __init__(self, name):
        self.name = name
        self.functions = {}  # the entry and the function, by parameter
        self.error = None
        self.kept = []  # the memory of strings, until they are sent
        self.key = next(KEYS)
        self.hook = Hook(run_called, self.key)
        CALLS[self.key] = self

    def add(self, i, entry, function):
        self.functions[i] = entry, function

    def end(self):
        CALLS.pop(self.key, None)

    def run(self, i, pointer, size):
        entry, function = self.functions[i]
        self.kept = []
        places = [
            Place(p, pointer[k], size[4 * k : 4 * k + p.dims])
            for k, p in enumerate(entry.params)
            if not p.hidden
        ]
        got = function(*[p.given for p in places if p.is_given])
        wanted = [p for p in places if p.is_returned]
        if len(wanted) < 2:
            got = (got,) if wanted or got is not None else ()
        if not isinstance(got, (tuple, list)) or len(got) != len(wanted):
            names = ", ".join(p.param.name for p in wanted) or "nothing"
            text = "%s of %s must return %s" % (entry.name, self.name, names)
            raise ArgumentError(text)
        for place in places:
            place.write_back()
        for place, value in zip(wanted, got):
            place.take(value, self.kept)


class Place:
    """One argument: what the function is given of it, and where results go."""

    def __init__(self, param, at, shape):
        self.param, self.at, self.shape = param, at, tuple(shape)
        self.total = 1
        for size in self.shape:
            self.total *= size
        self.is_array = bool(param.dims) and param.type.kind != "t"
        self.is_returned = bool(param.mode & OUT) and not self.is_array
        self.is_given = bool(param.mode & IN) or self.is_array
        self.given = self.read() if self.is_given else None

    def read(self):
        if self.is_array:
            return self.read_array()
        if self.param.type.kind == "t":
            return self.read_text()
        code = "=" + self.param.type.code
        got = struct.unpack(code, ctypes.string_at(self.at, self.param.type.size))
        return complex(*got) if self.param.type.kind == "c" else got[0]

    def read_array(self):
        type_ = self.param.type
        data = bytearray(ctypes.string_at(self.at, self.total * type_.size))
        try:
            import numpy
        except ImportError:
            if type_.kind == "c":
                text = "numpy is needed for the complex numbers of %s"
                raise ArgumentError(text % self.param.name) from None
            return memoryview(data).cast(type_.code, self.shape)
        return numpy.frombuffer(data, dtype=type_.dtype).reshape(self.shape)

    def read_text(self):
        plain = self.param.mode == IN and not self.param.dims
        if plain and not self.at:
            return None
        if plain:
            return ctypes.string_at(self.at).decode("utf-8", "surrogateescape")
        every = (ctypes.c_char_p * self.total).from_address(self.at)
        texts = [
            t if t is None else t.decode("utf-8", "surrogateescape") for t in every
        ]
        return texts if self.param.dims else texts[0]

    def write_back(self):
        if self.is_array and self.param.mode & OUT:
            data = bytes(memoryview(self.given).cast("B"))
            ctypes.memmove(self.at, data, len(data))

    def take(self, value, kept):
        if self.param.type.kind == "t":
            self.take_text(value, kept)
            return
        parts = (value,)
        try:
            if self.param.type.kind == "c":
                value = complex(value)
                parts = (value.real, value.imag)
            data = struct.pack("=" + self.param.type.code, *parts)
        except (struct.error, TypeError, ValueError, OverflowError) as error:
            self.fail("%r is no %s: %s" % (value, self.param.type, error))
        ctypes.memmove(self.at, data, len(data))

    def take_text(self, value, kept):
        texts = value if self.param.dims else [value]
        if not isinstance(texts, (tuple, list)) or len(texts) != self.total:
            self.fail("%d texts are wanted" % self.total)
        every = (ctypes.c_void_p * self.total).from_address(self.at)
        for k, text in enumerate(texts):
            every[k] = None if text is None else self.c_string(text, kept)

    def c_string(self, text, kept):
        if not isinstance(text, str) or "\0" in text:
            self.fail("%r is no text without a zero" % (text,))
        data = text.encode("utf-8", "surrogateescape")
        kept.append(ctypes.create_string_buffer(data))
        return ctypes.addressof(kept[-1])

    def fail(self, text):
        raise ArgumentError("%s: %s" % (self.param.name, text))


@HOOK
def run_called(key, param, pointer, size):
    """What the C library calls; no exception may leave it."""
    call = CALLS.get(key)
    INSIDE.key = key
    try:
        call.run(param, pointer, size)
        return 0
    except BaseException as error:
        if call:
            call.error = call.error or error
        return -1
    finally:
        INSIDE.key = 0
