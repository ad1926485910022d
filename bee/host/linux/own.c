/* SPDX-License-Identifier: MIT */
/* The program's own file, its streams, its path and its working directory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

/* If a file has become shorter, the rest reads as zeros. */
static s64 read_descriptor(int fd, const u8 **bytes, u64 *len)
{
	struct stat st;
	s64 err;
	u8 *p;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	*len = (u64)st.st_size;
	*bytes = (const u8 *)"";
	if (!*len)
		return 0;
	p = bee_os_alloc(*len);
	if (!p)
		return -ENOMEM;
	err = lin_read_all(fd, p, *len);
	if (err && err != -EIO) {
		bee_os_free(p, *len);
		return err;
	}
	*bytes = p;
	return 0;
}

s64 bee_os_file_read(const char *path, const u8 **bytes, u64 *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	s64 err;

	if (fd < 0)
		return -errno;
	err = read_descriptor(fd, bytes, len);
	close(fd);
	return err;
}

void bee_os_file_free(const u8 *bytes, u64 len)
{
	if (len)
		bee_os_free((void *)(__UINTPTR_TYPE__)bytes, len);
}

/* No other process uses it, so it can stay non-blocking. */
s64 bee_os_stream(u64 number, u32 *type, u32 *flags)
{
	int fl = fcntl(BEE_STREAM_FD, F_GETFL);
	struct stat st;

	(void)number;
	if (fl < 0 || (fl & O_ACCMODE) != O_RDWR || fstat(BEE_STREAM_FD, &st) ||
	    S_ISREG(st.st_mode) ||
	    fcntl(BEE_STREAM_FD, F_SETFL, fl | O_NONBLOCK))
		return -EBADF;
	*type = st.st_mode & S_IFMT;
	*flags = O_RDWR;
	return BEE_STREAM_FD;
}

s64 bee_os_std(u32 fd, u32 *type, u32 *flags)
{
	struct stat st;
	int fl = fcntl((int)fd, F_GETFL);
	u32 other;

	if (fl < 0 || fstat((int)fd, &st))
		return -EBADF;
	*type = st.st_mode & S_IFMT;
	*flags = (u32)fl;
	if (!S_ISREG(st.st_mode))
		return fd;
	for (other = 0; other < fd && !bee.std_same[fd]; other++)
		if (abi_lin_file_same((s32)other, (s32)fd))
			bee.std_same[fd] = other + 1;
	return fd;
}

s64 bee_os_guest_path(const char *host, char *buf, u64 len)
{
	char full[PATH_MAX], base[PATH_MAX] = "";
	const char *path = full;
	u64 n;

	if (!realpath(host, full))
		return -errno;
	if (*abi_lin_root_text() && !realpath(abi_lin_root_text(), base))
		return -errno;
	n = strlen(base);
	/* If the program is outside of the root, the guest sees it directly
	 * under "/". */
	if (strncmp(full, base, n) == 0 && full[n] == '/')
		path = full + n;
	else
		path = strrchr(full, '/');
	if (strlen(path) >= len)
		return -ENAMETOOLONG;
	strcpy(buf, path);
	return 0;
}

s64 bee_os_guest_cwd(char *buf, u64 len)
{
	char here[PATH_MAX];
	u64 n = 0;

	if (!getcwd(here, sizeof(here)))
		return -errno;
	if (*abi_lin_root_text()) {
		char base[PATH_MAX];

		if (!realpath(abi_lin_root_text(), base))
			return -errno;
		n = strlen(base);
		if (strncmp(here, base, n) || (here[n] && here[n] != '/'))
			n = strlen(here);
	}
	if (strlen(here + n) >= len)
		return -ENAMETOOLONG;
	strcpy(buf, here[n] ? here + n : "/");
	return 0;
}
