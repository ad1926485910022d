/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * A module's manifest: its functions and the shape of their arguments.
 *
 * `skep gen` puts it into the worker program (section ".skep.module"); the hub
 * reads it there and hands it to the client library, so master and worker
 * marshal from the same bytes. Little endian. Layout:
 *
 *   struct skep_module | functions | params | size code
 *
 * Arguments travel as: all scalars that go this way in 8 bytes each, in the
 * order of the parameters; then strings (u64 length, bytes); then arrays
 * (dense elements in row-major order), among them single complex numbers; then
 * texts: files, strings that come out, and arrays of both (each element u64
 * length, ~0 for a null pointer, and bytes). Strings, arrays and texts end at a
 * multiple of 8 with zeros. The length of an array follows from what came
 * before it, so it is never sent. In a dimension low is the first index that
 * travels, high the first that does not.
 */
#ifndef SKEP_MODULE_H
#define SKEP_MODULE_H

#include <skep/types.h>

#define SKEP_MODULE_MAGIC 0x444f4d50454b53ull /* "SKEPMOD" */
#define SKEP_MODULE_REVISION 1
#define SKEP_NAME_MAX 64
#define SKEP_DIMS_MAX 4
#define SKEP_PARAMS_MAX 64
#define SKEP_CODE_MAX 0x10000

struct skep_module {
	u64 magic;
	u32 revision;
	u32 functions, params, code; /* counts; code in bytes */
	char name[SKEP_NAME_MAX];
};
SKEP_ASSERT_SIZE(struct skep_module, 88);

#define SKEP_FUNCTION_INIT 1 /* the module's Initialize */
/*
 * Flag: an MPI job runs it. Its first parameter, IN int, is the number of
 * ranks, which the client library gives; 0: as many as the node has processors.
 */
#define SKEP_FUNCTION_RANKS 2
#define SKEP_RANKS_MAX 1024
/*
 * Flag: a function of the master, which a call of another function of the
 * module gets. It cannot be called by its name, and others may have that, too.
 */
#define SKEP_FUNCTION_CALLBACK 4
/*
 * Flag: no function but a class, of which programs make objects. It has no
 * parameters, and functions may have its name. The functions that name it in
 * `of` are its methods.
 */
#define SKEP_FUNCTION_CLASS 8
/*
 * Flag of a class: its objects have state. Its methods are called only as those
 * of an object, and functions and methods of other classes may have their
 * names. Other methods are functions as well.
 */
#define SKEP_FUNCTION_STATE 16

struct skep_function {
	char name[SKEP_NAME_MAX];
	u32 first, params; /* in the parameter table */
	u32 flags;
	u32 of; /* 0, or 1 + the class that it is a method of */
};
SKEP_ASSERT_SIZE(struct skep_function, 80);

enum skep_type {
	SKEP_CHAR = 1, /* 1 byte */
	SKEP_SHORT,    /* 2 */
	SKEP_INT,      /* 4 */
	SKEP_LONG,     /* 8 */
	SKEP_FLOAT,    /* 4 */
	SKEP_DOUBLE,   /* 8 */
	SKEP_SCOMPLEX, /* 8 */
	SKEP_DCOMPLEX, /* 16 */
	SKEP_STRING,
	SKEP_FILENAME,	      /* a file's bytes; the function gets its name */
	SKEP_FILEPOINTER,     /* a file's bytes; the function gets a FILE * */
	SKEP_MASTER_FUNCTION, /* a function of the master; no bytes travel */
};
#define SKEP_TYPE_UNSIGNED 0x80

enum skep_mode {
	SKEP_IN = 1,
	SKEP_OUT = 2,
	SKEP_INOUT = 3,
	SKEP_WORK = 4, /* memory that only the worker has */
};

/* One dimension: size, and the part low..high by stride that travels. */
struct skep_dim {
	u32 size, low, high, stride; /* offsets in the size code; ~0: default */
};

struct skep_param {
	char name[SKEP_NAME_MAX];
	u8 type, mode, dims, pad;
	/*
	 * Of a SKEP_MASTER_FUNCTION: the function of the module that describes
	 * it. Of a parameter of such a function: 0, or 1 + the parameter of the
	 * called function whose value it always has; the master's function is
	 * not given it.
	 */
	u32 refers;
	struct skep_dim dim[SKEP_DIMS_MAX];
};
SKEP_ASSERT_SIZE(struct skep_param, 136);

/*
 * What a worker of the module may use, in a section of its own
 * (".skep.limits"), which the hub alone reads; 0: not stated. `skep run` may
 * state other limits, and the owner of a node the highest.
 */
struct skep_limits {
	u64 memory, disk; /* bytes */
	u64 cpu, wall;	  /* milliseconds, of one call */
	u64 processes;	  /* and threads */
};
SKEP_ASSERT_SIZE(struct skep_limits, 40);

/* The longest time that a module may state: 31 years. */
#define SKEP_LIMIT_TIME_MAX 1000000000000ull

/*
 * Size code: postfix on 64-bit signed integers, overflow is an error.
 * CONST is followed by 8 bytes, PARAM by 1 byte (index of an IN scalar).
 * ITEM pops an index and is followed by 1 byte (index of an IN integer array).
 */
enum skep_code {
	SKEP_OP_END,
	SKEP_OP_CONST,
	SKEP_OP_PARAM,
	SKEP_OP_ITEM,
	SKEP_OP_ADD,
	SKEP_OP_SUB,
	SKEP_OP_MUL,
	SKEP_OP_DIV,
	SKEP_OP_MOD,
	SKEP_OP_POW,
	SKEP_OP_NEG,
	SKEP_OP_LT,
	SKEP_OP_LE,
	SKEP_OP_GT,
	SKEP_OP_GE,
	SKEP_OP_EQ,
	SKEP_OP_NE,
	SKEP_OP_SELECT, /* pops no, yes, condition */
};

#endif
