// SPDX-License-Identifier: MIT
/* Bytes that move between descriptors, and what is refused by name. */
#include "abi/include/lin.h"
#include "abi/test/host_io.h"
#include "abi/uapi/linux.h"
#include <sys/prctl.h>

#define CWD ((u64)(s64)ABI_AT_FDCWD)
#define NOTHING 0ull

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

static s32 *open_pipe(u32 flags)
{
	s32 *fd = GUEST(0x3000);

	return CALL(pipe2, page + 0x3000, flags) ? NULL : fd;
}

static s64 host_pipe(s32 handle[2], u32 type)
{
	return type || pipe2(handle, O_NONBLOCK | O_CLOEXEC) ? -EINVAL : 0;
}

/* Whether this call, and no second one of its kind, is told to the user. */
static void check_named(const char *word, s64 error, s64 first, int again)
{
	u32 logs = (u32)fake.logs;
	int named = fake.last_log[0] && strstr(fake.last_log, word);

	tap_ok(first == error && logs == 1 && named && again, "said once: %s",
	       word);
	fake.logs = 0;
	fake.last_log[0] = 0;
}

#define NAMED(word, error, ...)                                                \
	do {                                                                   \
		s64 first_ = CALL(__VA_ARGS__);                                \
		check_named(word, -LINUX_##error, first_,                      \
			    CALL(__VA_ARGS__) == -LINUX_##error);              \
	} while (0)

static void test_refused_files(void)
{
	s32 *fd = open_pipe(0), r = fd[0], w = fd[1];
	s64 file = open_new("file", ABI_O_RDWR);

	fake.logs = 0;
	fake.last_log[0] = 0;
	NAMED("splice", EINVAL, splice, r, 0, (u64)file, 0, 9, 0);
	tap_ok(CALL(tee, r, w, 9, 0) == -LINUX_EINVAL && !fake.logs &&
		       CALL(splice, (u64)file, 0, (u64)file, 0, 9, 0) ==
			       -LINUX_EINVAL &&
		       CALL(splice, r, 0, (u64)file, 0, 9, 16) == -LINUX_EINVAL,
	       "tee is of the same kind, and the program's mistakes are not");
	NAMED("vmsplice", EINVAL, vmsplice, w, page + 0x2000, 0, 2);
	NAMED("owners", EINVAL, fcntl, (u64)file, 10, 1);
	NAMED("huge pages", EINVAL, memfd_create, io_str(0, "m"), 4);
	NAMED("packets", EINVAL, pipe2, page + 0x3100, ABI_O_DIRECT);
	NAMED("preadv2", ENOTSUP, preadv2, (u64)file, page + 0x2000, 0, 0, 0,
	      8);
	NAMED("fallocate", ENOTSUP, fallocate, (u64)file, 3, 0, 10);
	NAMED("extents", ENOTTY, ioctl, (u64)file, 0x80086601, page);
	NAMED("AT_EMPTY_PATH", ENOENT, linkat, (u64)file, io_str(1, ""), CWD,
	      in_dir(2, "linked"), 0x1000);
	tap_ok(CALL(faccessat2, (u64)file, io_str(1, ""), 0, 0x1000) ==
			       -LINUX_EINVAL &&
		       CALL(ioctl, (u64)file, 0x40049409, (u64)file) ==
			       -LINUX_EOPNOTSUPP &&
		       CALL(ioctl, (u64)file, 0x5401, page) == -LINUX_ENOTTY &&
		       !fake.logs,
	       "what file systems and files refuse too is not said");
	CALL(close_range, 0, ~0u, 0);
}

static void test_refused_rest(void)
{
	NAMED("madvise", EINVAL, madvise, page, 4096, 9);
	NAMED("mremap", EINVAL, mremap, page, 4096, 4096, 5);
	NAMED("clone", EINVAL, clone, 0x10f00 | 1ull << 25, page);
	NAMED("personality", EINVAL, personality, 0x40000);
	NAMED("prctl", EINVAL, prctl, PR_SET_KEEPCAPS, 1);
	NAMED("CPU clock", ENOTSUP, clock_nanosleep, 2, 0, page);
	tap_ok(CALL(madvise, page, 4096, 77) == -LINUX_EINVAL &&
		       CALL(prctl, 12345) == -LINUX_EINVAL && !fake.logs,
	       "numbers that Linux does not know are not said");
	p->info.uid = 0;
	NAMED("capabilities", EPERM, setuid, 7);
	p->info.uid = 1000;
	fake.last_log[0] = 0;
	p->said_refused[5] = 0;
	tap_ok(CALL(setuid, 7) == -LINUX_EPERM && !fake.logs,
	       "Linux allows users other than root nothing more");
}

static void test_copies(void)
{
	s64 in = open_new("in", ABI_O_RDWR), out = open_new("out", ABI_O_RDWR);
	s64 *from = GUEST(0x3200), *to = GUEST(0x3208);

	memset(GUEST(0x4000), 'a', 9000);
	memcpy(GUEST(0x4000), "begin", 5);
	CALL(write, (u64)in, page + 0x4000, 9000);
	CALL(lseek, (u64)in, 0, 0);
	tap_ok(CALL(copy_file_range, (u64)in, 0, (u64)out, 0, 20000, 0) ==
			       9000 &&
		       CALL(lseek, (u64)in, 0, 1) == 9000 &&
		       CALL(lseek, (u64)out, 0, 1) == 9000 &&
		       CALL(pread64, (u64)out, page, 5, 0) == 5 &&
		       !memcmp(GUEST(0), "begin", 5),
	       "copy_file_range moves both positions");
	*from = 1;
	*to = 9000;
	tap_ok(CALL(copy_file_range, (u64)out, page + 0x3200, (u64)out,
		    page + 0x3208, 4, 0) == 4 &&
		       *from == 5 && *to == 9004 &&
		       CALL(pread64, (u64)out, page, 4, 9000) == 4 &&
		       !memcmp(GUEST(0), "egin", 4) &&
		       CALL(lseek, (u64)out, 0, 1) == 9000,
	       "and the offsets that it was given");
	*to = 3;
	*from = 1;
	tap_ok(CALL(copy_file_range, (u64)out, page + 0x3200, (u64)out,
		    page + 0x3208, 4, 0) == -LINUX_EINVAL &&
		       CALL(copy_file_range, (u64)in, 0, (u64)out, 0, 1, 1) ==
			       -LINUX_EINVAL,
	       "ranges that overlap, and flags, are refused");
	CALL(close_range, 0, ~0u, 0);
}

/* A range that reaches beyond the end of its file, within that file. */
static void test_range_ends(void)
{
	s64 out = open_new("out", ABI_O_RDWR);
	s64 *from = GUEST(0x3200), *to = GUEST(0x3208);

	CALL(ftruncate, (u64)out, 9004);
	*from = 9000;
	*to = 9004;
	tap_ok(CALL(copy_file_range, (u64)out, page + 0x3200, (u64)out,
		    page + 0x3208, 0x7fffffff, 0) == 4 &&
		       *from == 9004 && *to == 9008 &&
		       CALL(copy_file_range, (u64)out, page + 0x3208, (u64)out,
			    page + 0x3208, 9, 0) == 0,
	       "a range ends where its file ends");
	CALL(ftruncate, (u64)out, 8192);
	*from = 0;
	*to = 8192;
	tap_ok(CALL(copy_file_range, (u64)out, page + 0x3200, (u64)out,
		    page + 0x3208, 65536, 0) == 8192 &&
		       CALL(lseek, (u64)out, 0, 2) == 16384,
	       "and not where the copy itself moves that end");
	CALL(close_range, 0, ~0u, 0);
}

static void test_pipes(void)
{
	s64 in = open_new("in", ABI_O_RDWR), out = open_new("out", ABI_O_RDWR);
	s32 *fd = open_pipe(0);

	memcpy(GUEST(0x4000), "begin", 5);
	tap_ok(CALL(copy_file_range, (u64)in, 0, fd[1], 0, 1, 0) ==
			       -LINUX_EINVAL &&
		       CALL(sendfile, fd[1], fd[0], 0, 1) == -LINUX_EINVAL,
	       "a pipe is no source, and no target of a copy");
	in = CALL(openat, CWD, io_str(0, "/proc/self/comm"), 0, 0);
	tap_ok(CALL(sendfile, (u64)out, (u64)in, 0, 100) > 0 &&
		       CALL(sendfile, (u64)out, (u64)in, 0, 100) == 0,
	       "sendfile reads a file of /proc, to its end");
	*(struct abi_iovec *)GUEST(0x2000) =
		(struct abi_iovec){page + 0x4000, 5};
	tap_ok(CALL(vmsplice, fd[1], page + 0x2000, 1, 8) == 5 &&
		       CALL(read, fd[0], page, 9) == 5 &&
		       !memcmp(GUEST(0), "begin", 5) &&
		       CALL(write, fd[1], page + 0x4000, 5) == 5 &&
		       CALL(vmsplice, fd[0], page + 0x2000, 1, 0) == 5 &&
		       CALL(vmsplice, (u64)out, page + 0x2000, 1, 0) ==
			       -LINUX_EBADF,
	       "vmsplice fills a pipe, and takes from one");
	CALL(close_range, 0, ~0u, 0);
}

static void test_names(void)
{
	s64 fd;

	CALL(close, (u64)open_new("a", ABI_O_RDWR));
	CALL(close, (u64)open_new("b", ABI_O_RDWR));
	tap_ok(CALL(renameat2, CWD, in_dir(0, "a"), CWD, in_dir(1, "b"), 1) ==
			       -LINUX_EEXIST &&
		       CALL(renameat2, CWD, in_dir(0, "a"), CWD, in_dir(1, "c"),
			    1) == 0 &&
		       CALL(renameat2, CWD, in_dir(0, "c"), CWD, in_dir(1, "b"),
			    2) == 0 &&
		       CALL(renameat2, CWD, in_dir(0, "c"), CWD, in_dir(1, "b"),
			    3) == -LINUX_EINVAL,
	       "renameat2 keeps or exchanges what there is");
	fd = CALL(openat, CWD, in_dir(0, "."), 0x410000 | ABI_O_RDWR, 0600);
	tap_ok(fd >= 0 && CALL(write, (u64)fd, page, 7) == 7 &&
		       CALL(lseek, (u64)fd, 0, 2) == 7 &&
		       CALL(openat, CWD, in_dir(0, "."), 0x410000, 0600) ==
			       -LINUX_EINVAL,
	       "O_TMPFILE opens a file for writing");
	CALL(close, (u64)fd);
	tap_ok(CALL(unlinkat, CWD, in_dir(0, "b"), 0) == 0 &&
		       CALL(unlinkat, CWD, in_dir(0, "c"), 0) == 0 &&
		       CALL(unlinkat, CWD, in_dir(0, "in"), 0) == 0 &&
		       CALL(unlinkat, CWD, in_dir(0, "out"), 0) == 0 &&
		       CALL(unlinkat, CWD, in_dir(0, "file"), 0) == 0 &&
		       CALL(unlinkat, CWD, in_dir(0, "."), 0x200) ==
			       -LINUX_EINVAL &&
		       rmdir(dir) == 0,
	       "which leaves no name behind");
	mkdir(dir, 0700);
}

static void test_spliced(void)
{
	s64 file = open_new("file", ABI_O_RDWR), *at = GUEST(0x3200);
	s32 *fd, r, w, r2, w2;

	fake.host.pipe = host_pipe;
	fake.host.splice = abi_lin_splice;
	fd = open_pipe(0);
	r = fd[0], w = fd[1];
	fd = open_pipe(0);
	r2 = fd[0], w2 = fd[1];
	CALL(write, w, io_str(0, "0123456789"), 10);
	tap_ok(CALL(tee, r, w2, 4, 0) == 4 &&
		       CALL(splice, r, 0, (u64)file, 0, 6, 0) == 6 &&
		       CALL(lseek, (u64)file, 0, 1) == 6 &&
		       CALL(read, r2, page, 9) == 4 &&
		       !memcmp(GUEST(0), "0123", 4),
	       "tee leaves the bytes, splice moves them and the position");
	*at = 1;
	tap_ok(CALL(splice, (u64)file, page + 0x3200, w2, 0, 3, 0) == 3 &&
		       *at == 4 && CALL(lseek, (u64)file, 0, 1) == 6 &&
		       CALL(read, r2, page, 9) == 3 &&
		       !memcmp(GUEST(0), "123", 3),
	       "an offset leaves the position alone");
	tap_ok(CALL(splice, r, 0, w2, 0, 9, 0) == 4 &&
		       CALL(splice, r, 0, w2, 0, 9, 2) == -LINUX_EAGAIN &&
		       CALL(splice, r, page + 0x3200, w2, 0, 9, 0) ==
			       -LINUX_ESPIPE,
	       "from pipe to pipe; an empty one gives EAGAIN");
	p->limit[ABI_RLIMIT_FSIZE].cur = 8;
	tap_ok(CALL(splice, r2, 0, (u64)file, 0, 4, 0) == 2 &&
		       CALL(read, r2, page, 9) == 2,
	       "a file grows to the limit, and the rest stays in the pipe");
	p->limit[ABI_RLIMIT_FSIZE].cur = ABI_RLIM_INFINITY;
	CALL(fcntl, (u64)file, 4, ABI_O_APPEND);
	CALL(write, w, page, 1);
	tap_ok(CALL(splice, r, 0, (u64)file, 0, 4, 0) == -LINUX_EINVAL &&
		       CALL(splice, w, 0, w2, 0, 4, 0) == -LINUX_EBADF,
	       "not to a file that is appended to, nor from a writer");
	CALL(close, w);
	CALL(read, r, page, 9);
	tap_ok(CALL(splice, r, 0, w2, 0, 4, 0) == 0, "0 at the end");
	CALL(close_range, 0, ~0u, 0);
}

static void test_waiting(void)
{
	s32 *fd = open_pipe(0), r = fd[0], w = fd[1], w2;
	struct io_task task = {.t = guest_thread()->index, .nr = ABI_NR_splice};

	fd = open_pipe(0);
	w2 = fd[1];
	memcpy(task.a, (u64[6]){(u64)r, 0, (u64)w2, 0, 9, 0}, sizeof(task.a));
	io_start(&task);
	tap_ok(WAIT_FOR(io_sleeps(task.t)) && !task.done,
	       "splice waits for bytes");
	CALL(write, w, page, 5);
	tap_ok(io_join(&task) == 5, "and is woken by them");
	CALL(close_range, 0, ~0u, 0);
}

int main(void)
{
	strcpy(dir, "/tmp/abi-splice-XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	guest_new();
	io_install();
	p->info.uid = 1000;
	test_refused_files();
	test_refused_rest();
	test_copies();
	test_range_ends();
	test_pipes();
	test_names();
	test_spliced();
	test_waiting();
	guest_free();
	(void)unlink((char *)in_dir(0, "file"));
	(void)rmdir(dir);
	return tap_done();
}
