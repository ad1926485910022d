# SPDX-License-Identifier: MIT
"""Python functions through a whole grid: what concurrent.futures promises."""
import asyncio
import concurrent.futures
import doctest
import importlib
import itertools
import os
import sys
import threading
import unittest

import helper_module
import joblib
import numpy
import skep
import tap


class OwnError(Exception):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b

    def __reduce__(self):
        return OwnError, (self.args[0], self.b)


class Unpicklable(Exception):
    def __init__(self, lock):
        super().__init__("it holds a lock")
        self.lock = lock


class Explosive:
    """Unpickles on no computer."""

    def __reduce__(self):
        return explode, ()


def explode():
    raise RuntimeError("exploded while it was unpickled")


def square(x):
    return x * x


def short(x):
    """Short, but for some values."""
    if x == 77:
        raise OwnError("no 77", x)
    if x == 78:
        os._exit(9)
    return -x


def raise_own(x):
    raise OwnError("message %d" % x, x)


STATE = {}


def initialize(value):
    STATE["value"] = value

    global TOTAL
    TOTAL = value.sum()


def read_state():
    return STATE["value"].sum(), TOTAL


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.executor = skep.Executor()

    @classmethod
    def tearDownClass(cls):
        cls.executor.shutdown()

    def test_submit(self):
        """functions of modules, of the program, lambdas and closures are called"""
        submit, ten = self.executor.submit, 10
        self.assertEqual(submit(pow, 2, 10).result(), 1024)
        self.assertEqual(submit(os.path.join, "a", "b").result(), "a/b")
        self.assertEqual(submit(square, 5).result(), 25)
        self.assertEqual(submit(lambda x, *, y: x + y + ten, 1, y=2).result(), 13)

    def test_fresh_closures(self):
        """a function is sent as it is at each call"""
        got = []
        for i in range(3):
            STATE["i"] = i
            got.append(self.executor.submit(lambda: STATE["i"]).result())
        del STATE["i"]
        self.assertEqual(got, [0, 1, 2])

    def test_elsewhere(self):
        """functions run in other processes, with the call's node in info"""
        future = self.executor.submit(os.getpid)
        self.assertNotEqual(future.result(), os.getpid())
        self.assertEqual(future.info.substrate, "linux")
        self.assertTrue(future.info.node)

    def test_exception(self):
        """exceptions arrive with the worker's traceback as their cause"""
        with self.assertRaises(ZeroDivisionError) as caught:
            self.executor.submit(lambda: 1 / 0).result()
        cause = caught.exception.__cause__
        self.assertIsInstance(cause, skep.RemoteTraceback)
        self.assertIn("<lambda>", str(cause))
        self.assertNotIn("skep-boot.py", str(cause))

    def test_own_exception(self):
        """exceptions of the program's own classes are caught by them"""
        with self.assertRaises(OwnError) as caught:
            self.executor.submit(raise_own, 3).result()
        self.assertEqual(caught.exception.b, 3)
        self.assertIn("in raise_own", str(caught.exception.__cause__))

    def test_unpicklable_exception(self):
        """an exception that cannot be pickled is described"""

        def fail():
            raise Unpicklable(threading.Lock())

        with self.assertRaises(skep.RemoteError) as caught:
            self.executor.submit(fail).result()
        self.assertIn("it holds a lock", str(caught.exception))
        self.assertTrue(caught.exception.name.endswith("Unpicklable"))
        self.assertIn("in fail", caught.exception.traceback)

    def test_exits(self):
        """SystemExit and KeyboardInterrupt of a function are its exceptions"""
        for kind in (SystemExit, KeyboardInterrupt):

            def leave():
                raise kind("gone")

            with self.assertRaises(kind):
                self.executor.submit(leave).result()
        self.assertEqual(self.executor.submit(square, 2).result(), 4)

    def test_unpicklable_result(self):
        """a result that cannot be pickled is an error that says so"""
        with self.assertRaisesRegex(skep.RemoteError, "result cannot be pickled"):
            self.executor.submit(threading.Lock).result()
        got = self.executor.map(lambda i: threading.Lock() if i == 2 else i, range(4))
        self.assertEqual([next(got), next(got)], [0, 1])
        with self.assertRaisesRegex(skep.RemoteError, "result cannot be pickled"):
            next(got)

    def test_unloadable_result(self):
        """a result that does not unpickle is an error, and the rest goes on"""
        with self.assertRaisesRegex(skep.RemoteError, "cannot be loaded.*exploded"):
            self.executor.submit(Explosive).result()
        self.assertEqual(self.executor.submit(square, 3).result(), 9)

    def test_unpicklable_argument(self):
        """an argument that cannot be pickled is an error of submit"""
        with self.assertRaises(TypeError):
            self.executor.submit(square, threading.Lock())
        self.assertEqual(self.executor.submit(square, 3).result(), 9)

    def test_unloadable_argument(self):
        """an argument that does not unpickle is an error of the call"""
        with self.assertRaisesRegex(skep.RemoteError, "arguments cannot be loaded"):
            self.executor.submit(square, Explosive()).result()

    def test_arrays(self):
        """arrays go both ways, and may be kept by the function"""
        x = numpy.arange(1e6)
        kept = self.executor.submit(lambda a: (a * 2, a.flags.writeable, a[5]), x)
        y, writable, five = kept.result()
        self.assertTrue((y == 2 * x).all())
        self.assertTrue(writable)
        self.assertEqual(five, 5)
        self.assertEqual(y.ctypes.data % 64, 0)

    def test_array_forms(self):
        """arrays that are not contiguous, empty, or of objects"""
        for x in (
            numpy.arange(20000.0)[::2],
            numpy.zeros((0, 5)),
            numpy.asfortranarray(numpy.arange(1e4).reshape(100, 100)),
            numpy.array([{"a": 1}, None], dtype=object),
            numpy.array(["a", "bc"]),
        ):
            got = self.executor.submit(lambda a: a, x).result()
            self.assertEqual(got.shape, x.shape)
            self.assertTrue((got == x).all())

    def test_argument_may_change(self):
        """an argument may be changed as soon as submit returns"""
        x = numpy.zeros(1 << 20)
        futures = []
        for i in range(8):
            x[:] = i
            futures.append(self.executor.submit(numpy.mean, x))
        self.assertEqual([f.result() for f in futures], list(range(8)))

    def test_large_function(self):
        """a function with a large array in it is sent once, not with each call"""
        table = numpy.arange(1e6)
        futures = [self.executor.submit(lambda i=i: table[i]) for i in range(3)]
        self.assertEqual([f.result() for f in futures], [0, 1, 2])

        def lookup(i):
            return table[i]

        futures = [self.executor.submit(lookup, i) for i in range(20)]
        self.assertEqual([f.result() for f in futures], list(range(20)))
        self.assertLess(max(f.info.bytes_in for f in futures), 10000)
        words = [str(i) for i in range(20000)]
        future = self.executor.submit(lambda: words[77])
        self.assertEqual(future.result(), "77")
        self.assertLess(future.info.bytes_in, 10000)
        self.assertEqual(self.executor.submit(square, 3).result(), 9)

    def test_many_large_functions(self):
        """more large functions than there are programs for them"""
        for i in range(12):
            table = numpy.full(20000, i)
            self.assertEqual(self.executor.submit(lambda: table.max()).result(), i)

    def test_output(self):
        """what a function prints does not mix with its result"""
        self.assertEqual(self.executor.submit(print, "hello").result(), None)

    def test_threads(self):
        """threads submit at once"""
        results = [None] * 8

        def work(k):
            futures = [self.executor.submit(square, 100 * k + i) for i in range(50)]
            results[k] = [f.result() for f in futures]

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for k in range(8):
            self.assertEqual(results[k], [(100 * k + i) ** 2 for i in range(50)])

    def test_wait(self):
        """wait and as_completed of concurrent.futures work"""
        futures = {self.executor.submit(square, i): i for i in range(10)}
        for f in concurrent.futures.as_completed(futures):
            self.assertEqual(f.result(), futures[f] ** 2)
        slow = self.executor.submit(__import__("time").sleep, 3600)
        done, rest = concurrent.futures.wait(
            [slow, self.executor.submit(square, 1)],
            return_when=concurrent.futures.FIRST_COMPLETED,
        )
        self.assertEqual(rest, {slow})
        slow.cancel()
        done, rest = concurrent.futures.wait([slow])
        self.assertEqual(done, {slow})

    def test_callbacks(self):
        """callbacks run once, also if one raises an exception"""
        seen, event = [], threading.Event()
        future = self.executor.submit(square, 4)
        future.add_done_callback(lambda f: seen.append(f.result()))
        future.add_done_callback(lambda f: event.set())
        self.assertTrue(event.wait(tap.stretch(60)))
        self.assertEqual(seen, [16])

    def test_resubmit_in_callback(self):
        """a callback may submit"""
        event, got = threading.Event(), []

        def again(future):
            got.append(self.executor.submit(square, future.result()))
            event.set()

        self.executor.submit(square, 2).add_done_callback(again)
        self.assertTrue(event.wait(tap.stretch(60)))
        self.assertEqual(got[0].result(), 16)

    def test_await(self):
        """calls can be awaited, also through the loop's own function"""

        async def main():
            loop = asyncio.get_running_loop()
            mine = [self.executor.submit(square, i) for i in range(5)]
            theirs = loop.run_in_executor(self.executor, square, 9)
            return await asyncio.gather(*mine), await theirs

        self.assertEqual(asyncio.run(main()), ([0, 1, 4, 9, 16], 81))

    def test_await_cancelled(self):
        """cancelling a task cancels the call that it awaits"""

        async def main():
            future = self.executor.submit(__import__("time").sleep, 3600)
            task = asyncio.ensure_future(asyncio.wait_for(future_of(future), 0.05))
            try:
                await task
            except asyncio.TimeoutError:
                return future

        async def future_of(future):
            return await future

        self.assertTrue(asyncio.run(main()).cancelled())


