// SPDX-License-Identifier: MIT
/*
 * Takes a callback's arguments as a worker takes those of a call, calls the
 * function, and packs what it returns. Nothing that comes is trusted: only
 * functions that the call was given are called, with arguments that fit the
 * interface.
 */
#include "apply.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most bytes of arrays of one callback. Only parts of them travel. */
#define ROOM_MAX 0x4000000ull

/* Registers of the ABI: what does not fit there follows on the stack. A
 * function of any type reads from these places. */
#define WHOLE 6
#define REAL 8
#define MORE (SKEP_PARAMS_MAX - WHOLE)

/* A structure of this size is passed on the stack, where the registers end. */
struct stack {
	u64 slot[MORE];
};

typedef void masters_function(u64, u64, u64, u64, u64, u64, double, double,
			      double, double, double, double, double, double,
			      struct stack);

struct places {
	u64 whole[WHOLE];
	double real[REAL];
	struct stack more;
	u32 wholes, reals, mores;
};

static const struct skep_param *param_of(const struct grid_call *c, u32 i)
{
	return &c->module->param[c->function->first + i];
}

/* The function's type; NULL: the parameter is no function of the master. */
static const struct skep_param *find_param(const struct grid_apply *a)
{
	const struct skep_param *p;

	if (a->param >= a->outer->function->params)
		return NULL;
	p = param_of(a->outer, a->param);
	return p->type == SKEP_MASTER_FUNCTION && a->outer->value[a->param].at
		       ? p
		       : NULL;
}

const char *grid_apply_name(const struct grid_apply *a)
{
	const struct skep_param *p = find_param(a);

	return p ? p->name : "a function";
}

/* Calling ------------------------------------------------------------------ */

static void place_value(struct places *to, u64 bits, int real)
{
	if (real && to->reals < REAL)
		memcpy(&to->real[to->reals++], &bits, sizeof(bits));
	else if (!real && to->wholes < WHOLE)
		to->whole[to->wholes++] = bits;
	else
		to->more.slot[to->mores++] = bits;
}

/* What the function gets of an integer: its caller extends it. */
static u64 extend_integer(u8 type, u64 bits)
{
	switch (type) {
	case SKEP_CHAR:
		return (u64)(s8)bits;
	case SKEP_CHAR | SKEP_TYPE_UNSIGNED:
		return (u8)bits;
	case SKEP_SHORT:
		return (u64)(s16)bits;
	case SKEP_SHORT | SKEP_TYPE_UNSIGNED:
		return (u16)bits;
	case SKEP_INT:
		return (u64)(s32)bits;
	case SKEP_INT | SKEP_TYPE_UNSIGNED:
		return (u32)bits;
	}
	return bits;
}

static void call_places(masters_function *f, const struct places *p)
{
	const u64 *w = p->whole;
	const double *r = p->real;

	f(w[0], w[1], w[2], w[3], w[4], w[5], r[0], r[1], r[2], r[3], r[4],
	  r[5], r[6], r[7], p->more);
}

static void call_function(struct grid_call *c, void *function, int by_address)
{
	struct places to;
	const struct skep_param *p;
	masters_function *f;
	u32 i;

	memset(&to, 0, sizeof(to));
	for (i = 0; i < c->function->params; i++) {
		p = param_of(c, i);
		if (p->refers)
			continue;
		if (grid_call_null(c, i))
			place_value(&to, 0, 0);
		else if (c->value[i].user)
			place_value(&to, (u64)c->value[i].user, 0);
		else if (c->value[i].at)
			place_value(&to, (u64)c->value[i].at, 0);
		else if (by_address)
			place_value(&to, (u64)&c->value[i].bits, 0);
		else
			place_value(&to,
				    extend_integer(p->type, c->value[i].bits),
				    p->type == SKEP_FLOAT ||
					    p->type == SKEP_DOUBLE);
	}
	memcpy(&f, &function, sizeof(f));
	call_places(f, &to);
}

static int call_hook(struct grid_apply *a, struct grid_call *c)
{
	u64 size[SKEP_PARAMS_MAX][SKEP_DIMS_MAX] = {{0}};
	void *pointer[SKEP_PARAMS_MAX];
	struct grid_value *v;
	u32 i;

	for (i = 0; i < c->function->params; i++) {
		v = &c->value[i];
		pointer[i] = v->user ? v->user : v->at ? v->at : &v->bits;
		if (!param_of(c, i)->dims && grid_call_null(c, i))
			pointer[i] = NULL;
		memcpy(size[i], c->shape[i].size, sizeof(size[i]));
	}
	if (!a->hook->call(a->hook->key, a->param, pointer, size[0]))
		return 0;
	snprintf(a->why, sizeof(a->why), "%s of this program failed",
		 grid_apply_name(a));
	return -ECANCELED;
}

/* Arguments ---------------------------------------------------------------- */

static void *room_alloc(struct grid_memory *memory, u64 len)
{
	void *at;

	if (len > ROOM_MAX || memory->used > ROOM_MAX - len)
		return NULL;
	at = calloc(1, len);
	if (at)
		memory->used += len;
	return at;
}

static void room_free(struct grid_memory *memory, void *at, u64 len)
{
	memory->used -= len;
	free(at);
}

/* Strings that the function may replace are pointers to it. */
static int give_strings(struct grid_call *c, u32 i)
{
	struct grid_value *v = &c->value[i];

	v->user = c->memory->alloc(c->memory, (v->count + 1) * sizeof(char *));
	if (!v->user) {
		c->why = "there is no memory for it";
		c->wrong = i;
		return -ENOMEM;
	}
	grid_texts_give(v);
	return 0;
}

