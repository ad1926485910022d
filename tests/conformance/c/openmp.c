/* SPDX-License-Identifier: MIT */
/* OpenMP: loops, reductions, critical sections, tasks, thread-private data. */
#include <omp.h>
#include "say.h"

static int private_value;
#pragma omp threadprivate(private_value)

static long task_fib(int n)
{
	long a, b;

	if (n < 2)
		return n;
#pragma omp task shared(a) if (n > 10)
	a = task_fib(n - 1);
	b = task_fib(n - 2);
#pragma omp taskwait
	return a + b;
}

int main(void)
{
	static double v[100000];
	long long sum = 0;
	int i, critical = 0, threads = 0, privates = 0;
	long result = 0;

	omp_set_dynamic(0);
	omp_set_num_threads(4);
#pragma omp parallel for schedule(dynamic, 1000) reduction(+ : sum)
	for (i = 0; i < 100000; i++) {
		v[i] = i * 0.5;
		sum += (long long)(v[i] * 2);
	}
	CHECK(sum == 4999950000ll);
#pragma omp parallel
	{
		int k;

		private_value = omp_get_thread_num() + 1;
#pragma omp single
		threads = omp_get_num_threads();
		for (k = 0; k < 1000; k++) {
#pragma omp critical
			critical++;
#pragma omp atomic
			result++;
		}
#pragma omp barrier
#pragma omp atomic
		privates += private_value;
	}
	CHECK(threads == 4 && critical == 4000 && result == 4000);
	CHECK(privates == 10);
#pragma omp parallel
#pragma omp single
	result = task_fib(20);
	CHECK(result == 6765);
	return say_done();
}
