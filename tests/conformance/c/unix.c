/* SPDX-License-Identifier: MIT */
/* Sockets of AF_UNIX whose daemon does not run, as run-times ask for one. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "say.h"

static int connect_name(int fd, const char *name)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	strcpy(un.sun_path, name);
	return connect(fd, (struct sockaddr *)&un, sizeof(un));
}

static void check_stream(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un un;
	socklen_t len = sizeof(un);
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	struct stat st;
	int value, file = open("file", O_CREAT | O_WRONLY, 0600);
	socklen_t size = sizeof(value);
	char byte = 0;

	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
	CHECK(!fstat(fd, &st) && S_ISSOCK(st.st_mode));
	CHECK(FAILS(connect_name(fd, "/nowhere/socket"), ENOENT));
	CHECK(FAILS(connect_name(fd, "none"), ENOENT));
	CHECK(FAILS(connect_name(fd, "file/socket"), ENOTDIR));
	CHECK(FAILS(connect_name(fd, "file"), ECONNREFUSED));
	CHECK(close(file) == 0 && unlink("file") == 0);
	CHECK(poll(&p, 1, 0) == 1 && p.revents == (POLLOUT | POLLHUP));
	CHECK(FAILS(send(fd, "x", 1, MSG_NOSIGNAL), ENOTCONN));
	CHECK(FAILS(write(fd, "x", 1), ENOTCONN));
	CHECK(FAILS(read(fd, &byte, 1), EINVAL));
	CHECK(FAILS(getpeername(fd, (struct sockaddr *)&un, &len), ENOTCONN));
	CHECK(!getsockname(fd, (struct sockaddr *)&un, &len) && len == 2);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size) &&
	      value == SOCK_STREAM);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &size) &&
	      value == AF_UNIX);
	CHECK(FAILS(accept(fd, NULL, NULL), EINVAL));
	CHECK(close(fd) == 0);
}

static void check_datagrams(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct sockaddr_un un = {.sun_family = AF_UNIX,
				 .sun_path = "/none/log"};

	CHECK(FAILS(connect_name(fd, "/none/log"), ENOENT));
	CHECK(FAILS(send(fd, "x", 1, 0), ENOTCONN));
	CHECK(FAILS(sendto(fd, "x", 1, 0, (struct sockaddr *)&un, sizeof(un)),
		    ENOENT));
	CHECK(close(fd) == 0);
	CHECK(FAILS(socket(AF_UNIX, SOCK_STREAM, 7), EPROTONOSUPPORT));
}

int main(void)
{
	check_stream();
	check_datagrams();
	return say_done();
}
