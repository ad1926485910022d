// SPDX-License-Identifier: MIT
/* Descriptors, files, names, directories and synthetic files. */
#include "abi/include/lin.h"
#include "abi/test/host_io.h"
#include "abi/uapi/linux.h"
#include <ftw.h>
#include <sys/stat.h>

#define CWD ((u64)(s64)ABI_AT_FDCWD)

static char dir[64];

static u64 in_dir(u32 slot, const char *name)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return io_str(slot, path);
}

static s64 open_new(const char *name, u32 flags)
{
	return CALL(openat, CWD, in_dir(0, name), flags | ABI_O_CREAT, 0644);
}

static void test_numbers(void)
{
	s64 a = open_new("n", ABI_O_RDWR), b;

	tap_ok(a == 0, "open returns the lowest free descriptor");
	b = CALL(dup, 0);
	tap_ok(b == 1 && CALL(dup2, 0, 9) == 9 && CALL(dup2, 9, 9) == 9,
	       "dup and dup2");
	tap_ok(CALL(dup3, 0, 0, 0) == -LINUX_EINVAL &&
		       CALL(dup3, 0, 8, 1) == -LINUX_EINVAL &&
		       CALL(dup3, 0, 8, ABI_O_CLOEXEC) == 8,
	       "dup3 checks its flags");
	tap_ok(CALL(fcntl, 8, 1) == 1 && CALL(fcntl, 0, 1) == 0,
	       "close-on-exec belongs to the descriptor");
	tap_ok(CALL(fcntl, 0, 2, 1) == 0 && CALL(fcntl, 0, 1) == 1 &&
		       CALL(fcntl, 1, 1) == 0,
	       "F_SETFD changes one descriptor");
	tap_ok(CALL(fcntl, 0, 0, 20) == 20 && CALL(fcntl, 0, 1030, 20) == 21 &&
		       CALL(fcntl, 21, 1) == 1,
	       "F_DUPFD starts at its argument");
	tap_ok(CALL(fcntl, 0, 4, ABI_O_APPEND | ABI_O_NONBLOCK) == 0 &&
		       CALL(fcntl, 9, 3) ==
			       (ABI_O_RDWR | ABI_O_APPEND | ABI_O_NONBLOCK),
	       "status flags are shared, and nothing else can be set");
	CALL(fcntl, 0, 4, 0);
	tap_ok(CALL(write, 0, page, 3) == 3 && CALL(lseek, 9, 0, 1) == 3,
	       "the position is shared");
	tap_ok(CALL(close, 1) == 0 && CALL(close, 1) == -LINUX_EBADF &&
		       CALL(write, 9, page, 1) == 1,
	       "closing one descriptor leaves the others");
	tap_ok(CALL(dup2, 0, 1024) == -LINUX_EBADF &&
		       CALL(fcntl, 0, 0, 1024) == -LINUX_EINVAL &&
		       CALL(close, ~0ull) == -LINUX_EBADF,
	       "a descriptor beyond the limit is refused");
	tap_ok(CALL(close_range, 8, 20, 4) == 0 && CALL(fcntl, 9, 1) == 1 &&
		       CALL(close_range, 0, ~0u, 0) == 0 &&
		       CALL(read, 0, page, 1) == -LINUX_EBADF,
	       "close_range");
}

