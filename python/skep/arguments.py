# SPDX-License-Identifier: MIT
"""The arguments of one call of a remote function, as the C library wants them."""
import array
import ctypes
import os
import struct

from . import manifest
from .boot import address_of
from .called import Called
from .data import Data
from .errors import ArgumentError
from .library import last_error, lib

IN, OUT = manifest.IN, manifest.OUT
PLACE = 16  # bytes of a scalar
FORMATS = {"c": "u", "b": "i", "B": "u", "?": "u"}
FORMATS.update({c: "i" for c in "hilqn"})
FORMATS.update({c: "u" for c in "HILQN"})
FORMATS.update({"f": "f", "d": "f", "Zf": "c", "Zd": "c"})


def numpy_or_none():
    try:
        import numpy
    except ImportError:
        return None
    return numpy


class Arguments:
    """Pointers to the values of a call, and what keeps them alive."""

    def __init__(self, function, values):
        self.function = function
        self.entry = function._entry
        self.handle = function._module._handle
        count = len(self.entry.params)
        self.scalars = bytearray(PLACE * count)
        self.base = address_of(memoryview(self.scalars))
        self.pointer = (ctypes.c_void_p * count)()
        self.count = (ctypes.c_uint64 * count)()
        self.keep = [values]
        self.readers = []  # one for each value that is returned
        self.written = []  # one for each handle that has a result
        self.called = None  # the functions that the worker calls
        given = iter(values)
        for i, p in enumerate(self.entry.params):
            value = None if p.mode == manifest.WORK else next(given)
            self.take(i, p, value)

    def fail(self, p, text):
        name = self.function.__qualname__
        return ArgumentError("argument %s of %s: %s" % (p.name, name, text))

    def take(self, i, p, value):
        if p.type.kind == "m":
            self.take_function(i, p, value)
        elif p.type.kind == "t":
            self.take_text(i, p, value)
        elif p.dims:
            self.take_array(i, p, value)
        else:
            self.take_scalar(i, p, value)

    def take_function(self, i, p, value):
        if not callable(value):
            text = "a function is wanted, %s is none"
            raise self.fail(p, text % type(value).__name__)
        if not self.called:
            self.called = Called(self.function.__qualname__)
        self.called.add(i, p.called, value)
        self.pointer[i] = self.base  # anything but a null pointer

    # Scalars -----------------------------------------------------------------

    def take_scalar(self, i, p, value):
        self.pointer[i] = self.base + PLACE * i
        if value is not None and p.mode & OUT and is_buffer(value):
            view = self.view_of(p, value)
            if view.nbytes != p.type.size:
                raise self.fail(p, "a buffer of one %s is wanted" % p.type)
            self.pointer[i] = address_of(view)
            self.keep.append(view)
            return
        if p.mode & IN:
            self.pack(i, p, value)
        if p.mode & OUT:
            self.readers.append(lambda: self.unpack(i, p))

    def pack(self, i, p, value):
        try:
            if isinstance(value, (str, bytes)) and p.type.size == 1:
                value = ord(value)
            if p.type.kind == "c":
                value = complex(value)
                parts = (value.real, value.imag)
            else:
                parts = (value,)
            struct.pack_into("=" + p.type.code, self.scalars, PLACE * i, *parts)
        except (struct.error, TypeError, ValueError, OverflowError) as error:
            text = "%r is no %s: %s" % (value, p.type, error)
            raise self.fail(p, text) from None

    def unpack(self, i, p):
        got = struct.unpack_from("=" + p.type.code, self.scalars, PLACE * i)
        return complex(*got) if p.type.kind == "c" else got[0]

    # Arrays ------------------------------------------------------------------

    def shape(self, i):
        size = (ctypes.c_uint64 * 4)()
        function = self.entry.index
        if lib.sizes(self.handle, function, self.pointer, self.count, i, size):
            raise last_error()
        return tuple(size[: self.entry.params[i].dims])

    def take_array(self, i, p, value):
        shape = self.shape(i)
        total = 1
        for size in shape:
            total *= size
        self.count[i] = total
        if p.mode == manifest.WORK:
            return
        if isinstance(value, Data):
            self.take_data(i, p, value, shape)
            return
        if value is None and p.mode == OUT:
            value = self.make_array(p, shape, total)
            self.readers.append(lambda: value)
        elif isinstance(value, (list, tuple)) and p.mode == IN:
            value = self.copy_list(p, value)
        view = self.view_of(p, value)
        flat = view.ndim == 1 and view.shape[0] == total
        if view.shape != shape and not flat:
            raise self.fail(
                p, "it has the shape %s, %s is wanted" % (view.shape, shape)
            )
        self.pointer[i] = address_of(view) or self.base
        self.keep.append(view)

    def take_data(self, i, p, value, shape):
        try:
            self.pointer[i] = value.pointer_for(p, self.function._module.session)
        except ArgumentError as error:
            raise self.fail(p, str(error)) from None
        self.keep.append(value)
        if p.mode & OUT:
            self.written.append(lambda: value.was_written(p, shape))

    def view_of(self, p, value):
        """A view of a value's memory, checked in all but its shape."""
        try:
            view = memoryview(value)
        except TypeError:
            text = "%s has no buffer: a numpy array of %s or the like is wanted"
            raise self.fail(p, text % (type(value).__name__, p.type.dtype)) from None
        code = view.format.lstrip("@=<")
        kind = FORMATS.get(code)
        fits = view.itemsize == p.type.size and kind == p.type.kind
        if p.type.size == 1:
            fits = view.itemsize == 1 and kind is not None
        if not fits:
            name = getattr(value, "dtype", "format %s" % view.format)
            text = "its elements are %s, %s is wanted" % (name, p.type.dtype)
            raise self.fail(p, text)
        if not view.c_contiguous:
            text = "it is not contiguous in C's order: numpy.ascontiguousarray"
            raise self.fail(p, text + " copies it so")
        if p.mode & OUT and view.readonly:
            raise self.fail(p, "it is read-only, and the call writes to it")
        return view

    def copy_list(self, p, value):
        numpy = numpy_or_none()
        try:
            if numpy:
                return numpy.array(value, dtype=p.type.dtype)
            if p.type.kind != "c":
                return array.array(p.type.code, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise self.fail(p, str(error)) from None
        raise self.fail(p, "numpy is needed for lists of complex numbers")

    def make_array(self, p, shape, total):
        numpy = numpy_or_none()
        if numpy:
            return numpy.zeros(shape, dtype=p.type.dtype)
        if p.type.kind == "c":
            raise self.fail(p, "numpy is needed to make it: give a buffer")
        made = array.array(p.type.code, bytes(p.type.size * total))
        return (
            made
            if len(shape) == 1
            else memoryview(made).cast("B").cast(p.type.code, shape)
        )

    # Strings and names of files ----------------------------------------------

    def take_text(self, i, p, value):
        if p.code == manifest.FILEPOINTER:
            raise self.fail(p, "Python has no FILE *: declare it as a filename")
        if p.dims:
            self.take_texts(i, p, value)
        elif p.code == manifest.FILENAME:
            self.take_file(i, p, value)
        elif p.mode == IN:
            self.pointer[i] = None if value is None else self.c_string(p, value)
        else:
            place = (ctypes.c_void_p * 1)()
            if p.mode & IN:
                place[0] = self.c_string(p, value)
            self.return_texts(i, place, p, lambda got: got[0])

    def take_file(self, i, p, value):
        if value is None and p.mode == IN:
            return
        if value is None:
            text = "the name of a file is wanted"
            raise self.fail(p, text + (", to write to" if p.mode == OUT else ""))
        self.pointer[i] = self.c_string(p, value)

    def take_texts(self, i, p, value):
        total = 1
        for size in self.shape(i):
            total *= size
        self.count[i] = total
        place = (ctypes.c_void_p * max(total, 1))()
        if p.mode & IN or p.code == manifest.FILENAME:
            words = list(value) if value is not None else []
            if len(words) != total:
                text = "it has %d texts, %d are wanted" % (len(words), total)
                raise self.fail(p, text)
            for k, word in enumerate(words):
                place[k] = None if word is None else self.c_string(p, word)
        if p.mode & OUT and p.code == manifest.STRING:
            self.return_texts(i, place, p, lambda got: got[:total])
        else:
            self.pointer[i] = ctypes.addressof(place)
            self.keep.append(place)

    def c_string(self, p, value):
        try:
            data = os.fsencode(value) if not isinstance(value, str) else None
            data = value.encode("utf-8", "surrogateescape") if data is None else data
        except TypeError:
            text = "%s is no text" % type(value).__name__
            raise self.fail(p, text) from None
        if b"\0" in data:
            raise self.fail(p, "a text must not contain a zero")
        kept = ctypes.create_string_buffer(data)
        self.keep.append(kept)
        return ctypes.addressof(kept)

    def return_texts(self, i, place, p, choose):
        self.pointer[i] = ctypes.addressof(place)
        self.keep.append(place)
        given = list(place)

        def read():
            got = []
            for k, at in enumerate(place):
                if at is None:
                    got.append(None)
                    continue
                got.append(ctypes.string_at(at).decode("utf-8", "surrogateescape"))
                if at != given[k]:
                    lib.drop(at)
            return choose(got)

        self.readers.append(read)

    # The call ----------------------------------------------------------------

    def send(self, client, tag):
        count = len(self.entry.params)
        hook = ctypes.byref(self.called.hook) if self.called else None
        handle, index, number = self.handle, self.entry.index, self.function._number
        return lib.call(client, handle, index, number, self.pointer, count, tag, hook)

    def end(self, error):
        """Ends what the call has of the program; answers why it failed, or None."""
        if not self.called:
            return error
        self.called.end()
        return (self.called.error or error) if error else None

    def results(self):
        for note in self.written:
            note()
        got = [read() for read in self.readers]
        self.keep.clear()
        return None if not got else got[0] if len(got) == 1 else tuple(got)


def is_buffer(value):
    """numpy's own scalars have a buffer too, but nothing can be written there."""
    try:
        view = memoryview(value)
    except TypeError:
        return False
    return not view.readonly
