/* SPDX-License-Identifier: MIT */
/* Calls nobody: a program that the rewriter leaves as it is. */
void _start(void)
{
	__builtin_trap();
}