/* An inherited file: what the host's position is, is the guest's. */
static void test_inherited(void)
{
	char name[100];
	struct abi_iovec *v = GUEST(0x2000);
	char got[8];
	int fd;

	snprintf(name, sizeof(name), "%s/inherited", dir);
	fd = open(name, O_RDWR | O_CREAT, 0644);
	abi_fd_attach(p, 7, dup(fd), ABI_S_IFREG, ABI_O_RDWR);
	memcpy(GUEST(0), "guest", 5);
	tap_ok(write(fd, "host", 4) == 4 && CALL(write, 7, page, 5) == 5 &&
		       write(fd, "host", 4) == 4 && lseek(fd, 0, 1) == 13 &&
		       CALL(lseek, 7, 0, 1) == 13,
	       "processes that share an inherited file share its position");
	v[0] = (struct abi_iovec){page, 3};
	v[1] = (struct abi_iovec){page + 3, 2};
	tap_ok(CALL(pwrite64, 7, page, 2, 4) == 2 &&
		       CALL(pread64, 7, page + 0x100, 4, 0) == 4 &&
		       CALL(writev, 7, page + 0x2000, 2) == 5 &&
		       lseek(fd, 0, 1) == 18,
	       "offsets leave the position of an inherited file alone");
	tap_ok(CALL(lseek, 7, -5ll, 1) == 13 && lseek(fd, 0, 1) == 13 &&
		       read(fd, got, 8) == 5 && !memcmp(got, "guest", 5) &&
		       CALL(lseek, 7, ~0ull, 0) == -LINUX_EINVAL,
	       "lseek moves the position of an inherited file for all its "
	       "users");
	tap_ok(CALL(lseek, 7, 4, 3) == 4 && CALL(lseek, 7, 4, 4) == 18 &&
		       CALL(lseek, 7, 18, 3) == -LINUX_ENXIO &&
		       CALL(lseek, 7, -1ll, 2) == 17 && lseek(fd, 0, 1) == 17,
	       "data, hole and end of an inherited file");
	*(int *)GUEST(0x200) = -1;
	tap_ok(CALL(ioctl, 7, 0x541b, page + 0x200) == 0 &&
		       *(int *)GUEST(0x200) == 1,
	       "FIONREAD counts from the host's position");
	lseek(fd, 4, 0);
	tap_ok(CALL(sendfile, open_new("copy", ABI_O_RDWR), 7, 0, 9) == 9 &&
		       lseek(fd, 0, 1) == 13 && CALL(close, 0) == 0,
	       "sendfile moves the position of an inherited file");
	tap_ok(CALL(fcntl, 7, 4, ABI_O_APPEND) == 0 &&
		       CALL(write, 7, page, 5) == 5 && lseek(fd, 0, 2) == 23 &&
		       CALL(close, 7) == 0,
	       "an inherited file can be appended to");
	close(fd);
}

static void test_limit(void)
{
	s64 fd, n = 0;

	CALL(openat, CWD, io_str(0, "/dev/null"), 2, 0);
	while ((fd = CALL(dup, 0)) >= 0)
		n++;
	tap_ok(fd == -LINUX_EMFILE && n == 1023,
	       "1024 descriptors, then EMFILE");
	CALL(close_range, 0, ~0u, 0);
	tap_ok(CALL(openat, CWD, io_str(0, "/dev/null"), 2, 0) == 0,
	       "all descriptors are free after close");
	CALL(close, 0);
}

static void test_data(void)
{
	s64 fd = open_new("d", ABI_O_RDWR);
	struct abi_iovec *v = GUEST(0x2000);

	memcpy(GUEST(0), "abcdefgh", 8);
	tap_ok(CALL(write, fd, page, 8) == 8 &&
		       CALL(pwrite64, fd, page, 2, 8) == 2 &&
		       CALL(lseek, fd, 0, 1) == 8,
	       "pwrite does not move the position");
	tap_ok(CALL(pread64, fd, page + 0x100, 4, 2) == 4 &&
		       !memcmp(GUEST(0x100), "cdef", 4),
	       "pread");
	CALL(lseek, fd, 0, 0);
	v[0] = (struct abi_iovec){page + 0x100, 3};
	v[1] = (struct abi_iovec){page + 0x200, 0};
	v[2] = (struct abi_iovec){page + 0x300, 100};
	tap_ok(CALL(readv, fd, page + 0x2000, 3) == 10 &&
		       !memcmp(GUEST(0x100), "abc", 3) &&
		       !memcmp(GUEST(0x300), "defghab", 7),
	       "readv fills its buffers in order");
	CALL(lseek, fd, 0, 0);
	v[1] = (struct abi_iovec){0x10, 5};
	tap_ok(CALL(readv, fd, page + 0x2000, 3) == 3 &&
		       CALL(lseek, fd, 0, 1) == 3,
	       "a bad entry in the middle ends a transfer");
	v[0] = v[1];
	tap_ok(CALL(readv, fd, page + 0x2000, 1) == -LINUX_EFAULT &&
		       CALL(writev, fd, 0x10, 1) == -LINUX_EFAULT,
	       "a bad entry at the start is EFAULT");
	v[0] = (struct abi_iovec){page, ~0ull};
	tap_ok(CALL(readv, fd, page + 0x2000, 1) == -LINUX_EINVAL &&
		       CALL(readv, fd, page + 0x2000, 1025) == -LINUX_EINVAL,
	       "lengths and counts are checked");
	tap_ok(CALL(write, fd, page, 1ull << 63) == -LINUX_EINVAL &&
		       CALL(write, fd, 0x10, 4) == -LINUX_EFAULT &&
		       CALL(read, fd, text, 4) == -LINUX_EFAULT,
	       "buffers are checked");
	tap_ok(CALL(pread64, fd, page, 1, ~0ull) == -LINUX_EINVAL,
	       "negative offsets are refused");
	CALL(close, fd);
	fd = CALL(openat, CWD, in_dir(0, "d"), ABI_O_WRONLY | ABI_O_APPEND);
	tap_ok(CALL(write, fd, page, 2) == 2 && CALL(lseek, fd, 0, 1) == 12,
	       "O_APPEND writes at the end");
	tap_ok(CALL(read, fd, page, 1) == -LINUX_EBADF,
	       "a file open for writing only cannot be read");
	CALL(close, fd);
}

