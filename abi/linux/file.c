/* SPDX-License-Identifier: MIT */
/*
 * Files. A handle is a file descriptor; abi serializes its use, so no lock is
 * needed here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "abi/include/lin.h"

/* Flags that are passed from guest to host; abi or bee handles all others. */
#define OPEN_FLAGS                                                             \
	(O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_DIRECTORY | O_NOFOLLOW |   \
	 O_SYNC | O_DSYNC | O_NOATIME | O_PATH | O_NOCTTY)

static s64 errno_result(s64 n)
{
	return n < 0 ? -errno : n;
}

static u32 open_flags(const struct abi_open *o)
{
	return (o->flags & OPEN_FLAGS) | O_CLOEXEC;
}

s64 abi_lin_open_call(struct abi_lin_call *to, const struct abi_open *o)
{
	return abi_lin_call_open(to, o->path, open_flags(o), o->mode);
}

/* A file that was opened with waiting must not wait later, in reads and
 * writes. */
s64 abi_lin_opened(struct abi_open *o, int fd)
{
	struct stat st;
	s64 err;

	err = fstat(fd, &st) ? -errno : abi_lin_is_own(fd, &st);
	if (err)
		err = err > 0 ? -ELOOP : err;
	else if (o->wait && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) &&
		 !(o->flags & O_PATH) &&
		 fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		err = -errno;
	if (err) {
		close(fd);
		return err;
	}
	o->handle = fd;
	o->type = st.st_mode & S_IFMT;
	return 0;
}

/* Whether ENXIO means a FIFO without a reader, not a socket or a device without
 * a driver. */
static int is_fifo(const struct abi_open *o)
{
	struct stat st;
	int fd = (int)abi_lin_open(o->path, O_PATH | O_CLOEXEC, 0), yes;

	if (fd < 0)
		return 0;
	yes = !fstat(fd, &st) && S_ISFIFO(st.st_mode);
	close(fd);
	return yes;
}

/* Uses O_NONBLOCK, so that opening a FIFO or a terminal cannot block. */
s64 abi_lin_file_open(struct abi_open *o)
{
	s64 fd = abi_lin_open(o->path, open_flags(o) | O_NONBLOCK, o->mode);
	s64 err;

	if (fd < 0)
		return fd == -ENXIO && o->wait && is_fifo(o) ? -EOPNOTSUPP : fd;
	err = abi_lin_opened(o, (int)fd);
	if (err || !o->wait || o->type != S_IFIFO || o->flags & O_ACCMODE)
		return err;
	close((int)fd);
	return -EOPNOTSUPP;
}

s64 abi_lin_file_close(s32 handle)
{
	return errno_result(close(handle));
}

/*
 * Inherited streams may be blocking, and O_NONBLOCK would change them for all
 * processes that share them. So they are polled first.
 */
static int would_block(s32 handle, short events)
{
	struct pollfd fd = {.fd = handle, .events = events};

	return handle < 3 && poll(&fd, 1, 0) == 0;
}

s64 abi_lin_file_read(s32 handle, const struct abi_io *io)
{
	s64 n;

	if (io->offset == ABI_STREAM) {
		if (would_block(handle, POLLIN))
			return -EAGAIN;
		n = read(handle, io->buf, io->len);
		/* another process has read or written first; the caller waits
		 * again */
		if (n < 0 && errno == EINTR)
			return -EAGAIN;
	} else if (io->offset == ABI_CURRENT) {
		n = read(handle, io->buf, io->len);
	} else {
		n = pread(handle, io->buf, io->len, io->offset);
	}
	return errno_result(n);
}

/* A pipe that is ready for writing takes PIPE_BUF bytes without blocking. */
s64 abi_lin_file_write(s32 handle, const struct abi_io *io)
{
	struct iovec iov = {io->buf, io->len};
	struct stat st;

	if (io->offset == ABI_APPEND)
		return errno_result(pwritev2(handle, &iov, 1, -1, RWF_APPEND));
	if (io->offset == ABI_CURRENT)
		return errno_result(write(handle, io->buf, io->len));
	if (io->offset != ABI_STREAM)
		return errno_result(
			pwrite(handle, io->buf, io->len, io->offset));
	if (would_block(handle, POLLOUT))
		return -EAGAIN;
	if (handle < 3 && iov.iov_len > PIPE_BUF && !fstat(handle, &st) &&
	    !S_ISREG(st.st_mode))
		iov.iov_len = PIPE_BUF;
	return errno_result(write(handle, iov.iov_base, iov.iov_len));
}

s64 abi_lin_file_gather(s32 handle, const struct iovec *part, u32 parts,
			s64 offset)
{
	int flags = offset == ABI_APPEND ? RWF_APPEND : 0;

	return errno_result(pwritev2(handle, part, (int)parts, -1, flags));
}

/* Only reads positions, because moving a shared position could overwrite other
 * processes' output. */
int abi_lin_file_same(s32 a, s32 b)
{
	pid_t self = getpid();

	return syscall(SYS_kcmp, self, self, KCMP_FILE, a, b) == 0;
}

