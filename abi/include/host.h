/* SPDX-License-Identifier: MIT */
/*
 * The functions that abi needs from its host, the substrate.
 *
 * bee fills this table with Win32 or Linux calls, sms with its own memory and
 * threads and with records sent to the Linux proxy. Rules:
 *
 * - Results are 0 or a count, or a negative Linux errno (ABI_E...).
 * - Every call returns soon, except io_wait, wait, file_lock and family when
 *   they are asked to wait, and the two that never return. An operation that
 * can block is done as: try (may return -EAGAIN), wait, try again. Only the
 * wait can be interrupted.
 * - At most four register-sized arguments, so that a gate in assembly can
 *   save vector state around any of them without knowing their types.
 * - Buffers lie in guest memory or in abi's own; abi has checked them.
 * - Host objects (files, sockets) are small numbers chosen by the host.
 */
#ifndef ABI_HOST_H
#define ABI_HOST_H

#include <skep/types.h>

#define ABI_FOREVER (~0ull)
#define ABI_PATH_MAX 4096 /* of a path, with the NUL */

/* Protection; the values are those of Linux's PROT_*. */
#define ABI_PROT_READ 1
#define ABI_PROT_WRITE 2
#define ABI_PROT_EXEC 4

enum abi_clock {
	ABI_CLOCK_REALTIME,  /* ns since 1970 */
	ABI_CLOCK_MONOTONIC, /* ns; deadlines are on this clock */
	ABI_CLOCK_PROCESS,   /* ns of CPU time */
	ABI_CLOCK_THREAD,    /* ns of CPU time of the calling thread */
};

/* host->mem_file. `handle` is a regular file, opened with the rights that the
 * mapping needs. */
struct abi_mem_file {
	u64 addr, len;
	u64 offset; /* page aligned */
	s32 handle;
	u32 prot;   /* never ABI_PROT_EXEC */
	u32 shared; /* stores change the file; otherwise they are private */
};

/*
 * host->text_file: text that the guest maps from a file.
 *
 * MAP   [addr, addr + len) is fresh and writable, and is to become text from
 *       `offset` of the file on. 0: the host has filled it and made it safe to
 *       run; `len` is then how much of it is text (the rest is left as it was),
 *       and [stubs, stubs + stubs_len) inside [room, room_end) is the host's
 *       code for it, protected. -ENOEXEC: the file is no library, or this is
 *       no whole text of it: nothing was changed. -ENOMEM: with `need`, the
 *       room or `most`, the bytes that the stubs may take meanwhile, must be
 *       that large. Else an errno after a sentence.
 * DROP  This text is unmapped. Each page is dropped once.
 * REAP  1: all text of a library was dropped, and stubs are to be released;
 *       0: there is no such library.
 */
#define ABI_TEXT_REACH 0x7ff00000ull /* of a jump to a stub, with a margin */
enum abi_text_verb { ABI_TEXT_MAP, ABI_TEXT_DROP, ABI_TEXT_REAP };

struct abi_text_file {
	enum abi_text_verb verb;
	s32 handle;
	u64 addr, len, offset;
	u64 room, room_end, most;
	u64 need, stubs, stubs_len; /* out */
	const char *name;	    /* of the file, for messages */
};

enum abi_spawns {
	/* FORK with status 0: include/fork.h */
	ABI_SPAWNS_COPIES = 1,
	/* There is no FORK with status 0, and no EXEC: fork(2), and execve(2)
	 * but in a child of vfork, are refused. SPAWN runs what Linux itself
	 * would run, outside of abi, and returns Linux's errno. */
	ABI_SPAWNS_HELPERS,
};

/* The host and its attributes; set once by host->info. */
struct abi_host_info {
	u32 cpus;
	u32 pid; /* the guest's process id; never 1 */
	u32 uid, gid;
	u32 umask; /* the guest's at its start; the host itself applies none */
	u64 mem_total; /* bytes */
	u64 mem_free;  /* bytes */
	/* The most bytes the guest may commit. If it is above mem_total, memory
	 * is allocated on first touch, and mem_free returns what is left
	 * now. */
	u64 mem_limit;
	/* From here to the end of the mmap range there are only mappings by
	 * mem_place. 0: there is no such window. */
	u64 file_window;
	/* Not 0: `family` starts processes itself. Then FORK with status 1
	 * only gives the child's pid, and the caller becomes the child; SPAWN
	 * or ENDED follows. */
	u32 spawns;	/* enum abi_spawns */
	u64 xsave_size; /* bytes that vec_save writes (standard XSAVE form) */
	u64 xsave_mask; /* components of it (XCR0 as the guest sees it) */
	char node[65];	/* uname: nodename */
	/* uname: the version's text; names substrate and host */
	char machine[65];
};