/* Sets RLIMIT_FSIZE, and drops the signal of an earlier breach. */
static void limit_size(u64 most)
{
	p->limit[ABI_RLIMIT_FSIZE].cur = most;
	p->threads.thread[0].pending = 0;
}

static int is_signaled(void)
{
	return p->threads.thread[0].pending >> (ABI_SIGXFSZ - 1) & 1;
}

static void test_size_limit(void)
{
	s64 fd = open_new("limited", ABI_O_RDWR);
	u64 *mask = (u64 *)GUEST(0x3300);

	*mask = 1ull << (ABI_SIGXFSZ - 1);
	CALL(rt_sigprocmask, 0, page + 0x3300, 0, 8);
	limit_size(10);
	tap_ok(CALL(write, fd, page, 8) == 8 && CALL(write, fd, page, 8) == 2 &&
		       !is_signaled(),
	       "a write ends at RLIMIT_FSIZE");
	tap_ok(CALL(write, fd, page, 0) == 0 && !is_signaled() &&
		       CALL(write, fd, page, 1) == -LINUX_EFBIG &&
		       is_signaled(),
	       "a write beyond RLIMIT_FSIZE gives EFBIG and SIGXFSZ");
	limit_size(10);
	tap_ok(CALL(pwrite64, fd, page, 8, 9) == 1 && !is_signaled() &&
		       CALL(pwrite64, fd, page, 8, 10) == -LINUX_EFBIG &&
		       is_signaled(),
	       "so does pwrite");
	limit_size(10);
	tap_ok(CALL(ftruncate, fd, 10) == 0 && !is_signaled() &&
		       CALL(ftruncate, fd, 11) == -LINUX_EFBIG && is_signaled(),
	       "ftruncate keeps RLIMIT_FSIZE");
	limit_size(5);
	tap_ok(CALL(ftruncate, fd, 9) == 0 && !is_signaled(),
	       "a file may shrink to more than RLIMIT_FSIZE");
	tap_ok(CALL(truncate, in_dir(0, "limited"), 9) == 0 && !is_signaled() &&
		       CALL(truncate, in_dir(0, "limited"), 10) ==
			       -LINUX_EFBIG &&
		       is_signaled(),
	       "truncate keeps RLIMIT_FSIZE");
	limit_size(10);
	tap_ok(CALL(fallocate, fd, 0, 0, 10) == 0 && !is_signaled() &&
		       CALL(fallocate, fd, 0, 4, 7) == -LINUX_EFBIG &&
		       is_signaled(),
	       "fallocate keeps RLIMIT_FSIZE");
	CALL(close, fd);
	limit_size(12);
	fd = CALL(openat, CWD, in_dir(0, "limited"),
		  ABI_O_WRONLY | ABI_O_APPEND);
	tap_ok(CALL(write, fd, page, 5) == 2 && !is_signaled() &&
		       CALL(write, fd, page, 5) == -LINUX_EFBIG &&
		       is_signaled(),
	       "O_APPEND keeps RLIMIT_FSIZE");
	limit_size(ABI_RLIM_INFINITY);
	CALL(pwrite64, fd, page, 1,
	     1ull << 62); /* EFBIG of most file systems */
	tap_ok(CALL(write, fd, page, 5) == 5 && !is_signaled(),
	       "without a limit files grow, and nothing sends SIGXFSZ");
	CALL(close, fd);
	*mask = 0;
	CALL(rt_sigprocmask, 2, page + 0x3300, 0, 8);
}

