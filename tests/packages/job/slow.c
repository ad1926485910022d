// SPDX-License-Identifier: MIT

void square(int n, double *result);

void square(int n, double *result)
{
	*result = (double)n * n;
}
