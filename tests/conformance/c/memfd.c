/* SPDX-License-Identifier: MIT */
/* Files without a name: memfd_create(2). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

static int create_file(const char *name, unsigned flags)
{
	return (int)syscall(SYS_memfd_create, name, flags);
}

static void check_names(void)
{
	char name[251], link[300] = "", path[32];
	int fd;

	memset(name, 'n', 250);
	name[250] = 0;
	CHECK(FAILS(create_file(name, 0), EINVAL));
	name[249] = 0;
	fd = create_file(name, 0);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK(FAILS(create_file(NULL, 0), EFAULT));
	CHECK(FAILS(create_file("x", 0x4000), EINVAL));
	fd = create_file("one", 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK(readlink(path, link, sizeof(link)) == 20);
	CHECK(!strcmp(link, "/memfd:one (deleted)"));
	close(fd);
}

int main(void)
{
	int fd = create_file("file", MFD_CLOEXEC), other;
	struct stat st;
	char buf[8] = "";
	char *p;

	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
	CHECK(fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !st.st_size);
	CHECK(st.st_nlink == 0);
	CHECK(write(fd, "hello", 5) == 5 && lseek(fd, 0, SEEK_CUR) == 5);
	CHECK(ftruncate(fd, 8192) == 0 && fstat(fd, &st) == 0);
	CHECK(st.st_size == 8192);
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED && !memcmp(p, "hello", 6));
	memcpy(p + 4096, "mapped", 7);
	CHECK(pread(fd, buf, 7, 4096) == 7 && !strcmp(buf, "mapped"));
	other = create_file("file", 0);
	CHECK(other >= 0 && fcntl(other, F_GETFD) == 0);
	CHECK(pread(other, buf, 1, 0) == 0);
	CHECK(close(fd) == 0 && !strcmp(p + 4096, "mapped"));
	CHECK(munmap(p, 8192) == 0 && close(other) == 0);
	check_names();
	return say_done();
}