/* The fields of Linux's struct stat; abi converts it to the guest's layout. */
struct abi_stat {
	u64 dev, ino, nlink;
	u32 mode, uid, gid; /* mode holds S_IFMT as Linux numbers it */
	u64 rdev, size, blksize, blocks;
	s64 atime_ns, mtime_ns, ctime_ns; /* since 1970 */
};

struct abi_statfs {
	u64 type, bsize, blocks, bfree, bavail, files, ffree, namelen;
};

/* A directory entry; `next` is the cookie of the entry after it. */
struct abi_dirent {
	u64 ino, next;
	u32 type; /* DT_* of Linux */
	char name[256];
};

/* host->file_open. `path` is absolute, normalised and in Linux form. */
struct abi_open {
	const char *path;
	u32 flags; /* O_* of x86-64 Linux */
	u32 mode;
	s32 handle; /* out */
	u32 type;   /* out: S_IFREG, S_IFDIR, S_IFCHR, S_IFIFO, S_IFSOCK */
	/*
	 * 1: waits as open(2) does without O_NONBLOCK for the other end of a
	 * FIFO; -EINTR if the calling thread is kicked before or during the
	 * call. -EOPNOTSUPP: it is a FIFO, and this host cannot wait. 0: never
	 * waits. In both cases later reads and writes do not wait.
	 */
	u32 wait;
};

enum abi_path_verb {
	ABI_PATH_STAT,	 /* follows links; stat */
	ABI_PATH_LSTAT,	 /* stat */
	ABI_PATH_ACCESS, /* mode: R_OK, W_OK, X_OK bits */
	ABI_PATH_UNLINK,
	ABI_PATH_RMDIR,
	ABI_PATH_MKDIR,	 /* mode */
	ABI_PATH_MKFIFO, /* mode; -EPERM: the host has none */
	/* path, path2; mode: RENAME_* of renameat2(2); -EINVAL: the host
	 * cannot do that */
	ABI_PATH_RENAME,
	ABI_PATH_LINK,	   /* path, path2 */
	ABI_PATH_SYMLINK,  /* path2 is the text of the link */
	ABI_PATH_READLINK, /* buf, len; result is the length */
	ABI_PATH_CHMOD,	   /* mode */
	ABI_PATH_TRUNCATE, /* len */
	/* times; ABI_TIME_OMIT keeps one; mode 1: changes a symbolic link
	 * itself */
	ABI_PATH_UTIMENS,
	ABI_PATH_STATFS, /* statfs */
};

#define ABI_TIME_OMIT (-(1ll << 62))

/* host->path. Paths as in abi_open. */
struct abi_path_op {
	enum abi_path_verb verb;
	u32 mode;
	const char *path;
	const char *path2;
	void *buf;
	u64 len;
	s64 times[2]; /* access, modification; ns since 1970 */
	struct abi_stat *stat;
	struct abi_statfs *statfs;
};

/* Whether the operation follows a link at the end of the path. */
static inline int abi_path_follows(const struct abi_path_op *op)
{
	switch (op->verb) {
	case ABI_PATH_STAT:
	case ABI_PATH_ACCESS:
	case ABI_PATH_CHMOD:
	case ABI_PATH_TRUNCATE:
	case ABI_PATH_STATFS:
		return 1;
	case ABI_PATH_UTIMENS:
		return !op->mode;
	default:
		return 0;
	}
}

