# SPDX-License-Identifier: MIT
"""Frames, manifests and pickles, without a hub."""
import array
import gc
import io
import os
import pickle
import random
import sys
import tempfile
import types
import unittest
from unittest import mock

import tap
from skep import boot, functions, progress

GLOBAL = 3


def add_global(x):
    return x + GLOBAL


class Frames(unittest.TestCase):
    def round_trip(self, kind, parts):
        data = b"".join(bytes(p) for p in boot.encode(kind, parts))
        return boot.decode(data)

    def test_parts(self):
        """frames carry parts of all lengths"""
        for size in (0, 1, 63, 64, 65, 4095, 4096, 4097, 70000):
            parts = [b"a" * size, b"", b"z" * (size + 1)]
            kind, got = self.round_trip(7, parts)
            self.assertEqual(kind, 7)
            self.assertEqual([bytes(p) for p in got], parts)

    def test_alignment(self):
        """parts of a frame begin at multiples of 64"""
        pieces = boot.encode(1, [b"x" * 100, b"y" * 5000, b"z" * 9000])
        at = 0
        for piece in pieces:
            if len(piece) in (5000, 9000):
                self.assertEqual(at % 64, 0)
            at += len(piece)

    def test_no_copy(self):
        """long memory is not copied into a frame"""
        memory = array.array("d", bytes(80000))
        pieces = boot.encode(1, boot.dump(pickle.PickleBuffer(memory)))
        table = boot.piece_table(pieces)
        address = memory.buffer_info()[0]
        self.assertIn(address, [entry.base for entry in table])

    def test_hostile(self):
        """bytes that are no frame are refused, whatever they are"""
        good = b"".join(boot.encode(1, [b"abc", b"d" * 5000]))
        random.seed(1)
        refused = 0
        for _ in range(20000):
            data = bytearray(good[: random.randrange(len(good) + 1)])
            for _ in range(random.randrange(4)):
                if data:
                    data[random.randrange(min(len(data), 40))] = random.randrange(256)
            try:
                kind, parts = boot.decode(bytes(data))
            except boot.FrameError:
                refused += 1
                continue
            self.assertLessEqual(sum(len(p) for p in parts), len(data))
        self.assertGreater(refused, 1000)

    def test_memory(self):
        """memory of the library lives as long as a view of it, and no longer"""
        freed = []
        size = boot.COPY_BELOW
        block = (boot.ctypes.c_ubyte * size)()
        at = boot.ctypes.addressof(block)
        data = boot.adopt_memory(at, size, freed.append)
        part = data[10:20]
        del data
        gc.collect()
        self.assertEqual(freed, [])
        part.release()
        del part
        gc.collect()
        self.assertEqual(freed, [at])

    def test_short_memory(self):
        """short memory of the library is copied and freed at once"""
        freed = []
        block = boot.ctypes.create_string_buffer(b"abc")
        at = boot.ctypes.addressof(block)
        self.assertEqual(boot.adopt_memory(at, 3, freed.append), b"abc")
        self.assertEqual(freed, [at])


class Functions(unittest.TestCase):
    def test_importable(self):
        """a function that nodes can import travels as its name"""
        self.assertLess(len(functions.pickle_function(os.path.join)[0]), 60)
        self.assertTrue(functions.is_importable(os.path.join))
        self.assertFalse(functions.is_importable(add_global))
        self.assertFalse(functions.is_importable(lambda: 0))

    def test_kept_pickles(self):
        """the pickle of a function is kept only as long as nothing changes"""
        global GLOBAL
        first = functions.pickle_function(add_global)
        self.assertIs(functions.pickle_function(add_global), first)
        GLOBAL = 10**6
        try:
            again = functions.pickle_function(add_global)
            self.assertEqual(pickle.loads(again[0])(1), 10**6 + 1)
        finally:
            GLOBAL = 3
        add_global.__defaults__ = (5,)
        self.assertEqual(pickle.loads(functions.pickle_function(add_global)[0])(), 8)
        add_global.__defaults__ = None
        changing = [1]

        def read():
            return changing[0]

        for wanted in (1, 2):
            changing[0] = wanted
            parts = functions.pickle_function(read)
            self.assertEqual(pickle.loads(parts[0])(), wanted)

    def test_not_callable(self):
        """what cannot be called is refused before it is sent"""
        with self.assertRaisesRegex(TypeError, "not callable"):
            functions.pickle_function(3)

    def test_without_cloudpickle(self):
        """without cloudpickle, functions of the program are refused with what to do"""
        hidden = sys.modules.get("cloudpickle")
        sys.modules["cloudpickle"] = None
        try:
            for function in (add_global, lambda: 0):
                with self.assertRaisesRegex(Exception, "pip install cloudpickle"):
                    functions.pickle_function(function)
            self.assertTrue(functions.pickle_function(os.path.join))
        finally:
            del sys.modules["cloudpickle"]
            if hidden:
                sys.modules["cloudpickle"] = hidden

    def test_configuration(self):
        """the configuration is written into the worker program, if it has room"""
        program = functions.configure("/a/python", {"NAME": "value"})
        text = program[program.index(functions.MARK) + functions.MARK_BYTES :]
        strings = text[: text.index(b"\0\0")].split(b"\0")
        self.assertEqual(strings[0], b"V%d.%d" % sys.version_info[:2])
        self.assertIn(b"P/a/python", strings)
        self.assertIn(b"ENAME=value", strings)
        with self.assertRaisesRegex(ValueError, "too long"):
            functions.configure("/a/python", {"NAME": "v" * 20000})

    def test_module_without_source(self):
        """a module without source in Python cannot be sent"""
        with self.assertRaisesRegex(ValueError, "no source"):
            functions.module_sources(["_ctypes"])

    def test_encodings(self):
        """a module in another encoding is sent"""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "umlauts.py"), "wb") as f:
                f.write("# coding: latin-1\nNAME = 'Jörg'\n".encode("latin-1"))
            sys.path.insert(0, folder)
            try:
                sources = functions.module_sources(["umlauts"])
            finally:
                sys.path.remove(folder)
            self.assertIn("Jörg", sources["umlauts"][1])

    def test_packages(self):
        """a package is sent with all its modules"""
        sources = functions.module_sources(["json"])
        self.assertIn("json.decoder", sources)
        self.assertEqual(sources["json"][0], True)
        self.assertEqual(sources["json.decoder"][0], False)


