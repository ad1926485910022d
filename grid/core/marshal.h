/* SPDX-License-Identifier: MIT */
/*
 * Moving the arguments of one call. The same code serves both sides, so that
 * they cannot disagree: in `direction` SKEP_IN the master sends and the worker
 * takes, in SKEP_OUT the worker sends and the master takes.
 *
 * Order on the wire: all scalars that go this way in 8 bytes each, in the
 * order of the parameters; then strings (u64 length, bytes, zeros up to a
 * multiple of 8); then arrays (dense elements, zeros up to a multiple of 8),
 * among them single complex numbers; then texts (files, strings that come out,
 * arrays of both: for each u64 length or ~0 for none, bytes, zeros).
 * Sizes follow from earlier arguments, so no length of an array is sent. An
 * array whose size reads an item of another array stands after that one.
 */
#ifndef GRID_CORE_MARSHAL_H
#define GRID_CORE_MARSHAL_H

#include "module.h"

/*
 * Moves exactly len bytes to or from the peer; 0 or a negative errno. For
 * sending, the bytes must stay as they are until the call's end: arrays are
 * given by reference, never copied. `own` is 0 for short-lived bytes (scalars,
 * padding), which the mover copies.
 */
struct grid_mover {
	int (*move)(struct grid_mover *mover, void *bytes, u64 len, int own);
};

/* Where a worker puts arrays. alloc gives zeroed memory, or NULL. */
struct grid_memory {
	void *(*alloc)(struct grid_memory *memory, u64 len);
	void (*free)(struct grid_memory *memory, void *at, u64 len);
	u64 used;
};
/* The C library's, but never more than the machine has. */
extern struct grid_memory grid_memory_heap;

/* One element of a text parameter; value[].at points to an array of these. */
struct grid_text {
	u8 *at; /* what travels; NULL is a null pointer */
	u64 len;
	u8 *own; /* memory that goes with it: room bytes, or NULL */
	u64 room;
};

/* What of an array travels, by dimension; all counts are in elements. */
struct grid_shape {
	u64 count; /* in memory */
	u64 moved; /* that travel */
	u64 size[SKEP_DIMS_MAX], low[SKEP_DIMS_MAX], parts[SKEP_DIMS_MAX];
	u64 stride[SKEP_DIMS_MAX];
};

/*
 * shape, if the caller gives it zeroed room for one entry per parameter, keeps
 * what measure (master) or take (worker) computed, so that sizes stay as they
 * were when the function or its caller writes into arrays that sizes read.
 */
struct grid_call {
	const struct grid_module *module;
	const struct skep_function *function;
	struct grid_shape *shape;
	struct grid_memory *memory; /* of texts that are taken */
	u64 text_room; /* master: bytes that each text parameter may return */
	struct grid_value value[SKEP_PARAMS_MAX];
	u64 bytes[SKEP_PARAMS_MAX]; /* worker: allocated at value[i].at */
	const char *why;	    /* on error: one sentence */
	u32 wrong;		    /* on error: index of the parameter */
};

void grid_call_init(struct grid_call *c, const struct grid_module *m,
		    u32 function);

/*
 * Master: after value[] is filled in, the number of elements of every array
 * and the bytes that go in `direction`. An array without elements may be a null
 * pointer. -EINVAL, -ERANGE with why and wrong.
 */
int grid_call_measure(struct grid_call *c, u32 direction, u64 *length);

/* Whether the parameter's value is an array of struct grid_text. */
int grid_param_texts(const struct skep_param *p);
/* Number of elements of parameter i, when the arguments before it are known. */
int grid_call_count(struct grid_call *c, u32 i, u64 *count);
/* Frees the memory of a parameter's received texts. */
void grid_call_drop_texts(struct grid_call *c, u32 i);

/* Send what goes in `direction`; after measure. */
int grid_call_send(struct grid_call *c, u32 direction, struct grid_mover *to);

/* Worker: take IN arguments; allocates all arrays, also OUT and WORK. */
int grid_call_take(struct grid_call *c, struct grid_mover *from,
		   struct grid_memory *memory, u64 length);

/*
 * Master: take OUT arguments straight into the caller's memory, which is as
 * large as measure said, whatever the worker sends.
 */
int grid_call_accept(struct grid_call *c, struct grid_mover *from, u64 length);

/* Worker: free all that take allocated. */
void grid_call_drop(struct grid_call *c, struct grid_memory *memory);

#endif