static int is_ready(s32 handle, short events)
{
	struct pollfd fd = {.fd = handle, .events = events};

	return poll(&fd, 1, 0) > 0;
}

/* Inherited descriptors may be blocking, so both ends are polled first. */
s64 abi_lin_splice(const struct abi_splice *op)
{
	loff_t in = op->in_at, out = op->out_at;

	if (!is_ready(op->in, POLLIN) || !is_ready(op->out, POLLOUT))
		return -EAGAIN;
	if (op->tee)
		return errno_result(
			tee(op->in, op->out, op->len, SPLICE_F_NONBLOCK));
	return errno_result(splice(op->in, in < 0 ? NULL : &in, op->out,
				   out < 0 ? NULL : &out, op->len,
				   SPLICE_F_NONBLOCK));
}

struct dirent64_raw {
	u64 ino;
	s64 next;
	u16 len;
	u8 type;
	char name[];
};

#define ENTRY_SIZE 512 /* of which no entry is larger */

static void copy_entry(struct abi_dirent *to, const struct dirent64_raw *raw)
{
	u64 len = strnlen(raw->name, sizeof(to->name) - 1);

	to->ino = raw->ino;
	to->next = (u64)raw->next;
	to->type = raw->type;
	memcpy(to->name, raw->name, len);
	to->name[len] = 0;
}

/* The cookie is the kernel's own, so seek to it. */
s64 abi_lin_file_list(s32 handle, struct abi_dirent *to, u32 room, u64 next)
{
	_Alignas(8) u8 buf[8192];
	const struct dirent64_raw *raw;
	s64 n, at = 0;
	u32 count = 0;

	if (lseek(handle, (s64)next, SEEK_SET) < 0)
		return -errno;
	n = syscall(SYS_getdents64, handle, buf,
		    room > 1 ? sizeof(buf) : ENTRY_SIZE);
	while (at < n && count < room) {
		raw = (const void *)(buf + at);
		copy_entry(&to[count++], raw);
		at += raw->len;
	}
	return n < 0 ? -errno : (s64)count;
}

static s64 file_stat(s32 handle, struct abi_stat *to)
{
	struct stat st;

	if (fstat(handle, &st))
		return -errno;
	abi_lin_stat_from(to, &st);
	return 0;
}

static s64 file_statfs(s32 handle, struct abi_statfs *to)
{
	struct statfs sf;

	if (fstatfs(handle, &sf))
		return -errno;
	abi_lin_statfs_from(to, &sf);
	return 0;
}

static s64 window_size(s32 handle)
{
	struct winsize ws;

	if (ioctl(handle, TIOCGWINSZ, &ws))
		return -errno;
	return (s64)ws.ws_row << 16 | ws.ws_col;
}

static s64 pipe_size(s32 handle, u64 bytes)
{
	return errno_result(bytes ? fcntl(handle, F_SETPIPE_SZ, (int)bytes)
				  : fcntl(handle, F_GETPIPE_SZ));
}

static s64 file_append(s32 handle)
{
	int flags = fcntl(handle, F_GETFL);

	return errno_result(
		flags < 0 ? flags : fcntl(handle, F_SETFL, flags | O_APPEND));
}

static s64 bytes_available(s32 handle)
{
	int n = 0;

	return ioctl(handle, FIONREAD, &n) ? -errno : n;
}

static s64 is_at_mark(s32 handle)
{
	int at = 0;

	return ioctl(handle, SIOCATMARK, &at) ? -errno : at != 0;
}

s64 abi_lin_file(s32 handle, struct abi_file_op *op)
{
	struct timespec ts[2];

	switch (op->verb) {
	case ABI_FILE_STAT:
		return file_stat(handle, op->stat);
	case ABI_FILE_SYNC:
		return errno_result(fsync(handle));
	case ABI_FILE_TRUNCATE:
		return errno_result(ftruncate(handle, (s64)op->len));
	case ABI_FILE_CHMOD:
		return errno_result(fchmod(handle, op->mode));
	case ABI_FILE_UTIMENS:
		abi_lin_times_from(ts, op->times);
		return errno_result(futimens(handle, ts));
	case ABI_FILE_READDIR:
		return abi_lin_file_list(handle, op->dirent, 1,
					 op->dirent->next);
	case ABI_FILE_STATFS:
		return file_statfs(handle, op->statfs);
	case ABI_FILE_WINSIZE:
		return window_size(handle);
	case ABI_FILE_AVAILABLE:
		return bytes_available(handle);
	case ABI_FILE_SEEK:
		return errno_result(lseek(handle, (s64)op->len, (int)op->mode));
	case ABI_FILE_NAME:
		return abi_lin_handle_name(handle, op->buf, op->len);
	case ABI_FILE_APPEND:
		return file_append(handle);
	case ABI_FILE_ATMARK:
		return is_at_mark(handle);
	case ABI_FILE_PIPE_SIZE:
		return pipe_size(handle, op->len);
	}
	return -ENOSYS;
}
