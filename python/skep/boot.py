# SPDX-License-Identifier: MIT
"""The node's side of Python functions, and the frames that both sides use.

A worker program (grid/python/start.c) writes this file into its own directory
and starts the node's Python with it. The package imports the same file, so the
two sides cannot disagree about frames. Any Python 3 may be the first one that a
node has, so nothing here needs a new one until the version was checked.

A frame is a head, the length of each part, and the parts, each at a multiple of
64 bytes. Parts from the second on are pickles and, after them, the memory of
arrays and the like, which pickles refer to (pickle protocol 5).
"""
import ctypes
import os
import pickle
import struct
import sys
import time
import traceback
import weakref

REVISION = 1
MAGIC = b"SKPY"
HEAD = struct.Struct("<4sIII")  # magic, kind, number of parts, zero
ALIGN = 64
ZEROS = bytes(ALIGN)
APART_FROM = 1 << 12  # shorter memory is copied into the pickle
COPY_BELOW = 1 << 16  # shorter frames are copied out of C's memory
KEPT_FUNCTIONS = 256
TRACEBACK_DEPTH = 100

# What a call asks for: one call, many with one pickle of all their values, or
# several that were submitted one by one, each with a pickle of its own.
ONE, MANY, SEVERAL = 1, 2, 3
# What it answers.
VALUE, RAISED, OUTCOMES, REFUSED = 16, 17, 18, 19

E_WORKER = 7  # of enum skep_error_code


class FrameError(Exception):
    """Bytes that are no frame of this package."""


def encode(kind, parts):
    """Returns the pieces of a frame; long parts are not copied."""
    views = [memoryview(p).cast("B") if type(p) is not bytes else p for p in parts]
    sizes = [len(v) for v in views]
    head = HEAD.pack(MAGIC, kind, len(sizes), 0)
    head += struct.pack("<%dQ" % len(sizes), *sizes)
    pieces = [head + ZEROS[: -len(head) % ALIGN]]
    for view, size in zip(views, sizes):
        pad = ZEROS[: -size % ALIGN]
        if size < APART_FROM:
            pieces[-1:] = join(pieces[-1], bytes(view) + pad)
        else:
            pieces.append(view)
            pieces.append(pad)
    return [p for p in pieces if len(p)]


def join(a, b):
    """Short neighbours become one piece."""
    return [a + b] if type(a) is bytes and len(a) < COPY_BELOW else [a, b]


def decode(data):
    """Returns a frame's kind and its parts, which are views of data."""
    view = memoryview(data)
    if len(view) < HEAD.size:
        raise FrameError("a frame is shorter than its head")
    magic, kind, count, zero = HEAD.unpack_from(view)
    at = HEAD.size + 8 * count
    if magic != MAGIC or zero or at > len(view):
        raise FrameError("the bytes are no frame of skep's Python package")
    sizes = struct.unpack_from("<%dQ" % count, view, HEAD.size)
    at += -at % ALIGN
    parts = []
    for size in sizes:
        if size > len(view) - at:
            raise FrameError("a frame is shorter than its parts")
        parts.append(view[at : at + size])
        at += size + -size % ALIGN
    return kind, parts


def dump(value):
    """Pickles a value: the pickle, and the long memory that it refers to.

    What plain pickle cannot do is left to cloudpickle, if there is one.
    """
    try:
        return dump_with(pickle.dumps, value)
    except (pickle.PicklingError, AttributeError, TypeError):
        cloudpickle = sys.modules.get("cloudpickle")
        if cloudpickle is None:
            raise
        return dump_with(cloudpickle.dumps, value)


def dump_with(dumps, value):
    apart = []

    def keep(buffer):
        raw = buffer.raw()
        if raw.nbytes < APART_FROM:
            return True
        apart.append(raw)
        return False

    return [dumps(value, protocol=5, buffer_callback=keep)] + apart


class KeptGlobals(dict):
    """The globals of the program in a worker. What is there is not replaced, so
    that what an initializer set remains, as it does in a process pool."""

    def update(self, other):
        for name, value in other.items():
            self.setdefault(name, value)


MAIN_GLOBALS = KeptGlobals(__name__="__main__", __builtins__=__builtins__)


def main_globals():
    return MAIN_GLOBALS


# The same name on both sides, for what pickles refer to.
main_globals.__module__ = "skep_boot"
sys.modules["skep_boot"] = sys.modules[__name__]