enum abi_file_verb {
	ABI_FILE_STAT,
	ABI_FILE_SYNC,
	ABI_FILE_TRUNCATE, /* len */
	ABI_FILE_CHMOD,	   /* mode */
	ABI_FILE_UTIMENS,  /* times */
	/* dirent->next: in, the cookie (0 starts); result 1, or 0 at the end */
	ABI_FILE_READDIR,
	ABI_FILE_STATFS,
	ABI_FILE_WINSIZE, /* result rows << 16 | columns, or -ENOTTY */
	/* result: bytes that a read would return now (FIONREAD) */
	ABI_FILE_AVAILABLE,
	/* len: signed offset, mode: SEEK_SET, _CUR or _END; moves the host's
	 * position, and returns it */
	ABI_FILE_SEEK,
	/* buf, len: the guest's name, without links, as the host knows it now;
	 * -EXDEV: it is not below the root */
	ABI_FILE_NAME,
	/* from now on all writes by this open file append */
	ABI_FILE_APPEND,
	/* of a socket: 1 if the next byte follows out-of-band data
	 * (sockatmark), else 0 */
	ABI_FILE_ATMARK,
	/* of a pipe; len: 0, or the capacity to set; result: its capacity, as
	 * F_SETPIPE_SZ returns it */
	ABI_FILE_PIPE_SIZE,
};

struct abi_file_op {
	enum abi_file_verb verb;
	u32 mode;
	u64 len;
	void *buf;
	s64 times[2];
	struct abi_stat *stat;
	struct abi_statfs *statfs;
	struct abi_dirent *dirent;
};

/*
 * host->file_read, file_write. `offset` is ABI_STREAM for pipes, terminals and
 * other files without a position, which return -EAGAIN instead of blocking.
 * ABI_APPEND (write only) appends, atomically if the host can. ABI_CURRENT is
 * the position that the host keeps for an inherited regular file, and that all
 * users of the open file share.
 */
#define ABI_STREAM (-1ll)
#define ABI_APPEND (-2ll)
#define ABI_CURRENT (-3ll)
struct abi_io {
	void *buf;
	u64 len;
	s64 offset;
};

/*
 * host->file_lock. Locks that other processes see, in one of three independent
 * families:
 *
 * RECORD  fcntl's F_SETLK. The process owns them: it never conflicts with
 *         itself. They split and merge by bytes. All that the process holds on
 *         a file go when it closes any handle of that file (abi sees to it that
 *         closing a number drops them, and that no other handle is closed while
 *         they are held), and when it dies.
 * OPEN    F_OFD_SETLK. The same by bytes, but the handle owns them: two handles
 *         of one process conflict, and closing this one drops them.
 * FLOCK   flock(2): the whole file, owned by the handle.
 *
 * SET     0, or -EAGAIN when another owner is in the way. Replaces what the
 *         owner held on these bytes (READ to WRITE and back, NONE drops).
 * WAIT    The same, but waits; -EINTR when `thread` was kicked, before or
 *         during (one kick is one -EINTR, as with io_wait); -EDEADLK if owners
 * of RECORD locks would wait for each other. A host that cannot wait returns
 * -EAGAIN, and abi tries again. GET     Not for FLOCK. type becomes NONE when
 * SET would succeed, else type, first, last and pid (-1: an OPEN lock) tell of
 * one in the way.
 *
 * READ needs a handle that is open for reading, WRITE one for writing: -EBADF.
 * May be NULL: then abi logs once that no other process sees the locks.
 */
enum abi_filelock_kind {
	ABI_FILELOCK_RECORD,
	ABI_FILELOCK_OPEN,
	ABI_FILELOCK_FLOCK,
};

enum abi_filelock_type {
	ABI_FILELOCK_READ, /* the values of F_RDLCK and so on */
	ABI_FILELOCK_WRITE,
	ABI_FILELOCK_NONE,
};

enum abi_filelock_verb {
	ABI_FILELOCK_SET,
	ABI_FILELOCK_WAIT,
	ABI_FILELOCK_GET,
};

/* `last`: to the end of the file, however long */
#define ABI_FILELOCK_END 0x7fffffffffffffffull
struct abi_filelock {
	u32 verb, kind, type;
	s32 pid;	 /* out, GET */
	u64 first, last; /* bytes, both inclusive */
};

