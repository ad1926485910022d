# SPDX-License-Identifier: MIT
"""joblib's parallel loops on the nodes of a hub.

    import skep.joblib
    with joblib.parallel_backend("skep", n_jobs=64):
        joblib.Parallel()(joblib.delayed(f)(x) for x in values)

Nodes get joblib's source. What the backend is given beside n_jobs is for
skep.Executor.
"""
import joblib
from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase

from .executor import Executor

MANY = 128  # for n_jobs=-1: the hub gives calls to as many slots as it has


class SkepBackend(AutoBatchingMixin, ParallelBackendBase):
    supports_timeout = True

    def __init__(self, **options):
        known = {"nesting_level", "inner_max_num_threads"}
        base = {k: options.pop(k) for k in known & set(options)}
        super().__init__(**base)
        self.options = options
        self.executor = None

    def effective_n_jobs(self, n_jobs):
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 has no meaning")
        return MANY if n_jobs is None or n_jobs < 0 else n_jobs

    def configure(self, n_jobs=1, parallel=None, **unused):
        self.parallel = parallel
        self.executor = Executor(modules=[joblib], **self.options)
        return self.effective_n_jobs(n_jobs)

    def submit(self, func, callback=None):
        future = self.executor.submit(func)
        future.get = future.result  # as joblib calls it
        if callback:
            future.add_done_callback(callback)
        return future

    apply_async = submit  # its name before joblib 1.4

    def terminate(self):
        executor, self.executor = self.executor, None
        if executor:
            executor.shutdown()

    def abort_everything(self, ensure_ready=True):
        self.executor._withdraw_all()
        self.terminate()
        if ensure_ready:
            self.configure(self.parallel.n_jobs, self.parallel)


joblib.register_parallel_backend("skep", SkepBackend)
