/* SPDX-License-Identifier: MIT */
/* TCP over loopback: echo with threads, peek, shutdown, non-blocking, errors.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
#include "say.h"

#define CLIENTS 4
#define VOLUME (2 << 20)

static struct sockaddr_in server;

static void *run_echo(void *arg)
{
	int fd = (intptr_t)arg, n, done, part;
	char buf[10000];

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		for (done = 0; done < n; done += part)
			if ((part = send(fd, buf + done, n - done,
					 MSG_NOSIGNAL)) <= 0)
				return arg;
	shutdown(fd, SHUT_WR);
	close(fd);
	return NULL;
}

static void *run_listener(void *arg)
{
	pthread_t threads[CLIENTS];
	int i, fd;

	for (i = 0; i < CLIENTS; i++) {
		fd = accept4((intptr_t)arg, NULL, NULL, SOCK_CLOEXEC);
		pthread_create(&threads[i], NULL, run_echo,
			       (void *)(intptr_t)fd);
	}
	for (i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	return NULL;
}

static void *send_all(void *arg)
{
	int fd = (intptr_t)arg, sent = 0, n, i;
	unsigned char buf[7000];

	while (sent < VOLUME) {
		n = VOLUME - sent < 7000 ? VOLUME - sent : 7000;
		for (i = 0; i < n; i++)
			buf[i] = (sent + i) * 13 >> 3;
		n = send(fd, buf, n, MSG_NOSIGNAL);
		if (n <= 0)
			break;
		sent += n;
	}
	shutdown(fd, SHUT_WR);
	return NULL;
}

static void *run_client(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), got = 0, wrong = 0, n, i;
	unsigned char buf[9000];
	pthread_t thread;

	(void)arg;
	if (connect(fd, (void *)&server, sizeof(server)))
		return (void *)1;
	pthread_create(&thread, NULL, send_all, (void *)(intptr_t)fd);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		for (i = 0; i < n; i++)
			wrong += buf[i] != (unsigned char)((got + i) * 13 >> 3);
		got += n;
	}
	pthread_join(thread, NULL);
	close(fd);
	return (void *)(intptr_t)(got != VOLUME || wrong);
}

static int open_listener(void)
{
	socklen_t len = sizeof(server);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	server.sin_family = AF_INET;
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	CHECK(bind(fd, (void *)&server, sizeof(server)) == 0);
	CHECK(getsockname(fd, (void *)&server, &len) == 0 && server.sin_port);
	CHECK(len == sizeof(server) && listen(fd, 16) == 0);
	return fd;
}

static void check_peek(int listening)
{
	struct sockaddr_in peer, own;
	socklen_t len = sizeof(peer), len2 = sizeof(own);
	int one = 1, value = 0, a, b = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval limit = {0, 30000};
	char buf[16] = "";

	CHECK(connect(b, (void *)&server, sizeof(server)) == 0);
	a = accept(listening, (void *)&peer, &len);
	CHECK(a >= 0 && getsockname(b, (void *)&own, &len2) == 0);
	CHECK(peer.sin_port == own.sin_port);
	CHECK(getpeername(b, (void *)&peer, &len) == 0);
	CHECK(peer.sin_port == server.sin_port);
	CHECK(!setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	len = sizeof(value);
	CHECK(!getsockopt(b, IPPROTO_TCP, TCP_NODELAY, &value, &len) && value);
	CHECK(!getsockopt(b, SOL_SOCKET, SO_TYPE, &value, &len));
	CHECK(value == SOCK_STREAM);
	CHECK(FAILS(recv(a, buf, 4, MSG_DONTWAIT), EAGAIN));
	CHECK(!setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	CHECK(FAILS(recv(a, buf, 4, 0), EAGAIN));
	CHECK(send(b, "abcdef", 6, 0) == 6);
	CHECK(recv(a, buf, 4, MSG_PEEK) == 4 && !strcmp(buf, "abcd"));
	CHECK(recv(a, buf, 6, MSG_WAITALL) == 6 && !strcmp(buf, "abcdef"));
	CHECK(shutdown(b, SHUT_WR) == 0 && recv(a, buf, 4, 0) == 0);
	CHECK(send(a, "xy", 2, 0) == 2 && recv(b, buf, 4, 0) == 2);
	CHECK(close(a) == 0 && recv(b, buf, 4, 0) == 0 && close(b) == 0);
}

/* One byte may overtake others, and is not among them. */
static void check_urgent(int listening)
{
	int a, b = socket(AF_INET, SOCK_STREAM, 0);
	char buf[16] = "";
	struct pollfd p;

	CHECK(connect(b, (void *)&server, sizeof(server)) == 0);
	a = accept(listening, NULL, NULL);
	CHECK(FAILS(recv(a, buf, 1, MSG_OOB), EINVAL));
	CHECK(send(b, "abc", 3, 0) == 3 && send(b, "xy!", 3, MSG_OOB) == 3);
	p = (struct pollfd){a, POLLPRI, 0};
	CHECK(poll(&p, 1, 5000) == 1 && p.revents == POLLPRI);
	CHECK(recv(a, buf, 16, MSG_OOB) == 1 && buf[0] == '!');
	CHECK(recv(a, buf, 5, MSG_WAITALL) == 5 && !memcmp(buf, "abcxy", 5));
	CHECK(FAILS(recv(a, buf, 1, MSG_DONTWAIT), EAGAIN));
	CHECK(FAILS(recv(a, buf, 1, MSG_OOB), EINVAL));
	close(a);
	close(b);
}

static void check_nonblocking(int listening)
{
	struct sockaddr_in nowhere = server;
	int value = -1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd p = {fd, POLLOUT, 0};
	socklen_t len = sizeof(value);
	int result = connect(fd, (void *)&server, sizeof(server));

	CHECK(result == 0 || errno == EINPROGRESS);
	CHECK(poll(&p, 1, 5000) == 1 && (p.revents & POLLOUT));
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len) && !value);
	close(accept(listening, NULL, NULL));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	len = sizeof(nowhere);
	nowhere.sin_port = 0;
	CHECK(bind(fd, (void *)&nowhere, sizeof(nowhere)) == 0);
	CHECK(getsockname(fd, (void *)&nowhere, &len) == 0);
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(FAILS(connect(fd, (void *)&nowhere, sizeof(nowhere)),
		    ECONNREFUSED));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(FAILS(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE) ||
	      errno == ENOTCONN);
	CHECK(FAILS(bind(fd, (void *)&server, sizeof(server)), EADDRINUSE));
	close(fd);
	CHECK(FAILS(accept(0x3ff, NULL, NULL), EBADF));
	CHECK(FAILS(socket(AF_INET, 77, 0), EINVAL));
	CHECK(FAILS(socket(99, SOCK_STREAM, 0), EAFNOSUPPORT));
}

int main(void)
{
	pthread_t accepter, clients[CLIENTS];
	int i, fd = open_listener();
	void *wrong;

	pthread_create(&accepter, NULL, run_listener, (void *)(intptr_t)fd);
	for (i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, run_client, NULL);
	for (i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i], &wrong);
		printf("client %d wrong %d\n", i, (int)(intptr_t)wrong);
	}
	pthread_join(accepter, NULL);
	check_peek(fd);
	check_urgent(fd);
	check_nonblocking(fd);
	CHECK(close(fd) == 0);
	return say_done();
}