enum abi_sock_verb {
	ABI_SOCK_BIND,	   /* addr, addrlen */
	ABI_SOCK_CONNECT,  /* addr; -EINPROGRESS, then io_wait OUT, then GETOPT
			      SO_ERROR */
	ABI_SOCK_LISTEN,   /* value: backlog */
	ABI_SOCK_ACCEPT,   /* out: handle, addr */
	ABI_SOCK_SEND,	   /* buf, len, flags, addr when addrlen > 0 */
	ABI_SOCK_RECV,	   /* buf, len, flags; out: addr */
	ABI_SOCK_NAME,	   /* out: addr */
	ABI_SOCK_PEER,	   /* out: addr */
	ABI_SOCK_SETOPT,   /* level, name, buf, len */
	ABI_SOCK_GETOPT,   /* level, name, buf, len in and out */
	ABI_SOCK_SHUTDOWN, /* value: SHUT_* */
};

#define ABI_RIGHTS_MAX 253 /* as Linux: SCM_MAX_FD */

/* Open files that are passed with a message on an AF_UNIX socket of the
 * host. */
struct abi_rights {
	u32 count;
	u32 room; /* RECV: maximum number; the host closes further ones */
	struct abi_right {
		s32 handle;
		/* RECV: as in struct abi_open; for a socket the next four
		 * too. */
		u32 flags; /* O_ACCMODE, O_APPEND */
		u32 type;
		u32 domain, sock_type, protocol, listening;
	} list[ABI_RIGHTS_MAX];
};

/* All constants and sockaddr layouts are Linux's. Calls never block. */
struct abi_sock_op {
	enum abi_sock_verb verb;
	s32 handle; /* out, for ACCEPT */
	s32 level, name;
	s32 value; /* out, for RECV: 1 if ancillary data was dropped */
	u32 flags; /* MSG_* */
	void *buf;
	u64 len;
	u32 addrlen; /* in and out */
	u8 addr[128];
	/* BIND, CONNECT, SEND: the path in an AF_UNIX address, as in abi_open;
	 * NULL: other families, abstract names. */
	const char *path;
	/* SEND: files to pass. RECV: `room` in, the rest out; the caller then
	 * owns the handles. NULL: none. */
	struct abi_rights *rights;
};

#define ABI_VFORK_STACK 65536

/*
 * host->family. A family consists of all processes that one run started; the
 * program can see no others. Pids, groups and sessions are the guest's numbers;
 * 0 and negative ones have the meaning of the system call.
 */
enum abi_family_verb {
	/* status 1: as vfork does; returns the child's pid, or 0 in the child,
	 * and there pid is its own */
	ABI_FAMILY_FORK,
	/* with the same op after FORK with status 1: waits until the child
	 * executes or ends; with info.spawns, after FORK with status 0: starts
	 * the child, and returns when it goes on, or an errno */
	ABI_FAMILY_FORKED,
	ABI_FAMILY_BEGIN,  /* in the child: from now on it receives signals */
	ABI_FAMILY_WAIT4,  /* pid, options, usage; out: status; the pid, or 0 */
	ABI_FAMILY_WAITID, /* status: P_*, pid, options, usage; out: info */
	/* pid, status: signal or 0; out: status 1: the caller's own process is
	 * a target too */
	ABI_FAMILY_KILL,
	ABI_FAMILY_QUEUE, /* pid, info: rt_sigqueueinfo to another process */
	ABI_FAMILY_STOP,  /* status: the signal that stops this process */
	ABI_FAMILY_REAP,  /* status: SA_NOCLDWAIT, or SIGCHLD is ignored */
	/* the parent's pid, or 1 if it is not in the family */
	ABI_FAMILY_PARENT,
	ABI_FAMILY_GROUP,	/* pid: its process group */
	ABI_FAMILY_SESSION,	/* pid: its session */
	ABI_FAMILY_SET_GROUP,	/* pid, status: setpgid */
	ABI_FAMILY_SET_SESSION, /* setsid */
	ABI_FAMILY_TTY_GROUP,	/* handle: tcgetpgrp */
	ABI_FAMILY_SET_TTY,	/* handle, pid: tcsetpgrp */
	/* handle, options: a request of ioctl_tty(2); its argument: pid, or if
	 * not NULL text, text_len bytes, in and out */
	ABI_FAMILY_TERMINAL,
	ABI_FAMILY_DEATH, /* status: PR_SET_PDEATHSIG */
	/* pid, status as wait(2) gives it: a child of vfork ended */
	ABI_FAMILY_ENDED,
	/* pid, and as EXEC: a child of vfork executes; returns 0 */
	ABI_FAMILY_SPAWN,
	/* status: 1: signals of other processes stay with the host, because
	 * execve saves what has arrived; 0: it failed */
	ABI_FAMILY_HOLD,
	/* all signals that were sent to this process before are pending */
	ABI_FAMILY_SETTLE,
	ABI_FAMILY_EXEC_FILE, /* a handle for the data of include/exec.h */
	ABI_FAMILY_EXEC,      /* handle: that file, path: the program, as in
				 abi_open; returns only when it failed */
	ABI_FAMILY_NEXT,      /* pid: the next higher one of the family, or 0 */
	ABI_FAMILY_TEXT,  /* pid, status: enum abi_family_text, text, text_len:
			     bytes of it; -ESRCH: no such process */
	ABI_FAMILY_NAME,  /* path: how others see this process from now on */
	ABI_FAMILY_USAGE, /* out: usage, of children that were waited for
			   */
};

