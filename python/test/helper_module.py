# SPDX-License-Identifier: MIT
"""A module that nodes do not have: Executor(modules=...) sends it."""

FACTOR = 7


def multiply(x):
    return FACTOR * x


def fail(x):
    raise KeyError(x)  # this line is in the traceback
