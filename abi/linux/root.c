/* SPDX-License-Identifier: MIT */
/*
 * Names below the root, as with chroot(2): neither links, even absolute ones,
 * nor ".." lead out of it (openat2(2), RESOLVE_IN_ROOT). Without a root a name
 * is the host's, but a link into proc(5) or sysfs is an ELOOP, after which abi
 * follows it: what is there is about this process, not about the guest. Owns
 * the descriptor of the root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
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

/* Threads may open it at the same time; one descriptor is kept. */
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

s64 abi_lin_call_open(struct abi_lin_call *to, const char *guest, u32 flags,
		      u32 mode)
{
	const u32 of_path = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct open_how how = {.resolve = RESOLVE_IN_ROOT};
	int root = AT_FDCWD;

	_Static_assert(sizeof(to->how) == sizeof(how), "open_how");
	if (*abi_lin_root_text()) {
		root = __atomic_load_n(&root_fd, __ATOMIC_SEQ_CST);
		if (!root)
			root = open_root();
		if (root < 0)
			return root;
	} else {
		how.resolve = RESOLVE_NO_MAGICLINKS;
	}
	how.flags = flags & O_PATH ? flags & of_path : flags;
	how.mode = flags & O_CREAT ? mode & 07777 : 0;
	memcpy(to->how, &how, sizeof(how));
	to->nr = SYS_openat2;
	to->arg[0] = (u64)root;
	to->arg[1] = (u64)(__UINTPTR_TYPE__)guest;
	to->arg[2] = (u64)(__UINTPTR_TYPE__)to->how;
	to->arg[3] = sizeof(how);
	return 0;
}

static s64 run_open(const char *guest, u32 flags, u32 mode)
{
	struct abi_lin_call call;
	s64 fd = abi_lin_call_open(&call, guest, flags, mode);

	if (fd < 0)
		return fd;
	do {
		fd = syscall((s64)call.nr, call.arg[0], call.arg[1],
			     call.arg[2], call.arg[3]);
	} while (fd < 0 && errno == EAGAIN);
	return fd < 0 ? -errno : fd;
}

/* The text of the link `path`: its length; 0: it is none; or an errno. */
static s64 read_text(const char *path, char *text, u64 len)
{
	s64 n, fd;

	/* One call: searches for programs and modules miss often. */
	if (!*abi_lin_root_text()) {
		n = readlink(path, text, len);
		return n < 0 && errno != EINVAL ? -errno : n < 0 ? 0 : n;
	}
	fd = run_open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	n = readlinkat((int)fd, "", text, len);
	close((int)fd);
	return n < 0 ? 0 : n;
}

static int is_name_of_abi(const char *path)
{
	static const char *const own[] = {"/proc", "/sys", "/dev/fd"};
	static const char *const devices[] = {"std",  "null",	"zero",
					      "full", "random", "urandom"};
	u64 i, n;

	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		n = strlen(own[i]);
		if (!strncmp(path, own[i], n) && (!path[n] || path[n] == '/'))
			return 1;
	}
	for (i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		if (!strncmp(path, "/dev/", 5) &&
		    !strncmp(path + 5, devices[i], strlen(devices[i])))
			return 1;
	return 0;
}

#define LINKS_MAX 40

/* A name that is walked: `done` has no links any more. */
struct walk {
	char done[ABI_PATH_MAX], rest[ABI_PATH_MAX];
	u32 links;
};

/* Moves one component from `rest` to `done`: its length; 0: nothing is left. */
static u64 walk_next(struct walk *w)
{
	u64 start = strspn(w->rest, "/"), len = strlen(w->done);
	u64 n = strcspn(w->rest + start, "/");
	char *name = w->rest + start;

	if (n == 2 && !strncmp(name, "..", 2))
		*(len ? strrchr(w->done, '/') : w->done) = 0;
	else if (n && (n != 1 || *name != '.') && len + n + 2 < ABI_PATH_MAX)
		snprintf(w->done + len, n + 2, "/%s", name);
	memmove(w->rest, name + n, strlen(name + n) + 1);
	return n;
}

/* Puts the link at the end of `done` and what it says before `rest`. */
static s64 walk_follow(struct walk *w)
{
	char text[ABI_PATH_MAX];
	s64 n = read_text(w->done, text, sizeof(text) - 1);
	u64 more = strlen(w->rest);

	if (n <= 0)
		return n;
	if (++w->links > LINKS_MAX || (u64)n + more + 2 > sizeof(w->rest))
		return -ELOOP;
	memmove(w->rest + n, w->rest, more + 1);
	memcpy(w->rest, text, (u64)n);
	*(*text == '/' ? w->done : strrchr(w->done, '/')) = 0;
	return n;
}