/* Files of a process in proc(5), with the guest's numbers. */
enum abi_family_text {
	ABI_FAMILY_CMDLINE,
	ABI_FAMILY_COMM,
	ABI_FAMILY_STAT,
	ABI_FAMILY_STATUS,
	ABI_FAMILY_TEXTS,
};

struct abi_siginfo;
struct abi_family_op {
	enum abi_family_verb verb;
	s32 pid;
	s32 status;
	u32 options;
	s32 handle;
	u64 usage[18]; /* struct rusage of x86-64 */
	struct abi_siginfo *info;
	const char *path;
	/* FORK with status 1: writable memory from the caller's stack pointer
	 * on. Before FORKED returns, the child's changes there are copied to
	 * the parent. */
	u64 stack;
	u32 stack_len; /* at most ABI_VFORK_STACK */
	u32 text_len;
	char *text;
	/* EXEC: the number of files with record locks, which become the new
	 * program's; but not those of the files of these handles. */
	u32 locked;
	u32 unlocked_count;
	const s32 *unlocked;
};

/*
 * futex(2) on words that processes share: host->futex. WAIT_BITSET,
 * WAKE_BITSET, REQUEUE, CMP_REQUEUE and WAKE_OP, without flags. Addresses are
 * the guest's; abi has checked that they are in MAP_SHARED memory.
 */
struct abi_futex_op {
	u32 command;
	u32 value;  /* expected value, or the number to wake */
	u32 count;  /* the number to move to, or to wake at, `second` */
	u32 value3; /* bitset, expected value, or encoded operation */
	u64 addr, second;
	u64 deadline; /* CLOCK_MONOTONIC, ns, or ABI_FOREVER */
};

/* One thing to wait for; events and revents as poll(2). */
struct abi_poll {
	s32 handle;
	u16 events;
	u16 revents;
};

/* host->watch: inotify(7). */
enum abi_watch_verb {
	ABI_WATCH_OPEN,	  /* a handle that never blocks */
	ABI_WATCH_ADD,	  /* handle, path as in abi_open, mask: IN_*; the number
			     of the watch */
	ABI_WATCH_REMOVE, /* handle, number */
};

struct abi_watch_op {
	enum abi_watch_verb verb;
	s32 handle;
	u32 mask;
	s32 number;
	const char *path;
};

/*
 * host->ipc: System V shared memory, semaphores and messages, sysvipc(7).
 * `call` is the number of the system call of x86-64, and `arg` its arguments
 * with Linux's structures; abi has checked where they point. Pids in results
 * are the guest's. shmat: at arg[1] inside IMAGE or ARENA, in place of what is
 * mapped there; mem_release detaches. shmdt does not occur. semop, semtimedop,
 * msgsnd and msgrcv may wait: -EINTR when `thread` was kicked, before or
 * during.
 */
struct abi_ipc_op {
	u32 call;
	u64 arg[6];
};

/*
 * host->splice: splice(2), or tee(2) of two pipes. The offsets are ABI_STREAM
 * or ABI_CURRENT for the position that the host keeps. Never waits (-EAGAIN),
 * and loses no byte that it took from a pipe.
 */
struct abi_splice {
	s32 in, out;
	u32 tee;
	s64 in_at, out_at;
	u64 len;
};

