/* SPDX-License-Identifier: MIT */
/* Ancillary data that finds no room is dropped, and MSG_CTRUNC says so. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "say.h"

static int out, in;
static struct sockaddr_in name = {.sin_family = AF_INET};

static int receive_flags(void)
{
	char byte = 0;
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	CHECK(sendto(out, "x", 1, 0, (struct sockaddr *)&name, sizeof(name)) ==
	      1);
	CHECK(recvmsg(in, &m, 0) == 1 && byte == 'x');
	return m.msg_flags;
}

int main(void)
{
	socklen_t len = sizeof(name);
	int on = 1;

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in = socket(AF_INET, SOCK_DGRAM, 0);
	out = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(bind(in, (struct sockaddr *)&name, sizeof(name)) == 0);
	CHECK(getsockname(in, (struct sockaddr *)&name, &len) == 0);
	CHECK(receive_flags() == 0);
	if (setsockopt(in, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) == 0)
		CHECK(receive_flags() == MSG_CTRUNC);
	else
		CHECK(errno == ENOPROTOOPT);
	CHECK(close(in) == 0 && close(out) == 0);
	return say_done();
}