class Together(unittest.TestCase):
    """Short calls that travel together."""

    def setUp(self):
        module = sys.modules["skep.executor"]
        self.known = module.FAST, module.GOAL
        module.FAST = module.GOAL = 10  # on a busy computer, too
        self.executor = skep.Executor()
        for i in range(5):  # from now on the function is known to be short
            self.assertEqual(self.executor.submit(short, i).result(), -i)

    def tearDown(self):
        module = sys.modules["skep.executor"]
        module.FAST, module.GOAL = self.known
        self.executor.shutdown()

    def submit(self, values):
        return [self.executor.submit(short, v) for v in values]

    def test_shared(self):
        """short calls travel together, each with its result"""
        futures = self.submit(range(100, 600))
        self.assertEqual([f.result() for f in futures], [-v for v in range(100, 600)])
        self.assertLess(len({id(f.info) for f in futures}), 100)

    def test_exception(self):
        """an exception of one of them is its own"""
        futures = self.submit(range(50, 78))
        for v, f in zip(range(50, 78), futures):
            if v == 77:
                with self.assertRaises(OwnError) as caught:
                    f.result()
                self.assertIn("in short", str(caught.exception.__cause__))
            else:
                self.assertEqual(f.result(), -v)

    def test_death(self):
        """a worker's death fails the call that caused it, and no other"""
        values = [v for v in range(40, 120) if v != 77]
        futures = dict(zip(values, self.submit(values)))
        with self.assertRaises(skep.WorkerError):
            futures.pop(78).result()
        self.assertEqual([f.result() for f in futures.values()], [-v for v in futures])

    def test_cancel(self):
        """some of them can be cancelled"""
        futures = self.submit(range(100, 400))
        for f in futures[::2]:
            f.cancel()
        got = [f.result() for f in futures[1::2]]
        self.assertEqual(got, [-v for v in range(101, 400, 2)])

    def test_arguments(self):
        """what waits here may be changed as well"""
        executor = skep.Executor(max_workers=1)
        x = numpy.zeros(1 << 18)
        futures = []
        for i in range(6):
            x[:] = i
            futures.append(executor.submit(numpy.mean, x))
        self.assertEqual([f.result() for f in futures], list(range(6)))
        executor.shutdown()


