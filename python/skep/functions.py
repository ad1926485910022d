# SPDX-License-Identifier: MIT
"""Python functions as bytes, and the worker program that runs them."""
import functools
import hashlib
import importlib
import inspect
import io
import os
import pickle
import sys
import tempfile
import tokenize
import types
import weakref

from . import boot, errors
from .library import PROGRAM, last_error, lib

MARK = b"skep python configuration here\n"
MARK_BYTES = 32
CONFIG_BYTES = 0x4000
# A longer function is shipped once per node, with the data of Initialize.
FUNCTION_APART = 1 << 16
PROGRAMS_MAX = 8  # that an executor binds; a hub binds 256 for a program

# A slot of a node is one processor.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "LANG": "C.UTF-8",
}


def cloudpickle_or_none():
    try:
        import cloudpickle
    except ImportError:
        return None
    return cloudpickle


def is_importable(function):
    """Whether a node can import a function by its name."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or module.__name__ == "__main__":
        return False
    found = module
    for name in getattr(function, "__qualname__", "<").split("."):
        found = getattr(found, name, None)
    return found is function


class MainGlobals(dict):
    """Stands for the program's globals in a pickle: those that the worker has."""

    def __reduce__(self):
        return boot.main_globals, ()


def pickle_shared(cloudpickle, value, **options):
    """As cloudpickle.dumps, but functions of the program share their globals with
    the others of the worker, as long as it lives."""
    file = io.BytesIO()
    pickler = cloudpickle.CloudPickler(file, **options)
    pickler.globals_ref[id(sys.modules["__main__"].__dict__)] = MainGlobals(main=1)
    pickler.dump(value)
    return file.getvalue()


def pickle_call(value, shared=False):
    """dump() with cloudpickle where plain pickle would only fail on the node."""
    cloudpickle = cloudpickle_or_none()
    if shared and cloudpickle:
        return boot.dump_with(functools.partial(pickle_shared, cloudpickle), value)
    if cloudpickle is None:
        try:
            parts = boot.dump_with(pickle.dumps, value)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise type(error)(
                "%s; lambdas, functions inside others and the like need the "
                "package cloudpickle: pip install cloudpickle" % error
            ) from None
        if b"__main__" in parts[0]:
            raise pickle.PicklingError(
                "a function or class of the program itself (__main__) is sent with "
                "its code, which needs the package cloudpickle: "
                "pip install cloudpickle"
            )
        return parts
    return boot.dump_with(cloudpickle.dumps, value)


