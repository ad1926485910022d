# SPDX-License-Identifier: MIT
"""Arrays that stay in the grid between calls."""
from __future__ import annotations

import array
import ctypes
from typing import Any, Optional, Tuple

from . import manifest, session as sessions
from .boot import address_of
from .errors import ArgumentError, Error
from .library import last_error, lib


class Data:
    """An array that the hub stores, and nodes that used it.

    ``Data(array)`` sends a copy of a buffer once; calls are given the handle in
    place of the array. ``Data()`` is for a result that stays in the grid: given
    in place of an OUT array, it has it when the call has ended. close(), or the
    end of a with statement, lets hub and nodes forget the bytes; so does the end
    of the session.
    """

    def __init__(
        self, value: Any = None, session: Optional[sessions.Session] = None
    ) -> None:
        self._at = None
        self._session = session or sessions.current()
        self._type, self.shape = None, ()
        start, size = None, 0
        if value is not None:
            view = view_of(value)
            self._type, self.shape = type_of(view), view.shape
            size = view.nbytes
            start = address_of(view) if size else address_of(memoryview(bytearray(1)))
        with self._session.use() as client:
            self._at = lib.data_new(client, start, size)
            if not self._at:
                raise last_error()

    shape: Tuple[int, ...]

    def _about(self):
        size, digest = ctypes.c_uint64(), ctypes.create_string_buffer(32)
        if lib.data_about(self._at, ctypes.byref(size), digest):
            raise last_error()
        return size.value, digest.raw.hex()

    @property
    def nbytes(self) -> int:
        """Its bytes; ArgumentError while there are none."""
        return self._about()[0]

    @property
    def digest(self) -> str:
        """What the ledger names it by: the SHA-256 of its bytes."""
        return self._about()[1]

    def read(self, into: Any = None) -> Any:
        """The array: written to a buffer, or made, as numpy's if that is there."""
        size = self.nbytes
        made = make_array(self._type, self.shape, size) if into is None else into
        view = memoryview(made)
        if view.nbytes != size or view.readonly or not view.c_contiguous:
            raise ArgumentError(
                "a contiguous buffer of %d bytes that can be written is wanted" % size
            )
        with self._session.use() as client:
            if size and lib.data_read(client, self._at, address_of(view)):
                raise last_error()
        return made

    def close(self) -> None:
        """Lets hub and nodes forget the bytes."""
        try:
            with self._session.use() as client:
                if lib.data_drop(client, self._at):
                    raise last_error()
        except Error:
            if self._session._closed is None:
                raise

    def __enter__(self) -> "Data":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __del__(self):
        if self._at:  # no call has it: those that run keep it alive
            lib.data_free(self._at)

    # For calls ---------------------------------------------------------------

    def pointer_for(self, p, session):
        """What stands for it in a call; it fits the parameter, or says why not."""
        if session is not self._session:
            raise ArgumentError("the data of another session")
        if p.mode & manifest.IN and self._type not in (None, p.type):
            text = "its elements are %s, %s is wanted"
            raise ArgumentError(text % (self._type.dtype, p.type.dtype))
        return self._at

    def was_written(self, p, shape):
        self._type, self.shape = p.type, shape


def view_of(value):
    try:
        view = memoryview(value)
    except TypeError:
        text = "%s has no buffer: a numpy array or the like is wanted"
        raise ArgumentError(text % type(value).__name__) from None
    if not view.c_contiguous:
        raise ArgumentError("it is not contiguous in C's order")
    return view


def type_of(view):
    """The type of interface files that has such elements."""
    kinds = {"f": "f", "d": "f", "Zf": "c", "Zd": "c", "?": "u", "c": "u", "B": "u"}
    code = view.format.lstrip("@=<")
    kind = kinds.get(code) or ("i" if code.islower() else "u")
    for type_ in manifest.TYPES.values():
        if type_.kind == kind and type_.size == view.itemsize and code[:1] in KNOWN:
            return type_
    raise ArgumentError("no type of interface files has elements of %r" % view.format)


KNOWN = tuple("bBhHiIlLqQnNfdZ?c")


def make_array(type_, shape, size):
    try:
        import numpy
    except ImportError:
        return array.array("B", bytes(size))
    return numpy.empty(shape, dtype=type_.dtype)
