/* SPDX-License-Identifier: MIT */
/* Descriptors in messages: SCM_RIGHTS of unix(7). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

static int ends[2];

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(8 * sizeof(int))];
};

static int send_numbers(const int *fd, int count)
{
	union control control = {0};
	struct iovec v = {"x", 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), fd, count * sizeof(int));
	return (int)sendmsg(ends[0], &m, 0);
}

/* How many came into room for `room`; they are in fd. */
static int receive_numbers(int *fd, int room, int flags, int *got)
{
	union control control = {0};
	char byte = 0;
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = room ? &control : NULL,
			   .msg_controllen =
				   room ? CMSG_LEN(room * sizeof(int)) : 0};
	struct cmsghdr *c;
	int n = 0;

	CHECK(recvmsg(ends[1], &m, flags) == 1 && byte == 'x');
	*got = m.msg_flags & ~MSG_CMSG_CLOEXEC;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fd, CMSG_DATA(c), n * sizeof(int));
	}
	return n;
}

/* A file is the same one: its position and O_APPEND are shared. */
static void check_file(void)
{
	int fd = open("passed", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
	int got, flags;
	char text[8] = "";

	CHECK(write(fd, "abcdef", 6) == 6 && lseek(fd, 2, SEEK_SET) == 2);
	CHECK(send_numbers(&fd, 1) == 1);
	if (errno == EINVAL) /* nothing would come */
		exit(say_done());
	CHECK(receive_numbers(&got, 1, 0, &flags) == 1 && flags == 0);
	CHECK(got != fd && fcntl(got, F_GETFD) == 0);
	CHECK(fcntl(got, F_GETFL) & O_APPEND);
	CHECK(read(got, text, 2) == 2 && !strcmp(text, "cd"));
	CHECK(read(fd, text, 2) == 2 && !strcmp(text, "ef"));
	CHECK(lseek(got, 0, SEEK_SET) == 0 && write(got, "g", 1) == 1);
	CHECK(lseek(fd, 0, SEEK_CUR) == 7);
	CHECK(close(got) == 0 && close(fd) == 0 && unlink("passed") == 0);
}

static void check_several(void)
{
	int folder = open(".", O_RDONLY | O_DIRECTORY);
	int pipes[2], fd[3], got[4], flags;
	char byte = 0;
	struct stat st;

	CHECK(pipe(pipes) == 0);
	fd[0] = pipes[0], fd[1] = pipes[1], fd[2] = folder;
	CHECK(send_numbers(fd, 3) == 1);
	CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
	CHECK(receive_numbers(got, 4, MSG_CMSG_CLOEXEC, &flags) == 3 &&
	      flags == 0);
	CHECK(fcntl(got[0], F_GETFD) == FD_CLOEXEC);
	CHECK(write(got[1], "p", 1) == 1 && read(got[0], &byte, 1) == 1 &&
	      byte == 'p');
	CHECK(mkdirat(got[2], "made", 0700) == 0 && stat("made", &st) == 0 &&
	      rmdir("made") == 0);
	CHECK(close(got[1]) == 0 && read(got[0], &byte, 1) == 0);
	CHECK(close(got[0]) == 0 && close(got[2]) == 0);
	CHECK(send_numbers(fd + 2, 1) == 1 && send_numbers(fd + 2, 1) == 1);
	CHECK(receive_numbers(got, 0, 0, &flags) == 0 && flags == MSG_CTRUNC);
	CHECK(receive_numbers(got, 1, 0, &flags) == 1 && close(got[0]) == 0);
	fd[0] = fd[1] = folder;
	CHECK(send_numbers(fd, 3) == 1);
	CHECK(receive_numbers(got, 2, 0, &flags) == 2 && flags == MSG_CTRUNC);
	CHECK(close(got[0]) == 0 && close(got[1]) == 0 && close(folder) == 0);
	fd[0] = 999;
	CHECK(FAILS(send_numbers(fd, 1), EBADF));
}

static void check_bad(void)
{
	union control control = {0};
	struct iovec v = {"x", 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = CMSG_SPACE(sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(0) - 1;
	CHECK(FAILS(sendmsg(ends[0], &m, 0), EINVAL));
	c->cmsg_len = CMSG_LEN(3 * sizeof(int));
	CHECK(FAILS(sendmsg(ends[0], &m, 0), EINVAL));
	c->cmsg_len = CMSG_LEN(sizeof(int));
	m.msg_control = (void *)8;
	CHECK(FAILS(syscall(SYS_sendmsg, ends[0], &m, 0), EFAULT));
}

/* A connection is given to a child that was there before. */
static void check_child(void)
{
	int pair[2], got, flags, status = -1;
	char byte = 0;
	pid_t pid = fork();

	if (pid == 0) {
		/* Its checks would print among the parent's. */
		if (dup2(open("/dev/null", O_WRONLY), 1) != 1 ||
		    receive_numbers(&got, 1, 0, &flags) != 1 ||
		    read(got, &byte, 1) != 1)
			_exit(1);
		_exit(write(got, "b", 1) == 1 && byte == 'a' ? 7 : 2);
	}
	CHECK(pid > 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(send_numbers(&pair[1], 1) == 1 && close(pair[1]) == 0);
	CHECK(write(pair[0], "a", 1) == 1 && read(pair[0], &byte, 1) == 1 &&
	      byte == 'b');
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
	CHECK(read(pair[0], &byte, 1) == 0 && close(pair[0]) == 0);
}

int main(void)
{
	int type;

	for (type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
		CHECK(socketpair(AF_UNIX, type, 0, ends) == 0);
		check_file();
		check_several();
		check_bad();
		check_child();
		CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
	}
	return say_done();
}
