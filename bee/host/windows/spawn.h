/* SPDX-License-Identifier: MIT */
/*
 * A new bee.exe, which gets handles of this process: for execve (spawn.c) and
 * for fork (fork.c). One section that it inherits says what it gets.
 */
#ifndef BEE_HOST_WINDOWS_SPAWN_H
#define BEE_HOST_WINDOWS_SPAWN_H

#include "family.h"
#include "lockmirror.h"

#define WIN_PASSED 1088 /* as many descriptions as abi has */
#define WIN_LINE 40000	/* units of a command line; Windows allows 32,767 */

#define WIN_SHUTS 4

/* A handle that the new process inherits. */
struct win_passed {
	s32 number; /* in the table of both processes */
	u32 kind, flags, inherited, console, output, gone;
	u32 lock_held;
	u32 own;  /* a pipe that bee made, or */
	u32 pair; /* `handle` is its input and `out` its output; 0: shut */
	/* of an eventfd: the section and the event */
	u64 handle, out;
	u64 shut[WIN_SHUTS]; /* of struct pipe_end, pipe.c */
	u64 lock_owner, lock_id;
};

#define WIN_SOCKETS_PASSED 128

/* A socket that the new process shares; `info` is made for it alone. */
struct win_socket {
	s32 number;
	struct win_handle as; /* h and s are of the parent */
	WSAPROTOCOL_INFOW info;
};

/* The start of the section. */
struct win_spawn {
	u32 passed;
	u32 strings; /* execve: offset of the strings in `state` */
	u32 forked;  /* `state` is what bee_fork_take reads */
	u64 error;   /* the handle of descriptor 2, for messages; 0: none */
	u64 locks;   /* the section of bee_filelock_share; 0: none */
	struct win_passed list[WIN_PASSED];
	u32 sockets;
	struct win_socket socket[WIN_SOCKETS_PASSED];
	/* execve: locks that native programs see. Handles of the new process:
	 * the event that it will lock at once, and the process before it. */
	u64 heir, before;
	u32 mirrored;
	struct lockmirror_saved mirror[LOCKMIRROR_FILES];
	_Alignas(16) u8 state[];
};

struct win_start {
	HANDLE list[8 * WIN_PASSED]; /* what it inherits */
	u32 count;
	STARTUPINFOEXW si;
	PROCESS_INFORMATION info;
	WCHAR line[WIN_LINE], copy[WIN_LINE];
};

/* Lock and unlock around all of the functions below, which change which handles
 * are inherited. */
void bee_spawn_lock(void);
void bee_spawn_unlock(void);
/* 0, or -1: this one cannot be passed. Sockets are by bee_spawn_sockets.
 * Numbers that are not in use, or were passed before, are left out. */
int bee_spawn_pass(struct win_spawn *e, s32 number);
/* The handle for messages is that of this number. */
void bee_spawn_error(struct win_spawn *e, s32 number);
/* Another handle that is inherited with the same value. */
void bee_spawn_add(struct win_start *s, HANDLE h);
/* Makes the sockets for the suspended process. 0 or -1. */
int bee_spawn_sockets(struct win_spawn *e, DWORD process);
/* Creates the suspended process, with the command line for `program` (WIN_PATH
 * _MAX units). 0, or a negative errno. */
s64 bee_spawn_start(struct win_start *s, HANDLE section, struct win_spawn *e,
		    const WCHAR *program, s32 pid, int report);

/* fork.c */
/* Copies this process; then bee_fork_start must be called, which starts the
 * child with the copy. 0, or a negative errno after a sentence. */
s64 bee_fork_copy(void);
s64 bee_fork_start(s32 pid);
/* In the child: takes over all but what abi_fork_resume does. 0, or a Win32
 * error. */
int bee_fork_take(const struct win_spawn *e, const struct abi_host *host);
/* The last step, before the guest runs. 0, or a Win32 error: the parent has
 * ended. */
int bee_fork_ready(void);

#endif
