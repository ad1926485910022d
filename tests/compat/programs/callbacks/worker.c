/* SPDX-License-Identifier: MIT */
/* A function that gets another one. */
void fill_all(int n, int *out, void (*fill)(int, int *));

void fill_all(int n, int *out, void (*fill)(int, int *))
{
	int i;

	for (i = 0; i < n; i++)
		fill(i, out + i);
}
