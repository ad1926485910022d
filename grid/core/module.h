/* SPDX-License-Identifier: MIT */
/*
 * A module's manifest (include/skep/module.h), checked once and then read. It
 * allocates no memory and does no I/O. The bytes come from the network.
 */
#ifndef GRID_CORE_MODULE_H
#define GRID_CORE_MODULE_H

#include <skep/module.h>

struct grid_module {
	struct skep_module head;
	const struct skep_function *function;
	const struct skep_param *param;
	const u8 *code;
};

/*
 * Refers to `bytes`, which must stay valid and be aligned to 8. Everything is
 * checked here: after 0 the tables can be used and size code be run without
 * further checks. -EINVAL, with a sentence in why.
 */
int grid_module_open(struct grid_module *m, const void *bytes, u64 len,
		     const char **why);

/* Index of the function with this name, or -ENOENT. */
int grid_module_find(const struct grid_module *m, const char *name);
/* Index of the module's Initialize, or -ENOENT. */
int grid_module_initialize(const struct grid_module *m);

/* Bytes of one element in memory; 0 for strings. */
u64 grid_type_size(u8 type);
int grid_type_integer(u8 type);
/* Whether each value has a length of its own: strings and files. */
int grid_type_text(u8 type);

/* One argument of a call, on either side. */
struct grid_value {
	u64 bits;   /* IN scalars: as they are sent */
	u64 more;   /* second half of a complex number */
	void *at;   /* strings, arrays, and OUT scalars */
	u64 count;  /* arrays: elements at `at` */
	void *user; /* texts: the caller's or the function's pointer */
};

/*
 * Runs the size code at `at` for function f with these arguments. -ERANGE:
 * overflow, division by zero, or an index outside of its array.
 */
int grid_module_size(const struct grid_module *m, const struct skep_function *f,
		     const struct grid_value *value, u32 at, s64 *result);

#endif