def names_of(code):
    """All names that a function's code may look up in its globals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_of(constant)
    return frozenset(names)


class KnownPickles:
    """Pickles of functions that cannot change: those that refer to modules and
    constants only. cloudpickle takes as long as a short call."""

    def __init__(self):
        self.known = weakref.WeakKeyDictionary()

    @staticmethod
    def state(function):
        """What a pickle depends on; None if it may change unnoticed."""
        if not isinstance(function, types.FunctionType):
            return None
        if function.__closure__ or function.__dict__ or function.__kwdefaults__:
            return None
        if not all(map(is_constant, function.__defaults__ or ())):
            return None
        found = [function.__code__, function.__defaults__]
        space = function.__globals__
        for name in sorted(names_of(function.__code__)):
            if name in space:
                value = space[name]
                if not is_constant(value):
                    return None
                found += [name, value]
        return found

    def find(self, function):
        """The pickle and the present state, either of which may be None."""
        state = self.state(function)
        if state is None:
            return None, None
        old, parts = self.known.get(function, (None, None))
        same = old is not None and len(old) == len(state)
        if same and all(a is b for a, b in zip(old, state)):
            return parts, state
        return None, state


KNOWN = KnownPickles()


def pickle_function(function, shared=False):
    if shared:
        return pickle_anew(function, True)
    parts, state = KNOWN.find(function)
    if parts is None:
        parts = pickle_anew(function)
        if state is not None:
            KNOWN.known[function] = state, parts
    return parts


def pickle_anew(function, shared=False):
    if is_importable(function):
        return boot.dump_with(pickle.dumps, function)
    if not callable(function):
        raise TypeError("%r is not callable" % (function,))
    return pickle_call(function, shared)


SIMPLE = frozenset((int, float, bool, str, bytes, type(None)))


def is_simple(values):
    """Whether plain pickle does, which is much faster than cloudpickle."""
    for value in values:
        if type(value) not in SIMPLE and type(value).__module__ != "numpy":
            return False
    return True


def is_constant(value):
    return type(value) in SIMPLE or isinstance(value, types.ModuleType)


def pickle_values(args, kwargs):
    """The arguments of a call."""
    if is_simple(args) and (not kwargs or is_simple(kwargs.values())):
        return boot.dump_with(pickle.dumps, (args, kwargs))
    return pickle_call((args, kwargs))


def pickle_many(values):
    """The arguments of several calls, a tuple for each."""
    if all(map(is_simple, values)):
        return boot.dump_with(pickle.dumps, values)
    return pickle_call(values)


def module_sources(modules):
    """The source of modules that nodes do not have: {name: (is_package, text)}."""
    sources = {}
    for module in modules:
        if isinstance(module, str):
            module = importlib.import_module(module)
        sources.update(sources_of(module))
    cloudpickle = cloudpickle_or_none()
    if cloudpickle:
        sources.update(sources_of(cloudpickle))
    return sources


def sources_of(module):
    """A module, or a package with all modules below it that are files of Python."""
    try:
        path = inspect.getsourcefile(module)
    except TypeError:
        path = None
    if not path:
        raise errors.ArgumentError(
            "module %s has no source in Python: install it on the nodes"
            % module.__name__
        )
    if not hasattr(module, "__path__"):
        return {module.__name__: (False, read_text(path))}
    sources, top = {}, os.path.dirname(path)
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                words = os.path.relpath(os.path.join(folder, name), top)
                words = words[: -len(".py")].split(os.sep)
                is_package = words[-1] == "__init__"
                words = words[:-1] if is_package else words
                text = read_text(os.path.join(folder, name))
                sources[".".join([module.__name__] + words)] = (is_package, text)
    return sources


def read_text(path):
    with tokenize.open(path) as f:  # in the encoding that the file declares
        return f.read()


def pythons():
    """What nodes try, in this order."""
    name = "python%d.%d" % sys.version_info[:2]
    return [
        sys.executable,
        "/usr/bin/" + name,
        "/usr/local/bin/" + name,
        "/usr/bin/python3",
        "/usr/local/bin/python3",
    ]


def configure(python, environment):
    """The bytes of a worker program for these."""
    strings = ["V%d.%d" % sys.version_info[:2]]
    strings += ["P" + p for p in ([python] if python else pythons()) if p]
    strings += ["E%s=%s" % v for v in {**ENVIRONMENT, **environment}.items()]
    # Folders that a node has too, and lets workers read, serve it as they are.
    strings += ["S" + p for p in sys.path if os.path.isabs(p) and "\0" not in p]
    text = b"".join(s.encode("utf-8", "surrogateescape") + b"\0" for s in strings)
    with open(PROGRAM, "rb") as f:
        program = bytearray(f.read())
    at = program.find(MARK)
    if at < 0 or program.find(MARK, at + 1) >= 0:
        raise errors.Error("%s is not a worker program for Python" % PROGRAM)
    if len(text) >= CONFIG_BYTES - 2:
        raise errors.ArgumentError(
            "the environment and the paths of Python together are too long: "
            "%d bytes, %d are possible" % (len(text), CONFIG_BYTES - 3)
        )
    at += MARK_BYTES
    program[at : at + len(text)] = text
    return bytes(program)


class Programs:
    """The worker programs of one executor: a plain one, and one for each large
    function, whose workers get it with the data of Initialize."""

    def __init__(self, session, node, python, environment, initializer, modules):
        self.session, self.node = session, node
        self.sources = pickle.dumps(module_sources(modules))
        self.initializer = initializer
        self.program = configure(python, environment)
        self.handles = {}  # by the digest of the large function, or b""

    def handle(self, function=()):
        """The program whose workers have this function (parts of a dump)."""
        key = b""
        if function:
            digest = hashlib.sha256()
            for part in function:
                digest.update(part)
            key = digest.digest()
        if key not in self.handles:
            if len(self.handles) >= PROGRAMS_MAX:  # the oldest gets other data
                oldest = next(k for k in self.handles if k)
                handle = self.handles.pop(oldest)
            else:
                handle = self.bind()
            self.initialize(handle, function)
            self.handles[key] = handle
        return self.handles[key]

    def bind(self):
        """A handle of its own: the hub takes a copy of the program."""
        with tempfile.TemporaryDirectory(prefix="skep-python-") as folder:
            path = os.path.join(folder, "python.rex")
            with open(path, "wb") as f:
                f.write(self.program)
            name = path if self.node is None else self.node + "@" + path
            return self.session.bind(name)

    def initialize(self, handle, function):
        initializer = self.initializer
        if initializer:
            data = pickle_function(initializer[0], True)
            initializer = (b"".join(data[:1]), initializer[1])
            if len(data) > 1:
                raise errors.ArgumentError(
                    "the initializer refers to arrays: give them in initargs"
                )
        else:
            initializer = (None, ())
        common = [pickle.PickleBuffer(p) for p in function] or None
        parts = pickle_call((initializer[0], initializer[1], common))
        pieces = boot.encode(boot.ONE, [self.sources] + parts)
        table = boot.piece_table(pieces)
        with self.session.use() as client:
            if lib.initialize(client, handle, INITIALIZE, table, len(pieces)):
                raise last_error()


# The functions of grid/python/python.idl.
INITIALIZE, CALL = 0, 1