class Worker(unittest.TestCase):
    """The node's side, called directly."""

    def setUp(self):
        self.server = boot.Server(boot.Config(b"V3.11\0P/x\0S/nowhere\0\0"))

    def run_call(self, kind, function, values):
        parts = functions.pickle_function(function) + boot.dump(values)
        pieces = self.server.run(b"".join(bytes(p) for p in boot.encode(kind, parts)))
        kind, parts = boot.decode(b"".join(bytes(p) for p in pieces))
        return kind, pickle.loads(parts[0], buffers=parts[1:])

    def test_value(self):
        """the worker answers a value"""
        got = self.run_call(boot.ONE, os.path.join, (("a", "b"), {}))
        self.assertEqual(got, (boot.VALUE, "a/b"))

    def test_nonsense(self):
        """the worker answers bytes that are no call with an exception"""
        kind, parts = boot.decode(b"".join(self.server.run(b"nonsense")))
        problem, data, name, message, text = pickle.loads(parts[0])
        self.assertEqual(kind, boot.RAISED)
        self.assertIn("cannot be loaded", problem)

    def test_functions_kept(self):
        """the worker keeps functions, a bounded number of them"""
        for i in range(2 * boot.KEPT_FUNCTIONS):
            self.server.function(pickle.dumps(os.path.join) + bytes(i))
        self.assertLessEqual(len(self.server.functions), boot.KEPT_FUNCTIONS)

    def test_deep_traceback(self):
        """the traceback of an endless recursion is short"""

        def recurse(n):
            return recurse(n + 1)

        import cloudpickle

        sys.modules["cloudpickle"] = cloudpickle
        kind, value = self.run_call(boot.ONE, recurse, ((0,), {}))
        self.assertEqual((kind, value[2]), (boot.RAISED, "RecursionError"))
        self.assertLess(len(value[4]), 20000)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Progress(unittest.TestCase):
    def shown(self, stream, *args, **kwargs):
        with mock.patch("sys.stderr", stream):
            got = list(progress(*args, **kwargs))
        return got, stream.getvalue()

    def test_terminal(self):
        """a bar on a terminal ends complete, or where its items ended"""
        got, text = self.shown(Terminal(), range(10), name="mine")
        self.assertEqual(got, list(range(10)))
        self.assertTrue(text.startswith("\rmine " + "." * 40 + " 0 of 10, 0 s"), text)
        self.assertRegex(text, "\rmine #{40} 10 of 10, [0-9]+ s\x1b\\[K\n$")
        _, text = self.shown(Terminal(), iter("abc"), total=4)
        self.assertRegex(text, "\r#{30}\\.{10} 3 of 4, .* to go\x1b\\[K\n$")
        _, text = self.shown(Terminal(), (c for c in "abc"))
        self.assertRegex(text, "\r3, [0-9]+ s\x1b\\[K\n$")
        _, text = self.shown(Terminal(), [])
        self.assertEqual(text.count("\n"), 1)

    def test_nowhere(self):
        """without a terminal or a notebook nothing is shown"""
        self.assertEqual(self.shown(io.StringIO(), "ab"), (["a", "b"], ""))
        with mock.patch("sys.stderr", None):
            self.assertEqual(list(progress("ab")), ["a", "b"])

    def test_failure(self):
        """an error of the items ends the bar, and is passed on"""

        def items():
            yield 1
            raise KeyError("mine")

        stream = Terminal()
        with self.assertRaises(KeyError), mock.patch("sys.stderr", stream):
            list(progress(items(), total=3))
        self.assertIn(" 1 of 3, ", stream.getvalue())
        self.assertTrue(stream.getvalue().endswith("\n"))

    def test_notebook(self):
        """in a notebook it is a bar below the cell"""
        shown = []
        place = types.SimpleNamespace(update=shown.append)
        shell = types.SimpleNamespace(kernel=1)
        modules = {
            "IPython": types.SimpleNamespace(get_ipython=lambda: shell),
            "IPython.display": types.SimpleNamespace(
                HTML=str, display=lambda what, display_id: place
            ),
        }
        with mock.patch.dict(sys.modules, modules):
            self.shown(Terminal(), "abcd", name="a<b")
        self.assertRegex(
            shown[-1], '^a&lt;b <progress value="4" max="4"></progress> 4 of 4, '
        )
        del shell.kernel  # IPython on a terminal
        with mock.patch.dict(sys.modules, modules):
            _, text = self.shown(Terminal(), "ab")
        self.assertIn("2 of 2", text)


if __name__ == "__main__":
    tap.run_classes(Frames, Functions, Worker, Progress)