static void test_leases(void)
{
	s64 fd = open_new("leased", ABI_O_RDWR);

	fake.logs = 0;
	tap_ok(CALL(fcntl, fd, 1024, 0) == -LINUX_EINVAL &&
		       CALL(fcntl, fd, 1025, 0) == -LINUX_EINVAL &&
		       fake.logs == 1 && strstr(fake.last_log, "F_SETLEASE"),
	       "leases are refused by name, once");
	CALL(close, fd);
}

static void test_positions(void)
{
	s64 fd = open_new("p", ABI_O_RDWR);

	tap_ok(CALL(ftruncate, fd, 100) == 0 && CALL(lseek, fd, -10, 2) == 90,
	       "SEEK_END");
	tap_ok(CALL(lseek, fd, -91, 1) == -LINUX_EINVAL &&
		       CALL(lseek, fd, 0, 9) == -LINUX_EINVAL &&
		       CALL(lseek, fd, ~0ull >> 1, 1) == -LINUX_EOVERFLOW,
	       "positions are checked");
	tap_ok(CALL(lseek, fd, 5, 3) == 5 && CALL(lseek, fd, 5, 4) == 100 &&
		       CALL(lseek, fd, 100, 3) == -LINUX_ENXIO,
	       "SEEK_DATA and SEEK_HOLE see data up to the end");
	tap_ok(CALL(fallocate, fd, 0, 100, 100) == 0 &&
		       CALL(lseek, fd, 0, 2) == 200 &&
		       CALL(fallocate, fd, 2, 0, 1) == -LINUX_ENOTSUP &&
		       CALL(fallocate, fd, 0, 0, 0) == -LINUX_EINVAL,
	       "fallocate only extends a file");
	tap_ok(CALL(fsync, fd) == 0 && CALL(flock, fd, 2) == 0 &&
		       CALL(flock, fd, 3) == -LINUX_EINVAL,
	       "fsync and flock");
	CALL(close, fd);
}

/* Between Linux's times and abi's, which are one number. */
static void file_times(void)
{
	static const s64 times[2] = {-1, ABI_TIME_OMIT};
	struct stat st = {.st_mtim = {5, 7},
			  .st_atim = {-2, 999999999},
			  .st_ctim = {0, 1}};
	struct timespec ts[2];
	struct abi_stat to;

	abi_lin_stat_from(&to, &st);
	tap_ok(to.mtime_ns == 5000000007 && to.atime_ns == -1000000001 &&
		       to.ctime_ns == 1,
	       "times of a file, to the nanosecond");
	abi_lin_times_from(ts, times);
	tap_ok(ts[0].tv_sec == -1 && ts[0].tv_nsec == 999999999 &&
		       ts[1].tv_nsec == UTIME_OMIT,
	       "times for a file, also before 1970");
}

