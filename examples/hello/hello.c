// SPDX-License-Identifier: MIT
/* An ordinary function, which does not use Skep. */

void scale(int n, double by, double *x, double *sum);

void scale(int n, double by, double *x, double *sum)
{
	int i;

	*sum = 0;
	for (i = 0; i < n; i++) {
		x[i] *= by;
		*sum += x[i];
	}
}