class Maps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.executor = skep.Executor()

    @classmethod
    def tearDownClass(cls):
        cls.executor.shutdown()

    def test_order(self):
        """map keeps the order, whatever the size of its parts"""
        want = [i * i for i in range(500)]
        for size in (None, 1, 7, 1000):
            got = list(self.executor.map(square, range(500), chunksize=size))
            self.assertEqual(got, want)
        self.assertEqual(list(self.executor.map(pow, [2, 3], [3, 2, 9])), [8, 9])
        self.assertEqual(list(self.executor.map(square, [])), [])

    def test_lazy(self):
        """map takes values as its results are taken, also endless ones"""
        taken = []

        def values():
            for i in itertools.count():
                taken.append(i)
                yield i

        got = self.executor.map(square, values(), buffersize=10)
        self.assertEqual(len(taken), 10)
        self.assertEqual([next(got) for _ in range(5)], [0, 1, 4, 9, 16])
        self.assertLessEqual(len(taken), 16 + 10)
        self.assertEqual([next(got) for _ in range(50)][-1], 54**2)
        got.close()

    def test_error(self):
        """map gives the results before an exception"""
        got = self.executor.map(lambda x: 1 / (3 - x), range(6), chunksize=6)
        self.assertEqual([next(got) for _ in range(3)], [1 / 3, 1 / 2, 1])
        with self.assertRaises(ZeroDivisionError) as caught:
            next(got)
        self.assertIn("<lambda>", str(caught.exception.__cause__))

    def test_arrays(self):
        """arrays are values of map"""
        x = [numpy.full(5000, i) for i in range(8)]
        got = list(self.executor.map(lambda a: a + 1, x))
        for i in range(8):
            self.assertTrue((got[i] == i + 1).all())

    def test_timeout(self):
        """map may have a limit of time"""
        got = self.executor.map(__import__("time").sleep, [3600], timeout=0.05)
        with self.assertRaises(concurrent.futures.TimeoutError):
            next(got)

    def test_wrong(self):
        """wrong sizes are refused"""
        for wrong in ({"chunksize": 0}, {"buffersize": 0}):
            with self.assertRaises(ValueError):
                self.executor.map(square, [1], **wrong)


