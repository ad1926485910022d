// SPDX-License-Identifier: MIT
/* Owns the ranks' ends of the sockets, and stands for launcher.c. */
#define _GNU_SOURCE
#include "ranks_stub.h"

#include <errno.h>
#include <grid/worker/launcher.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct stub stub;

static int children[2], session[2] = {-1, -1};
static int rank_fd[STUB_RANKS] = {-1, -1, -1};

static void say_later(void)
{
	if (stub.later.length)
		send(rank_fd[0], stub.later.bytes, stub.later.length,
		     MSG_NOSIGNAL);
}

/* The launcher ------------------------------------------------------------- */

int launcher_open(void)
{
	return pipe(children) ? -errno : children[0];
}

static int start_rank(u32 i)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX,
				 .sun_path = RANKS_SOCKET};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    write(fd, &stub.hello[i], sizeof(stub.hello[i])) < 0 ||
	    write(fd, stub.says[i].bytes, stub.says[i].length) < 0)
		return -errno;
	if (!stub.stays)
		shutdown(fd, SHUT_WR);
	rank_fd[i] = fd;
	return 0;
}

int launcher_start(const char *program, u32 ranks)
{
	u32 i;
	int err = 0;

	(void)program;
	for (i = 0; i < ranks && i < STUB_RANKS && !err; i++)
		err = start_rank(i);
	if (stub.ended && write(children[1], "e", 1) != 1)
		err = -EIO;
	return err;
}

/* With the last words of rank 0, if it has any. */
int launcher_reap(void)
{
	if (stub.ended)
		say_later();
	return stub.ended;
}

void launcher_await(u64 ms)
{
	(void)ms;
}

void launcher_end(u64 ms)
{
	(void)ms;
}

const char *launcher_last_line(void)
{
	return "";
}

/* The master --------------------------------------------------------------- */

static int ask_stub(u64 call, const struct skep_callback *head,
		    const u8 *arguments)
{
	u64 n = head->length < STUB_BYTES ? head->length : STUB_BYTES;

	stub.asks++;
	stub.call = call;
	stub.head = *head;
	memcpy(stub.arguments, arguments, n);
	return stub.ask_error;
}

static int take_stub(u64 call, const struct skep_callback *head, u8 **returned,
		     u32 *length)
{
	struct pollfd p = {rank_fd[0], POLLRDHUP, 0};

	stub.takes++;
	stub.left = poll(&p, 1, 0) > 0;
	if (call != stub.call || memcmp(head, &stub.head, sizeof(*head)))
		return -EPIPE;
	if (stub.silent) {
		stub.silent--;
		return 0;
	}
	if (stub.take_error)
		return stub.take_error;
	if (stub.last && stub.asks >= stub.last)
		return -ENOMEM;
	*returned = malloc(stub.returned + 1ul);
	if (!*returned)
		return -ENOMEM;
	memset(*returned, 'r', stub.returned);
	say_later();
	*length = stub.returned;
	stub.returns++;
	return 0;
}

const struct job_way stub_way = {ask_stub, take_stub};

/* Runs --------------------------------------------------------------------- */

static char folder[] = "/tmp/skep-ranks-XXXXXX";

static void remove_folder(void)
{
	unlink("skep-ranks");
	unlink(RANKS_SOCKET);
	if (!chdir("/"))
		rmdir(folder);
}

/* What the front polls can be read from the start, as if RETURN were there. */
int stub_open(void)
{
	if (!mkdtemp(folder) || chdir(folder) || atexit(remove_folder) ||
	    setenv("SKEP_PROGRAM", "-", 1) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, session) ||
	    write(session[1], "r", 1) != 1 || job_open(session[0], "", 0))
		return -1;
	return 0;
}

void stub_reset(void)
{
	u32 i;

	memset(&stub, 0, sizeof(stub));
	stub.returned = 4;
	for (i = 0; i < STUB_RANKS; i++)
		stub.hello[i] =
			(struct ranks_hello){RANKS_MAGIC, i, STUB_RANKS};
}

void stub_say(u32 rank, const void *bytes, u64 length)
{
	struct stub_text *t = &stub.says[rank];

	if (length > sizeof(t->bytes) - t->length)
		length = sizeof(t->bytes) - t->length;
	memcpy(t->bytes + t->length, bytes, length);
	t->length += length;
}

void stub_session_end(void)
{
	close(session[1]);
}

void stub_heard(u32 rank, struct stub_text *text)
{
	ssize_t n = recv(rank_fd[rank], text->bytes, sizeof(text->bytes),
			 MSG_DONTWAIT);

	text->length = n < 0 ? 0 : (u64)n;
}

void stub_close(void)
{
	char word;
	u32 i;

	for (i = 0; i < STUB_RANKS; i++) {
		if (rank_fd[i] >= 0)
			close(rank_fd[i]);
		rank_fd[i] = -1;
	}
	if (stub.ended && read(children[0], &word, 1) != 1)
		abort();
}
