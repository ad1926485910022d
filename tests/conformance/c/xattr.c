/* SPDX-License-Identifier: MIT */
/* Extended attributes, which a file system may lack: never ENOSYS. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "say.h"

int main(void)
{
	int fd = open("file", O_CREAT | O_RDWR, 0600);
	char buf[64] = "";

	CHECK(fd >= 0);
	CHECK(FAILS(listxattr("missing", buf, sizeof(buf)), ENOENT));
	CHECK(FAILS(getxattr("no/a", "user.a", buf, sizeof(buf)), ENOENT));
	CHECK(FAILS(flistxattr(-1, buf, sizeof(buf)), EBADF));
	CHECK(llistxattr("file", buf, sizeof(buf)) >= 0 || errno == EOPNOTSUPP);
	CHECK(flistxattr(fd, buf, sizeof(buf)) >= 0 || errno == EOPNOTSUPP);
	CHECK(setxattr("file", "user.a", "b", 1, 0) == 0
		      ? fgetxattr(fd, "user.a", buf, 64) == 1 && *buf == 'b'
		      : errno == EOPNOTSUPP);
	CHECK(removexattr("file", "user.a") == 0 || errno == EOPNOTSUPP);
	CHECK(unlink("file") == 0 && close(fd) == 0);
	return say_done();
}
