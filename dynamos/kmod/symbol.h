/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's symbol table. */
#ifndef DYNAMOS_KMOD_SYMBOL_H
#define DYNAMOS_KMOD_SYMBOL_H

#include <skep/types.h>

int dynamos_symbol_init(void);
/* The address of a unique symbol; 0 if it is not found. */
unsigned long dynamos_symbol_find(const char *name);
/* Sets *size to the number of bytes up to the next symbol. */
int dynamos_symbol_size(unsigned long address, unsigned long *size);
/* Finds a function of the kernel; sympos as in livepatch. */
int dynamos_symbol_function(const char *name, u64 sympos,
			    unsigned long *address);
/* The address in it where ftrace may call; 0 if it cannot be traced. */
unsigned long dynamos_symbol_place(unsigned long address, unsigned long size);
/* Whether these 40 hex digits are the running kernel's build-id. */
bool dynamos_symbol_kernel(const char *build_id);
const char *dynamos_symbol_build_id(void);

#endif
