/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's symbol table. */
#ifndef DYNAMOS_KMOD_SYMBOL_H
#define DYNAMOS_KMOD_SYMBOL_H

#include <skep/types.h>

int dynamos_symbol_init(void);
/* The address of a unique name; 0: not found. */
unsigned long dynamos_symbol_find(const char *name);
/* Bytes from here to the next symbol. */
int dynamos_symbol_size(unsigned long address, unsigned long *size);
/* The address of a function of the kernel, sympos as for livepatch. */
int dynamos_symbol_function(const char *name, u64 sympos,
			    unsigned long *address);
/* The place in it where ftrace may call; 0: it cannot be traced. */
unsigned long dynamos_symbol_place(unsigned long address, unsigned long size);
/* 40 hex digits: is this the running kernel's? */
bool dynamos_symbol_kernel(const char *build_id);
const char *dynamos_symbol_build_id(void);

#endif
