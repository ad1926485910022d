// SPDX-License-Identifier: MIT
/*
 * Owns what the running call may call back. Only the thread that runs the
 * function may use it: while that waits in a callback, it is the one that reads
 * the session, and a second callback would take the first one's answer.
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
#include "order.h"
#include "stream.h"

/* Exit status of a worker whose function may not go on. */
#define STATUS_CALLBACK 5
#define STATUS_SESSION 3

static struct {
	const struct grid_call *outer; /* NULL: no function runs */
	long thread;
	u64 call, number;
} now;

void callback_begin(const struct grid_call *c, u64 call)
{
	now.thread = syscall(SYS_gettid);
	now.call = call;
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
__attribute__((noreturn)) static void leave_worker(int status)
{
	fflush(NULL);
	_exit(status);
}

__attribute__((noreturn)) static void end_session(int err)
{
	if (err == STREAM_ENDED)
		leave_worker(0);
	fprintf(stderr, "worker: the session with the agent ended: %s\n",
		stream_why());
	leave_worker(STATUS_SESSION);
}

__attribute__((noreturn)) static void end_misuse(const char *text)
{
	fprintf(stderr, "worker: %s\n", text);
	leave_worker(STATUS_CALLBACK);
}

__attribute__((noreturn)) static void end_call(u32 code, const char *text)
{
	int err = order_refuse(now.call, code, text);

	if (err)
		end_session(err);
	leave_worker(STATUS_CALLBACK);
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

	end_call(code, text);
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
	u64 k;
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
	if (!(c->module->param[c->function->first + i].mode & SKEP_IN))
		return;
	for (k = 0; k < v->count; k++) {
		text[k].at = ((u8 **)v->user)[k];
		text[k].len = text[k].at ? strlen((char *)text[k].at) : 0;
	}
}

static void close_strings(struct grid_call *c, u32 i)
{
	struct grid_value *v = &c->value[i];
	struct grid_text *text = v->at;
	u64 k;

	if (c->module->param[c->function->first + i].mode & SKEP_OUT) {
		for (k = 0; k < v->count; k++)
			((u8 **)v->user)[k] = text[k].own;
	}
	free(text);
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
	end_call(SKEP_E_ARGUMENTS, text);
}

/* The session -------------------------------------------------------------- */

static int put_bytes(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	(void)mover;
	return stream_put(bytes, len, own);
}

static int send_callback(struct grid_call *c, u32 param, u32 in)
{
	struct skep_callback head = {param, in, now.number};
	struct grid_mover mover = {put_bytes};
	int err = stream_frame(SKEP_CALLBACK, 0, now.call,
			       (u32)sizeof(head) + in);

	if (!err)
		err = stream_put(&head, sizeof(head), 0);
	if (!err)
		err = grid_call_send(c, SKEP_IN, &mover);
	return err ? err : stream_flush();
}

static int get_bytes(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	(void)mover;
	(void)own;
	return stream_read(bytes, len);
}

static int take_return(struct grid_call *c, u32 param)
{
	struct grid_mover mover = {get_bytes};
	struct skep_callback head;
	struct skep_frame f;
	int err = stream_next(&f);

	if (err)
		return err;
	if (f.type != SKEP_RETURN || f.call != now.call ||
	    f.length < sizeof(head))
		return -EPROTO;
	err = stream_read(&head, sizeof(head));
	if (err)
		return err;
	if (head.param != param || head.number != now.number ||
	    head.length != f.length - sizeof(head))
		return -EPROTO;
	return grid_call_accept(c, &mover, head.length);
}

void skep_worker_callback(unsigned function, void *const *argument)
{
	struct grid_shape shape[SKEP_PARAMS_MAX];
	struct grid_call c;
	u64 in, out;
	u32 param;
	int err;

	if (!__atomic_load_n(&now.outer, __ATOMIC_ACQUIRE) ||
	    now.thread != syscall(SYS_gettid))
		end_misuse("a function of the master may only be called by the "
			   "thread that runs the call, and not after its end");
	param = find_param(function);
	memset(shape, 0, sizeof(shape));
	grid_call_init(&c, now.outer->module, function);
	c.shape = shape;
	c.memory = &plain_memory;
	set_values(&c, argument);
	each_strings(&c, open_strings);
	measure_both(&c, &in, &out);
	now.number++;
	err = send_callback(&c, param, (u32)in);
	if (!err)
		err = take_return(&c, param);
	if (err)
		end_session(err);
	each_strings(&c, close_strings);
}