s64 abi_lin_missing(const char *guest)
{
	struct walk w = {.links = 0};

	if (strlen(guest) >= sizeof(w.rest) || *guest != '/')
		return -ENOENT;
	strcpy(w.rest, guest);
	while (walk_next(&w)) {
		if (w.links && is_name_of_abi(w.done))
			return -ELOOP;
		if (*w.done && walk_follow(&w) < 0)
			return -ENOENT;
	}
	return -ENOENT;
}

s64 abi_lin_open(const char *guest, u32 flags, u32 mode)
{
	s64 fd = run_open(guest, flags, mode);

	return fd == -ENOENT ? abi_lin_missing(guest) : fd;
}

s64 abi_lin_is_own(int fd, const struct stat *st)
{
	struct statfs fs;

	/* These file systems have no device; few others have none. */
	if (major(st->st_dev))
		return 0;
	if (fstatfs(fd, &fs))
		return -errno;
	return fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC;
}

static void descriptor_name(int fd, char *buf)
{
	snprintf(buf, ABI_LIN_LINK, "/proc/self/fd/%d", fd);
}

static s64 place_open(const char *guest, u32 flags)
{
	s64 fd = abi_lin_open(guest, flags, 0), own;
	struct stat st;

	if (fd < 0)
		return fd;
	own = fstat((int)fd, &st) ? -errno : abi_lin_is_own((int)fd, &st);
	if (!own)
		return fd;
	close((int)fd);
	return own < 0 ? own : -ELOOP;
}

s64 abi_lin_place(const char *guest, u32 follow, struct abi_lin_place *to)
{
	const char *leaf = strrchr(guest, '/');
	char folder[ABI_PATH_MAX];
	s64 fd;

	*to = (struct abi_lin_place){.fd = -1, .dir = AT_FDCWD, .name = guest};
	if (!leaf || leaf - guest >= ABI_PATH_MAX)
		return -ENAMETOOLONG;
	if (follow) {
		fd = place_open(guest, O_PATH | O_CLOEXEC);
		if (fd < 0)
			return fd;
		to->fd = (int)fd;
		to->name = to->link;
		descriptor_name(to->fd, to->link);
		return 0;
	}
	memcpy(folder, guest, (u64)(leaf - guest));
	folder[leaf - guest] = 0;
	fd = place_open(*folder ? folder : "/",
			O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fd;
	to->fd = to->dir = (int)fd;
	to->name = leaf[1] ? leaf + 1 : ".";
	return 0;
}

void abi_lin_place_close(struct abi_lin_place *place)
{
	if (place->fd >= 0)
		close(place->fd);
}

static s64 link_text(s32 handle, char *buf, u64 len)
{
	char link[ABI_LIN_LINK];
	s64 n;

	descriptor_name(handle, link);
	n = readlink(link, buf, len);
	if (n < 0 || (u64)n >= len)
		return n < 0 ? -errno : -ENAMETOOLONG;
	buf[n] = 0;
	return n;
}

s64 abi_lin_path_host(const char *guest, char *buf, u64 len, u32 follow)
{
	struct abi_lin_place at;
	s64 n = strlen(guest);
	int more;

	if (!*abi_lin_root_text()) {
		if ((u64)n >= len)
			return -ENAMETOOLONG;
		memcpy(buf, guest, (u64)n + 1);
		return 0;
	}
	n = abi_lin_place(guest, follow, &at);
	if (n)
		return n;
	n = link_text(at.fd, buf, len);
	abi_lin_place_close(&at);
	if (n < 0)
		return n;
	if (at.name == at.link)
		return 0;
	more = snprintf(buf + n, len - (u64)n, "%s%s", n > 1 ? "/" : "",
			at.name);
	return (u64)more >= len - (u64)n ? -ENAMETOOLONG : 0;
}

s64 abi_lin_handle_name(s32 handle, char *buf, u64 len)
{
	int root = __atomic_load_n(&root_fd, __ATOMIC_SEQ_CST);
	char above[ABI_PATH_MAX] = "";
	s64 n, cut = 0;

	if (*abi_lin_root_text()) {
		if (!root)
			root = open_root();
		cut = root < 0 ? root : link_text(root, above, sizeof(above));
	}
	n = cut < 0 ? cut : link_text(handle, buf, len);
	if (n < 0)
		return n;
	if (*buf != '/' || strncmp(buf, above, (u64)cut) ||
	    (buf[cut] && buf[cut] != '/'))
		return -EXDEV;
	memmove(buf, buf + cut, (u64)(n - cut + 1));
	if (!*buf)
		strcpy(buf, "/");
	return 0;
}
