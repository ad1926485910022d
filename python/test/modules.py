# SPDX-License-Identifier: MIT
"""Calls of remote functions, through a whole grid: see shapes.idl."""
import array
import asyncio
import concurrent.futures
import ctypes
import inspect
import os
import sys
import tempfile
import threading
import unittest

import numpy
import skep
import tap


class Modules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = skep.module("shapes")

    def refused(self, pattern, function, *args, **kwargs):
        with self.assertRaisesRegex(skep.ArgumentError, pattern):
            function(*args, **kwargs)

    def test_integers(self):
        """integers of all sizes go both ways"""
        low = (-(2**7), -(2**15), -(2**31), -(2**62))
        high = (2**8 - 1, 2**16 - 1, 2**32 - 1, 2**64 - 1)
        got = self.m.integers(*low, *high)
        self.assertEqual(got, (sum(low) + sum(high[:3]), 2**64 - 1))
        self.assertEqual(self.m.integers(*[numpy.int8(1)] * 8), (7, 1))

    def test_integer_limits(self):
        """an integer that does not fit its type is refused"""
        ones = [1] * 8
        for i, value in enumerate(
            (128, 2**15, 2**31, 2**63, 256, -1, 2**32, -1)
        ):
            with self.subTest(i):
                values = ones[:i] + [value] + ones[i + 1 :]
                self.refused("is no ", self.m.integers, *values)
        self.refused("is no int", self.m.integers, 1, 1, 1.5, *ones[3:])

    def test_reals(self):
        """real and complex numbers go both ways"""
        got = self.m.reals(0.5, 1e300, 1 + 2j, 3 - 1j)
        self.assertEqual(got, (6 - 2j, 1e300 + 0.5, (1 + 2j) * (3 - 1j)))

    def test_matrix(self):
        """an OUT matrix is made with the size that its interface says"""
        x = numpy.arange(6.0).reshape(2, 3)
        y = self.m.transpose(2, 3, x)
        self.assertEqual(y.shape, (3, 2))
        self.assertTrue((y == x.T).all())

    def test_in_place(self):
        """arrays are written where they lie"""
        x, y = numpy.arange(6.0).reshape(2, 3), numpy.zeros((3, 2))
        self.assertIsNone(self.m.transpose(2, 3, x, y))
        self.assertTrue((y == x.T).all())
        place = numpy.zeros((3, 4, 2))
        self.assertIsNone(self.m.transpose(2, 3, x, place[1, :3].reshape(3, 2)))
        self.assertTrue((place[1, :3] == x.T).all())
        self.assertEqual(place[0].sum() + place[2].sum(), 0)

    def test_buffers(self):
        """any object with a buffer is an array"""
        x = array.array("d", range(6))
        y = (ctypes.c_double * 6)()
        self.m.transpose(2, 3, x, y)
        self.assertEqual(list(y), [0, 3, 1, 4, 2, 5])
        text = bytearray(b"HAL")
        self.assertEqual(self.m.count(4, 3, text), 5)
        self.assertEqual(text, b"IBM")

    def test_lists(self):
        """lists are copied into IN arrays"""
        y = self.m.transpose(2, 2, [[1, 2], [3, 4]])
        self.assertEqual(y.tolist(), [[1, 3], [2, 4]])
        self.refused("", self.m.transpose, 2, 2, [[1, 2], [3, "x"]])

    def test_sizes_from_items(self):
        """a size may be an element of an earlier array"""
        self.assertEqual(self.m.pick(3, [5, 2, 7], 2).tolist(), list(range(7)))
        self.refused("cannot be computed", self.m.pick, 3, [5, 2, 7], 3)
        self.refused("shape", self.m.pick, 1000, [5, 2, 7], 900)

    def test_complex_arrays(self):
        """arrays of complex numbers"""
        x = numpy.array([1 + 2j, -3j])
        self.assertEqual(self.m.spectrum(2, x).tolist(), x.conj().tolist())

    def test_no_elements(self):
        """arrays without elements"""
        self.assertEqual(self.m.transpose(0, 3, numpy.zeros((0, 3))).shape, (3, 0))

    def test_wrong_arrays(self):
        """arrays that do not fit are refused with what is wanted"""
        x, t = numpy.zeros((2, 3)), self.m.transpose
        self.refused("float32, float64 is wanted", t, 2, 3, x.astype("float32"))
        self.refused("int64, float64", t, 2, 3, x.astype("int64"))
        self.refused("not contiguous", t, 3, 2, x.T)
        self.refused("not contiguous", t, 2, 3, numpy.zeros((2, 6))[:, ::2])
        self.refused(r"shape \(3, 2\), \(2, 3\)", t, 2, 3, numpy.zeros((3, 2)))
        self.refused("negative", t, -1, 3, x)
        self.refused("read-only", t, 2, 3, x, self.frozen((3, 2)))
        self.refused("float64", t, 2, 3, x.astype(">f8"))
        self.refused("no buffer", t, 2, 3, 5)
        self.refused("uint32", self.m.pick, 1, numpy.ones(1, "uint32"), 0)

    def frozen(self, shape):
        y = numpy.zeros(shape)
        y.flags.writeable = False
        return y

    def test_strings(self):
        """strings of all modes"""
        got = self.m.greet("wörld", upper="abc")
        self.assertEqual(got, ("hello wörld", "ABC"))
        self.refused("zero", self.m.greet, "a\0b", upper="x")
        self.refused("no text", self.m.greet, 5, upper="x")

    def test_null(self):
        """None is a null pointer, for a string and for the name of a file"""
        self.assertEqual(self.m.nulls(None, None, ask=lambda s: s is None), 7)
        self.assertEqual(self.m.nulls("", "", ask=lambda s: s is None), 0)
        self.refused("FILE", self.m.open, "x")

    def test_string_arrays(self):
        """arrays of strings, with null pointers"""
        self.assertEqual(self.m.words(3, ["a", None, "c"]), ["c", None, "a"])
        self.refused("2 texts, 3", self.m.words, 3, ["a", "b"])

    def test_files(self):
        """files are read and written by their names"""
        with tempfile.TemporaryDirectory() as folder:
            a, b = os.path.join(folder, "a"), os.path.join(folder, "b")
            with open(a, "w") as f:
                f.write("HAL" * 1000)
            self.m.copy(from_=a, to=b)
            with open(b) as f:
                self.assertEqual(f.read(), "IBM" * 1000)
            self.refused("name of a file", self.m.copy, a)
            self.refused("cannot be", self.m.copy, a + "x", b)
        self.refused("FILE", self.m.open, "x")

    def test_calling(self):
        """arguments may have names, and wrong ones are refused"""
        self.assertEqual(self.m.scaled(x=2), 2)
        for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"z": 1})):
            with self.assertRaises(TypeError):
                self.m.scaled(*args, **kwargs)
        with self.assertRaises(TypeError):
            self.m.scaled(1, x=1)

    def test_description(self):
        """a function knows its interface"""
        self.assertIn("INOUT unsigned char text[]", self.m.count.__doc__)
        self.assertNotIn("scratch", inspect.signature(self.m.count).parameters)
        self.assertIn("transpose", dir(self.m))
        self.assertNotIn("Initialize", dir(self.m))

    def test_missing(self):
        """what is not there is named"""
        with self.assertRaisesRegex(skep.ModuleError, "it has .*transpose"):
            self.m.nothing
        with self.assertRaisesRegex(skep.ModuleError, "nosuch.rex"):
            skep.module("nosuch")
        with self.assertRaisesRegex(skep.NodeError, "no node"):
            skep.module("shapes", node="nowhere")

    def test_futures(self):
        """calls run beside one another, and say where"""
        futures = [self.m.scaled.submit(float(i)) for i in range(20)]
        done, rest = concurrent.futures.wait(futures)
        self.assertEqual(len(done), 20)
        self.assertEqual([f.result() for f in futures], [float(i) for i in range(20)])
        self.assertEqual(futures[0].info.substrate, "linux")
        self.assertEqual(futures[0].info.bytes_out, 8)

    def test_await(self):
        """calls can be awaited"""

        async def main():
            return await asyncio.gather(
                *[self.m.scaled.submit(float(i)) for i in range(10)]
            )

        self.assertEqual(asyncio.run(main()), [float(i) for i in range(10)])

    def test_cancel(self):
        """cancelling ends a call that runs"""
        future = self.m.wait.submit(3600)
        self.assertTrue(future.cancel())
        self.assertTrue(future.cancel())
        with self.assertRaises(concurrent.futures.CancelledError):
            future.result()
        both = [self.m.scaled.submit(1.0) for _ in range(4)]
        concurrent.futures.wait(both)  # with two slots, none is held for an hour

    def test_timeout(self):
        """waiting may have a limit"""
        future = self.m.wait.submit(3600)
        with self.assertRaises(concurrent.futures.TimeoutError):
            future.result(0.05)
        future.cancel()

    def test_death(self):
        """a worker that ends too often fails the call, with its status"""
        with self.assertRaisesRegex(skep.WorkerError, "5"):
            self.m.die(5)

    def test_changed_arguments(self):
        """IN arguments may be changed as soon as a call was submitted"""
        x = numpy.ones((1000, 1000))
        future = self.m.transpose.submit(1000, 1000, x)
        x[:] = 7
        self.assertEqual(future.result().sum(), 1e6)


