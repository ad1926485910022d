# SPDX-License-Identifier: MIT
"""Remote functions and Python functions on the nodes of a Skep hub.

>>> import skep
>>> with skep.Executor() as executor:
...     list(executor.map(pow, range(4), [2] * 4))
[0, 1, 4, 9]

A program is started with ``skep run -- python3 PROGRAM``. Without it the package
starts ``skep run`` itself, which uses the hub that runs on this computer or
starts one for as long as the program runs.
"""
from .data import Data
from .errors import (
    ArgumentError,
    Error,
    ForkError,
    HubError,
    ModuleError,
    NodeError,
    RefusedError,
    RemoteError,
    RemoteTraceback,
    WorkerError,
)
from .executor import Executor
from .module import Function, Method, Module, RemoteClass, RemoteObject, module
from .progress import progress
from .session import CallFuture, CallInfo, Session, connect

__version__ = "0.1.0"
__all__ = [
    "ArgumentError",
    "CallFuture",
    "CallInfo",
    "Data",
    "Error",
    "Executor",
    "ForkError",
    "Function",
    "HubError",
    "Method",
    "Module",
    "ModuleError",
    "NodeError",
    "RefusedError",
    "RemoteClass",
    "RemoteError",
    "RemoteObject",
    "RemoteTraceback",
    "Session",
    "WorkerError",
    "connect",
    "module",
    "progress",
]
