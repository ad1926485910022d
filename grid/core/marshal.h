/* SPDX-License-Identifier: MIT */
/*
 * Moves the arguments of one call. Both sides use this code, so they cannot
 * disagree: in `direction` SKEP_IN the master sends and the worker receives, in
 * SKEP_OUT the worker sends and the master receives.
 *
 * Order on the wire: all scalars of this direction, 8 bytes each, in the order
 * of the parameters; then strings (u64 length or ~0 for a null pointer, bytes,
 * zeros up to a multiple of 8); then arrays (dense elements, zeros up to a
 * multiple of 8), including single complex numbers; then texts (files, returned
 * strings, arrays of both: for each, u64 length or ~0 for a null pointer,
 * bytes, zeros). Lengths of arrays are not sent, because sizes follow from
 * earlier arguments. An array whose size reads an element of another array is
 * sent after that array.
 */
#ifndef GRID_CORE_MARSHAL_H
#define GRID_CORE_MARSHAL_H

#include "module.h"

#include <skep/session.h>

/*
 * Moves exactly len bytes to or from the peer; 0 or a negative errno. When
 * sending, the bytes must not change until the end of the call: arrays are
 * passed by reference, never copied. `own` is 0 for short-lived bytes (scalars,
 * padding), which the mover copies.
 */
struct grid_mover {
	int (*move)(struct grid_mover *mover, void *bytes, u64 len, int own);
};

/* Allocates memory for a worker's arrays. alloc returns zeroed memory, or
 * NULL. */
struct grid_memory {
	void *(*alloc)(struct grid_memory *memory, u64 len);
	void (*free)(struct grid_memory *memory, void *at, u64 len);
	u64 used;
};
/* Uses malloc(3), but never grants more than the machine has. */
extern struct grid_memory grid_memory_heap;

/* One element of a text parameter; value[].at points to an array of these. */
struct grid_text {
	u8 *at; /* what is sent; NULL is a null pointer */
	u64 len;
	u8 *own; /* allocated with it: `room` bytes, or NULL */
	u64 room;
};

/* The part of an array that is moved, by dimension; all counts are in
 * elements. */
struct grid_shape {
	u64 count; /* elements in memory */
	u64 moved; /* elements that are moved */
	u64 size[SKEP_DIMS_MAX], low[SKEP_DIMS_MAX], parts[SKEP_DIMS_MAX];
	u64 stride[SKEP_DIMS_MAX];
};

/*
 * If the caller gives `shape`, zeroed, with one entry per parameter, it stores
 * what measure (master) or take (worker) computed. So sizes do not change when
 * the function or its caller writes into arrays that sizes read.
 */
struct grid_call {
	const struct grid_module *module;
	const struct skep_function *function;
	struct grid_shape *shape;
	struct grid_memory *memory; /* for texts that are received */
	u64 text_room; /* master: bytes that each text parameter may receive */
	struct grid_value value[SKEP_PARAMS_MAX];
	u64 bytes[SKEP_PARAMS_MAX]; /* worker: allocated at value[i].at */
	const char *why;	    /* on error: one sentence */
	u32 wrong;		    /* on error: index of the parameter */
};

void grid_call_init(struct grid_call *c, const struct grid_module *m,
		    u32 function);

/*
 * Master: when value[] is filled in, computes the number of elements of every
 * array, and in `length` the bytes to move in `direction`. An array without
 * elements may be a null pointer. -EINVAL, -ERANGE with why and wrong.
 */
int grid_call_measure(struct grid_call *c, u32 direction, u64 *length);

/* Whether the parameter's value is an array of struct grid_text. */
int grid_param_texts(const struct skep_param *p);
/* Number of elements of parameter i; the arguments before it must be known. */
int grid_call_count(struct grid_call *c, u32 i, u64 *count);
/*
 * Whether the function gets a null pointer: for a string that is none, and for
 * an array without elements, as with Ninf-G.
 */
int grid_call_null(const struct grid_call *c, u32 i);
/*
 * Between the texts of a parameter and value[].user, an array of as many char
 * *: what a function is given, and what it leaves. Pointers are copied, not
 * bytes.
 */
void grid_texts_give(struct grid_value *v);
void grid_texts_collect(struct grid_value *v);
/* Frees the memory of a parameter's received texts. */
void grid_call_drop_texts(struct grid_call *c, u32 i);

/*
 * Master: lists the arguments of this direction that are stored data, and the
 * parts of such; returns their number. Call measure before.
 */
u32 grid_call_data(struct grid_call *c, u32 direction, struct skep_datum *list);

/* Sends the arguments of this direction; call measure before. */
int grid_call_send(struct grid_call *c, u32 direction, struct grid_mover *to);

/* Worker: receives IN arguments; allocates all arrays, also OUT and WORK
 * ones. */
int grid_call_take(struct grid_call *c, struct grid_mover *from,
		   struct grid_memory *memory, u64 length);

/*
 * Master: receives OUT arguments directly into the caller's memory, and never
 * more than measure computed, whatever the worker sends. If the mover answers
 * -EFAULT, `wrong` is the parameter.
 */
int grid_call_accept(struct grid_call *c, struct grid_mover *from, u64 length);

/* Worker: frees everything that take allocated. */
void grid_call_drop(struct grid_call *c, struct grid_memory *memory);

#endif
