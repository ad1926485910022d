/* SPDX-License-Identifier: MIT */
/*
 * Declarations that the files of bee's Windows host share. No file outside this
 * directory includes it.
 */
#ifndef BEE_HOST_WINDOWS_WIN_H
#define BEE_HOST_WINDOWS_WIN_H

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#endif
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>

#include "abi/include/abi.h"
#include "base/errno.h"
#include "abi/include/host.h"
#include "bee/core/bee.h"

/* Linux's numbers that more than one file needs. */
#define WIN_S_IFIFO 0010000
#define WIN_S_IFCHR 0020000
#define WIN_S_IFDIR 0040000
#define WIN_S_IFREG 0100000
#define WIN_S_IFLNK 0120000
#define WIN_S_IFSOCK 0140000

#define WIN_POLLIN 0x1
#define WIN_POLLPRI 0x2
#define WIN_POLLOUT 0x4
#define WIN_POLLERR 0x8
#define WIN_POLLHUP 0x10
#define WIN_POLLNVAL 0x20
#define WIN_POLLRDNORM 0x40
#define WIN_POLLWRNORM 0x100
#define WIN_POLLRDHUP 0x2000

/* Errors: xlat.c -------------------------------------------------------- */

/* Returns the negative Linux errno for an error code of Win32 or Winsock. */
s64 bee_win_error(DWORD code);
s64 bee_win_last(void);
s64 bee_win_sock_last(void);
const char *bee_win_status_name(DWORD status); /* NULL: no name known */

/* Memory: mem.c --------------------------------------------------------- */

int bee_mem_reserve(void);
/* Makes pages of ARENA readable and writable; 0: there is a Win32 error. */
int bee_mem_open(u64 addr, u64 len);
s64 bee_mem_commit(u64 addr, u64 len, u32 prot);
s64 bee_mem_protect(u64 addr, u64 len, u32 prot);
s64 bee_mem_release(u64 addr, u64 len);
s64 bee_mem_discard(u64 addr, u64 len);
/* A bit for each page of IMAGE: it may be other than zero. In a fork. */
u8 *bee_mem_touched(u64 *len);
int bee_mem_page_touched(u64 addr);

/* Threads: thread.c ----------------------------------------------------- */

/*
 * The host's part of a guest thread, in a table indexed by abi's thread number.
 * Any thread may use `doorbell` and `wake`; the thread itself, or the table's
 * lock, owns the other fields.
 */
struct win_thread {
	struct bee_thread bee;
	HANDLE handle;
	u32 live; /* guarded by the table's lock: the thread may be suspended */
	u32 kick; /* atomic: an io_wait must return -EINTR */
	u32 doorbell;  /* atomic: counts reasons to check again; waited on */
	u32 asleep;    /* atomic: the thread is in io_wait */
	SOCKET wake;   /* connected to itself; INVALID_SOCKET: none yet */
	HANDLE event;  /* a named event for file locks; NULL: none yet */
	HANDLE shared; /* a named event for shared futexes; NULL: none yet */
	u32 wake_used; /* atomic: what ends the thread's sleep */
};

enum win_wake {
	WIN_WAKE_DOORBELL,
	WIN_WAKE_SOCKET, /* it sleeps in WSAPoll, and `wake` ends that */
	WIN_WAKE_EVENT,	 /* it waits for a file lock, and `event` ends that */
	WIN_WAKE_SHARED, /* it waits at a shared futex, and `shared` ends that
			  */
};

int bee_thread_slots_take(void); /* 0, or a Win32 error */

/* Inline, because it is used while the guest's vector registers are live. */
static inline struct win_thread *bee_thread_self(void)
{
	struct win_thread *t;

	__asm__ volatile("mov %%gs:%c1, %0"
			 : "=r"(t)
			 : "i"(BEE_SLOT(SKEP_SLOT_THREAD)));
	return t;
}

struct win_thread *bee_thread_main(void); /* makes the calling one thread 0 */
struct win_thread *bee_thread_block(u32 index);
void bee_thread_adopt(struct win_thread *t);
s64 bee_thread_start(u32 thread);
void bee_thread_exit(u32 thread);
u32 bee_thread_index(void);
void bee_thread_kick(u32 thread);
s64 bee_thread_yield(void);
s64 bee_thread_clock(u32 thread);
s64 bee_thread_affinity(u32 thread, const void *mask, u64 bytes);
void bee_thread_ring(struct win_thread *t); /* ends its sleep in io_wait */
void bee_thread_ring_all(void);
/* All other guest threads stand still in between; the caller allocates nothing
 * and takes no lock, since they may hold any. */
