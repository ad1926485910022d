// SPDX-License-Identifier: MIT
/*
 * Open files. Regular files use synchronous handles with explicit offsets: disk
 * transfers end, and Linux does not interrupt them either. Streams and sockets
 * can block without limit and have their own files. No state here.
 */
#include "win.h"
#include "family.h"
#include "view.h"
#include <stdio.h>
#include <winternl.h>

#define O_ACCMODE 3
#define O_WRONLY 1
#define O_RDWR 2
#define O_CREAT 0100
#define O_EXCL 0200
#define O_TRUNC 01000
#define O_DIRECTORY 0200000
#define O_NOFOLLOW 0400000
#define O_PATH 010000000

#define SHARE (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define IO_MAX 0x7ffff000u
#define STATUS_END_OF_FILE ((NTSTATUS)0xc0000011)
#define HOLD_TRIES 20
#define HOLD_MS 10

/*
 * Virus scanners and indexers hold a new file open for some milliseconds. A
 * file that is about to be deleted cannot be opened.
 */
HANDLE bee_win_open(const WCHAR *path, DWORD access, DWORD create, DWORD flags)
{
	HANDLE h;
	DWORD e;
	u32 i;

	for (i = 0;; i++) {
		h = CreateFileW(path, access, SHARE, NULL, create,
				flags | FILE_FLAG_BACKUP_SEMANTICS, NULL);
		if (h != INVALID_HANDLE_VALUE || i == HOLD_TRIES)
			return h;
		e = GetLastError();
		if (e != ERROR_SHARING_VIOLATION && e != ERROR_DELETE_PENDING)
			return h;
		Sleep(HOLD_MS);
	}
}

/* Open -------------------------------------------------------------------- */

static DWORD access_of(u32 flags)
{
	if (flags & O_PATH)
		return FILE_READ_ATTRIBUTES | SYNCHRONIZE;
	switch (flags & O_ACCMODE) {
	case O_WRONLY:
		return GENERIC_WRITE | FILE_READ_ATTRIBUTES;
	case O_RDWR:
		return GENERIC_READ | GENERIC_WRITE;
	}
	return GENERIC_READ;
}

/* The file is truncated later, because it may turn out to be a directory. */
static DWORD disposition_of(u32 flags)
{
	if (!(flags & O_CREAT))
		return OPEN_EXISTING;
	return flags & O_EXCL ? CREATE_NEW : OPEN_ALWAYS;
}

static s64 check_opened(HANDLE h, u32 flags, u32 *type)
{
	FILE_ATTRIBUTE_TAG_INFO i;

	*type = WIN_S_IFREG;
	if (!GetFileInformationByHandleEx(h, FileAttributeTagInfo, &i,
					  sizeof(i)))
		return bee_win_last();
	if ((flags & O_NOFOLLOW) && !(flags & O_PATH) &&
	    (i.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT))
		return -LINUX_ELOOP;
	if (i.FileAttributes & FILE_ATTRIBUTE_DIRECTORY) {
		*type = WIN_S_IFDIR;
		if (flags & (O_CREAT | O_TRUNC | O_ACCMODE) &&
		    !(flags & O_PATH))
			return -LINUX_EISDIR;
		return 0;
	}
	return flags & O_DIRECTORY ? -LINUX_ENOTDIR : 0;
}

/*
 * Windows' file systems contain no devices or pipes. Those that Wine shows are
 * of its host; a read of one might block for ever and could not be interrupted.
 */
static s64 device_refuse(const char *path)
{
	static u32 said;
	char line[320];

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) {
		snprintf(line, sizeof(line),
			 "open of %.200s is refused: it is a device or pipe of "
			 "Wine's host, whose reads cannot be interrupted",
			 path);
		bee_log(line);
	}
	return -LINUX_ENXIO;
}

static s64 handle_opened(HANDLE h, struct abi_open *open)
{
	struct win_handle *e;
	u32 kind;
	s64 err;

	if (GetFileType(h) != FILE_TYPE_DISK)
		return device_refuse(open->path);
	err = check_opened(h, open->flags, &open->type);
	if (!err && (open->flags & O_TRUNC) && open->type == WIN_S_IFREG)
		err = bee_view_truncate(h, 0);
	if (err)
		return err;
	kind = open->type == WIN_S_IFDIR ? WIN_DIR : WIN_FILE;
	e = bee_handle_new(kind, &open->handle);
	if (!e)
		return -LINUX_ENFILE;
	e->h = h;
	e->flags = open->flags;
	return 0;
}

