/* SPDX-License-Identifier: MIT */
/*
 * Names below the root, as chroot(2) has them: neither links, also absolute
 * ones, nor ".." lead out of it (openat2(2), RESOLVE_IN_ROOT). Without a root
 * a name is the host's. Owns the descriptor of the root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/include/lin.h"

#define ABOVE 16 /* the first descriptors are the program's streams */

const char *abi_lin_root;
static int root_fd; /* atomic; 0: not open yet */

const char *abi_lin_root_text(void)
{
	const char *r = abi_lin_root;

	return r && strcmp(r, "/") ? r : "";
}

/* Threads may open it at the same time; one stays. */
static int open_root(void)
{
	int low, fd, none = 0;

	low = open(abi_lin_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (low < 0)
		return -errno;
	fd = fcntl(low, F_DUPFD_CLOEXEC, ABOVE);
	close(low);
	if (fd < 0)
		return -EMFILE;
	if (__atomic_compare_exchange_n(&root_fd, &none, fd, 0,
					__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return fd;
	close(fd);
	return none;
}

s64 abi_lin_open(const char *guest, u32 flags, u32 mode)
{
	const u32 of_path = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct open_how how = {.resolve = RESOLVE_IN_ROOT};
	int root, fd;

	if (!*abi_lin_root_text()) {
		fd = open(guest, (int)flags, mode);
		return fd < 0 ? -errno : fd;
	}
	root = __atomic_load_n(&root_fd, __ATOMIC_SEQ_CST);
	if (!root)
		root = open_root();
	if (root < 0)
		return root;
	how.flags = flags & O_PATH ? flags & of_path : flags;
	how.mode = flags & O_CREAT ? mode & 07777 : 0;
	do { /* EAGAIN: a folder on the way was renamed */
		fd = (int)syscall(SYS_openat2, root, guest, &how, sizeof(how));
	} while (fd < 0 && errno == EAGAIN);
	return fd < 0 ? -errno : fd;
}

/* The host's name of an open file, without links; closes it. */
static s64 name_of(int fd, char *buf, u64 len)
{
	char link[32];
	s64 n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, buf, len);
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0 || (u64)n >= len)
		return n < 0 ? n : -ENAMETOOLONG;
	buf[n] = 0;
	return n;
}

/* What is not there yet: the folder's name and the last component. */
static s64 name_new(const char *guest, char *buf, u64 len)
{
	const char *leaf = strrchr(guest, '/');
	char folder[ABI_PATH_MAX];
	s64 n;
	int more;

	if (!leaf || leaf - guest >= ABI_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(folder, guest, (u64)(leaf - guest));
	folder[leaf - guest] = 0;
	n = abi_lin_open(*folder ? folder : "/",
			 O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (n >= 0)
		n = name_of((int)n, buf, len);
	if (n < 0)
		return n;
	n = strcmp(buf, "/") ? n : 0;
	more = snprintf(buf + n, len - (u64)n, "%s", leaf);
	return (u64)more >= len - (u64)n ? -ENAMETOOLONG : 0;
}

s64 abi_lin_path_host(const char *guest, char *buf, u64 len, u32 follow)
{
	u32 flags = O_PATH | O_CLOEXEC;
	s64 fd, n;

	if (!*abi_lin_root_text()) {
		n = snprintf(buf, len, "%s", guest);
		return (u64)n >= len ? -ENAMETOOLONG : 0;
	}
	fd = abi_lin_open(guest, follow ? flags : flags | O_NOFOLLOW, 0);
	if (fd >= 0) {
		n = name_of((int)fd, buf, len);
		return n < 0 ? n : 0;
	}
	if (fd != -ENOENT)
		return fd;
	/* A link to what does not exist would lead out of the root. */
	fd = follow ? abi_lin_open(guest, flags | O_NOFOLLOW, 0) : -ENOENT;
	if (fd < 0)
		return fd == -ENOENT ? name_new(guest, buf, len) : fd;
	close((int)fd);
	return -ENOENT;
}
