# SPDX-License-Identifier: MIT
"""Skep's executor beside a process pool, Ray and Dask: the same functions, one
system after the other on the same computer, each with as many workers as it has
processors, all started before the clock.

    python3 peers.py          all of them, under `skep run`
    python3 peers.py SYSTEM   one; prints "name seconds" lines
"""
import os
import statistics
import subprocess
import sys
import time

import numpy

TASKS = 1000
VALUES = 10000
MEGABYTES = 200
ROUNDS = 5
SYSTEMS = ("skep", "pool", "ray", "dask")


def increment(x):
    return x + 1


def total(x):
    return float(x[0] + x[-1] + len(x))


class Skep:
    def __init__(self, workers):
        import skep

        self.executor = skep.Executor()

    def calls(self, function, values):
        futures = [self.executor.submit(function, v) for v in values]
        return [f.result() for f in futures]

    def map(self, function, values):
        return list(self.executor.map(function, values))

    def close(self):
        self.executor.shutdown()


class Pool(Skep):
    def __init__(self, workers):
        import concurrent.futures

        self.executor = concurrent.futures.ProcessPoolExecutor(workers)

    def map(self, function, values):
        # Its default is one value at a time.
        return list(self.executor.map(function, values, chunksize=100))


class Ray:
    def __init__(self, workers):
        os.environ["RAY_AUTH_MODE"] = "disabled"
        os.environ["RAY_raylet_start_wait_time_s"] = "600"  # a busy computer
        import ray
        import ray.util.multiprocessing

        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        self.ray = ray
        self.pool = ray.util.multiprocessing.Pool(workers)
        self.known = {}

    def calls(self, function, values):
        if function not in self.known:
            self.known[function] = self.ray.remote(num_cpus=0)(function)
        remote = self.known[function]
        return self.ray.get([remote.remote(v) for v in values])

    def map(self, function, values):
        return self.pool.map(function, values)  # in parts, as it sees fit

    def close(self):
        self.ray.shutdown()


class Dask:
    def __init__(self, workers):
        from distributed import Client

        self.client = Client(
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        )

    def calls(self, function, values):
        futures = [self.client.submit(function, v, pure=False) for v in values]
        return self.client.gather(futures)

    def map(self, function, values):
        return self.client.gather(
            self.client.map(function, values, pure=False, batch_size=VALUES)
        )

    def close(self):
        self.client.close()


def measure(name, run, rounds=ROUNDS):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    print("%s %.4f" % (name, statistics.median(times)), flush=True)


def measure_system(kind):
    workers = os.cpu_count()
    system = kind(workers)
    want = [v + 1 for v in range(VALUES)]
    assert system.calls(increment, range(200)) == want[:200]
    assert system.map(increment, range(VALUES)) == want
    x = numpy.arange(MEGABYTES * 125000, dtype=float)
    small = range(TASKS)
    measure("small", lambda: system.calls(increment, small))
    measure("one", lambda: system.calls(increment, [1]), 200)
    measure("argument", lambda: system.calls(total, [x]))
    measure("map", lambda: system.map(increment, range(VALUES)))
    system.close()


def run_all():
    table = {}
    for name in SYSTEMS:
        done = subprocess.run(
            [sys.executable, __file__, name], stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            print("%s ended with %d: no figures" % (name, done.returncode))
        words = [line.split() for line in done.stdout.splitlines()]
        table[name] = {w[0]: float(w[1]) for w in words if len(w) == 2}
    load = os.getloadavg()[0]
    print("load %.1f, %d processors; seconds, median" % (load, os.cpu_count()))
    print("%-28s" % "" + "".join("%12s" % n for n in SYSTEMS))
    for what, title in (
        ("small", "%d calls" % TASKS),
        ("one", "one call"),
        ("argument", "an argument of %d MB" % MEGABYTES),
        ("map", "a map of %d" % VALUES),
    ):
        row = "".join("%12.4f" % table[n].get(what, float("nan")) for n in SYSTEMS)
        print("%-28s%s" % (title, row))
        for n in SYSTEMS:
            if what in table[n]:
                print(
                    "result python median %s %s %.6f s"
                    % (n.split()[0], title.replace(" ", "-"), table[n][what])
                )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        run_all()
    else:
        measure_system(
            {"skep": Skep, "pool": Pool, "ray": Ray, "dask": Dask}[sys.argv[1]]
        )
