// SPDX-License-Identifier: MIT
/* Owns the number of the call whose callbacks go over the session. */
#include "ask.h"

#include <errno.h>
#include <stdio.h>

#include "order.h"
#include "stream.h"

#define STATUS_SESSION 3

static u64 call;

__attribute__((noreturn)) static void end_session(int err)
{
	if (err == STREAM_ENDED)
		callback_leave(0);
	fprintf(stderr, "worker: the session with the agent ended: %s\n",
		stream_why());
	callback_leave(STATUS_SESSION);
}

__attribute__((noreturn)) static void end_call(u32 code, const char *text)
{
	int err = order_refuse(call, code, text);

	if (err)
		end_session(err);
	callback_leave(CALLBACK_STATUS);
}

/* Frames ------------------------------------------------------------------- */

int ask_return(u64 of, const struct skep_callback *asked,
	       const struct skep_frame *f)
{
	struct skep_callback head;
	int err;

	if (f->type != SKEP_RETURN || f->call != of || f->length < sizeof(head))
		return -EPROTO;
	err = stream_read(&head, sizeof(head));
	if (err)
		return err;
	if (head.param != asked->param || head.number != asked->number ||
	    head.length != f->length - sizeof(head))
		return -EPROTO;
	return 0;
}

static int put_bytes(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	(void)mover;
	return stream_put(bytes, len, own);
}

static int send_callback(struct grid_call *c, const struct skep_callback *head)
{
	struct grid_mover mover = {put_bytes};
	int err = stream_frame(SKEP_CALLBACK, 0, call,
			       (u32)sizeof(*head) + head->length);

	if (!err)
		err = stream_put(head, sizeof(*head), 0);
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

static void ask_master(struct grid_call *c, const struct skep_callback *head)
{
	struct grid_mover mover = {get_bytes};
	struct skep_frame f;
	int err = send_callback(c, head);

	if (!err)
		err = stream_next(&f);
	if (!err)
		err = ask_return(call, head, &f);
	if (!err)
		err = grid_call_accept(c, &mover, stream_left());
	if (err)
		end_session(err);
}

const struct callback_way *ask_over_session(u64 of)
{
	static const struct callback_way way = {ask_master, end_call};

	call = of;
	return &way;
}