/* A directory cannot be opened for writing; the errno is that of Linux. */
static s64 open_error(WCHAR *path)
{
	DWORD e = GetLastError(), a;

	if (e == ERROR_ACCESS_DENIED) {
		a = GetFileAttributesW(path);
		if (a != INVALID_FILE_ATTRIBUTES &&
		    (a & FILE_ATTRIBUTE_DIRECTORY))
			return -LINUX_EISDIR;
	}
	return bee_win_error(e) == -LINUX_ENOENT ? bee_path_missing(path)
						 : bee_win_error(e);
}

s64 bee_file_open(struct abi_open *open)
{
	WCHAR path[WIN_PATH_MAX];
	DWORD flags = FILE_ATTRIBUTE_NORMAL;
	HANDLE h;
	s64 err;

	err = bee_path_encode(open->path, path);
	if (err < 0)
		return err;
	if (open->flags & O_NOFOLLOW)
		flags |= FILE_FLAG_OPEN_REPARSE_POINT;
	if ((open->flags & O_CREAT) && !(open->mode & 0222))
		flags |= FILE_ATTRIBUTE_READONLY;
	h = bee_place_open(path, access_of(open->flags),
			   disposition_of(open->flags), flags);
	if (h == INVALID_HANDLE_VALUE)
		return open_error(path);
	if ((open->flags & O_NOFOLLOW) && !(open->flags & O_PATH) &&
	    bee_place_followed(h, path))
		err = -LINUX_ELOOP;
	else
		err = handle_opened(h, open);
	if (err)
		CloseHandle(h);
	return err;
}

s64 bee_file_close(s32 handle)
{
	struct win_handle *h = bee_handle_get(handle);

	if (!h)
		return -LINUX_EBADF;
	bee_file_unlock(h);
	if (h->dir)
		bee_dir_free(h->dir);
	if (h->out)
		bee_stream_close(h->out);
	if (h->stream)
		bee_stream_close(h->stream);
	else if (h->kind == WIN_SOCK)
		closesocket(h->s);
	else if (h->kind == WIN_EXEC)
		bee_exec_close(h);
	else if (h->kind == WIN_COUNTER)
		bee_counter_close(h->counter);
	else
		CloseHandle(h->h);
	bee_handle_free(handle);
	return 0;
}

/* These functions are in ntdll. No header for applications declares them. */
NTSTATUS NTAPI NtReadFile(HANDLE file, HANDLE event, PIO_APC_ROUTINE apc,
			  void *context, IO_STATUS_BLOCK *result, void *buf,
			  ULONG len, LARGE_INTEGER *offset, ULONG *key);
NTSTATUS NTAPI NtWriteFile(HANDLE file, HANDLE event, PIO_APC_ROUTINE apc,
			   void *context, IO_STATUS_BLOCK *result, void *buf,
			   ULONG len, LARGE_INTEGER *offset, ULONG *key);

/* Bytes -------------------------------------------------------------------- */

/* A handle that the parent passed may be overlapped. */
static s64 io_end(HANDLE h, NTSTATUS status, IO_STATUS_BLOCK *result)
{
	if (status == STATUS_PENDING) {
		WaitForSingleObject(h, INFINITE);
		status = result->Status;
	}
	if (status == STATUS_END_OF_FILE)
		return 0;
	if (status < 0)
		return bee_win_error(RtlNtStatusToDosError(status));
	return (s64)result->Information;
}

static s64 set_position(HANDLE h, s64 offset, DWORD whence)
{
	LARGE_INTEGER by = {.QuadPart = offset}, at;

	return SetFilePointerEx(h, by, &at, whence) ? at.QuadPart
						    : bee_win_last();
}

/*
 * On Windows a transfer at an offset also moves the position. Other processes
 * see only the position of an inherited file. They may move it during the
 * transfer, so it is restored only if it is still where the transfer left it.
 */
static void position_restore(struct win_handle *h, s64 before, s64 offset,
			     s64 n)
{
	if (before < 0 || n <= 0 || before == offset + n)
		return;
	if (set_position(h->h, 0, FILE_CURRENT) == offset + n)
		set_position(h->h, before, FILE_BEGIN);
}

/* The position that pread and pwrite must restore; -1: none. */
static s64 position_keep(struct win_handle *h, s64 offset)
{
	return h->inherited && offset >= 0 ? set_position(h->h, 0, FILE_CURRENT)
					   : -1;
}

