// SPDX-License-Identifier: MIT
/* Pipes and socket pairs that bee makes. No state. */
#include "win.h"

static void handle_close(HANDLE h)
{
	if (h)
		CloseHandle(h);
}

/* An end: its input, its output, or both. */
static s64 pipe_end(HANDLE in, HANDLE out, s32 *number)
{
	struct win_handle *e = bee_handle_new(WIN_STREAM, number);
	struct win_stream *s[2] = {NULL, NULL};

	if (e && in)
		s[0] = bee_stream_new(in, 0, 0);
	if (e && out)
		s[1] = bee_stream_new(out, 0, 1);
	if (e && !in == !s[0] && !out == !s[1]) {
		e->stream = s[0] ? s[0] : s[1];
		e->out = in && out ? s[1] : NULL;
		e->pair = in && out;
		return 0;
	}
	if (e)
		bee_handle_free(*number);
	s[0] ? bee_stream_close(s[0]) : handle_close(in);
	s[1] ? bee_stream_close(s[1]) : handle_close(out);
	return -LINUX_ENFILE;
}

#define AF_UNIX_STREAM 1

/* A socket pair is two pipes, so that each process may close its end while
 * bytes are on their way, which a connection loses. */
s64 bee_stream_pipe(s32 handle[2], u32 type)
{
	HANDLE in[2], out[2] = {NULL, NULL};
	s64 err = 0;

	if (type > AF_UNIX_STREAM)
		return -LINUX_EOPNOTSUPP;
	if (!CreatePipe(&in[0], &out[1], NULL, WIN_STREAM_BUFFER))
		return bee_win_last();
	in[1] = NULL;
	if (type && !CreatePipe(&in[1], &out[0], NULL, WIN_STREAM_BUFFER)) {
		err = bee_win_last();
		CloseHandle(in[0]);
		CloseHandle(out[1]);
		return err;
	}
	err = pipe_end(in[0], out[0], &handle[0]);
	if (err) {
		handle_close(in[1]);
		CloseHandle(out[1]);
		return err;
	}
	err = pipe_end(in[1], out[1], &handle[1]);
	if (err)
		bee_file_close(handle[0]);
	return err;
}

#define MSG_PEEK_LINUX 0x2

s64 bee_stream_sock(struct win_handle *h, struct abi_sock_op *op)
{
	switch (op->verb) {
	case ABI_SOCK_SEND:
		return bee_stream_write(h->out, op->buf, op->len);
	case ABI_SOCK_RECV:
		return op->flags & MSG_PEEK_LINUX
			       ? bee_stream_peek(h->stream, op->buf, op->len)
			       : bee_stream_read(h->stream, op->buf, op->len);
	case ABI_SOCK_SHUTDOWN:
		if (op->value != 1)
			bee_stream_shut(h->stream);
		if (op->value != 0)
			bee_stream_shut(h->out);
		return 0;
	default:
		return -LINUX_EINVAL;
	}
}
