# SPDX-License-Identifier: MIT
"""Programs that are killed, interrupted, forked, or left to themselves."""
import os
import signal
import subprocess
import tempfile
import unittest

import tap

SQUARE = """
import os, signal, sys, threading, time
import skep
def square(x):
    return x * x
"""


class Ends(unittest.TestCase):
    def run_ok(self, text, wrap=tap.RUN, want=0, **options):
        status, out, err = tap.run_program(SQUARE + text, wrap=wrap, **options)
        self.assertEqual(status, want, out + err)
        return out, err

    def test_worker_killed(self):
        """a worker that is killed loses no call"""
        out, _ = self.run_ok(
            """
with skep.Executor() as executor:
    slow = [executor.submit(square, i) for i in range(10)]
    print(sum(f.result() for f in slow))
    died = executor.submit(os.kill, 0, signal.SIGKILL)
    try:
        died.result()
    except skep.WorkerError as error:
        print("died", "signal 9" in str(error) or "killed" in str(error), error)
    print(executor.submit(square, 4).result())
"""
        )
        lines = out.splitlines()
        self.assertEqual(lines[0], "285")
        self.assertTrue(lines[1].startswith("died True"), out)
        self.assertEqual(lines[2], "16")

    def test_hub_killed(self):
        """a hub that is killed fails the calls, at once and by name"""
        text = """
executor = skep.Executor()
future = executor.submit(time.sleep, 3600)
os.kill(int(os.environ["HUB"]), signal.SIGKILL)
for f in (lambda: future.result(), lambda: executor.submit(square, 1).result()):
    try:
        f()
    except skep.HubError as error:
        print("HubError")
executor.shutdown()
"""
        with tempfile.TemporaryDirectory() as state:
            hub = self.start_hub(state)
            try:
                wrap = (tap.SKEP, "run", "--state", state, "--")
                ready = tap.wait_until(lambda: self.hub_answers(state))
                self.assertTrue(ready)
                status, out, err = tap.run_program(
                    SQUARE + text, wrap=wrap, environment={"HUB": str(hub.pid)}
                )
                self.assertEqual(out, "HubError\nHubError\n", err)
            finally:
                hub.kill()
                hub.wait()

    def test_ends_while_sending(self):
        """a session that ends while a call is sent ends the call once"""
        out, _ = self.run_ok(
            """
from skep.executor import lib
executor = skep.Executor()
executor.submit(square, 2).result()
send = lib.send
def send_late(client, *rest):
    lib.end(client)
    executor.session._reader.join(0.5)
    return send(client, *rest)
lib.send = send_late
try:
    executor.submit(square, 3).result()
except skep.HubError:
    print("HubError")
print(executor._running)
executor.shutdown()
"""
        )
        self.assertEqual(out.split(), ["HubError", "0"])

    def test_closed_while_sending(self):
        """a session is freed when no thread is sending a call any more"""
        out, _ = self.run_ok(
            """
from skep.executor import lib
executor = skep.Executor()
sending, order = threading.Event(), []
send, close = lib.send, lib.close
def send_late(client, *rest):
    sending.set()
    while not executor.session._closed:
        time.sleep(0.001)
    executor.session._reader.join(0.5)
    request = send(client, *rest)
    order.append("sent")
    return request
def close_then(client):
    order.append("freed")
    close(client)
lib.send, lib.close = send_late, close_then
def call():
    try:
        executor.submit(square, 3).result()
    except skep.HubError as error:
        print(error)
thread = threading.Thread(target=call)
thread.start()
sending.wait()
executor.session.close()
thread.join()
print(*order)
executor.shutdown()
"""
        )
        self.assertEqual(out, "the session was closed\nsent freed\n")

    def test_closed_by_callback(self):
        """a future's callback may close the session"""
        out, _ = self.run_ok(
            """
executor = skep.Executor()
first = executor.submit(square, 3)
left = executor.submit(time.sleep, 3600)
def end(future):
    executor.session.close()
    print("closed", future.result(), flush=True)
first.add_done_callback(end)
try:
    left.result()
except skep.HubError as error:
    print(error)
executor.shutdown()
"""
        )
        self.assertEqual(out, "closed 9\nthe session was closed\n")

    def start_hub(self, state, *options):
        return subprocess.Popen(
            [tap.SKEP, "up", "--state", state, "--listen", "127.0.0.1:0", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def hub_answers(self, state):
        done = subprocess.run(
            [tap.SKEP, "nodes", "--state", state],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return done.returncode == 0 and b"linux" in done.stdout

    def test_interrupt(self):
        """an interrupt ends a wait, and the call with it"""
        out, _ = self.run_ok(
            """
executor = skep.Executor()
future = executor.submit(time.sleep, 3600)
timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
try:
    future.result()
except KeyboardInterrupt:
    print("interrupted")
future.cancel()
print(executor.submit(square, 5).result())
"""
        )
        self.assertEqual(out, "interrupted\n25\n")

    def test_interrupt_unhandled(self):
        """a program that is interrupted ends, though an hour of calls is left"""
        status, out, err = tap.run_program(
            SQUARE
            + """
executor = skep.Executor()
futures = [executor.submit(time.sleep, 3600) for i in range(4)]
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
with executor:
    futures[0].result()
""",
            wrap=tap.RUN,
        )
        self.assertIn("KeyboardInterrupt", err)
        self.assertNotEqual(status, 0)

    def test_left_open(self):
        """an executor that is never shut down ends its calls at the end"""
        out, _ = self.run_ok(
            """
executor = skep.Executor()
for i in range(20):
    executor.submit(square, i).add_done_callback(lambda f: print(f.result()))
"""
        )
        self.assertEqual(sorted(map(int, out.split())), [i * i for i in range(20)])

    def test_session_left_open(self):
        """a session that is never closed ends with the program"""
        self.run_ok("session = skep.connect()\n")

    def test_dropped(self):
        """an executor that is dropped leaves no file"""
        self.run_ok(
            """
import gc, glob, tempfile
tempfile.tempdir = os.getcwd()
skep.Executor().submit(square, 1).result()
gc.collect()
assert not glob.glob("skep-python-*"), glob.glob("skep-python-*")
"""
        )

    def test_fork(self):
        """a child after fork is told to open a session of its own"""
        out, _ = self.run_ok(
            """
executor = skep.Executor()
future = executor.submit(time.sleep, 0.5)
child = os.fork()
if not child:
    seen = []
    for f in (lambda: future.result(), lambda: executor.submit(square, 1)):
        try:
            f()
        except skep.ForkError:
            seen.append("ForkError")
    with skep.Executor() as own:
        seen.append(own.submit(square, 7).result())
    print(*seen, flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
print(status, future.result(), executor.submit(square, 2).result())
"""
        )
        self.assertEqual(out, "ForkError ForkError 49\n0 None 4\n")

    def test_multiprocessing(self):
        """processes of multiprocessing use sessions of their own"""
        out, _ = self.run_ok(
            """
import multiprocessing
def work(i):
    with skep.Executor() as executor:
        return executor.submit(square, i).result()
if __name__ == "__main__":
    skep.Executor().submit(square, 1).result()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(4)))
"""
        )
        self.assertEqual(out, "[0, 1, 4, 9]\n")

    def test_without_run(self):
        """without `skep run` a program starts it, and nothing of it stays"""
        out, _ = self.run_ok(
            """
with skep.Executor() as executor:
    print(executor.submit(square, 6).result())
import skep.session as s
pid = s._default._holder.pid
s._default.close()
print(os.path.exists("/proc/%d" % pid))
""",
            wrap=(),
        )
        self.assertEqual(out, "36\nFalse\n")

    def test_killed_without_run(self):
        """a program that is killed takes the hub that it started with it"""
        status, out, err = tap.run_program(
            SQUARE
            + """
import skep.session as s
skep.Executor().submit(square, 6).result()
print(s._default._holder.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
        )
        self.assertEqual(status, -signal.SIGKILL, err)
        pid = int(out)
        self.assertTrue(tap.wait_until(lambda: not tap.is_running(pid)))

    def test_hub_of_this_machine(self):
        """without `skep run` a program uses the hub that runs here"""
        temporary = tempfile.TemporaryDirectory
        with temporary() as state, temporary() as shared:
            os.chmod(shared, 0o755)
            with open(os.path.join(shared, "note"), "w") as f:
                f.write("only its node may read this")
            hub = self.start_hub(state, "--allow", shared)
            try:
                self.assertTrue(tap.wait_until(lambda: self.hub_answers(state)))
                text = """
with skep.Executor() as executor:
    print(executor.submit(lambda path: open(path).read(), %r).result())
"""
                out, _ = self.run_ok(
                    text % os.path.join(shared, "note"),
                    wrap=(),
                    environment={"SKEP_STATE": state},
                )
                self.assertEqual(out, "only its node may read this\n")
            finally:
                hub.terminate()
                hub.wait()

    def test_bee(self):
        """a node with bee refuses Python functions by name"""
        with tempfile.TemporaryDirectory() as state:
            bee = os.path.join(os.path.dirname(tap.SKEP), "bee")
            hub = self.start_hub(state, "--bee", bee)
            try:
                self.assertTrue(tap.wait_until(lambda: self.hub_answers(state)))
                out, _ = self.run_ok(
                    """
with skep.Executor() as executor:
    try:
        executor.submit(square, 2).result()
    except skep.RefusedError as error:
        print(error)
""",
                    wrap=(tap.SKEP, "run", "--state", state, "--"),
                )
                self.assertRegex(out, "^node .*: .* under bee, .* Linux node")
            finally:
                hub.terminate()
                hub.wait()

    def test_no_skep(self):
        """without skep and without a hub the error says what to do"""
        _, err = self.run_ok(
            "skep.Executor()\n",
            wrap=(),
            want=1,
            environment={"SKEP_PROGRAM": "", "PATH": "/nonexistent"},
        )
        self.assertIn("skep run -- python3 PROGRAM", err)

    def test_large_argument(self):
        """an argument of 2 GB is carried, or refused by the quota that it exceeds"""
        out, _ = self.run_ok(
            """
import numpy
x = numpy.ones(1 << 28)
with skep.Executor() as executor:
    try:
        print(executor.submit(numpy.sum, x).result() == 1 << 28)
    except skep.RefusedError as error:
        print("quota" in str(error))
    print(executor.submit(square, 3).result())
""",
            seconds=240,
        )
        self.assertEqual(out, "True\n9\n")

    def test_confined(self):
        """functions cannot read the user's home directory"""
        out, _ = self.run_ok(
            """
open(os.path.expanduser("~/secret"), "w").write("x")
with skep.Executor() as executor:
    try:
        secret = os.path.expanduser("~/secret")
        executor.submit(lambda: open(secret).read()).result()
    except OSError as error:
        print(type(error).__name__)
"""
        )
        self.assertIn(out.splitlines()[0], ("FileNotFoundError", "PermissionError"))


if __name__ == "__main__":
    tap.run_classes(Ends)
