/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Expands X(n) for each slot, n in octal from 0000 to 0177, for the compiler
 * and the assembler.
 */
#ifndef DYNAMOS_KMOD_EACH_H
#define DYNAMOS_KMOD_EACH_H

#define DYNAMOS_EACH_8(X, n)                                                   \
	X(n##0)                                                                \
	X(n##1)                                                                \
	X(n##2)                                                                \
	X(n##3)                                                                \
	X(n##4)                                                                \
	X(n##5)                                                                \
	X(n##6)                                                                \
	X(n##7)

#define DYNAMOS_EACH_64(X, n)                                                  \
	DYNAMOS_EACH_8(X, n##0)                                                \
	DYNAMOS_EACH_8(X, n##1)                                                \
	DYNAMOS_EACH_8(X, n##2)                                                \
	DYNAMOS_EACH_8(X, n##3)                                                \
	DYNAMOS_EACH_8(X, n##4)                                                \
	DYNAMOS_EACH_8(X, n##5)                                                \
	DYNAMOS_EACH_8(X, n##6)                                                \
	DYNAMOS_EACH_8(X, n##7)

#define DYNAMOS_EACH(X)                                                        \
	DYNAMOS_EACH_64(X, 00)                                                 \
	DYNAMOS_EACH_64(X, 01)

#endif