void bee_thread_stop_others(void);
void bee_thread_resume_others(void);
/* After this no thread is suspended any more. The lock is never released. */
void bee_thread_freeze(void);
int bee_timer_start(void); /* 0, or a Win32 error: timer.c */
void bee_timer_arm(u64 deadline_ns);
s64 bee_wait(u32 *word, u32 expect, u64 deadline_ns);
void bee_wake(u32 *word, u32 count);
s64 bee_futex(const struct abi_futex_op *op, u32 thread); /* futex.c */
s64 bee_robust_watch(void);				  /* robust.c */

/* Faults: fault.c ------------------------------------------------------- */

/* A fault of the guest, which the parent passes to the faulting thread. */
struct win_fault {
	EXCEPTION_RECORD record;
	CONTEXT context;
};
#define WIN_FAULTS 1280 /* abi's threads and bee's own */

void bee_fault_install(void);
int bee_fault_map(HANDLE section); /* 0, or a Win32 error */
int bee_fault_is_guest(const EXCEPTION_RECORD *r, const CONTEXT *c);
/*
 * The address to which the parent sends the thread; rcx is the index of its
 * win_fault.
 */
void bee_fault_enter(void);

/* The parent as debugger, in debug.c. */
HANDLE bee_debug_section(void); /* for bee_fault_map in the child */
void bee_debug_run(void);

/* Clocks and facts: clock.c, info.c ------------------------------------- */

s64 bee_clock(u32 clock);
s64 bee_clock_cpu(const FILETIME *time); /* ns of a length of time */
void bee_clock_init(void);
/* Milliseconds until the deadline, rounded up; INFINITE for ABI_FOREVER. */
DWORD bee_clock_left(u64 deadline_ns);
s64 bee_rusage(s64 *user_ns, s64 *system_ns);
s64 bee_win_ns(const FILETIME *t); /* since 1970 */
FILETIME bee_win_filetime(s64 ns);
s64 bee_random(void *buf, u64 len);
s64 bee_info(struct abi_host_info *info);
/* The section of a table that all bees of the user share, which begins with
 * zeros, at most 4 GiB; or NULL. It lasts as long as a process has a handle. */
HANDLE bee_user_section(const WCHAR *kind, u64 size);
/* Maps it. `kind` names it, and *mutex, which guards it; it and *section are
 * opened if they are NULL. NULL: it cannot be opened. */
void *bee_user_table(const WCHAR *kind, u64 size, HANDLE *section,
		     HANDLE *mutex);
const char *bee_wine_version(void); /* NULL on Windows */

/* Handles: handle.c ----------------------------------------------------- */

enum win_kind {
	WIN_NONE,
	WIN_FILE,
	WIN_DIR,
	WIN_DEVICE, /* NUL and other character devices without readiness */
	WIN_STREAM, /* pipe or console: stream.c */
	WIN_SOCK,
	WIN_EXEC,    /* memory for the state of execve: spawn.c */
	WIN_COUNTER, /* an eventfd: counter.c */
};

struct win_dir;
struct win_stream;
struct win_counter;

struct win_file_id {
	u64 index;
	u64 volume; /* serial number; 0: not known, so equal to any */
};

/*
 * abi closes a handle only when no call uses it any more, so an entry has no
 * reference count. The lock in handle.c guards only the allocation of numbers.
 */
struct win_handle {
	u32 kind;
	u32 flags;     /* flags of open(2), O_* */
	u32 inherited; /* its position is shared with the process that passed it
			*/
	u32 gone;      /* atomic: the last name was deleted, but still exists */
	HANDLE h;
	SOCKET s;
	struct win_stream *stream;
	struct win_stream *out; /* the other direction, if there are two */
	u32 pair; /* STREAM: an end of a socket pair, which is two pipes */
	struct win_dir *dir;
	struct win_counter *counter;
	struct win_file_id lock_file; /* valid if lock_known is set */
	u32 lock_known;
	u32 lock_held;		    /* closing the handle may drop locks */
	HANDLE lock_owner;	    /* lockowner.h; NULL: none yet */
	u64 lock_id;		    /* the owner's number */
	u32 sock_domain, sock_type; /* Linux's numbers */
	u32 sock_peer;		    /* a connection was started or accepted */
	u32 sock_reset;		    /* ECONNRESET was reported already */
	u32 sock_connecting; /* CONNECT was started; its result is not seen */
};

