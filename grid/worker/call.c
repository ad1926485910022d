// SPDX-License-Identifier: MIT
/* Owns the memory of the current call's arguments. */
#define _GNU_SOURCE
#include "call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/sha256.h"
#include "ask.h"
#include "order.h"
#include "stream.h"
#include "texts.h"

#define NR_BEE 0xBEE

/* Any other substrate has no such call. */
static void fill_proof(struct skep_proof *p)
{
	p->nonce = 0;
	p->calls = 0;
	if (syscall(NR_BEE, 0L) != NR_BEE)
		return;
	p->nonce = (u64)syscall(NR_BEE, 1L);
	p->calls = (u64)syscall(NR_BEE, 2L);
}

/* Errors ------------------------------------------------------------------- */

u32 call_explain(const struct grid_call *c, int err, char *text, size_t size)
{
	const struct skep_param *p;

	if (!c->why) {
		snprintf(text, size,
			 "the arguments of %s do not have the length that "
			 "their sizes say",
			 c->function->name);
	} else if (err == -EPROTO) {
		snprintf(text, size, "%s: %s", c->function->name, c->why);
	} else {
		p = &c->module->param[c->function->first + c->wrong];
		snprintf(text, size, "argument %u (%s) of %s: %s", c->wrong + 1,
			 p->name, c->function->name, c->why);
	}
	return err == -ENOMEM ? SKEP_E_WORKER : SKEP_E_ARGUMENTS;
}

static int refuse_arguments(const struct grid_call *c, u64 call, int err)
{
	char text[CALL_TEXT_MAX];
	u32 code = call_explain(c, err, text, sizeof(text));

	return order_refuse(call, code, text);
}

/* Arguments from the session ----------------------------------------------- */

struct source {
	struct grid_mover mover;
	struct order_source data;
	int err; /* of the stream: the session is over */
};

static int move_in(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct source *s = (struct source *)mover;

	(void)own;
	s->err = order_take(&s->data, bytes, len);
	return s->err;
}

/* Results to the session --------------------------------------------------- */

struct sink {
	struct grid_mover mover;
	struct order_sink data;
	int err;
};

static int move_out(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct sink *s = (struct sink *)mover;

	if (!s->err)
		s->err = order_put(&s->data, bytes, len, own);
	return s->err;
}

/* The master said how much may come; strings and files may be any length. */
u32 call_explain_long(const struct grid_call *c, u64 has, u64 most, char *text,
		      size_t size)
{
	snprintf(text, size,
		 "%s returns strings and files with %lu bytes, at most %lu are "
		 "taken",
		 c->function->name, (unsigned long)has, (unsigned long)most);
	return SKEP_E_ARGUMENTS;
}

static int refuse_long(const struct grid_call *c, u64 call, u64 has, u64 most)
{
	char text[CALL_TEXT_MAX];
	u32 code = call_explain_long(c, has, most, text, sizeof(text));

	return order_refuse(call, code, text);
}

static int send_result(struct grid_call *c, u64 call, u64 exec_ns, u64 most)
{
	struct sink s = {.mover = {move_out}};
	struct skep_proof proof;
	u64 length;
	int err;

	err = grid_call_measure(c, SKEP_OUT, &length);
	if (err)
		return refuse_arguments(c, call, err);
	if (length > most)
		return refuse_long(c, call, length, most);
	fill_proof(&proof);
	err = order_put_result(&s.data, call, length, exec_ns, &proof);
	if (!err)
		err = grid_call_send(c, SKEP_OUT, &s.mover);
	return err ? err : stream_flush();
}

/* Running ------------------------------------------------------------------ */

static u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}

u64 call_function(struct grid_call *c, const struct skep_worker *w)
{
	void *argument[SKEP_PARAMS_MAX];
	u64 start;
	u32 i;

	for (i = 0; i < c->function->params; i++) {
		argument[i] = c->value[i].user;
		if (!argument[i])
			argument[i] = c->value[i].at;
		if (!argument[i])
			argument[i] = &c->value[i].bits;
		if (grid_call_null(c, i))
			argument[i] = NULL;
	}
	order_set_busy(1);
	start = now_ns();
	w->function[c->function - c->module->function](argument);
	start = now_ns() - start;
	order_set_busy(0);
	fflush(stdout); /* people wait for it, and it may be a pipe */
	return start;
}

u32 call_explain_texts(const struct grid_call *c, const char *why, int err,
		       char *text, size_t size)
{
	snprintf(text, size, "%s: %s: %s", c->function->name, why,
		 strerror(-err));
	return SKEP_E_WORKER;
}

static int refuse_texts(const struct grid_call *c, u64 call, const char *why,
			int err)
{
	char text[CALL_TEXT_MAX];
	u32 code = call_explain_texts(c, why, err, text, sizeof(text));

	return order_refuse(call, code, text);
}

