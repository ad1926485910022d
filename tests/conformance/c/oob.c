/* SPDX-License-Identifier: MIT */
/* Where data out of band lay in a stream: SIOCATMARK, sockatmark(3). */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "say.h"

static int connect_pair(int *out)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (void *)&at, len) == 0 &&
	      listen(listener, 1) == 0);
	CHECK(getsockname(listener, (void *)&at, &len) == 0);
	*out = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(*out, (void *)&at, len) == 0);
	return accept(listener, NULL, NULL);
}

int main(void)
{
	char buf[8] = "";
	int out, in = connect_pair(&out), null = 7;
	struct pollfd urgent = {.fd = in, .events = POLLPRI};

	CHECK(in >= 0 && sockatmark(in) == 0);
	CHECK(send(out, "ab", 2, 0) == 2 && send(out, "!", 1, MSG_OOB) == 1);
	CHECK(send(out, "d", 1, 0) == 1 && poll(&urgent, 1, -1) == 1);
	CHECK(sockatmark(in) == 0);
	CHECK(recv(in, buf, 8, 0) == 2 && !memcmp(buf, "ab", 2));
	CHECK(sockatmark(in) == 1);
	CHECK(recv(in, buf, 8, 0) == 1 && *buf == 'd' && sockatmark(in) == 0);
	CHECK(FAILS(ioctl(STDIN_FILENO, SIOCATMARK, &null), ENOTTY));
	CHECK(FAILS(ioctl(in, SIOCATMARK, NULL), EFAULT));
	return say_done();
}