static int give_all_strings(struct grid_call *c)
{
	u32 i;
	int err = 0;

	for (i = 0; i < c->function->params && !err; i++) {
		if (grid_param_texts(param_of(c, i)))
			err = give_strings(c, i);
	}
	return err;
}

/* What the function put there is its own. */
static void collect_strings(struct grid_call *c)
{
	struct grid_value *v;
	u32 i;

	for (i = 0; i < c->function->params; i++) {
		v = &c->value[i];
		if (v->user && param_of(c, i)->mode & SKEP_OUT)
			grid_texts_collect(v);
	}
}

static void drop_call(void *arg)
{
	struct grid_call *c = arg;
	struct grid_value *v;
	u32 i;

	for (i = 0; i < c->function->params; i++) {
		v = &c->value[i];
		if (v->user)
			c->memory->free(c->memory, v->user,
					(v->count + 1) * sizeof(char *));
		v->user = NULL;
	}
	grid_call_drop(c, c->memory);
}

struct reading {
	struct grid_mover mover;
	const u8 *at;
	u64 left;
};

static int read_bytes(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct reading *r = (struct reading *)mover;

	(void)own;
	if (len > r->left)
		return -EPROTO;
	memcpy(bytes, r->at, len);
	r->at += len;
	r->left -= len;
	return 0;
}

struct writing {
	struct grid_mover mover;
	u8 *at;
	u64 left;
};

static int write_bytes(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct writing *w = (struct writing *)mover;

	(void)own;
	if (len > w->left)
		return -EPROTO;
	memcpy(w->at, bytes, len);
	w->at += len;
	w->left -= len;
	return 0;
}

static int explain_error(struct grid_apply *a, const struct grid_call *c,
			 int err)
{
	const char *name = param_of(c, c->wrong)->name;
	int named = c->why && err != -EPROTO;

	snprintf(a->why, sizeof(a->why),
		 "a worker called %s of this program with arguments that do "
		 "not fit the interface: %s%s%s",
		 grid_apply_name(a), named ? name : "", named ? ": " : "",
		 c->why ? c->why : "their length is wrong");
	return err;
}

/* A worker might name other sizes than those that the program knows. */
static int refers_rightly(const struct grid_apply *a, const struct grid_call *c)
{
	const struct skep_param *p;
	u32 i;

	for (i = 0; i < c->function->params; i++) {
		p = param_of(c, i);
		if (p->refers &&
		    extend_integer(p->type, c->value[i].bits) !=
			    extend_integer(p->type,
					   a->outer->value[p->refers - 1].bits))
			return 0;
	}
	return 1;
}

static int measure_results(struct grid_call *c, u64 *out)
{
	int err = grid_call_measure(c, SKEP_OUT, out);

	if (err || *out <= SKEP_CALLBACK_MAX)
		return err;
	c->why = "it returns more than 1048560 bytes";
	return -EPROTO;
}

static int pack_results(struct grid_apply *a, struct grid_call *c,
			const struct skep_callback *head)
{
	struct writing w = {.mover = {write_bytes}};
	struct skep_callback answer = *head;
	u64 out;
	int err = measure_results(c, &out);

	if (err)
		return explain_error(a, c, err);
	a->out = malloc(sizeof(answer) + out);
	if (!a->out) {
		snprintf(a->why, sizeof(a->why),
			 "no memory for what %s of this program returned",
			 grid_apply_name(a));
		return -ENOMEM;
	}
	answer.length = (u32)out;
	memcpy(a->out, &answer, sizeof(answer));
	a->out_len = (u32)(sizeof(answer) + out);
	w.at = a->out + sizeof(answer);
	w.left = out;
	return grid_call_send(c, SKEP_OUT, &w.mover);
}

static int call_either(struct grid_apply *a, struct grid_call *c)
{
	if (a->hook)
		return call_hook(a, c);
	call_function(c, a->outer->value[a->param].at, a->by_address);
	return 0;
}

static int run_call(struct grid_apply *a, struct grid_call *c,
		    const struct skep_callback *head)
{
	struct grid_memory memory = {room_alloc, room_free, 0};
	struct reading r = {{read_bytes}, a->in, a->in_len};
	u64 out;
	int err = grid_call_take(c, &r.mover, &memory, a->in_len);

	if (!err && !refers_rightly(a, c)) {
		c->why = "a size differs from that of the call";
		err = -EPROTO;
	}
	/* What cannot travel back is not computed. */
	if (!err)
		err = measure_results(c, &out);
	if (!err)
		err = give_all_strings(c);
	if (err) {
		explain_error(a, c, err);
	} else {
		pthread_cleanup_push(drop_call, c);
		err = call_either(a, c);
		pthread_cleanup_pop(0);
		if (!err) {
			collect_strings(c);
			err = pack_results(a, c, head);
		}
	}
	drop_call(c);
	return err;
}

int grid_apply_run(struct grid_apply *a, const struct skep_callback *head)
{
	struct grid_shape shape[SKEP_PARAMS_MAX];
	const struct skep_param *p = find_param(a);
	struct grid_call c;

	if (!p) {
		snprintf(a->why, sizeof(a->why),
			 "a worker called parameter %u of %s, which is no "
			 "function of this program",
			 a->param, a->outer->function->name);
		return -EPROTO;
	}
	grid_call_init(&c, a->outer->module, p->refers);
	memset(shape, 0, sizeof(shape));
	c.shape = shape;
	return run_call(a, &c, head);
}
