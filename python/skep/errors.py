# SPDX-License-Identifier: MIT
"""The exceptions of the package. docs/python.md says what to do about each."""


class Error(Exception):
    """What skep reports; ``code`` is the number that the C library has for it."""

    code = -1


class HubError(Error):
    """The hub cannot be reached, or it ended the session."""


class ModuleError(Error, LookupError):
    """There is no such module or function, or its program cannot be run."""


class ArgumentError(Error, ValueError):
    """An argument does not fit the function's interface."""


class WorkerError(Error):
    """Workers ended during the call, too often to run it again."""


class NodeError(Error):
    """No node can run the call."""


class RefusedError(Error):
    """A node, its owner, or a limit of the hub does not permit the call."""


class ForkError(Error):
    """The program forked: a session belongs to the process that opened it."""


class RemoteError(Error):
    """A function failed, and its exception cannot be had here.

    ``name`` is the exception's class, ``traceback`` the worker's.
    """

    def __init__(self, text, name="", traceback=""):
        super().__init__(text)
        self.name = name
        self.traceback = traceback


class RemoteTraceback(Exception):
    """The ``__cause__`` of an exception that a worker raised: its traceback."""

    def __init__(self, text):
        super().__init__(text)
        self.text = text

    def __str__(self):
        return self.text


# OmniRpc.h has these numbers.
CLASSES = {
    -101: HubError,
    -102: HubError,
    -103: ModuleError,
    -104: ModuleError,
    -105: ModuleError,
    -106: ArgumentError,
    -107: WorkerError,
    -109: RefusedError,
    -110: NodeError,
    -120: HubError,
}
NO_MEMORY = -121


def error_of(code, text):
    """The exception for a code of the C library."""
    if code == NO_MEMORY:
        return MemoryError(text)
    error = CLASSES.get(code, Error)(text)
    error.code = code
    return error