static void test_names(void)
{
	struct abi_linux_stat *st = GUEST(0x3000);
	s64 d;

	tap_ok(CALL(mkdir, in_dir(0, "sub"), 0755) == 0 &&
		       CALL(mkdir, in_dir(0, "sub"), 0755) == -LINUX_EEXIST,
	       "mkdir");
	d = CALL(openat, CWD, in_dir(0, "sub"), ABI_O_DIRECTORY);
	tap_ok(d >= 0 && CALL(openat, d, io_str(0, "f"),
			      ABI_O_CREAT | ABI_O_RDWR, 0600) > d,
	       "openat below a directory");
	tap_ok(CALL(newfstatat, d, io_str(0, "f"), page + 0x3000, 0) == 0 &&
		       (st->mode & 0777) == 0600,
	       "newfstatat");
	tap_ok(CALL(newfstatat, d, io_str(0, "f/"), page + 0x3000, 0) ==
		       -LINUX_ENOTDIR,
	       "a slash after a file is ENOTDIR");
	tap_ok(CALL(newfstatat, d, io_str(0, ""), page + 0x3000,
		    ABI_AT_EMPTY_PATH) == 0 &&
		       (st->mode & ABI_S_IFMT) == ABI_S_IFDIR,
	       "an empty path names the directory itself");
	tap_ok(CALL(renameat, d, io_str(0, "f"), d, io_str(1, "g")) == 0 &&
		       CALL(symlinkat, io_str(0, "g"), d, io_str(1, "l")) ==
			       0 &&
		       CALL(readlinkat, d, io_str(1, "l"), page, 10) == 1 &&
		       *(char *)GUEST(0) == 'g',
	       "renameat, symlinkat, readlinkat");
	tap_ok(CALL(newfstatat, d, io_str(0, "l"), page + 0x3000, 0x100) == 0 &&
		       (st->mode & ABI_S_IFMT) == ABI_S_IFLNK,
	       "a link is seen without following it");
	tap_ok(CALL(fchdir, d) == 0 && CALL(getcwd, page, 4096) > 5 &&
		       !strcmp((char *)GUEST(0) + strlen(dir), "/sub") &&
		       CALL(access, io_str(0, "g"), 4) == 0 &&
		       CALL(getcwd, page, 3) == -LINUX_ERANGE,
	       "the working directory");
	tap_ok(CALL(unlinkat, d, io_str(0, "l"), 0) == 0 &&
		       CALL(unlinkat, d, io_str(0, "g"), 0) == 0 &&
		       CALL(chdir, io_str(0, "..")) == 0 &&
		       CALL(rmdir, in_dir(0, "sub")) == 0 &&
		       CALL(access, in_dir(0, "sub"), 0) == -LINUX_ENOENT,
	       "unlinkat and rmdir");
	tap_ok(CALL(open, 0x10, 0, 0) == -LINUX_EFAULT &&
		       CALL(open, io_str(0, ""), 0, 0) == -LINUX_ENOENT &&
		       CALL(openat, 99, io_str(0, "x"), 0, 0) == -LINUX_EBADF,
	       "bad pointers, empty names and bad directories are refused");
	tap_ok(CALL(open, in_dir(0, "x/"), ABI_O_CREAT, 0) == -LINUX_EISDIR,
	       "a file cannot be made with a slash");
	tap_ok(CALL(chown, in_dir(0, "d"), fake.info.uid, ~0u) == 0 &&
		       CALL(chown, in_dir(0, "d"), 54321, 54321) ==
			       -LINUX_EPERM,
	       "chown to another owner is refused");
	CALL(close_range, 0, ~0u, 0);
}

struct dent {
	u64 ino, off;
	u16 len;
	u8 type;
	char name[];
};

/* How often each of the 40 names is listed, with a small buffer. */
static void test_listing(void)
{
	u32 seen[40] = {0}, i, wrong = 0, dots = 0;
	char name[16];
	s64 fd, n, at;

	CALL(mkdir, in_dir(0, "many"), 0755);
	for (i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "many/f%u", i);
		CALL(close, open_new(name, ABI_O_RDWR));
	}
	fd = CALL(open, in_dir(0, "many"), ABI_O_DIRECTORY, 0);
	tap_ok(CALL(getdents64, fd, page, 8) == -LINUX_EINVAL,
	       "a buffer too small for one entry is EINVAL");
	while ((n = CALL(getdents64, fd, page, 100)) > 0) {
		for (at = 0; at < n; at += ((struct dent *)GUEST(at))->len) {
			struct dent *e = GUEST(at);

			if (e->name[0] == '.')
				dots++;
			else
				seen[atoi(e->name + 1) % 40]++;
		}
	}
	for (i = 0; i < 40; i++)
		wrong += seen[i] != 1;
	tap_ok(n == 0 && !wrong && dots == 2, "each entry is listed once");
	tap_ok(CALL(lseek, fd, 0, 0) == 0 &&
		       CALL(getdents64, fd, page, 4096) > 40 * 24,
	       "lseek starts the listing again");
	tap_ok(CALL(read, fd, page, 10) == -LINUX_EISDIR, "read gives EISDIR");
	CALL(close, fd);
}

static int file_holds(const char *path, const char *what)
{
	s64 fd = CALL(open, io_str(0, path), 0, 0), n;
	u32 len = 0;

	/* Small pieces: every read generates the text again. */
	while ((n = CALL(read, fd, page + 0x4000 + len, 61)) > 0)
		len += (u32)n;
	*(char *)GUEST(0x4000 + len) = 0;
	CALL(close, fd);
	return !n && strstr((char *)GUEST(0x4000), what) != NULL;
}

static void put_at(const char *path, s64 fd)
{
	s64 fresh = CALL(open, io_str(0, path), 2, 0);

	CALL(dup2, fresh, fd);
	CALL(close, fresh);
}

