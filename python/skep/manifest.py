# SPDX-License-Identifier: MIT
"""A module's manifest (include/skep/module.h), which the library has checked."""
import ctypes
import keyword
import struct

from .library import lib

MODULE = struct.Struct("<QIIII64s")
FUNCTION = struct.Struct("<64sIIII")
PARAM = struct.Struct("<64sBBBxI64x")

INIT = 1
CALLBACK = 4
CLASS = 8
STATE = 16
IN, OUT, WORK = 1, 2, 4
MODES = {1: "IN", 2: "OUT", 3: "INOUT", 4: "WORK"}
UNSIGNED = 0x80
STRING, FILENAME, FILEPOINTER, MASTER_FUNCTION = 9, 10, 11, 12


class Type:
    """A type of interface files: its name, its struct code and numpy's name."""

    def __init__(self, name, code, dtype, size, kind):
        self.name, self.code, self.dtype = name, code, dtype
        self.size, self.kind = size, kind

    def __str__(self):
        return self.name


# Kinds: i and u integers, f floats, c complex numbers, t texts.
TYPES = {
    1: Type("char", "b", "int8", 1, "i"),
    2: Type("short", "h", "int16", 2, "i"),
    3: Type("int", "i", "int32", 4, "i"),
    4: Type("long", "q", "int64", 8, "i"),
    1 | UNSIGNED: Type("unsigned char", "B", "uint8", 1, "u"),
    2 | UNSIGNED: Type("unsigned short", "H", "uint16", 2, "u"),
    3 | UNSIGNED: Type("unsigned int", "I", "uint32", 4, "u"),
    4 | UNSIGNED: Type("unsigned long", "Q", "uint64", 8, "u"),
    5: Type("float", "f", "float32", 4, "f"),
    6: Type("double", "d", "float64", 8, "f"),
    7: Type("scomplex", "ff", "complex64", 8, "c"),
    8: Type("dcomplex", "dd", "complex128", 16, "c"),
    STRING: Type("string", "", "", 0, "t"),
    FILENAME: Type("filename", "", "", 0, "t"),
    FILEPOINTER: Type("filepointer", "", "", 0, "t"),
    MASTER_FUNCTION: Type("function", "", "", 0, "m"),
}


class Param:
    """One parameter: name, type, mode and the number of dimensions.

    ``called`` is the entry of a function of the program, which workers call.
    ``hidden`` says that such a function does not see the parameter.
    """

    called = None

    def __init__(self, name, code, mode, dims, refers=0):
        self.name, self.code, self.mode, self.dims = name, code, mode, dims
        self.refers = refers
        self.hidden = refers != 0 and code != MASTER_FUNCTION
        self.type = TYPES[code]
        # As Python's own modules do it: from_ for from.
        self.word = name + "_" if keyword.iskeyword(name) else name

    def __str__(self):
        if self.called:
            own = ", ".join(str(p) for p in self.called.params if not p.hidden)
            return "%s(%s)" % (self.name, own)
        mark = "[]" * self.dims
        return "%s %s %s%s" % (MODES[self.mode], self.type, self.name, mark)


class FunctionEntry:
    """One function or class: its name, index, flags and parameters."""

    def __init__(self, name, index, flags, params):
        self.name, self.index, self.flags, self.params = name, index, flags, params
        self.is_init = bool(flags & INIT)
        self.is_class = bool(flags & CLASS)
        self.methods = {}  # of a class, by name


def text_of(field):
    return field.split(b"\0", 1)[0].decode("utf-8")


def read_manifest(handle):
    """The module's name, and its functions and classes by name."""
    size = ctypes.c_uint64()
    at = lib.manifest(handle, ctypes.byref(size))
    data = ctypes.string_at(at, size.value)
    _, _, functions, params, _, name = MODULE.unpack_from(data)
    at = MODULE.size + functions * FUNCTION.size
    every = []
    for i in range(params):
        word, code, mode, dims, refers = PARAM.unpack_from(data, at + i * PARAM.size)
        every.append(Param(text_of(word), code, mode, dims, refers))
    entries = []
    for i in range(functions):
        word, first, count, flags, of = FUNCTION.unpack_from(
            data, MODULE.size + i * FUNCTION.size
        )
        own = every[first : first + count]
        entries.append(FunctionEntry(text_of(word), i, flags, own))
        entries[i].of = of
    for p in every:
        if p.code == MASTER_FUNCTION:
            p.called = entries[p.refers]
    for e in entries:
        if e.of:
            entries[e.of - 1].methods[e.name] = e
    # Methods of a class with state are its objects' alone.
    kept = {id(e) for e in entries if e.of and entries[e.of - 1].flags & STATE}
    table = {e.name: e for e in entries if not e.flags & CALLBACK and id(e) not in kept}
    return text_of(name), table
