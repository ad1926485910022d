/* SPDX-License-Identifier: MIT */
/* The shortest Win32 program: what starting anything costs in this Wine. */
int main(void)
{
	return 0;
}