struct abi_host {
	/* Memory. Addresses are page aligned and inside IMAGE or ARENA. */
	s64 (*mem_commit)(u64 addr, u64 len, u32 prot); /* fresh zero pages */
	s64 (*mem_protect)(u64 addr, u64 len, u32 prot);
	s64 (*mem_release)(u64 addr, u64 len); /* reserved again */
	/*
	 * Maps pages of a file in place of existing mappings, coherent with
	 * read and write, other mappings and other processes. An access beyond
	 * the file's end is SIGBUS (abi_fault). The handle may be closed
	 * afterwards. mem_protect and mem_release work as on other memory;
	 * mem_discard restores the file's contents in private pages. NULL: abi
	 * makes copies, writes shared ones back, and logs that once.
	 */
	s64 (*mem_file)(const struct abi_mem_file *map);
	/*
	 * For a host that cannot map a file at every page: places a shared
	 * mapping (with `family` also one without a file, handle -1) inside
	 * file_window, at map->addr, or anywhere if that is 0.
	 * An existing mapping there is replaced. Returns the address, or a
	 * negative errno after a message. Private mappings are then copies.
	 * NULL: mem_file accepts any page.
	 */
	s64 (*mem_place)(const struct abi_mem_file *map);
	/*
	 * With mem_place: makes all of a range in file_window accessible that
	 * the file now covers. -EFAULT: some of it is beyond the file's end.
	 * fault: an access failed, so cached knowledge about the file may be
	 * outdated.
	 */
	s64 (*mem_reach)(u64 addr, u64 len, u32 fault);
	/* With mem_place: writes stores to these pages to the file's cache. */
	s64 (*mem_sync)(u64 addr, u64 len);
	/* The pages then read as zeros. They are readable and writable when
	 * this is called. */
	s64 (*mem_discard)(u64 addr, u64 len);
	/*
	 * Allocates memory now for all accessible pages that would be allocated
	 * on first touch; -ENOMEM if there is not enough. NULL: memory is
	 * allocated at commit.
	 */
	s64 (*mem_populate)(u64 addr, u64 len);
	/*
	 * The bytes are complete and about to become executable: makes them
	 * safe to run (bee rewrites or checks them), or refuses with -EACCES
	 * after logging why. They are writable when this is called.
	 */
	s64 (*text_seal)(u64 addr, u64 len);
	/* NULL: text of files is handled like code that is generated at run
	 * time. */
	s64 (*text_file)(struct abi_text_file *op);
	/*
	 * Translates `pc` to the guest's instruction: after a call the program
	 * counter may be in a stub of the host. Never fails.
	 */
	u64 (*text_pc)(u64 pc);

	/* Threads, by abi's thread index; their registers are in abi's
	 * record. */
	s64 (*thread_start)(u32 thread);
	/*
	 * Before thread_start of a new thread, which follows at once: its tid,
	 * 2 to 2^30 - 1, or a negative errno. No living thread of any process
	 * that shares memory with this one has it, nor is it the pid of one.
	 * 0 or NULL: abi chooses, and processes do not share memory.
	 */
	s64 (*thread_number)(u32 thread);
	/*
	 * 1: a thread of another process has this tid, or its end has not
	 * released its robust futexes yet, or that is not known. 0: it has
	 * ended, or there was none. NULL: futexes with an owner work within a
	 * process only.
	 */
	s64 (*thread_lives)(u32 tid);
	/*
	 * Does not return. Thread 0 may exit while others run: then the process
	 * continues. The host calls abi_thread_gone at the end.
	 */
	void (*thread_exit)(u32 thread);
	/*
	 * Makes `thread` call abi soon: ends its io_wait, or interrupts guest
	 * code for abi_tick. May be called as soon as thread_start was, so a
	 * new thread begins with abi_tick on its registers.
	 */
	void (*thread_kick)(u32 thread);
	/* The index of the calling thread. Needed only with info.spawns. */
	u32 (*thread_self)(void);
	s64 (*thread_yield)(void);
	s64 (*thread_affinity)(u32 thread, const void *mask, u64 bytes);
	/* The guest's FS base has changed (the thread pointer is tp). */
	void (*thread_tp)(u32 thread, u64 tp);

