// SPDX-License-Identifier: MIT
/* An ordinary program for lent cores. With -fopenmp it uses all of them. */
#include <stdio.h>

int main(void)
{
	double sum = 0;
	int i;

#pragma omp parallel for reduction(+ : sum)
	for (i = 1; i <= 100000000; i++)
		sum += 1.0 / ((double)i * i);
	return printf("pi * pi / 6 = %.6f\n", sum) < 0;
}
