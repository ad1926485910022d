/* SPDX-License-Identifier: MIT */
/* Runs one function of the program with arguments from a worker. */
#ifndef GRID_LIB_APPLY_H
#define GRID_LIB_APPLY_H

#include <grid/core/marshal.h>

/*
 * How a binding for another language calls the functions of its program. It
 * gets the address of each argument, of those that the function does not see,
 * too, and SKEP_DIMS_MAX sizes of each array. Not 0: the function failed.
 */
struct grid_hook {
	s32 (*call)(u64 key, u32 param, void *const *pointer, const u64 *size);
	u64 key; /* the binding's */
};

struct grid_apply {
	const struct grid_call *outer; /* the call that has the function */
	u32 param;		       /* of outer, from a worker */
	u32 in_len;
	int by_address;		      /* the function is Fortran's */
	const struct grid_hook *hook; /* NULL: it is called itself */
	const u8 *in;
	u8 *out; /* malloc'ed: the payload of RETURN */
	u32 out_len;
	char why[256]; /* on error: one sentence */
};

/* 0, or a negative errno: the function did not run, or its results do not
 * travel. */
int grid_apply_run(struct grid_apply *a, const struct skep_callback *head);
/* The function's name; of a parameter that is none, a word for it. */
const char *grid_apply_name(const struct grid_apply *a);

#endif
