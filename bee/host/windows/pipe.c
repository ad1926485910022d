// SPDX-License-Identifier: MIT
/*
 * Pipes and socket pairs that bee makes, for this process and for those that
 * inherit them. A socket pair is two pipes, so that each process may close its
 * end while bytes are on their way, which a connection loses. No state.
 */
#include "win.h"
#include <wchar.h>

/* The handles of an end; NULL: it has none. */
struct pipe_end {
	HANDLE in, out;
	/* Of socket pairs: set when `in`, the other end's writer to it, the
	 * other end's reader, or `out` is shut down. */
	HANDLE shut[4];
};

static void close_end(struct pipe_end *e)
{
	HANDLE all[] = {e->in,	    e->out,	e->shut[0],
			e->shut[1], e->shut[2], e->shut[3]};
	u32 i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i])
			CloseHandle(all[i]);
}

/* Both handles are overlapped: they may be asked what there is while another
 * thread or process waits. The writer's may read, so that it can be asked
 * whether a reader is left. */
static s64 make_pipe(HANDLE *in, HANDLE *out, u32 size)
{
	static LONG made;
	LARGE_INTEGER now;
	WCHAR name[64];

	QueryPerformanceCounter(&now);
	swprintf(name, 64, L"\\\\.\\pipe\\bee-%lx-%llx-%lx",
		 GetCurrentProcessId(), now.QuadPart,
		 InterlockedIncrement(&made));
	*in = CreateNamedPipeW(name,
			       PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED |
				       FILE_FLAG_FIRST_PIPE_INSTANCE,
			       PIPE_TYPE_BYTE | PIPE_WAIT |
				       PIPE_REJECT_REMOTE_CLIENTS,
			       1, size, size, 0, NULL);
	if (*in == INVALID_HANDLE_VALUE) {
		*in = NULL;
		return bee_win_last();
	}
	*out = CreateFileW(name, GENERIC_READ | GENERIC_WRITE, 0, NULL,
			   OPEN_EXISTING, FILE_FLAG_OVERLAPPED, NULL);
	if (*out != INVALID_HANDLE_VALUE)
		return 0;
	*out = NULL;
	return bee_win_last();
}

/* Linux's sockets take 212,992 bytes that nobody reads. */
#define PAIR_BUFFER 0x40000

static s64 make_way(struct pipe_end *reader, struct pipe_end *writer, u32 pair)
{
	HANDLE self = GetCurrentProcess();
	s64 error = make_pipe(&reader->in, &writer->out,
			      pair ? PAIR_BUFFER : WIN_STREAM_BUFFER);
	u32 i;

	if (error || !pair)
		return error;
	reader->shut[0] = CreateEventW(NULL, TRUE, FALSE, NULL);
	reader->shut[1] = CreateEventW(NULL, TRUE, FALSE, NULL);
	for (i = 0; i < 2; i++)
		if (!reader->shut[i] ||
		    !DuplicateHandle(self, reader->shut[i], self,
				     &writer->shut[2 + i], 0, FALSE,
				     DUPLICATE_SAME_ACCESS))
			return -LINUX_ENOMEM;
	return 0;
}

/* Takes over all handles, also if it fails. */
static s64 open_end(struct pipe_end *e, u32 pair, s32 *number)
{
	struct win_handle *h = bee_handle_new(WIN_STREAM, number);
	struct win_stream *in = NULL, *out = NULL;
	int good = h != NULL;

	if (e->in)
		good &= (in = bee_stream_own(e->in, 0, e->shut)) != NULL;
	if (e->out)
		good &= (out = bee_stream_own(e->out, 1, e->shut + 2)) != NULL;
	*e = (struct pipe_end){0};
	if (good) {
		h->stream = in ? in : out;
		h->out = in ? out : NULL;
		h->pair = pair;
		return 0;
	}
	if (in)
		bee_stream_close(in);
	if (out)
		bee_stream_close(out);
	if (h)
		bee_handle_free(*number);
	return -LINUX_ENFILE;
}

#define SOCK_STREAM_LINUX 1

s64 bee_stream_pipe(s32 handle[2], u32 type)
{
	struct pipe_end end[2] = {{0}, {0}};
	u32 pair = type == SOCK_STREAM_LINUX;
	s64 error;

	if (type && !pair)
		return -LINUX_EOPNOTSUPP;
	error = make_way(&end[0], &end[1], pair);
	if (!error && pair)
		error = make_way(&end[1], &end[0], pair);
	if (!error)
		error = open_end(&end[0], pair, &handle[0]);
	if (!error) {
		error = open_end(&end[1], pair, &handle[1]);
		if (error)
			bee_file_close(handle[0]);
	}
	close_end(&end[0]);
	close_end(&end[1]);
	return error;
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
