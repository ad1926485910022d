// SPDX-License-Identifier: MIT
/*
 * A team of OpenMP: each thread adds its part, twice over memory that it
 * touches first. Prints what must be the same wherever it runs.
 *
 * usage: sms_team [ROUNDS [THREADS]]
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define N (1 << 20)

int main(int argc, char **argv)
{
	int threads = 0, rounds = argc > 1 ? atoi(argv[1]) : 20, r;
	double *x = malloc(N * sizeof(*x)), sum = 0;

	if (!x)
		return 1;
	if (argc > 2)
		omp_set_num_threads(atoi(argv[2]));
#pragma omp parallel
	{
#pragma omp single
		threads = omp_get_num_threads();
#pragma omp for
		for (int i = 0; i < N; i++)
			x[i] = i % 1000;
	}
	for (r = 0; r < rounds; r++) {
#pragma omp parallel for reduction(+ : sum)
		for (int i = 0; i < N; i += 64)
			sum += x[i];
	}
	printf("threads %d of %d sum %.0f\n", threads, omp_get_num_procs(),
	       sum);
	return 0;
}
