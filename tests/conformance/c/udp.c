/* SPDX-License-Identifier: MIT */
/* UDP over loopback, with and without connect, and by messages. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>
#include "say.h"

static int open_bound(struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	memset(addr, 0, sizeof(*addr));
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(fd, (void *)addr, sizeof(*addr)) == 0);
	CHECK(getsockname(fd, (void *)addr, &len) == 0 && addr->sin_port);
	return fd;
}

int main(void)
{
	struct sockaddr_in one, two, from;
	socklen_t len = sizeof(from);
	int a = open_bound(&one), b = open_bound(&two);
	struct timeval limit = {0, 30000};
	char buf[32] = "", part[4] = "";
	struct iovec out[2] = {{"gather", 6}, {"ed", 2}};
	struct iovec in[2] = {{part, 3}, {buf, 20}};
	struct msghdr message = {.msg_name = &two,
				 .msg_namelen = sizeof(two),
				 .msg_iov = out,
				 .msg_iovlen = 2};

	CHECK(sendto(a, "hello", 5, 0, (void *)&two, sizeof(two)) == 5);
	CHECK(sendto(a, "", 0, 0, (void *)&two, sizeof(two)) == 0);
	CHECK(recvfrom(b, buf, 32, 0, (void *)&from, &len) == 5);
	CHECK(from.sin_port == one.sin_port && !strcmp(buf, "hello"));
	CHECK(recvfrom(b, buf, 32, 0, NULL, NULL) == 0);
	CHECK(FAILS(recv(b, buf, 32, MSG_DONTWAIT), EAGAIN));
	CHECK(sendmsg(a, &message, 0) == 8);
	message.msg_iov = in;
	message.msg_name = &from;
	CHECK(recvmsg(b, &message, 0) == 8);
	CHECK(!strcmp(part, "gat") && !strncmp(buf, "hered", 5));
	CHECK(from.sin_port == one.sin_port && !message.msg_flags);
	CHECK(connect(b, (void *)&one, sizeof(one)) == 0);
	CHECK(send(b, "truncated", 9, 0) == 9);
	memset(buf, 0, sizeof(buf));
	CHECK(recv(a, buf, 5, 0) == 5 && !strcmp(buf, "trunc"));
	CHECK(!setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	CHECK(FAILS(recv(a, buf, 5, 0), EAGAIN));
	CHECK(close(a) == 0 && close(b) == 0);
	return say_done();
}
