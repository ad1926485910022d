/* SPDX-License-Identifier: MIT */
void twice_(int *n, int *r);
int plus(int a, int b);

void twice_(int *n, int *r)
{
	*r = 2 * *n;
}

int plus(int a, int b)
{
	return a + b;
}
