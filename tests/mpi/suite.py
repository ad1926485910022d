# SPDX-License-Identifier: MIT
"""Runs modules of mpi4py's tests in one rank of an MPI job.

usage: suite.py TESTS OUT MODULE[,MODULE...] [EXCLUDED-TEST...]

Each rank writes OUT.RANK: a line "start NAME" before a test and "ok NAME",
"skip NAME" or "bad NAME" after it, so that a hang shows its test. What a
failure says goes to standard error.
"""

import sys
import unittest


class Lines(unittest.TestResult):
    """A result that is one line per event, on disk at once."""

    def __init__(self, out):
        super().__init__()
        self.out = out

    def say(self, what, test):
        self.out.write(f"{what} {test.id()}\n")
        self.out.flush()

    def startTest(self, test):
        super().startTest(test)
        self.say("start", test)

    def addSuccess(self, test):
        self.say("ok", test)

    def addSkip(self, test, reason):
        self.say("skip", test)

    def addExpectedFailure(self, test, err):
        self.say("ok", test)

    def bad(self, test, err):
        self.say("bad", test)
        sys.stderr.write(f"{test.id()}: {self._exc_info_to_string(err, test)}\n")

    addFailure = addError = bad

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.bad(test, err)

    def addUnexpectedSuccess(self, test):
        self.say("bad", test)


def flatten(suite):
    """The tests in a suite of suites, in order."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def main():
    tests, out, module, excluded = *sys.argv[1:4], sys.argv[4:]
    sys.path.insert(0, tests)
    from mpi4py import MPI

    suite = unittest.defaultTestLoader.loadTestsFromNames(module.split(","))
    wanted = [test for test in flatten(suite) if test.id() not in excluded]
    with open(f"{out}.{MPI.COMM_WORLD.Get_rank()}", "w", encoding="utf-8") as f:
        unittest.TestSuite(wanted).run(Lines(f))


main()