struct win_handle *bee_handle_new(u32 kind, s32 *number); /* NULL: full */
/* The same with this number, which is free. */
struct win_handle *bee_handle_at(u32 kind, s32 number);
struct win_handle *bee_handle_get(s32 number); /* NULL: not in use */
void bee_handle_free(s32 number);
/* Tells all open handles of the file of h that it loses its last name. */
void bee_handle_gone(HANDLE h);

/* Streams: stream.c ------------------------------------------------------ */

#define WIN_STREAM_BUFFER 0x10000 /* bytes */

/*
 * Takes ownership of `h`, which is a console if `console` is set. Returns NULL
 * if there is no memory.
 */
struct win_stream *bee_stream_new(HANDLE h, int console, int output);
/*
 * Makes two streams of one overlapped pipe and takes ownership of its handle.
 * If this fails (-1), the handle is closed.
 */
int bee_stream_pair(HANDLE h, struct win_stream **in, struct win_stream **out);
s64 bee_stream_read(struct win_stream *s, void *buf, u64 len);
/* The same, but the bytes are read again. */
s64 bee_stream_peek(struct win_stream *s, void *buf, u64 len);
s64 bee_stream_write(struct win_stream *s, const void *buf, u64 len);
/* WIN_POLLRDHUP of a socket pair's input: it was shut down at either end. */
u32 bee_stream_poll(struct win_stream *s, u32 events);
/* No thread is rung when the last reader of this output leaves, because
 * Windows refused what this needs: look again. */
int bee_stream_unwatched(const struct win_stream *s);
s64 bee_stream_available(struct win_stream *s);
s64 bee_stream_winsize(struct win_stream *s);
int bee_stream_console(const struct win_stream *s);
void bee_stream_close(struct win_stream *s);
/*
 * For a process that is to inherit the stream: its handle, or NULL if it cannot
 * be passed or was shut down. Output is written first, for some seconds; a read
 * that waits is cancelled. Bytes that were read already stay here, which is
 * reported; of pipes that bee made nothing is read ahead.
 */
struct win_passed;
HANDLE bee_stream_pass(struct win_stream *s, struct win_passed *to);
void bee_stream_flush_all(void); /* called before the process ends */

/*
 * An end of a pipe that bee made; processes that inherit it share the bytes and
 * the shutdowns. Takes ownership of all handles. `h` is NULL if it was shut
 * down already. shut[0] is set when the reader is shut down, shut[1] when the
 * writer is; NULL: it cannot be. Returns NULL if there is no memory.
 */
struct win_stream *bee_stream_own(HANDLE h, int output, const HANDLE shut[2]);
/* No process uses this end any more: the other one gets EOF or EPIPE. What was
 * written before is still read. */
void bee_stream_shut(struct win_stream *s);
/* pipe.c: the ends of a new pipe, or of a pair of them: host->pipe. */
s64 bee_stream_pipe(s32 handle[2], u32 type);
s64 bee_stream_sock(struct win_handle *h, struct abi_sock_op *op);

/* Counters: counter.c ------------------------------------------------------ */

s64 bee_counter_new(u64 value, u32 semaphore); /* host->counter */
/* A counter that another process passed. Takes ownership of all handles. NULL:
 * no memory. */
struct win_counter *bee_counter_open(HANDLE section, HANDLE input, HANDLE room);
s64 bee_counter_read(struct win_counter *c, void *buf, u64 len);
s64 bee_counter_write(struct win_counter *c, const void *buf, u64 len);
u32 bee_counter_poll(struct win_counter *c, u32 events);
/* The section; `to` gets the events. */
HANDLE bee_counter_pass(const struct win_counter *c, struct win_passed *to);
void bee_counter_close(struct win_counter *c);

/* Files: file.c, dir.c, path.c, root.c ----------------------------------- */

#define WIN_PATH_MAX 8192 /* UTF-16 units, including the NUL */