class Called(unittest.TestCase):
    """Functions of this program that workers call."""

    @classmethod
    def setUpClass(cls):
        cls.m = skep.module("shapes")

    def test_values(self):
        """a function gets numbers and arrays, and returns some"""
        kept, ended = [], []

        def step(i, f, total, x, k, y):
            self.assertEqual((i, f), (len(kept), 0.5))
            self.assertEqual((x.dtype, k.dtype, y.shape), ("f8", "i2", (2, 2)))
            kept.append(x)
            k += 1
            y[:] = x.reshape(2, 1) * [1, i]
            return total + 7, 0.25 * (i + 2), 1 + 2j

        x = numpy.array([3.0, 4.0])
        y, total = self.m.visit(2, x, step=step, done=lambda: ended.append(1))
        self.assertEqual(total, 5000000000 + 21 + 4 + 50 + 1 + 2000)
        self.assertEqual(y.tolist(), [[3, 6], [4, 8]])
        self.assertEqual([k.tolist() for k in kept], [[3, 4]] * 3)
        self.assertEqual(ended, [1])

    def test_strings(self):
        """a function gets strings and returns some"""

        def ask(what, state, names):
            self.assertEqual((what, names), ("wörd", ["one", None]))
            return state + "ü", [None, state, ""]

        self.assertEqual(self.m.talk(3, ask=ask), "stäteüü/none/stäteü/")
        got = self.m.talk(1, ask=lambda *_: (None, ["x"]))
        self.assertEqual(got, "none/x")

    def test_errors(self):
        """a call whose function raises does, and is not run again"""
        calls = []

        def fail(i):
            calls.append(i)
            if i == 2:
                raise KeyError("two")
            return i

        with self.assertRaisesRegex(KeyError, "two"):
            self.m.tick(5, each=fail)
        self.assertEqual(calls, [0, 1, 2])
        with self.assertRaises(SystemExit):
            self.m.tick(5, each=lambda i: sys.exit(3))
        self.assertEqual(self.m.tick(3, each=lambda i: i + 7), 9)

    def test_wrong_results(self):
        """what a function returns must fit its interface"""
        for pattern, value in (
            ("v: .* is no int", (1, 2)),
            ("v: .* is no int", None),
            ("v: .* is no int", 2**31),
            ("v: .* is no int", "x"),
        ):
            with self.assertRaisesRegex(skep.ArgumentError, pattern):
                self.m.tick(1, each=lambda i: value)
        for pattern, value in (
            ("must return state, back", None),
            ("must return state, back", ("x", ["a"], 1)),
            ("1 texts are wanted", ("x", ["a", "b"])),
            ("1 texts are wanted", ("x", "a")),
            ("no text", (5, ["a"])),
            ("no text", ("x", ["a\0b"])),
        ):
            with self.assertRaisesRegex(skep.ArgumentError, pattern):
                self.m.talk(1, ask=lambda *_: value)
        with self.assertRaisesRegex(skep.ArgumentError, "must return nothing"):
            self.m.visit(1, [1], step=lambda *_: (1, 1, 1), done=lambda: 5)
        with self.assertRaisesRegex(skep.ArgumentError, "int is none"):
            self.m.tick(1, each=5)
        with self.assertRaises(TypeError):
            self.m.tick(1)

    def test_calls_inside(self):
        """a function may make calls, and wait for those alone"""
        outside = self.m.wait.submit(3600)
        caught = []

        def refused(f, *args):
            try:
                f(*args)
            except skep.RefusedError as error:
                caught.append(str(error))

        def each(i):
            refused(outside.result)
            refused(outside.exception, 0)
            refused(self.m.session.close)
            both = [self.m.scaled.submit(float(k + i)) for k in range(3)]
            if i:
                return int(sum(f.result() for f in both))
            return self.m.tick(2, each=each_again)

        def each_again(i):
            return int(self.m.scaled(40.0)) + i

        # With two slots, one of which another call keeps.
        self.assertEqual(self.m.tick(1, each=each), 41)
        self.assertEqual(self.m.tick(2, each=each), 6)
        outside.cancel()
        self.assertEqual(len(caught), 9)
        self.assertIn("cannot wait for a call that it did not make", caught[0])
        self.assertIn("cannot end the session", caught[2])

    def test_many(self):
        """calls with functions run beside one another"""
        futures = [self.m.tick.submit(20, each=lambda i, k=k: i + k) for k in range(10)]
        self.assertEqual([f.result() for f in futures], [19 + k for k in range(10)])

    def test_cancel(self):
        """a call is cancelled while its function runs"""
        begun, go_on = threading.Event(), threading.Event()

        def each(i):
            begun.set()
            go_on.wait()
            return i

        future = self.m.tick.submit(2, each=each)
        begun.wait()
        future.cancel()
        go_on.set()
        with self.assertRaises(concurrent.futures.CancelledError):
            future.result()
        self.assertEqual(self.m.tick(2, each=lambda i: i), 1)

    def test_description(self):
        """the interface of a function is described"""
        self.assertIn(
            "step(IN int i, IN float f, INOUT long total", self.m.visit.__doc__
        )
        self.assertNotIn("step", dir(self.m))


