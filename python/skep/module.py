# SPDX-License-Identifier: MIT
"""Calls of remote functions, typed by the manifest of their program."""
from __future__ import annotations

import inspect
from typing import Any, List, Optional

from . import manifest, session as sessions
from .arguments import Arguments
from .called import INSIDE
from .errors import Error, ModuleError, RefusedError
from .library import last_error, lib
from .session import CallFuture, CallInfo


class Function:
    """A remote function of a module. Calling it waits; ``submit`` does not.

    Arguments stand in the order of the interface file, or have its names; WORK
    arrays are not given. IN arrays are objects with a buffer, such as numpy
    arrays, or lists; INOUT arrays are changed in place. OUT arguments may be
    left out, or be None: they are made and returned. What is returned is the
    values of OUT and INOUT scalars, strings, and the arrays that were made: None
    if there are none, the one, or a tuple.
    """

    _number = 0  # of the object whose method it is

    def __init__(self, module, entry):
        self._module, self._entry = module, entry
        self.__name__ = entry.name
        self.__qualname__ = module.name + "." + entry.name
        self.params = [p for p in entry.params if p.mode != manifest.WORK]
        self.__signature__ = self._signature()
        self.__doc__ = "%s(%s)" % (
            self.__qualname__,
            ", ".join(str(p) for p in entry.params),
        )

    def _signature(self):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        list_, optional = [], False
        for p in self.params:
            optional = optional or p.mode == manifest.OUT
            default = None if optional else inspect.Parameter.empty
            list_.append(
                inspect.Parameter(p.word, kind, default=default, annotation=str(p))
            )
        return inspect.Signature(list_)

    def _values(self, args, kwargs):
        names = [p.word for p in self.params]
        if len(args) > len(names):
            raise TypeError(
                "%s takes %d arguments (%s), %d were given"
                % (self.__qualname__, len(names), ", ".join(names), len(args))
            )
        values = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names:
                raise TypeError("%s has no argument %s" % (self.__qualname__, name))
            if name in values:
                raise TypeError("%s got %s twice" % (self.__qualname__, name))
            values[name] = value
        for p in self.params:
            if p.word not in values and p.mode != manifest.OUT:
                raise TypeError("%s lacks the argument %s" % (self.__qualname__, p))
        return [values.get(name) for name in names]

    def submit(self, *args: Any, **kwargs: Any) -> CallFuture[Any]:
        """Starts a call; answers its CallFuture, which can be awaited.

        IN arguments have been sent when it returns. INOUT and OUT arrays are
        written to until the call has ended, also if its future was cancelled.
        """
        owner = self._module.session
        with owner.use():
            arguments = Arguments(self, self._values(args, kwargs))
        future = CallFuture()
        future._made_inside = INSIDE.key

        def send(client, tag):
            return arguments.send(client, tag)

        def finish(e, error):
            error = arguments.end(error)
            if e is not None:
                future.info = CallInfo(e) if not error else None
            try:
                value = None if error else arguments.results()
            except Exception as problem:
                error = problem
            future.settle(None if error else value, error)

        try:
            future._withdraw = owner.start(send, finish)
        except BaseException:
            arguments.end(None)
            raise
        return future

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        future = self.submit(*args, **kwargs)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupt: nobody waits for it any more
            raise

    def __repr__(self):
        return "<remote function %s>" % self.__doc__


class Method(Function):
    """A method of an object; called as a remote function is."""

    def __init__(self, owner, entry):
        Function.__init__(self, owner._class._module, entry)
        self._object, self._number = owner, owner._number

    def submit(self, *args: Any, **kwargs: Any) -> CallFuture[Any]:
        """Starts a call behind those that were made before; see Function.submit."""
        if self._object._ended:
            raise RefusedError("the object of %r was closed" % self._object._class)
        return Function.submit(self, *args, **kwargs)


class RemoteObject:
    """An object of a class: its methods, as attributes, share its state.

    It lives on one node, in a process of its own. The methods run one at a time,
    in the order in which they were called. close(), or the end of a with
    statement, ends it after them; so does the end of the session.
    """

    def __init__(self, class_, number):
        self._class, self._number, self._ended = class_, number, False
        self._methods = {}

    def __getattr__(self, name: str) -> Method:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Method:
        entry = self._class._entry.methods.get(name)
        if entry is None:
            raise ModuleError(
                "%r has no method %s; it has %s"
                % (self._class, name, ", ".join(self._class._entry.methods))
            )
        if name not in self._methods:
            self._methods[name] = Method(self, entry)
        return self._methods[name]

    def __dir__(self) -> List[str]:
        return [*self._class._entry.methods, "close"]

    def close(self) -> None:
        """Ends the object, after the methods that were called before."""
        if self._ended:
            return
        self._ended = True
        module = self._class._module
        try:
            with module.session.use() as client:
                index = self._class._entry.index
                lib.object_end(client, module._handle, index, self._number)
        except Error:
            pass  # it ended with the session

    def __enter__(self) -> "RemoteObject":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self):
        return "<object %d of %r>" % (self._number, self._class)


class RemoteClass:
    """A class of a module. Calling it makes an object."""

    def __init__(self, module, entry):
        self._module, self._entry = module, entry
        self.__name__ = entry.name
        self.__doc__ = "the class %s with the methods %s" % (
            entry.name,
            ", ".join(entry.methods),
        )

    def __call__(self) -> RemoteObject:
        module = self._module
        with module.session.use() as client:
            number = lib.object(client, module._handle, self._entry.index)
            if not number:
                raise last_error()
        return RemoteObject(self, number)

    def __repr__(self):
        return "<class %s.%s>" % (self._module.name, self.__name__)


class Module:
    """The remote functions and classes of a worker program, as attributes."""

    def __init__(
        self,
        name: str,
        node: Optional[str] = None,
        session: Optional[sessions.Session] = None,
    ) -> None:
        self.session = session or sessions.current()
        key = name if node is None else "%s@%s" % (node, name)
        with self.session.use():
            self._handle = self.session.bind(key)
            self.name, self._entries = manifest.read_manifest(self._handle)
        self._functions = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        entry = self._entries.get(name)
        if entry is None or entry.is_init:
            raise ModuleError(
                "module %s has no function %s; it has %s"
                % (self.name, name, ", ".join(dir(self)))
            )
        if name not in self._functions:
            kind = RemoteClass if entry.is_class else Function
            self._functions[name] = kind(self, entry)
        return self._functions[name]

    def __dir__(self) -> List[str]:
        return [e.name for e in self._entries.values() if not e.is_init]

    def initialize(self, *args: Any, **kwargs: Any) -> Any:
        """Gives the arguments of the module's Initialize.

        Each worker that starts from now on gets them before its first call.
        """
        for entry in self._entries.values():
            if entry.is_init:
                return Function(self, entry)(*args, **kwargs)
        raise ModuleError("module %s has no Initialize" % self.name)

    def __repr__(self):
        return "<module %s: %s>" % (self.name, ", ".join(dir(self)))


def module(
    name: str, node: Optional[str] = None, session: Optional[sessions.Session] = None
) -> Module:
    """The module of a name, or of a worker program's path.

    ``node`` names the node that shall run all its calls.
    """
    return Module(name, node, session)