/* How many entries of a directory are called `name`. */
static u32 count_listed(const char *path, const char *name, u32 *all)
{
	s64 fd = CALL(open, io_str(0, path), 0x10000, 0), n, at;
	u32 found = 0;

	*all = 0;
	while (fd >= 0 && (n = CALL(getdents64, fd, page + 0x4000, 64)) > 0)
		for (at = 0; at < n; at += *(u16 *)GUEST(0x4000 + at + 16)) {
			found += !strcmp((char *)GUEST(0x4000 + at + 19), name);
			++*all;
		}
	CALL(close, fd);
	return found;
}

static void lists_of_self(void)
{
	struct abi_linux_stat *st = GUEST(0x3000);
	char name[64];
	u32 all;
	s64 fd;

	fd = CALL(open, io_str(0, "/dev/null"), 0, 0);
	snprintf(name, sizeof(name), "%d", (int)fd);
	tap_ok(count_listed("/proc/self/fd", name, &all) == 1 && all >= 4,
	       "/proc/self/fd lists the descriptors");
	snprintf(name, sizeof(name), "/proc/self/fd/%d", (int)fd);
	tap_ok(CALL(lstat, io_str(0, name), page + 0x3000) == 0 &&
		       (st->mode & 0170000) == 0120000 &&
		       CALL(stat, io_str(0, name), page + 0x3000) == 0 &&
		       (st->mode & 0170000) == 0020000,
	       "each entry of /proc/self/fd is a link to the open file");
	CALL(close, fd);
	tap_ok(CALL(stat, io_str(0, name), page + 0x3000) == -LINUX_ENOENT,
	       "a closed descriptor is not in /proc/self/fd");
	snprintf(name, sizeof(name), "%u", fake.info.pid);
	tap_ok(count_listed("/proc/self/task", name, &all) == 1 && all == 3,
	       "/proc/self/task lists the threads");
	CALL(umask, 027);
	tap_ok(file_holds("/proc/self/status", "Umask:\t0027\n"),
	       "/proc/self/status shows the umask");
	CALL(umask, 022);
}

static int is_absent(const char *name)
{
	return CALL(open, io_str(0, name), 0, 0) == -LINUX_ENOENT;
}

/* Is `name` in the folder? */
static int lists_name(const char *folder, const char *name)
{
	s64 fd = CALL(open, io_str(0, folder), ABI_O_DIRECTORY, 0), n, at;
	int found = 0;

	if (fd < 0)
		return 0;
	while ((n = CALL(getdents64, fd, page + 0x4000, 0x200)) > 0)
		for (at = 0; at < n; at += *(u16 *)GUEST(0x4010 + at))
			found += !strcmp((char *)GUEST(0x4013 + at), name);
	CALL(close, fd);
	return n == 0 && found == 1;
}

/* A host without a family has one process. */
static void test_proc_folder(void)
{
	char own[64];
	u64 *st = GUEST(0x3000);

	snprintf(own, sizeof(own), "%u", fake.info.pid);
	tap_ok(lists_name("/proc", own) && lists_name("/proc", "meminfo") &&
		       !lists_name("/proc", "1"),
	       "/proc lists this process and its files");
	snprintf(own, sizeof(own), "/proc/%u", fake.info.pid);
	tap_ok(lists_name(own, "stat") && lists_name("/proc/self", "fd") &&
		       CALL(stat, io_str(0, own), page + 0x3000) == 0 &&
		       (u32)(st[3] & 0xf000) == ABI_S_IFDIR,
	       "/proc/PID is a folder");
	tap_ok(is_absent("/proc/1") && is_absent("/proc/1/stat") &&
		       is_absent("/proc/99999999999999999999") &&
		       is_absent("/proc/1x") &&
		       CALL(open, io_str(0, "/proc"), 1, 0) == -LINUX_EISDIR,
	       "/proc has no other process here");
}

static void check_no_terminal(void)
{
	struct abi_linux_stat *st = GUEST(0x3000);

	tap_ok(CALL(open, io_str(0, "/dev/tty"), 2, 0) == -LINUX_ENXIO &&
		       CALL(stat, io_str(0, "/dev/tty"), page + 0x3000) == 0 &&
		       st->mode == 0020666 && st->rdev == 0x500 &&
		       st->dev == 0xab1,
	       "/dev/tty is there without a terminal");
}