class Buffer(ctypes.Structure):
    """Py_buffer, as Python's stable interface has it."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


class Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def address_of(view):
    """The address of the bytes of a memoryview or bytes, which the caller keeps."""
    buffer = Buffer()
    at = ctypes.byref(buffer)
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), at, 0)
    ctypes.pythonapi.PyBuffer_Release(at)
    return buffer.buf


def piece_table(pieces):
    """An array of struct iovec; the pieces must live as long."""
    table = (Piece * len(pieces))()
    for entry, piece in zip(table, pieces):
        entry.base = address_of(piece)
        entry.length = len(piece)
    return table


def adopt_memory(at, size, drop):
    """C's memory as a buffer, which is freed with the last view of it."""
    if size < COPY_BELOW:
        data = ctypes.string_at(at, size)
        drop(at)
        return data
    array = (ctypes.c_ubyte * size).from_address(at)
    weakref.finalize(array, drop, at).atexit = False
    return memoryview(array).cast("B")


# The worker ------------------------------------------------------------------


class Config:
    """What the package wrote into the worker program, see start.c."""

    def __init__(self, text):
        strings = [s.decode("utf-8") for s in text.split(b"\0") if s]
        self.version = "".join(s[1:] for s in strings if s[0] == "V")
        self.pythons = [s[1:] for s in strings if s[0] == "P"]
        self.paths = [s[1:] for s in strings if s[0] == "S"]