static int run_call(struct grid_call *c, const struct skep_worker *w, u64 call,
		    u64 most)
{
	const char *why;
	u64 exec_ns = 0;
	int err, bad;

	bad = texts_open(c, &why);
	if (!bad) {
		callback_begin(c, ask_over_session(call));
		exec_ns = call_function(c, w);
		callback_end();
		bad = texts_collect(c, &why);
	}
	err = bad ? refuse_texts(c, call, why, bad)
		  : send_result(c, call, exec_ns, most);
	texts_close(c);
	return err;
}

int call_known(const struct grid_module *m, u32 function, int initialize)
{
	return function < m->head.functions &&
	       !(m->function[function].flags &
		 (SKEP_FUNCTION_CALLBACK | SKEP_FUNCTION_CLASS)) &&
	       !(m->function[function].flags & SKEP_FUNCTION_INIT) ==
		       !initialize;
}

int call_run(const struct grid_module *m, const struct skep_worker *w,
	     const struct skep_frame *f)
{
	struct source s = {{move_in}, {0, 0, 0}, 0};
	struct grid_call c;
	struct skep_call order;
	int err, bad;

	err = order_read_call(f, &order, &s.data);
	if (err)
		return err;
	if (!call_known(m, order.function, 0)) {
		err = order_drop_rest(&s.data);
		return err ? err
			   : order_refuse(f->call, SKEP_E_NO_FUNCTION,
					  "the module has no function of this "
					  "number that can be called");
	}
	grid_call_init(&c, m, order.function);
	bad = grid_call_take(&c, &s.mover, &grid_memory_heap, order.length);
	err = s.err ? s.err : order_drop_rest(&s.data);
	if (!err && bad)
		err = refuse_arguments(&c, f->call, bad);
	else if (!err)
		err = run_call(&c, w, f->call, order.result);
	grid_call_drop(&c, &grid_memory_heap);
	return err;
}

/* Initialize --------------------------------------------------------------- */

struct file {
	struct grid_mover mover;
	int fd;
	u64 at;
	int err;
	int check; /* digest what is read */
	struct skep_sha256 sum;
};

static int move_file(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct file *file = (struct file *)mover;
	(void)own;
	file->err = order_read_data(file->fd, bytes, len, file->at);
	if (file->err)
		return file->err;
	file->at += len;
	if (file->check)
		skep_sha256_update(&file->sum, bytes, len);
	return 0;
}

static int open_file(struct file *file, const char *path, const u8 digest[32])
{
	static const u8 none[32];

	memset(file, 0, sizeof(*file));
	file->mover.move = move_file;
	file->check = memcmp(digest, none, sizeof(none)) != 0;
	skep_sha256_init(&file->sum);
	file->fd = order_open_data(path);
	return file->fd < 0 ? file->fd : 0;
}

/* Says whether the whole file is what the agent meant. */
static int digest_fits(struct file *file, const struct skep_init *i)
{
	u8 rest[0x1000], sum[32];
	u64 left;

	while (file->at < i->length && !file->err) {
		left = i->length - file->at;
		move_file(&file->mover, rest,
			  left < sizeof(rest) ? left : sizeof(rest), 0);
	}
	skep_sha256_final(&file->sum, sum);
	return !file->err && !memcmp(sum, i->digest, sizeof(sum));
}

int call_ready(const struct grid_module *m)
{
	struct skep_proof proof;

	fill_proof(&proof);
	return order_ready(m->head.functions, &proof);
}

static int refuse_file(const char *what, int err)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "the data of Initialize cannot be %s (errno %d)", what, -err);
	return order_refuse(0, SKEP_E_INTERNAL, text);
}

/* The memory stays: see worker.h. */
static int run_initialize(const struct grid_module *m,
			  const struct skep_worker *w,
			  const struct skep_init *i, const char *path)
{
	struct file file;
	struct grid_call c;
	const char *why;
	int err, changed;

	err = open_file(&file, path, i->digest);
	if (err)
		return refuse_file("opened", err);
	grid_call_init(&c, m, i->function);
	err = grid_call_take(&c, &file.mover, &grid_memory_heap, i->length);
	changed = file.check && !digest_fits(&file, i);
	close(file.fd);
	if (changed)
		return order_refuse(
			0, SKEP_E_DIGEST,
			"the data of Initialize was changed on this "
			"node");
	if (file.err)
		return refuse_file("read", file.err);
	if (err)
		return refuse_arguments(&c, 0, err);
	err = texts_open(&c, &why);
	if (err)
		return refuse_texts(&c, 0, why, err);
	call_function(&c, w);
	return call_ready(m);
}

int call_initialize(const struct grid_module *m, const struct skep_worker *w,
		    const struct skep_frame *f)
{
	static char path[ORDER_PATH_MAX];
	struct skep_init i;
	int err = order_read_init(f, &i, path);

	if (err)
		return err;
	if (!call_known(m, i.function, 1))
		return order_refuse(0, SKEP_E_NO_FUNCTION,
				    "the module has no such Initialize");
	return run_initialize(m, w, &i, path);
}