/*
 * ReadFile and WriteFile with an offset also ask for a completion packet,
 * which costs a round trip to Wine's server each time, so this calls the
 * functions below them (WDK, "NtReadFile"). A synchronous handle serialises
 * them, so offsets of two threads do not mix.
 */
static s64 plain_read(struct win_handle *h, const struct abi_io *io)
{
	LARGE_INTEGER at = {.QuadPart = io->offset};
	ULONG len = io->len < IO_MAX ? (ULONG)io->len : IO_MAX;
	IO_STATUS_BLOCK result = {.Information = 0};
	s64 before = position_keep(h, io->offset), n;
	NTSTATUS status;

	status = NtReadFile(h->h, NULL, NULL, NULL, &result, io->buf, len,
			    io->offset < 0 ? NULL : &at, NULL);
	n = io_end(h->h, status, &result);
	position_restore(h, before, io->offset, n);
	return n;
}

static s64 plain_write(struct win_handle *h, const struct abi_io *io)
{
	/*
	 * ABI_APPEND: Windows also uses an offset with all bits set for the end
	 * of a file.
	 */
	s64 offset = io->offset == ABI_APPEND ? -1 : io->offset;
	LARGE_INTEGER at = {.QuadPart = offset};
	ULONG len = io->len < IO_MAX ? (ULONG)io->len : IO_MAX;
	IO_STATUS_BLOCK result = {.Information = 0};
	s64 before = position_keep(h, io->offset), n;
	u32 here = io->offset == ABI_STREAM || io->offset == ABI_CURRENT;
	NTSTATUS status;

	status = NtWriteFile(h->h, NULL, NULL, NULL, &result, io->buf, len,
			     here ? NULL : &at, NULL);
	n = io_end(h->h, status, &result);
	position_restore(h, before, io->offset, n);
	return n;
}

static s64 handle_read(struct win_handle *h, const struct abi_io *io)
{
	switch (h->kind) {
	case WIN_DIR:
		return -LINUX_EISDIR;
	case WIN_STREAM:
		return bee_stream_read(h->stream, io->buf, io->len);
	case WIN_SOCK:
		return bee_sock_read(h, io->buf, io->len);
	case WIN_COUNTER:
		return bee_counter_read(h->counter, io->buf, io->len);
	}
	return plain_read(h, io);
}

static s64 write_memory(struct win_handle *h, const struct abi_io *io)
{
	void *to = bee_exec_memory(h, (u64)io->offset, io->len);

	if (!to)
		return -LINUX_ENOMEM;
	memcpy(to, io->buf, io->len);
	return (s64)io->len;
}

static s64 handle_write(struct win_handle *h, const struct abi_io *io)
{
	switch (h->kind) {
	case WIN_DIR:
		return -LINUX_EISDIR;
	case WIN_STREAM:
		return bee_stream_write(h->out ? h->out : h->stream, io->buf,
					io->len);
	case WIN_SOCK:
		return bee_sock_write(h, io->buf, io->len);
	case WIN_COUNTER:
		return bee_counter_write(h->counter, io->buf, io->len);
	case WIN_EXEC:
		return write_memory(h, io);
	}
	return plain_write(h, io);
}

s64 bee_file_read(s32 handle, const struct abi_io *io)
{
	struct win_handle *h = bee_handle_get(handle);
	int held = bee_view_hold(io->buf);
	s64 n = h ? handle_read(h, io) : -LINUX_EBADF;

	bee_view_unhold(held);
	return n;
}

s64 bee_file_write(s32 handle, const struct abi_io *io)
{
	struct win_handle *h = bee_handle_get(handle);
	int held = bee_view_hold(io->buf);
	s64 n = h ? handle_write(h, io) : -LINUX_EBADF;

	bee_view_unhold(held);
	return n;
}

/* Facts -------------------------------------------------------------------- */

static s64 stat_other(const struct win_handle *h, struct abi_stat *st)
{
	memset(st, 0, sizeof(*st));
	st->ino = (u64)(ULONG_PTR)h;
	st->dev = 1;
	st->nlink = 1;
	st->uid = 1000;
	st->gid = 1000;
	st->blksize = 4096;
	switch (h->kind) {
	case WIN_SOCK:
		st->mode = WIN_S_IFSOCK | 0777;
		break;
	case WIN_STREAM:
		st->mode = bee_stream_console(h->stream) ? WIN_S_IFCHR | 0620
							 : WIN_S_IFIFO | 0600;
		st->rdev = 0x8800; /* pts/0 */
		if (h->pair)
			st->mode = WIN_S_IFSOCK | 0777;
		break;
	default:
		st->mode = WIN_S_IFCHR | 0666;
		st->rdev = 0x103; /* null */
	}
	return 0;
}