static void test_synthetic(void)
{
	struct abi_linux_stat *st = GUEST(0x3000);
	char map[64];
	s64 fd;

	snprintf(map, sizeof(map), "%llx-%llx rw-p", page, page + 0x10000);
	tap_ok(file_holds("/proc/self/maps", map), "/proc/self/maps");
	snprintf(map, sizeof(map), "Pid:\t%u\n", fake.info.pid);
	tap_ok(file_holds("/proc/self/status", map), "/proc/self/status");
	tap_ok(file_holds("/proc/cpuinfo", "processor\t: 0"), "/proc/cpuinfo");
	tap_ok(file_holds("/proc/meminfo", "MemTotal:"), "/proc/meminfo");
	tap_ok(file_holds("/proc/sys/kernel/ostype", "Linux\n"), "ostype");
	tap_ok(file_holds("/sys/devices/system/cpu/online", "0"),
	       "cpus online");
	p->info.cpus = 12;
	tap_ok(file_holds(
		       "/sys/devices/system/cpu/cpu11/topology/core_cpus_list",
		       "11\n") &&
		       file_holds("/sys/devices/system/cpu/cpu0/topology/"
				  "core_siblings_list",
				  "0-11\n") &&
		       file_holds("/sys/devices/system/node/node0/cpulist",
				  "0-11\n"),
	       "each processor is a core of one node");
	tap_ok(is_absent("/sys/devices/system/cpu/cpu12/topology/core_id") &&
		       is_absent("/sys/devices/system/cpu/cpu01/topology/"
				 "core_id") &&
		       is_absent("/sys/devices/system/cpu/cpu4294967296/"
				 "topology/core_id"),
	       "there is no processor beyond the last");
	p->info.cpus = 1;
	tap_ok(CALL(open,
		    io_str(0, "/sys/kernel/mm/transparent_hugepage/"
			      "hpage_pmd_size"),
		    0, 0) == -LINUX_ENOENT,
	       "the host's /sys is not shown");
	snprintf(map, sizeof(map), "/proc/%u/maps", fake.info.pid);
	tap_ok(file_holds(map, "rw-p"), "/proc/<pid> is /proc/self");
	tap_ok(CALL(open, io_str(0, "/proc/1/maps"), 0, 0) == -LINUX_ENOENT,
	       "other processes are not shown");
	fd = CALL(open, io_str(0, "/dev/zero"), 2, 0);
	memset(GUEST(0), 7, 64);
	tap_ok(CALL(read, fd, page, 64) == 64 && !*(u64 *)GUEST(56) &&
		       CALL(write, fd, page, 64) == 64,
	       "/dev/zero");
	put_at("/dev/full", fd);
	tap_ok(CALL(write, fd, page, 1) == -LINUX_ENOSPC, "/dev/full");
	put_at("/dev/null", fd);
	tap_ok(CALL(read, fd, page, 9) == 0 && CALL(write, fd, page, 9) == 9 &&
		       CALL(fstat, fd, page + 0x3000) == 0 && st->rdev == 0x103,
	       "/dev/null");
	put_at("/dev/urandom", fd);
	tap_ok(CALL(read, fd, page, 64) == 64 && *(u64 *)GUEST(56),
	       "/dev/urandom");
	strcpy(p->exe, "/bin/true");
	tap_ok(CALL(readlink, io_str(0, "/proc/self/exe"), page, 100) == 9 &&
		       !memcmp(GUEST(0), "/bin/true", 9) &&
		       CALL(open, io_str(0, "/proc/self/exe"), 0, 0) >= 0,
	       "/proc/self/exe");
	CALL(close_range, 0, ~0u, 0);
}

static void test_sending(void)
{
	s64 in = open_new("s", ABI_O_RDWR), out = open_new("t", ABI_O_RDWR);
	u64 *offset = GUEST(0x3000);

	CALL(ftruncate, in, 10000);
	CALL(pwrite64, in, io_str(0, "tail"), 4, 9996);
	tap_ok(CALL(sendfile, out, in, 0, 20000) == 10000 &&
		       CALL(lseek, in, 0, 1) == 10000 &&
		       CALL(pread64, out, page, 10, 9996) == 4 &&
		       !memcmp(GUEST(0), "tail", 4),
	       "sendfile moves a whole file");
	*offset = 9990;
	tap_ok(CALL(sendfile, out, in, page + 0x3000, 5) == 5 &&
		       *offset == 9995 && CALL(lseek, in, 0, 1) == 10000,
	       "sendfile with an offset leaves the position");
	CALL(close_range, 0, ~0u, 0);
}

