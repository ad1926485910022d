/* SPDX-License-Identifier: MIT */
/*
 * Sockets of AF_UNIX that talk: streams, datagrams and sequenced packets, by
 * relative, absolute, long and abstract names, and between processes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

static struct sockaddr_un un;
static socklen_t un_len;

static const struct sockaddr *name_as(const char *name)
{
	memset(&un, 0, sizeof(un));
	un.sun_family = AF_UNIX;
	memcpy(un.sun_path, name, strlen(name));
	un_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
			     strlen(name) + 1);
	return (const struct sockaddr *)&un;
}

static int bind_name(int fd, const char *name)
{
	const struct sockaddr *a = name_as(name);

	return bind(fd, a, un_len);
}

static int connect_name(int fd, const char *name)
{
	const struct sockaddr *a = name_as(name);

	return connect(fd, a, un_len);
}

static int is_named(const struct sockaddr_un *got, socklen_t len,
		    const char *name)
{
	const struct sockaddr *a = name_as(name);

	return len == un_len && !memcmp(got, a, len);
}

static void *connect_thread(void *arg)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (connect_name(fd, arg) || write(fd, "from a thread", 13) != 13)
		return arg;
	close(fd);
	return NULL;
}

static void check_stream(const char *name)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), peer, client;
	struct sockaddr_un got;
	socklen_t len = sizeof(got);
	struct ucred cred;
	pthread_t thread;
	struct stat st;
	char buf[32] = "";
	void *bad;

	umask(027);
	CHECK(bind_name(fd, name) == 0 && listen(fd, 4) == 0);
	CHECK(!stat(name, &st) && S_ISSOCK(st.st_mode));
	CHECK((st.st_mode & 0777) == 0750);
	CHECK(FAILS(bind_name(fd, name), EADDRINUSE));
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(FAILS(bind_name(client, name), EADDRINUSE));
	CHECK(!getsockname(fd, (void *)&got, &len) &&
	      is_named(&got, len, name));
	CHECK(connect_name(client, name) == 0);
	len = sizeof(got);
	CHECK(!getpeername(client, (void *)&got, &len) &&
	      is_named(&got, len, name));
	len = sizeof(got);
	peer = accept4(fd, (void *)&got, &len, SOCK_CLOEXEC);
	CHECK(peer >= 0 && len == 2 && got.sun_family == AF_UNIX);
	len = sizeof(got);
	CHECK(!getsockname(peer, (void *)&got, &len) &&
	      is_named(&got, len, name));
	CHECK(send(client, "hello", 5, 0) == 5 && read(peer, buf, 32) == 5);
	CHECK(!strcmp(buf, "hello"));
	len = sizeof(cred);
	CHECK(!getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
	      cred.pid == getpid() && cred.uid == getuid());
	CHECK(shutdown(client, SHUT_WR) == 0 && read(peer, buf, 32) == 0);
	CHECK(close(client) == 0);
	CHECK(FAILS(send(peer, "x", 1, MSG_NOSIGNAL), EPIPE));
	close(peer);
	pthread_create(&thread, NULL, connect_thread, (void *)name);
	peer = accept(fd, NULL, NULL);
	CHECK(recv(peer, buf, 13, MSG_WAITALL) == 13);
	CHECK(!pthread_join(thread, &bad) && !bad);
	close(peer);
	CHECK(close(fd) == 0);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(FAILS(connect_name(client, name), ECONNREFUSED));
	CHECK(unlink(name) == 0 && FAILS(connect_name(client, name), ENOENT));
	close(client);
}

static void check_datagrams(void)
{
	int a = socket(AF_UNIX, SOCK_DGRAM, 0),
	    b = socket(AF_UNIX, SOCK_DGRAM, 0);
	char buf[32] = "";
	struct sockaddr_un from;
	socklen_t len = sizeof(from);

	CHECK(bind_name(a, "a") == 0 && bind_name(b, "b") == 0);
	name_as("a");
	CHECK(sendto(b, "one", 3, 0, (void *)&un, un_len) == 3);
	CHECK(sendto(b, "second", 6, 0, (void *)&un, un_len) == 6);
	CHECK(recvfrom(a, buf, 32, 0, (void *)&from, &len) == 3);
	CHECK(from.sun_family == AF_UNIX && len > 2);
	CHECK(connect(a, (void *)&from, len) == 0);
	CHECK(recv(a, buf, 4, MSG_TRUNC) == 6 && !memcmp(buf, "seco", 4));
	CHECK(send(a, "back", 4, 0) == 4 && recv(b, buf, 32, 0) == 4);
	close(a);
	close(b);
	CHECK(unlink("a") == 0 && unlink("b") == 0);
}

static void check_packets(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), peer, pair[2], type = 0;
	int client = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	socklen_t len = sizeof(type);
	char buf[32] = "";

	CHECK(bind_name(fd, "packets") == 0 && listen(fd, 1) == 0);
	CHECK(connect_name(client, "packets") == 0);
	peer = accept(fd, NULL, NULL);
	CHECK(send(client, "one", 3, 0) == 3 && send(client, "two", 3, 0) == 3);
	CHECK(read(peer, buf, 32) == 3 && !strcmp(buf, "one"));
	CHECK(recv(peer, buf, 2, MSG_WAITALL) == 2);
	CHECK(close(client) == 0 && read(peer, buf, 32) == 0);
	close(peer);
	close(fd);
	CHECK(unlink("packets") == 0);
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
	CHECK(write(pair[0], "a", 1) == 1 && write(pair[0], "bc", 2) == 2);
	CHECK(read(pair[1], buf, 32) == 1 && read(pair[1], buf, 32) == 2);
	CHECK(!getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &type, &len) &&
	      type == SOCK_DGRAM);
	close(pair[0]);
	close(pair[1]);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	CHECK(write(pair[0], "abc", 3) == 3 && read(pair[1], buf, 2) == 2);
	close(pair[0]);
	CHECK(read(pair[1], buf, 32) == 0);
	close(pair[1]);
}

static void check_abstract(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), client;
	struct sockaddr_un got;
	socklen_t len = sizeof(got);

	name_as("");
	CHECK(bind(fd, (void *)&un, 2) == 0 && listen(fd, 1) == 0);
	CHECK(!getsockname(fd, (void *)&got, &len) && len == 8);
	CHECK(!got.sun_path[0]);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(connect(client, (void *)&got, len) == 0);
	close(client);
	close(fd);
}

static void check_processes(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), peer, status = 0;
	char buf[32] = "";
	pid_t pid;

	CHECK(bind_name(fd, "server") == 0 && listen(fd, 1) == 0);
	pid = fork();
	if (!pid) {
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		_exit(connect_name(fd, "server") ||
		      write(fd, "from a child", 12) != 12);
	}
	peer = accept(fd, NULL, NULL);
	CHECK(recv(peer, buf, 12, MSG_WAITALL) == 12);
	CHECK(!strcmp(buf, "from a child"));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close(peer);
	close(fd);
	CHECK(unlink("server") == 0);
}

/* A full queue makes a connect wait, or fail at once. */
static void check_queue(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), one, two, peer;
	pthread_t thread;
	char buf[16];
	void *bad;

	CHECK(bind_name(fd, "queue") == 0 && listen(fd, 0) == 0);
	one = socket(AF_UNIX, SOCK_STREAM, 0);
	two = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(connect_name(one, "queue") == 0);
	CHECK(FAILS(connect_name(two, "queue"), EAGAIN));
	pthread_create(&thread, NULL, connect_thread, (void *)"queue");
	close(accept(fd, NULL, NULL));
	peer = accept(fd, NULL, NULL);
	CHECK(recv(peer, buf, 13, MSG_WAITALL) == 13);
	CHECK(!pthread_join(thread, &bad) && !bad);
	close(peer);
	close(one);
	close(two);
	close(fd);
	CHECK(unlink("queue") == 0);
}

int main(void)
{
	char deep[200] = "", name[256];
	int i;

	check_stream("socket");
	CHECK(mkdir("folder", 0700) == 0);
	check_stream("folder/socket");
	for (i = 0; i < 2; i++) {
		memset(deep, 'a' + i, 60);
		CHECK(mkdir(deep, 0700) == 0 && chdir(deep) == 0);
	}
	check_stream(
		"socket"); /* its absolute name is too long for a sockaddr */
	for (i = 1; i >= 0; i--) {
		memset(name, 'a' + i, 60);
		name[60] = 0;
		CHECK(chdir("..") == 0 && rmdir(name) == 0);
	}
	CHECK(rmdir("folder") == 0);
	check_datagrams();
	check_packets();
	check_abstract();
	check_processes();
	check_queue();
	return say_done();
}
