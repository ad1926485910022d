# SPDX-License-Identifier: MIT
"""The wheel, installed by pip where nothing else is.

    python3 wheel.py WHEEL BUILDER PACKAGE
"""
import os
import subprocess
import sys
import tempfile
import unittest

import tap

WHEEL, BUILDER, PACKAGE = sys.argv[1:4]


class Wheel(unittest.TestCase):
    def test_bytes(self):
        """a wheel that is built again has the same bytes"""
        with tempfile.TemporaryDirectory() as folder:
            for again in ("a", "b"):
                copy = os.path.join(folder, again)
                subprocess.run(["cp", "-r", PACKAGE, copy + ".skep"], check=True)
                subprocess.run(
                    [sys.executable, "-B", BUILDER, copy + ".skep", copy],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                with open(os.path.join(copy, os.path.basename(WHEEL)), "rb") as f:
                    built = f.read()
                with open(WHEEL, "rb") as f:
                    self.assertEqual(built, f.read())

    def test_install(self):
        """pip installs the wheel, which needs nothing else, and it works"""
        with tempfile.TemporaryDirectory() as folder:
            own = dict(os.environ, PYTHONPATH="", HOME=folder)
            python = os.path.join(folder, "bin", "python")
            for words in (
                [sys.executable, "-m", "venv", folder],
                [python, "-m", "pip", "install", "-q", "--no-index", WHEEL],
                [python, "-m", "pip", "check"],
                [
                    *tap.RUN,
                    python,
                    "-c",
                    "import skep\n"
                    "with skep.Executor() as executor:\n"
                    "    assert list(executor.map(pow, [2, 3], [3, 2])) == [8, 9]\n"
                    "    assert executor.submit(len, 'abc').result() == 3\n",
                ],
            ):
                done = subprocess.run(
                    words,
                    env=own,
                    cwd=folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=tap.stretch(120),
                )
                self.assertEqual(done.returncode, 0, done.stdout.decode())


if __name__ == "__main__":
    sys.argv[1:] = []
    tap.run_classes(Wheel)