static void test_mapping(void)
{
	s64 fd = open_new("m", ABI_O_RDWR), held;

	held = abi_fd_pin(p, (u32)fd, ABI_PROT_READ | ABI_PROT_WRITE, 1);
	CALL(close, fd);
	tap_ok(held >= 0 &&
		       abi_fd_pinned_pwrite(p, (u32)held, "xyz", 3, 0) == 3 &&
		       abi_fd_pinned_pread(p, (u32)held, GUEST(0), 9, 0) == 3,
	       "a referenced file outlives its descriptor");
	abi_fd_release(p, (u32)held);
	fd = CALL(open, in_dir(0, "m"), 0, 0);
	tap_ok(abi_fd_pin(p, (u32)fd, ABI_PROT_WRITE, 1) == -LINUX_EACCES &&
		       abi_fd_pin(p, 99, 1, 0) == -LINUX_EBADF,
	       "a reference requires the right access");
	CALL(close, fd);
	tap_ok(!p->fds.desc[held].refs &&
		       p->fds.desc[held].kind == ABI_DESC_FREE,
	       "no open file is left");
}

/* A host that cannot wait in open(2): abi/linux on a lent core. */
static void test_fifos(void)
{
	u64 fifo = in_dir(0, "fifo");
	s64 fd;

	fake.host.file_open = abi_lin_file_open;
	fake.host.path = abi_lin_path;
	fake.logs = 0;
	tap_ok(CALL(mknod, fifo, ABI_S_IFIFO | 0600) == 0 &&
		       CALL(open, fifo, ABI_O_RDONLY) == -LINUX_EOPNOTSUPP &&
		       CALL(open, fifo, ABI_O_WRONLY) == -LINUX_EOPNOTSUPP &&
		       fake.logs == 1 && strstr(fake.last_log, "FIFO"),
	       "a FIFO that a host cannot wait for is refused by name");
	fd = CALL(open, fifo, ABI_O_RDONLY | ABI_O_NONBLOCK);
	tap_ok(fd >= 0 && CALL(read, fd, page, 1) == 0 &&
		       CALL(open, fifo, ABI_O_WRONLY) > fd,
	       "without waiting it opens");
	tap_ok(CALL(open, in_dir(0, "none"), ABI_O_WRONLY) == -LINUX_ENOENT &&
		       CALL(mknod, in_dir(0, "dev"), ABI_S_IFCHR | 0600, 259) ==
			       -LINUX_EPERM &&
		       fake.logs == 2 && strstr(fake.last_log, "mknod"),
	       "devices are refused by name");
	abi_fd_close_all(p);
}

static void test_async(void)
{
	s64 fd = open_new("async", ABI_O_RDWR);

	fake.logs = 0;
	*(s32 *)GUEST(0) = 1;
	tap_ok(CALL(fcntl, fd, ABI_F_SETFL, ABI_O_ASYNC) == -LINUX_EINVAL &&
		       CALL(ioctl, fd, ABI_FIOASYNC, page) == -LINUX_ENOTTY &&
		       fake.logs == 1 && strstr(fake.last_log, "SIGIO"),
	       "what would send SIGIO is refused by name");
	*(s32 *)GUEST(0) = 0;
	tap_ok(CALL(ioctl, fd, ABI_FIOASYNC, page) == 0 &&
		       CALL(ioctl, fd, 0x8905, page) == -LINUX_ENOTTY,
	       "not to send it is no change, and a file has no mark");
	abi_fd_close_all(p);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void remove_all(void)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	strcpy(dir, "/tmp/abi-fd-XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	guest_new();
	io_install();
	test_numbers();
	test_limit();
	test_data();
	test_inherited();
	test_size_limit();
	test_leases();
	test_positions();
	file_times();
	test_names();
	test_listing();
	test_synthetic();
	check_no_terminal();
	test_proc_folder();
	lists_of_self();
	test_sending();
	test_mapping();
	test_fifos();
	test_async();
	guest_free();
	remove_all();
	return tap_done();
}