class Order(ctypes.Structure):
    """struct skep_python_order."""

    _fields_ = [
        ("call", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("most", ctypes.c_uint64),
    ]


def load_worker_library(path):
    lib = ctypes.CDLL(path)
    u32, u64 = ctypes.c_uint32, ctypes.c_uint64
    lib.skep_python_order.argtypes = [ctypes.POINTER(Order)]
    lib.skep_python_answer.argtypes = [u64, ctypes.POINTER(Piece), u32, u64]
    lib.skep_python_refuse.argtypes = [u64, u32, ctypes.c_char_p]
    lib.skep_python_drop.restype = None
    lib.skep_python_drop.argtypes = [ctypes.c_void_p]
    return lib


def own_version():
    return "%d.%d" % sys.version_info[:2]


def try_others(config):
    """Becomes the next Python of the list; answers why none fits."""
    known = os.environ.get("SKEP_PYTHON_TRIED", "")
    tried = (known.split("\n") if known else []) + [os.path.realpath(sys.executable)]
    os.environ["SKEP_PYTHON_TRIED"] = "\n".join(tried)
    for path in config.pythons:
        if os.path.realpath(path) in tried:
            continue
        try:
            os.execv(path, [path, "-I", "-B", "skep-boot.py"])
        except OSError:
            pass
    return (
        "the program runs under Python %s, and %s here is Python %s: install that "
        "version on the node, or run the program with the version that nodes have"
        % (config.version, sys.executable, own_version())
    )


class Refuser:
    """Answers each call with the reason for which none is possible."""

    def __init__(self, reason):
        self.reason = reason

    def initialize(self, data):
        pass

    def run(self, data):
        return encode(REFUSED, [self.reason.encode("utf-8")])


class ShippedModules:
    """Finds modules whose source came with the data of Initialize."""

    def __init__(self, sources):
        self.sources = sources

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        import importlib.util

        package = self.sources[name][0]
        return importlib.util.spec_from_loader(name, self, is_package=package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        import linecache

        text = self.sources[module.__name__][1]
        where = "<skep>/" + module.__name__ + ".py"
        module.__file__ = where
        # Tracebacks show lines of it.
        linecache.cache[where] = (len(text), None, text.splitlines(True), where)
        exec(compile(text, where, "exec"), module.__dict__)


def packed(value):
    """What dump gives, so that it can be part of another pickle."""
    return [pickle.PickleBuffer(p) for p in dump(value)]


def describe_exception(error):
    """Pickle (None if there is none), name, text and traceback of an exception."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = kind.__module__ + "." + name
    shown = error.__traceback__
    while shown is not None and shown.tb_frame.f_code.co_filename == __file__:
        shown = shown.tb_next
    text = "".join(traceback.format_exception(kind, error, shown, TRACEBACK_DEPTH))
    try:
        data = packed(error)
        pickle.loads(data[0], buffers=data[1:])
    except Exception:
        data = None
    try:
        message = str(error)
    except Exception:
        message = ""
    return data, name, message, text


class Server:
    """Runs functions of calls."""

    def __init__(self, config):
        sys.path.extend(p for p in config.paths if p not in sys.path)
        self.functions = {}
        self.common = None
        self.failed = None  # why Initialize failed

    def initialize(self, data):
        """Data: sources of modules, the initializer, and a large function."""
        try:
            kind, parts = decode(data)
            sources = pickle.loads(parts[0])
            if sources:
                sys.meta_path.insert(0, ShippedModules(sources))
            initializer, arguments, common = pickle.loads(parts[1], buffers=parts[2:])
            if initializer:
                pickle.loads(initializer)(*arguments)
            if common:
                self.common = pickle.loads(common[0], buffers=common[1:])
        except BaseException as error:
            self.failed = describe_exception(error)

    def function(self, part):
        if not len(part):
            return self.common
        key = bytes(part)
        found = self.functions.get(key)
        if found is None:
            if len(self.functions) >= KEPT_FUNCTIONS:
                self.functions.clear()
            found = self.functions[key] = pickle.loads(key)
        return found

    def run(self, data):
        if self.failed:
            return encode(RAISED, dump(("the initializer failed",) + self.failed))
        try:
            kind, parts = decode(data)
            function = self.function(parts[0])
            if kind == SEVERAL:
                return encode(
                    OUTCOMES, dump([run_part(function, p) for p in parts[1:]])
                )
            values = pickle.loads(parts[1], buffers=parts[2:])
        except BaseException as error:
            return encode(RAISED, dump((UNLOADABLE,) + describe_exception(error)))
        del parts
        if kind == MANY:
            return encode(OUTCOMES, dump([run_one(function, v, {}) for v in values]))
        return run_single(function, values)


def run_single(function, values):
    try:
        value = function(*values[0], **values[1])
    except BaseException as error:
        return encode(RAISED, dump(("",) + describe_exception(error)))
    try:
        return encode(VALUE, dump(value))
    except BaseException as error:
        problem = "the result cannot be pickled"
        return encode(RAISED, dump((problem,) + describe_exception(error)))


# Outcomes of one of many: a value as it is, a value that is pickled by itself, so
# that one that cannot be pickled does not take the others with it, or what
# describe_exception gives.
PLAIN, PICKLED, FAILED = 0, 1, 2
PLAIN_TYPES = frozenset((int, float, bool, str, bytes, type(None)))


UNLOADABLE = "the function or its arguments cannot be loaded"


def run_part(function, part):
    try:
        values = pickle.loads(part)
    except BaseException as error:
        return FAILED, (UNLOADABLE,) + describe_exception(error)
    return run_one(function, *values)


def run_one(function, values, named):
    try:
        value = function(*values, **named)
    except BaseException as error:
        return FAILED, ("",) + describe_exception(error)
    if type(value) in PLAIN_TYPES:
        return PLAIN, value
    try:
        return PICKLED, packed(value)
    except BaseException as error:
        problem = "the result cannot be pickled"
        return FAILED, (problem,) + describe_exception(error)


def refuse_long(size, most):
    text = "the result has %d bytes, at most %d are taken: give Executor a larger "
    return (text + "max_result") % (size, most - 16)


def send_answer(lib, order, pieces, spent):
    size = sum(len(p) for p in pieces)
    if size + 16 > order.most:
        pieces = encode(REFUSED, [refuse_long(size, order.most).encode("utf-8")])
    table = piece_table(pieces)
    return lib.skep_python_answer(order.call, table, len(pieces), spent)


def serve(lib, server):
    """The worker's life; answers its exit status."""
    order = Order()
    status = lib.skep_python_serve()
    while not status:
        more = lib.skep_python_order(ctypes.byref(order))
        if more <= 0:
            return -more
        data = adopt_memory(order.data, order.bytes, lib.skep_python_drop)
        begun = time.monotonic()
        if order.call == 0:
            server.initialize(data)
            ended = lib.skep_python_ready()
        else:
            pieces = server.run(data)
            data = None
            spent = int((time.monotonic() - begun) * 1e9)
            ended = send_answer(lib, order, pieces, spent)
            pieces = None
        if ended:
            return max(-ended, 0)
    return status


def redirect_output():
    """What functions print goes where people see it, line by line."""
    sys.stdout.flush()
    os.dup2(2, 1)
    sys.stdout = os.fdopen(os.dup(1), "w", 1)


def main():
    with open("skep-config", "rb") as f:
        config = Config(f.read())
    lib = load_worker_library(os.path.abspath("skep-worker.so"))
    if lib.skep_python_revision() != REVISION:
        return 3
    if own_version() != config.version:
        server = Refuser(try_others(config))
    else:
        server = Server(config)
    sys.argv = [""]
    redirect_output()
    return serve(lib, server)


if __name__ == "__main__":
    # What functions see as __main__ is the caller's, not this file.
    sys.modules["__main__"] = type(sys)("__main__")
    sys.exit(main())