static s64 stat_disk(const struct win_handle *h, struct abi_stat *st)
{
	s64 err = bee_file_stat(h->h, st);

	if (__atomic_load_n(&h->gone, __ATOMIC_RELAXED))
		st->nlink = 0;
	return err;
}

static s64 bytes_available(struct win_handle *h)
{
	if (h->kind == WIN_STREAM)
		return bee_stream_available(h->stream);
	if (h->kind == WIN_SOCK)
		return bee_sock_available(h);
	return 0;
}

static s64 sync_file(struct win_handle *h)
{
	if (h->kind == WIN_STREAM || h->kind == WIN_SOCK)
		return -LINUX_EINVAL;
	if (h->kind == WIN_FILE && bee_view_flush(h->h))
		return -LINUX_EIO;
	/*
	 * Windows refuses to flush a handle that cannot write. There is nothing
	 * to flush then.
	 */
	if (!FlushFileBuffers(h->h) && GetLastError() != ERROR_ACCESS_DENIED &&
	    h->kind == WIN_FILE)
		return bee_win_last();
	return 0;
}

static s64 attributes_set(HANDLE h, const struct abi_file_op *op)
{
	return op->verb == ABI_FILE_CHMOD ? bee_file_chmod(h, op->mode)
					  : bee_file_times(h, op->times);
}

/* The size of an inherited pipe is that of the buffer in stream.c. */
static s64 pipe_size(u64 bytes)
{
	if (!bytes)
		return WIN_STREAM_BUFFER;
	bee_os_message("fcntl refused (EPERM): the size of a pipe that bee "
		       "inherited cannot be set on Windows");
	return -LINUX_EPERM;
}

/*
 * On Linux fchmod and futimens work with a read-only descriptor. Windows needs
 * a second handle for that, which a file without a name cannot get.
 */
static s64 with_attributes(struct win_handle *h, const struct abi_file_op *op)
{
	s64 err = attributes_set(h->h, op);
	HANDLE w;

	if (err != -LINUX_EACCES)
		return err;
	w = ReOpenFile(h->h, FILE_READ_ATTRIBUTES | FILE_WRITE_ATTRIBUTES,
		       SHARE, FILE_FLAG_BACKUP_SEMANTICS);
	if (w == INVALID_HANDLE_VALUE)
		return bee_win_last();
	err = attributes_set(w, op);
	CloseHandle(w);
	return err;
}

s64 bee_file(s32 handle, struct abi_file_op *op)
{
	struct win_handle *h = bee_handle_get(handle);
	int disk;

	if (!h)
		return -LINUX_EBADF;
	disk = h->kind == WIN_FILE || h->kind == WIN_DIR;
	switch (op->verb) {
	case ABI_FILE_STAT:
		return disk ? stat_disk(h, op->stat) : stat_other(h, op->stat);
	case ABI_FILE_SYNC:
		return sync_file(h);
	case ABI_FILE_TRUNCATE:
		return h->kind == WIN_FILE ? bee_view_truncate(h->h, op->len)
					   : -LINUX_EINVAL;
	case ABI_FILE_CHMOD:
	case ABI_FILE_UTIMENS:
		return disk ? with_attributes(h, op) : 0;
	case ABI_FILE_READDIR:
		return h->kind == WIN_DIR ? bee_dir_read(h, op->dirent)
					  : -LINUX_ENOTDIR;
	case ABI_FILE_STATFS:
		return disk ? bee_file_statfs(h->h, op->statfs) : -LINUX_ENOSYS;
	case ABI_FILE_WINSIZE:
		return h->kind == WIN_STREAM ? bee_stream_winsize(h->stream)
					     : -LINUX_ENOTTY;
	case ABI_FILE_AVAILABLE:
		return bytes_available(h);
	case ABI_FILE_SEEK:
		return h->kind == WIN_FILE && op->mode <= FILE_END
			       ? set_position(h->h, (s64)op->len, op->mode)
			       : -LINUX_ESPIPE;
	case ABI_FILE_NAME: /* for SCM_RIGHTS, which this host does not have */
	case ABI_FILE_APPEND:
	case ABI_FILE_ATMARK: /* SIOCATMARK of Winsock has another meaning */
		return -LINUX_ENOSYS;
	case ABI_FILE_PIPE_SIZE:
		return h->kind == WIN_STREAM ? pipe_size(op->len)
					     : -LINUX_EBADF;
	}
	return -LINUX_EINVAL;
}
