// SPDX-License-Identifier: MIT
/*
 * Owns what the running call may call back. Only the thread that runs the
 * function may use it: while that waits in a callback, it is the one that reads
 * the session or the front's socket, and a second callback would take the first
 * one's answer.
 */
#define _GNU_SOURCE
#include "callback.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "call.h"

static struct {
	const struct grid_call *outer; /* NULL: no function runs */
	const struct callback_way *way;
	long thread;
	u64 number;
} now;

void callback_begin(const struct grid_call *c, const struct callback_way *way)
{
	now.thread = syscall(SYS_gettid);
	now.way = way;
	now.number = 0;
	__atomic_store_n(&now.outer, c, __ATOMIC_RELEASE);
}

void callback_end(void)
{
	__atomic_store_n(&now.outer, NULL, __ATOMIC_RELEASE);
}

/* Ends ---------------------------------------------------------------------
 */

/* The function must not go on without its answer, and cannot be left otherwise.
 */
void callback_leave(int status)
{
	fflush(NULL);
	_exit(status);
}

__attribute__((noreturn)) static void end_misuse(const char *text)
{
	fprintf(stderr, "worker: %s\n", text);
	callback_leave(CALLBACK_STATUS);
}

/* The arguments ------------------------------------------------------------ */

/* Which parameter of the running call this function of the master is. */
static u32 find_param(unsigned function)
{
	const struct grid_call *c = now.outer;
	const struct skep_param *p = &c->module->param[c->function->first];
	u32 i;

	for (i = 0; i < c->function->params; i++) {
		if (p[i].type == SKEP_MASTER_FUNCTION &&
		    p[i].refers == function)
			return i;
	}
	end_misuse("a function of the master was called that this call was not "
		   "given");
}

/* Points at what the function passed, and reads what sizes may need. */
static void set_values(struct grid_call *c, void *const *argument)
{
	const struct skep_param *p = &c->module->param[c->function->first];
	struct grid_value *v = c->value;
	u32 i;

	for (i = 0; i < c->function->params; i++, p++, v++) {
		if (p->refers) {
			v->bits = now.outer->value[p->refers - 1].bits;
			continue;
		}
		v->at = *argument++;
		if (!p->dims && !grid_type_text(p->type) && v->at &&
		    p->mode & SKEP_IN && grid_type_size(p->type) <= 8)
			memcpy(&v->bits, v->at, grid_type_size(p->type));
	}
}

/* Strings ------------------------------------------------------------------ */

static void *plain_alloc(struct grid_memory *memory, u64 len)
{
	(void)memory;
	return calloc(1, len);
}

/* What comes back is the function's, as in a master. */
static void plain_free(struct grid_memory *memory, void *at, u64 len)
{
	(void)memory;
	(void)len;
	free(at);
}

static struct grid_memory plain_memory = {plain_alloc, plain_free, 0};

__attribute__((noreturn)) static void end_wrong(struct grid_call *c, int err)
{
	char text[CALL_TEXT_MAX];
	u32 code = call_explain(c, err, text, sizeof(text));

	now.way->refuse(code, text);
}

__attribute__((noreturn)) static void end_string(struct grid_call *c, u32 i,
						 int err, const char *why)
{
	c->wrong = i;
	c->why = why;
	end_wrong(c, err);
}

static void open_strings(struct grid_call *c, u32 i)
{
	struct grid_value *v = &c->value[i];
	struct grid_text *text;
	int err;

	v->user = v->at;
	err = grid_call_count(c, i, &v->count);
	if (err)
		end_wrong(c, err);
	if (v->count && !v->user)
		end_string(c, i, -EINVAL, "it is a null pointer");
	text = calloc(v->count + 1, sizeof(*text));
	if (!text)
		end_string(c, i, -ENOMEM, "there is no memory for it");
	v->at = text;
	if (c->module->param[c->function->first + i].mode & SKEP_IN)
		grid_texts_collect(v);
}

static void close_strings(struct grid_call *c, u32 i)
{
	struct grid_value *v = &c->value[i];

	if (c->module->param[c->function->first + i].mode & SKEP_OUT)
		grid_texts_give(v);
	free(v->at);
}

static void each_strings(struct grid_call *c,
			 void (*step)(struct grid_call *c, u32 i))
{
	u32 i;

	for (i = 0; i < c->function->params; i++) {
		if (grid_param_texts(&c->module->param[c->function->first + i]))
			step(c, i);
	}
}

/* Both lengths, or the end of the call. What strings come back is not known
 * yet. */
static void measure_both(struct grid_call *c, u64 *in, u64 *out)
{
	char text[CALL_TEXT_MAX];
	int err = grid_call_measure(c, SKEP_IN, in);

	if (!err)
		err = grid_call_measure(c, SKEP_OUT, out);
	if (err)
		end_wrong(c, err);
	if (*in <= SKEP_CALLBACK_MAX && *out <= SKEP_CALLBACK_MAX)
		return;
	snprintf(
		text, sizeof(text),
		"%s of the master has %lu bytes of arguments in one direction, "
		"at most %u travel: pass the rest as arguments of %s",
		c->function->name, (unsigned long)(*in > *out ? *in : *out),
		SKEP_CALLBACK_MAX, now.outer->function->name);
	now.way->refuse(SKEP_E_ARGUMENTS, text);
}

void skep_worker_callback(unsigned function, void *const *argument)
{
	struct grid_shape shape[SKEP_PARAMS_MAX];
	struct grid_call c;
	struct skep_callback head;
	u64 in, out;

	if (!__atomic_load_n(&now.outer, __ATOMIC_ACQUIRE) ||
	    now.thread != syscall(SYS_gettid))
		end_misuse("a function of the master may only be called by the "
			   "thread that runs the call, and not after its end");
	head.param = find_param(function);
	memset(shape, 0, sizeof(shape));
	grid_call_init(&c, now.outer->module, function);
	c.shape = shape;
	c.memory = &plain_memory;
	set_values(&c, argument);
	each_strings(&c, open_strings);
	measure_both(&c, &in, &out);
	head.length = (u32)in;
	head.number = ++now.number;
	now.way->ask(&c, &head);
	each_strings(&c, close_strings);
}