	/*
	 * Sleeps while *word == expect, as FUTEX_WAIT. 0 when woken, also
	 * without a reason; -ETIMEDOUT. Not interrupted by thread_kick, because
	 * abi wakes the word itself.
	 */
	s64 (*wait)(u32 *word, u32 expect, u64 deadline_ns);
	void (*wake)(u32 *word, u32 count);
	/*
	 * Returns the result of futex(2); -EINTR if `thread` is kicked before
	 * or during the call. NULL: waiters are woken only by their own
	 * process.
	 */
	s64 (*futex)(const struct abi_futex_op *op, u32 thread);
	/*
	 * From now on, whenever this process ends or executes a program, also
	 * by SIGKILL, the host calls abi_robust_dead after the last thread has
	 * executed its last guest code. Is called once per process, and again
	 * in a child of fork. NULL: only a thread that ends by itself releases
	 * its robust futexes.
	 */
	s64 (*robust)(void);

	/*
	 * abi_timer_fire must be called at the deadline (CLOCK_MONOTONIC), not
	 * from a guest thread; ABI_FOREVER: not at all. May be NULL: then
	 * timers that send signals return ENOSYS.
	 */
	void (*timer_arm)(u64 deadline_ns);

	/* ns of CPU time of a thread, or -ESRCH. NULL: timers of CPU time are
	 * refused. */
	s64 (*thread_clock)(u32 thread);
	s64 (*clock)(u32 clock);	   /* ns */
	s64 (*random)(void *buf, u64 len); /* returns 0 */
	s64 (*info)(struct abi_host_info *info);
	/* CPU time; abi itself knows the committed bytes. */
	s64 (*rusage)(s64 *user_ns, s64 *system_ns);

	s64 (*file_open)(struct abi_open *open);
	s64 (*file_close)(s32 handle); /* files and sockets */
	s64 (*file_read)(s32 handle, const struct abi_io *io);
	s64 (*file_write)(s32 handle, const struct abi_io *io);
	s64 (*file)(s32 handle, struct abi_file_op *op);
	/* Returns the bytes moved. NULL: splice and tee are refused. */
	s64 (*splice)(const struct abi_splice *op);
	/* May wait, as described above. May be NULL. */
	s64 (*file_lock)(s32 handle, struct abi_filelock *lock, u32 thread);
	s64 (*path)(struct abi_path_op *op);
	/*
	 * Creates two handles that never block: one to read from, one to write
	 * to; or, if `type` is one of SOCK_*, the ends of socketpair(2) of
	 * AF_UNIX. NULL: abi stores the bytes itself, pipes are not shared with
	 * other processes, and sock_open creates no AF_UNIX sockets.
	 */
	s64 (*pipe)(s32 handle[2], u32 type);
	/*
	 * eventfd(2): a handle that never blocks, for file_read and file_write
	 * of eight bytes and for io_wait; other processes share the counter.
	 * semaphore: 1, or 0. NULL: processes do not share them.
	 */
	s64 (*counter)(u64 value, u32 semaphore);
	/*
	 * The two waits return -EINTR if `thread` is kicked before or during
	 * the call. NULL: a program is one process. Otherwise MAP_SHARED memory
	 * without a file is created by mem_file with handle -1.
	 */
	s64 (*family)(struct abi_family_op *op, u32 thread);
	/* May be NULL: the calls get ENOSYS. */
	s64 (*watch)(struct abi_watch_op *op);
	s64 (*ipc)(const struct abi_ipc_op *op, u32 thread);
	s64 (*sock_open)(u32 domain, u32 type, u32 protocol); /* handle */
	s64 (*sock)(s32 handle, struct abi_sock_op *op);
	/*
	 * Waits for handles; returns how many have revents, 0 at the deadline,
	 * -EINTR if `thread` is kicked before or during the call.
	 */
	s64 (*io_wait)(struct abi_poll *list, u32 count, u64 deadline_ns,
		       u32 thread);

	/* Stores the calling thread's vector state, as the guest left it. */
	s64 (*vec_save)(void *buf, u64 len);
	/*
	 * buf: standard XSAVE form with its header (so len is 576 or more).
	 * Components whose bit in XSTATE_BV is clear get their initial state,
	 * and len may end before them. -EINVAL: the CPU would not accept it.
	 */
	s64 (*vec_load)(const void *buf, u64 len);

	/* status as for wait(2): code << 8, or a signal number. Does not
	 * return. */
	void (*proc_exit)(u32 status);
	/* Writes one line for the user; it has no newline. */
	void (*log)(const char *line);
};

#endif
