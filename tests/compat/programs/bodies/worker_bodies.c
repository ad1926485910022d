/* SPDX-License-Identifier: MIT */
/* Linked once, although the interface file requires it too. */
void add_seven(int n, long seven, int *r);

void add_seven(int n, long seven, int *r)
{
	*r = n + (int)seven;
}
