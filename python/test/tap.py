# SPDX-License-Identifier: MIT
"""Runs unittest classes and prints TAP; a test's name is its first line."""
import os
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

sys.dont_write_bytecode = True
SKEP = os.environ.get("SKEP_PROGRAM", "skep")


def stretch(seconds):
    """Seconds that correspond, at the present load, to those of an idle computer."""
    with open("/proc/loadavg") as f:
        words = f.read().split()
    running = float(words[3].split("/")[0])
    scale = max(float(words[0]), running) / (os.cpu_count() or 1)
    return seconds * min(40, max(1, scale))


def wait_until(condition, seconds=60):
    """Polls until a condition holds; False if it does not in time."""
    end = time.monotonic() + stretch(seconds)
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def is_running(pid):
    """Whether a process runs; nobody may wait for an orphan's end."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def run_program(text, *, wrap=(), seconds=120, environment=None, before=()):
    """Runs a program of Python in a process and a state of its own.

    Answers its exit status, standard output and standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w") as f:
            f.write(text)
        own = dict(os.environ, **(environment or {}))
        for name in ("SKEP_SOCKET", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            own.pop(name, None)
        own["HOME"] = folder
        done = subprocess.run(
            [*before, *wrap, sys.executable, path],
            env=own,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=stretch(seconds),
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()


RUN = (SKEP, "run", "--slots", "2", "--")


class Result(unittest.TestResult):
    count = 0

    def line(self, test, good, why=""):
        Result.count += 1
        name = (test._testMethodDoc or str(test)).strip().split("\n")[0]
        print("%sok %d - %s" % ("" if good else "not ", Result.count, name))
        for text in why.rstrip().split("\n") if why else ():
            print("# " + text)
        sys.stdout.flush()

    def addSuccess(self, test):
        self.line(test, True)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.line(test, False, "".join(traceback.format_exception(*error)))

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.failures.append((subtest, error))
            self.line(subtest, False, "".join(traceback.format_exception(*error)))

    def addSkip(self, test, reason):
        raise AssertionError("tests of this room are not skipped: " + reason)


def run_classes(*classes):
    """Runs all tests, or those that arguments name: CLASS or CLASS.METHOD."""
    result, load = Result(), unittest.defaultTestLoader
    if sys.argv[1:]:
        tests = load.loadTestsFromNames(sys.argv[1:], sys.modules["__main__"])
    else:
        tests = [load.loadTestsFromTestCase(c) for c in classes]
    unittest.TestSuite(tests).run(result)
    print("1..%d" % Result.count)
    sys.exit(0 if result.wasSuccessful() else 1)