class Initialize(unittest.TestCase):
    def test_initialize(self):
        """Initialize is given its arguments once, for all workers"""
        m = skep.module("shapes", node="localhost")
        m.initialize(3.0)
        self.assertEqual([m.scaled(2.0) for _ in range(4)], [6.0] * 4)
        with self.assertRaises(TypeError):
            m.initialize()


class Kept(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = skep.module("shapes")

    def test_once(self):
        """data is sent once, and given to calls in place of arrays"""
        x = numpy.arange(60000.0).reshape(200, 300)
        with skep.Data(x) as kept:
            x[:] = 0  # a copy was sent
            for _ in range(2):
                future = self.m.transpose.submit(200, 300, kept)
                y = future.result()
                self.assertEqual(y.shape, (300, 200))
                self.assertEqual((y[0, 1], y[299, 199]), (300, 59999))
                self.assertLess(future.info.bytes_in, 100)
            self.assertEqual((kept.shape, kept.nbytes), ((200, 300), 480000))
            self.assertEqual(len(kept.digest), 64)

    def test_result(self):
        """a result stays in the grid, and is read from there"""
        x = numpy.arange(6.0).reshape(2, 3)
        kept, again = skep.Data(), skep.Data()
        with self.assertRaisesRegex(skep.ArgumentError, "has no bytes yet"):
            kept.read()
        self.assertIsNone(self.m.transpose(2, 3, x, kept))
        self.assertIsNone(self.m.transpose(3, 2, kept, again))
        self.assertTrue((kept.read() == x.T).all())
        self.assertTrue((again.read() == x).all())
        self.assertEqual(again.digest, skep.Data(x).digest)
        place = numpy.zeros(6)
        self.assertIs(kept.read(place), place)
        self.assertEqual(place[1], 3)
        with self.assertRaisesRegex(skep.ArgumentError, "buffer of 48 bytes"):
            kept.read(numpy.zeros(5))

    def test_both(self):
        """data that a call changes is the changed one afterwards"""
        text = skep.Data(b"abc")
        self.assertEqual(self.m.count(1, 3, text), 2)
        self.assertEqual(bytes(text.read()), b"bcd")

    def test_refusals(self):
        """data that does not fit is refused by its parameter"""
        x = skep.Data(numpy.arange(6.0))
        fits = (skep.ArgumentError, "argument x of shapes.transpose")
        with self.assertRaisesRegex(*fits):
            self.m.transpose(2, 3, skep.Data(numpy.arange(6)))
        with self.assertRaisesRegex(skep.ArgumentError, "x of shapes.transpose.*bytes"):
            self.m.transpose(2, 2, x)
        with self.assertRaisesRegex(skep.ArgumentError, "argument x.*no bytes yet"):
            self.m.transpose(2, 3, skep.Data())
        sizes = skep.Data(numpy.zeros(2, dtype="int32"))  # they are not here
        with self.assertRaisesRegex(skep.ArgumentError, "pick.*cannot be computed"):
            self.m.pick(2, sizes, 1, numpy.zeros(3, dtype="int32"))
        with skep.Session() as session:
            other = skep.Data(numpy.zeros(6), session=session)
            with self.assertRaisesRegex(skep.ArgumentError, "another session"):
                self.m.transpose(2, 3, other)
        other.close()
        x.close()
        with self.assertRaisesRegex(skep.ArgumentError, "or it was closed"):
            self.m.transpose(2, 3, x)
        for value in (5, numpy.zeros((4, 4))[:, 1], numpy.zeros(2, dtype="U3")):
            with self.assertRaises(skep.ArgumentError):
                skep.Data(value)
        self.assertEqual(skep.Data(numpy.zeros(0)).nbytes, 0)

    def test_busy(self):
        """a result that has not arrived is not given to another call"""
        kept, go_on = skep.Data(), threading.Event()

        def step(i, f, total, x, k, y):
            go_on.wait()
            return total, 0.0, 0j

        x = numpy.zeros(2)
        future = self.m.visit.submit(2, x, kept, step=step, done=lambda: None)
        try:
            for use in (kept.close, kept.read, lambda: self.m.transpose(2, 2, kept)):
                with self.assertRaisesRegex(skep.RefusedError, "has not ended"):
                    use()
        finally:
            go_on.set()
        future.result()
        self.assertEqual(kept.shape, (2, 2))


class Objects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = skep.module("shapes")

    def test_state(self):
        """objects have states of their own, and functions of a class are theirs"""
        with self.m.tally() as a, self.m.tally() as b:
            a.add(2, [1.0, 2.0])
            b.add(1, numpy.array([10.0]))
            a.each(3, lambda i: i)
            self.assertEqual((a.get(), b.get()), (6.0, 10.0))
            self.assertEqual(list(b.sum()), [100.0])
        self.assertNotIn("get", dir(self.m))
        self.assertEqual(dir(a), ["add", "close", "die", "each", "get", "sum"])

    def test_order(self):
        """methods run in the order of their calls, also those before the end"""
        a = self.m.tally()
        futures = []
        for i in range(8):
            a.add.submit(1, [2.0**i])
            futures.append(a.get.submit())
        a.close()
        a.close()
        self.assertEqual(
            [f.result() for f in futures], [2**i - 1 for i in range(1, 9)]
        )
        with self.assertRaisesRegex(skep.RefusedError, "shapes.tally> was closed"):
            a.get()

    def test_await(self):
        """methods of two objects are awaited"""

        async def both():
            with self.m.tally() as a, self.m.tally() as b:
                await asyncio.gather(a.add.submit(1, [1.0]), b.add.submit(1, [2.0]))
                return await a.get.submit(), await b.get.submit()

        self.assertEqual(asyncio.run(both()), (1.0, 2.0))

    def test_loss(self):
        """an object that is lost says why, and the others live"""
        with self.m.tally() as a, self.m.tally() as b:
            b.add(1, [1.0])
            for call in (lambda: a.die(3), a.get):
                with self.assertRaisesRegex(skep.WorkerError, "is lost.*status 3"):
                    call()
            self.assertEqual(b.get(), 1.0)

    def test_names(self):
        """what a module, a class and an object do not have is named"""
        with self.assertRaisesRegex(skep.ModuleError, "no function nothing"):
            self.m.nothing()
        with self.assertRaisesRegex(skep.ModuleError, "no function get"):
            self.m.get()
        with self.m.tally() as a, self.assertRaisesRegex(
            skep.ModuleError, "shapes.tally> has no method half; it has add, get"
        ):
            a.half(1.0)
        self.assertIn("the methods add, get", self.m.tally.__doc__)

    def test_plain(self):
        """methods of a class without state are functions, too"""
        self.assertEqual(self.m.half(3.0), 1.5)
        with self.m.plain() as p:
            self.assertEqual(p.half(5.0), 2.5)

    def test_node(self):
        """the node of a module is that of its objects"""
        with skep.module("shapes", node="localhost").tally() as a:
            future = a.get.submit()
            self.assertEqual(future.result(), 0)
            self.assertEqual(future.info.substrate, "linux")
        session = skep.Session()
        lost = skep.module("shapes", session=session).tally()
        session.close()
        with self.assertRaises(skep.HubError):
            lost.get.submit()
        lost.close()


if __name__ == "__main__":
    tap.run_classes(Modules, Called, Kept, Objects, Initialize)