class Examples(unittest.TestCase):
    def test_docstrings(self):
        """the examples in docstrings work"""
        for module in (skep, importlib.import_module("skep.progress")):
            failed, tried = doctest.testmod(module)
            self.assertEqual(failed, 0)
            self.assertGreater(tried, 0)


class Loops(unittest.TestCase):
    def test_joblib(self):
        """joblib's loops run on nodes, with their exceptions"""
        importlib.import_module("skep.joblib")
        with joblib.parallel_backend("skep", n_jobs=4):
            got = joblib.Parallel()(joblib.delayed(square)(i) for i in range(30))
            self.assertEqual(got, [i * i for i in range(30)])
            with self.assertRaises(OwnError):
                joblib.Parallel()(joblib.delayed(raise_own)(i) for i in range(3))
            where = joblib.Parallel()(joblib.delayed(os.getpid)() for i in range(3))
            self.assertNotIn(os.getpid(), where)


class Options(unittest.TestCase):
    def test_initializer(self):
        """an initializer runs in each worker, and its arguments travel once"""
        value = numpy.ones(100000)
        with skep.Executor(initializer=initialize, initargs=(value,)) as executor:
            futures = [executor.submit(read_state) for _ in range(10)]
            self.assertEqual([f.result() for f in futures], [(1e5, 1e5)] * 10)
            self.assertLess(futures[0].info.bytes_in, 5000)

    def test_failing_initializer(self):
        """an initializer that fails fails the calls, with its traceback"""
        with skep.Executor(initializer=explode) as executor:
            with self.assertRaisesRegex(skep.RemoteError, "initializer failed") as c:
                executor.submit(square, 1).result()
            self.assertIn("in explode", str(c.exception.__cause__))

    def test_modules(self):
        """modules that nodes do not have are sent"""
        with skep.Executor(modules=[helper_module]) as executor:
            self.assertEqual(executor.submit(helper_module.multiply, 6).result(), 42)
            with self.assertRaises(KeyError) as caught:
                executor.submit(helper_module.fail, 6).result()
            self.assertIn(
                "this line is in the traceback", str(caught.exception.__cause__)
            )

    def test_missing_module(self):
        """a module that a node does not have is named, with what to do"""
        with skep.Executor() as executor:
            pattern = "helper_module.*modules="
            with self.assertRaisesRegex(skep.RemoteError, pattern):
                executor.submit(helper_module.multiply, 6).result()

    def test_environment(self):
        """workers have one thread for each slot, and what is given"""
        with skep.Executor(environment={"MINE": "a=b"}) as executor:
            get = executor.submit(
                lambda: (os.environ["MINE"], os.environ["OMP_NUM_THREADS"])
            )
            self.assertEqual(get.result(), ("a=b", "1"))

    def test_node(self):
        """all calls may run on one node"""
        with skep.Executor(node="localhost") as executor:
            self.assertEqual(executor.submit(square, 3).result(), 9)
        with self.assertRaisesRegex(skep.NodeError, "nowhere"):
            skep.Executor(node="nowhere")

    def test_no_python(self):
        """a node without the wanted Python refuses, and says what it tried"""
        with skep.Executor(python="/nowhere/python3") as executor:
            with self.assertRaisesRegex(skep.RefusedError, "/nowhere/python3.*install"):
                executor.submit(square, 3).result()

    def test_wrong_version(self):
        """a Python of another version refuses, with both versions"""
        own = sys.version_info
        try:
            sys.version_info = (3, 99, 0)
            executor = skep.Executor()
        finally:
            sys.version_info = own
        with executor:
            pattern = "under Python 3.99, and .* is Python %d.%d" % own[:2]
            with self.assertRaisesRegex(skep.RefusedError, pattern):
                executor.submit(square, 3).result()

    def test_long_result(self):
        """a result beyond max_result is refused by name"""
        with skep.Executor(max_result=10000) as executor:
            self.assertEqual(len(executor.submit(bytes, 9000).result()), 9000)
            with self.assertRaisesRegex(skep.RefusedError, "max_result"):
                executor.submit(bytes, 11000).result()

    def test_max_workers(self):
        """max_workers limits what the hub has, and the rest can be cancelled"""
        executor = skep.Executor(max_workers=1)
        first = executor.submit(__import__("time").sleep, 3600)
        rest = [executor.submit(square, i) for i in range(5)]
        self.assertTrue(rest[2].cancel())
        first.cancel()
        got = [f.result() for f in rest if not f.cancelled()]
        self.assertEqual(got, [0, 1, 9, 16])
        executor.shutdown()
        with self.assertRaises(ValueError):
            skep.Executor(max_workers=0)

    def test_shutdown(self):
        """shutdown waits for all calls, and there are none after it"""
        executor = skep.Executor()
        futures = [executor.submit(square, i) for i in range(50)]
        executor.shutdown()
        self.assertTrue(all(f.done() for f in futures))
        for again in (
            lambda: executor.submit(square, 1),
            lambda: executor.map(square, [1]),
        ):
            with self.assertRaises(RuntimeError):
                again()
        executor.shutdown()

    def test_shutdown_cancels(self):
        """shutdown may cancel what waits, and lets finish what the hub has"""
        executor = skep.Executor(max_workers=2)
        futures = [executor.submit(__import__("time").sleep, 0.2) for _ in range(20)]
        executor.shutdown(cancel_futures=True)
        self.assertTrue(all(f.done() for f in futures))
        self.assertGreater(sum(f.cancelled() for f in futures), 10)
        self.assertFalse(futures[0].cancelled())

    def test_shutdown_at_once(self):
        """shutdown without waiting returns, and the calls end"""
        executor = skep.Executor()
        future = executor.submit(square, 5)
        executor.shutdown(wait=False)
        self.assertEqual(future.result(), 25)


if __name__ == "__main__":
    tap.run_classes(Calls, Together, Maps, Options, Loops, Examples)
