// SPDX-License-Identifier: MIT
/*
 * What each kind of description answers to a call that it cannot serve. The
 * numbers are those of Linux 6.12 for the same program.
 */
#include "abi/test/host_io.h"
#include "abi/uapi/linux.h"

enum { PIPE_R, PIPE_W, PAIR, EVENT, TIMER, EPOLL, DEVICE, TEXT, DIR, KINDS };

static const char *const name[KINDS] = {
	"pipe, read end", "pipe, write end",   "socketpair",
	"eventfd",	  "timerfd",	       "epoll",
	"/dev/null",	  "/proc/self/status", "directory"};
static u64 fd[KINDS];

#define OK 0
#define BADF (-LINUX_EBADF)
#define INVAL (-LINUX_EINVAL)
#define ISDIR (-LINUX_EISDIR)
#define NODEV (-LINUX_ENODEV)
#define NOTDIR (-LINUX_ENOTDIR)
#define NOTSOCK (-LINUX_ENOTSOCK)
#define NOTTY (-LINUX_ENOTTY)
#define PERM (-LINUX_EPERM)
#define SPIPE (-LINUX_ESPIPE)
#define ANY 1 /* not compared: it depends on the version of Linux */

static void check_call(const char *call, u32 kind, s64 got, s64 want)
{
	if (want != ANY)
		tap_ok(want ? got == want : got >= 0, "%s of %s", call,
		       name[kind]);
}

/* A line per call, an answer per kind, in the order of the enumeration. */
#define ROW(call, nr, arguments, ...)                                          \
	do {                                                                   \
		static const s64 want_[KINDS] = {__VA_ARGS__};                 \
		u32 k_;                                                        \
                                                                               \
		for (k_ = 0; k_ < KINDS; k_++)                                 \
			check_call(call, k_, CALL(nr, fd[k_], ARGS arguments), \
				   want_[k_]);                                 \
	} while (0)
#define ARGS(...) __VA_ARGS__

static void data_calls(void)
{
	ROW("lseek", lseek, (0, ABI_SEEK_CUR), SPIPE, SPIPE, SPIPE, OK, OK, OK,
	    OK, OK, OK);
	ROW("lseek with an invalid whence", lseek, (0, 5), INVAL, INVAL, INVAL,
	    INVAL, INVAL, INVAL, INVAL, INVAL, INVAL);
	for (u32 k = EVENT; k <= EPOLL; k++)
		for (u32 whence = 0; whence < 5; whence++)
			tap_ok(CALL(lseek, fd[k], 7, whence) == 0,
			       "lseek does nothing for %s, whence %u", name[k],
			       whence);
	ROW("pread", pread64, (page, 8, 0), SPIPE, SPIPE, SPIPE, SPIPE, SPIPE,
	    SPIPE, OK, OK, ISDIR);
	ROW("pwrite", pwrite64, (page, 8, 0), SPIPE, SPIPE, SPIPE, SPIPE, SPIPE,
	    SPIPE, OK, ANY, BADF);
	ROW("read", read, (page, 0), ANY, BADF, OK, INVAL, INVAL, INVAL, OK, OK,
	    ISDIR);
	ROW("write", write, (page, 0), BADF, OK, OK, INVAL, INVAL, INVAL, OK,
	    BADF, BADF);
	ROW("fsync", fsync, (0), INVAL, INVAL, INVAL, INVAL, INVAL, INVAL,
	    INVAL, INVAL, OK);
	ROW("ftruncate", ftruncate, (0), INVAL, INVAL, INVAL, INVAL, INVAL,
	    INVAL, INVAL, INVAL, INVAL);
	ROW("fallocate", fallocate, (0, 0, 10), BADF, SPIPE, NODEV, NODEV,
	    NODEV, NODEV, NODEV, BADF, BADF);
	ROW("fadvise", fadvise64, (0, 0, 0), SPIPE, SPIPE, OK, OK, OK, OK, OK,
	    OK, OK);
}

/* The first word is the type; there are no blocks. */
static void file_systems(void)
{
	static const u64 type[] = {0x50495045, 0x50495045, 0x534f434b,
				   0x09041934, 0x09041934, 0x09041934,
				   0x01021994, 0x9fa0};
	u64 *fs = GUEST(0);

	for (u32 k = 0; k < DIR; k++)
		tap_ok(CALL(fstatfs, fd[k], page) == 0 && fs[0] == type[k] &&
			       fs[1] == 4096 && fs[8] == 255,
		       "fstatfs of %s", name[k]);
}

