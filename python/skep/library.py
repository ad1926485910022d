# SPDX-License-Identifier: MIT
"""libskeppython.so: see grid/python/python.h for what its functions promise."""
import ctypes
import os

from . import errors
from .boot import Piece

REVISION = 4
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "python.rex")


# (key, parameter, pointers to the arguments, 4 sizes of each): 0, or it failed.
HOOK = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_uint64,
    ctypes.c_uint32,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_uint64),
)


class Hook(ctypes.Structure):
    """struct grid_hook."""

    _fields_ = [("call", HOOK), ("key", ctypes.c_uint64)]


class Ended(ctypes.Structure):
    """struct skep_python_ended."""

    _fields_ = [
        ("request", ctypes.c_void_p),
        ("tag", ctypes.c_uint64),
        ("text", ctypes.c_char_p),
        ("result", ctypes.c_void_p),
        ("result_bytes", ctypes.c_uint64),
        ("code", ctypes.c_int32),
        ("substrate", ctypes.c_uint32),
        ("attempt", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("exec_ns", ctypes.c_uint64),
        ("wall_ns", ctypes.c_uint64),
        ("bytes_in", ctypes.c_uint64),
        ("bytes_out", ctypes.c_uint64),
        ("node", ctypes.c_char * 64),
    ]


def load_library():
    path = os.path.join(HERE, "libskeppython.so")
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            "the package skep lacks its library: %s; install a wheel that "
            "`make wheel` built" % error
        ) from None
    any_, u32, u64, i32 = (
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_int32,
    )
    text, pieces = ctypes.c_char_p, ctypes.POINTER(Piece)
    u64s, pointers = ctypes.POINTER(u64), ctypes.POINTER(any_)
    for name, result, arguments in (
        ("revision", u32, []),
        ("error", text, [ctypes.POINTER(i32)]),
        ("open", any_, [text]),
        ("end", None, [any_]),
        ("forget", None, [any_]),
        ("close", None, [any_]),
        ("bind", any_, [any_, text]),
        ("manifest", any_, [any_, u64s]),
        ("sizes", i32, [any_, u32, pointers, u64s, u32, u64s]),
        (
            "call",
            any_,
            [any_, any_, u32, u64, pointers, u32, u64, ctypes.POINTER(Hook)],
        ),
        ("data_new", any_, [any_, any_, u64]),
        ("data_read", i32, [any_, any_, any_]),
        ("data_about", i32, [any_, u64s, text]),
        ("data_drop", i32, [any_, any_]),
        ("data_free", None, [any_]),
        ("object", u64, [any_, any_, u32]),
        ("object_end", None, [any_, any_, u32, u64]),
        ("send", any_, [any_, any_, u32, pieces, u32, u64, u64]),
        ("initialize", i32, [any_, any_, u32, pieces, u32]),
        ("next", u32, [any_, ctypes.POINTER(Ended), u32]),
        ("cancel", i32, [any_, any_]),
        ("take", any_, [any_]),
        ("drop", None, [any_]),
        ("free", None, [any_, any_]),
    ):
        function = getattr(lib, "skep_python_" + name)
        function.restype, function.argtypes = result, arguments
        setattr(lib, name, function)
    if lib.revision() != REVISION:
        raise ImportError("%s is of another version than the package skep" % path)
    return lib


lib = load_library()


def last_error():
    """The exception for the last error of this thread in the library."""
    code = ctypes.c_int32()
    text = lib.error(ctypes.byref(code))
    return errors.error_of(code.value, text.decode("utf-8", "replace"))
