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

/* Index of the function with this name, or -ENOENT. It is no method of a class
 * with state. */
int grid_module_find(const struct grid_module *m, const char *name);
/* The class with state that has this method, or NULL. */
const struct skep_function *grid_module_state(const struct grid_module *m,
					      const struct skep_function *f);
/* Index of the class with this name, and of the method of a class, or -ENOENT.
 */
int grid_module_class(const struct grid_module *m, const char *name);
int grid_module_method(const struct grid_module *m, u32 class,
		       const char *name);
/* Index of the module's Initialize, or -ENOENT. */
int grid_module_initialize(const struct grid_module *m);

/* Bytes of one element in memory; 0 for strings. */
u64 grid_type_size(u8 type);
int grid_type_integer(u8 type);
/* Whether each value has a length of its own: strings and files. */
int grid_type_text(u8 type);

/* Data that the hub stores, as a master knows it. */
struct grid_datum {
	u8 digest[32];
	u8 fresh[32]; /* of a result that arrives */
	u64 length;   /* bytes */
	u64 size;     /* bytes of it in the result under way, as a part */
	int kept;     /* it is stored */
	u32 version;  /* counts results that were stored in it */
	int writers;  /* calls under way whose result it is */
	int one_node; /* only the first node that uses it may have it */
	u64 outer;    /* the call within which the last of them was made */
};

/* One argument of a call, on either side. */
struct grid_value {
	u64 bits;   /* IN scalars: as they are sent */
	u64 more;   /* second half of a complex number */
	void *at;   /* strings, arrays, and OUT scalars */
	u64 count;  /* arrays: elements at `at` */
	void *user; /* texts: the caller's or the function's pointer */
	u64 room;   /* master: bytes of the array at `at`, if not 0 */
	struct grid_datum *data; /* master: stored data in place of an array */
	/* The same in pieces. */
	struct grid_datum *const *part;
	u32 parts;
	void *own; /* master: memory at `at` that goes with the call */
};

/*
 * Runs the size code at `at` for function f with these arguments. -ERANGE:
 * overflow, division by zero, or an index outside of its array.
 */
int grid_module_size(const struct grid_module *m, const struct skep_function *f,
		     const struct grid_value *value, u32 at, s64 *result);

#endif