static void other_calls(void)
{
	u64 set = (u64)CALL(epoll_create1, 0);

	ROW("getdents64", getdents64, (page, 512), NOTDIR, NOTDIR, NOTDIR,
	    NOTDIR, NOTDIR, NOTDIR, NOTDIR, NOTDIR, OK);
	ROW("TIOCGWINSZ", ioctl, (0x5413, page), NOTTY, NOTTY, NOTTY, NOTTY,
	    NOTTY, ANY, NOTTY, NOTTY, NOTTY);
	ROW("FIONREAD", ioctl, (0x541b, page), OK, OK, OK, NOTTY, NOTTY, ANY,
	    NOTTY, ANY, NOTTY);
	ROW("F_GETPIPE_SZ", fcntl, (1032, 0), OK, OK, BADF, BADF, BADF, BADF,
	    BADF, BADF, BADF);
	ROW("listen", listen, (1), NOTSOCK, NOTSOCK, INVAL, NOTSOCK, NOTSOCK,
	    NOTSOCK, NOTSOCK, NOTSOCK, NOTSOCK);
	ROW("epoll_wait", epoll_wait, (page, 1, 0), INVAL, INVAL, INVAL, INVAL,
	    INVAL, OK, INVAL, INVAL, INVAL);
	ROW("timerfd_gettime", timerfd_gettime, (page), INVAL, INVAL, INVAL,
	    INVAL, OK, INVAL, INVAL, INVAL, INVAL);
	for (u32 k = 0; k < KINDS; k++)
		check_call("epoll_ctl", k,
			   CALL(epoll_ctl, set, 1, fd[k], io_str(0, "")),
			   k < DEVICE ? OK : PERM);
	for (u32 k = 0; k < KINDS; k++)
		check_call("mmap", k, CALL(mmap, 0, 4096, 1, 2, fd[k], 0),
			   k == PIPE_W ? -LINUX_EACCES : NODEV);
}

static u32 poll_bits(u64 number)
{
	struct {
		s32 fd;
		u16 events, revents;
	} *one = GUEST(0x2000);

	one->fd = (s32)number;
	one->events = 1;
	one->revents = 0;
	CALL(poll, page + 0x2000, 1, 0);
	return one->revents;
}

/* What the operations of one kind alone do. */
static void single_kinds(void)
{
	u64 set = (u64)CALL(epoll_create1, 0), *spec = GUEST(0x3000);
	struct abi_epoll_event *event = GUEST(0x3100);
	char path[] = "/tmp/abi-kinds-XXXXXX";
	u64 number;
	int file = mkstemp(path);

	number = (u64)CALL(open, io_str(0, path), ABI_O_RDWR, 0);
	tap_ok(CALL(fsync, number) == 0, "fsync of a file");
	close(file);
	unlink(path);
	CALL(shutdown, fd[PAIR], 1);
	tap_ok(!(poll_bits(fd[PAIR]) & ABI_POLLHUP),
	       "a socket pair that is shut down in one direction reports no "
	       "POLLHUP");
	spec[0] = spec[2] = 0;
	spec[1] = spec[3] = 1000000;
	event->events = ABI_POLLIN | ABI_EPOLLET;
	CALL(timerfd_settime, fd[TIMER], 0, page + 0x3000, 0);
	CALL(epoll_ctl, set, 1, fd[TIMER], page + 0x3100);
	tap_ok(CALL(epoll_wait, set, page, 1, 60000) == 1 &&
		       CALL(epoll_wait, set, page, 1, 60000) == 1,
	       "each expiry of a timerfd is an edge");
}

static void open_all(void)
{
	s32 *two = GUEST(0x3000);

	CALL(pipe2, page + 0x3000, ABI_O_NONBLOCK);
	fd[PIPE_R] = (u64)two[0];
	fd[PIPE_W] = (u64)two[1];
	CALL(socketpair, ABI_AF_UNIX, ABI_SOCK_STREAM, 0, page + 0x3000);
	fd[PAIR] = (u64)two[0];
	fd[EVENT] = (u64)CALL(eventfd2, 0, ABI_O_NONBLOCK);
	fd[TIMER] = (u64)CALL(timerfd_create, 1, ABI_O_NONBLOCK);
	fd[EPOLL] = (u64)CALL(epoll_create1, 0);
	fd[DEVICE] = (u64)CALL(open, io_str(0, "/dev/null"), ABI_O_RDWR, 0);
	fd[TEXT] = (u64)CALL(open, io_str(0, "/proc/self/status"), 0, 0);
	fd[DIR] = (u64)CALL(open, io_str(0, "/"), ABI_O_DIRECTORY, 0);
}

int main(void)
{
	guest_new();
	io_install();
	open_all();
	data_calls();
	file_systems();
	other_calls();
	single_kinds();
	guest_free();
	return tap_done();
}