int bee_root_set(const char *root);		   /* NULL: the default root */
s64 bee_path_encode(const char *path, WCHAR *out); /* WIN_PATH_MAX units */
s64 bee_path_decode(const WCHAR *path, char *out, u64 len);
s64 bee_path_missing(WCHAR *path); /* -ENOENT or -ENOTDIR; cuts the path */
s64 bee_file_open(struct abi_open *open);
s64 bee_file_close(s32 handle);
s64 bee_file_read(s32 handle, const struct abi_io *io);
s64 bee_file_write(s32 handle, const struct abi_io *io);
s64 bee_file(s32 handle, struct abi_file_op *op);
s64 bee_path(struct abi_path_op *op);
s64 bee_file_stat(HANDLE h, struct abi_stat *st);
s64 bee_file_identify(HANDLE h, struct win_file_id *id);
int bee_file_same(const struct win_file_id *a, const struct win_file_id *b);
s64 bee_file_statfs(HANDLE h, struct abi_statfs *fs);
s64 bee_file_times(HANDLE h, const s64 times[2]);
s64 bee_file_chmod(HANDLE h, u32 mode);
s64 bee_dir_read(struct win_handle *d, struct abi_dirent *e);
void bee_dir_free(struct win_dir *d);
/* CreateFileW, repeated while another process holds the file for a moment. */
HANDLE bee_win_open(const WCHAR *path, DWORD access, DWORD create, DWORD flags);
s64 bee_link_read(HANDLE h, char *buf, u64 len);

/*
 * Places: place.c. All paths are those of bee_path_encode. Where a function
 * reports a refusal, the last error is ERROR_NOT_SAME_DEVICE, and the first
 * time a sentence was printed.
 */
int bee_place_confine(const WCHAR *root); /* once, for --root; 0 or -1 */
/* Like bee_win_open, for a file that must be below the root. */
HANDLE bee_place_open(const WCHAR *path, DWORD access, DWORD create,
		      DWORD flags);
int bee_place_check(HANDLE h, const WCHAR *path); /* -1: outside; refused */
/*
 * Opens the directory of a name. The caller holds it open while it makes,
 * changes or removes the name, because Windows does not rename an open
 * directory. Returns NULL if there is nothing to guard; INVALID_HANDLE_VALUE
 * with the last error.
 */
HANDLE bee_place_hold(const WCHAR *path);
/* Only for Wine: bee opened `path` itself, and Wine followed a link. */
int bee_place_followed(HANDLE h, const WCHAR *path);
/*
 * Returns -1 and prints the message if a link was followed, because a change
 * would apply to what the link leads to.
 */
int bee_place_itself(HANDLE h, const WCHAR *path);
/* Returns the guest's path of h: its length, or a negative errno. */
s64 bee_place_text(HANDLE h, const WCHAR *path, char *out, u64 len);

/* Locks of files: filelock.c ---------------------------------------------- */

s64 bee_file_lock(s32 handle, struct abi_filelock *l, u32 thread);
/* The process loses the handle, and the open file its locks if no other process
 * has it. */
void bee_file_unlock(struct win_handle *h);
/* Before another process inherits the file: makes h->lock_owner, and returns
 * the section with the locks, which that process must have too. NULL: no
 * memory. */
HANDLE bee_filelock_share(struct win_handle *h);
void bee_filelock_inherit(HANDLE section); /* in that process */
/*
 * execve: the record locks become those of the process that takes this one's
 * place, as `op` says; `e` is what it gets. After success this process must
 * end, if e->mirrored is set after bee_filelock_await.
 */
struct win_spawn;
s64 bee_filelock_move(const PROCESS_INFORMATION *to, struct win_spawn *e,
		      const struct abi_family_op *op);
/* Returns when the process, which runs, waits for the end of this one. */
void bee_filelock_await(HANDLE process);
/* In that process: waits for that end, then locks what native programs see. */
void bee_filelock_take(const struct win_spawn *e);

/* Sockets: sock.c, sockopt.c, iowait.c ----------------------------------- */

int bee_sock_init(void); /* once, on first use; 0 or a negative errno */
s64 bee_sock_open(u32 domain, u32 type, u32 protocol);
s64 bee_sock(s32 handle, struct abi_sock_op *op);
s64 bee_sock_read(struct win_handle *h, void *buf, u64 len);
s64 bee_sock_write(struct win_handle *h, const void *buf, u64 len);
s64 bee_sock_available(struct win_handle *h);
s64 bee_sock_setopt(struct win_handle *h, struct abi_sock_op *op);
s64 bee_sock_getopt(struct win_handle *h, struct abi_sock_op *op);
s64 bee_io_wait(struct abi_poll *list, u32 count, u64 deadline_ns, u32 thread);

/* The parent, the probe, the end ------------------------------------------ */

int bee_parent_run(const struct bee_options *o); /* returns the exit code */
int bee_probe(void);
void bee_proc_exit(u32 status);
void bee_log(const char *line);

#endif
