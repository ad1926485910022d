/* SPDX-License-Identifier: MIT */
/*
 * execve: bee executes itself, so that the guest never leaves it. For the
 * kernel, and so for its parent and its children, the process remains the same.
 * The state that abi saved is passed in an open memfd.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/include/exec.h"
#include "host.h"

#define WORDS 24 /* bee's own words on the command line */

struct start {
	const struct abi_exec_head *head;
	u64 len;
	char **argv, **envp;
	char number[3][32];
	u32 words;
};

static void put_option(struct start *s, const char *name, const char *value)
{
	if (!value)
		return;
	s->argv[s->words++] = (char *)(__UINTPTR_TYPE__)name;
	s->argv[s->words++] = (char *)(__UINTPTR_TYPE__)value;
}

static void put_options(struct start *s, s32 handle)
{
	const struct bee_options *o = bee.options;

	s->argv[s->words++] = "bee";
	s->argv[s->words++] = "--child";
	if (o->trace)
		s->argv[s->words++] = "--trace";
	snprintf(s->number[0], sizeof(s->number[0]), "%d", handle);
	put_option(s, "--resume", s->number[0]);
	snprintf(s->number[1], sizeof(s->number[1]), "%llx", o->nonce);
	put_option(s, "--nonce", s->number[1]);
	snprintf(s->number[2], sizeof(s->number[2]), "%llu", o->memory);
	put_option(s, "--memory", o->memory ? s->number[2] : NULL);
	put_option(s, "--cache", o->cache);
	put_option(s, "--root", o->root);
	put_option(s, "--report", o->report);
	put_option(s, "--restored", lin_restored_text());
	put_option(s, "--control",
		   lin_control >= 0 && !s->head->child ? "4" : NULL);
}

/* The strings follow the state, arguments first. */
static int put_strings(struct start *s, char *program)
{
	char *at = (char *)(__UINTPTR_TYPE__)s->head + s->head->size;
	char *end = (char *)(__UINTPTR_TYPE__)s->head + s->len;
	u32 i, all = s->head->argc + s->head->envc;

	for (i = 0; i < all && at < end; i++) {
		if (i == 0 && s->head->argc && *at)
			put_option(s, "--name", at);
		if (i == 0)
			s->argv[s->words++] = program;
		if (i >= s->head->argc)
			s->envp[i - s->head->argc] = at;
		else if (i)
			s->argv[s->words++] = at;
		at += strnlen(at, (u64)(end - at)) + 1;
	}
	if (!all)
		s->argv[s->words++] = program;
	return i == all ? 0 : -EINVAL;
}

static s64 map_state(struct start *s, s32 handle)
{
	struct stat st;
	void *p;

	if (fstat(handle, &st) || st.st_size < (off_t)sizeof(*s->head))
		return -EINVAL;
	p = mmap(NULL, (u64)st.st_size, PROT_READ, MAP_PRIVATE, handle, 0);
	if (p == MAP_FAILED)
		return -errno;
	s->head = p;
	s->len = (u64)st.st_size;
	if (s->head->size <= s->len)
		return 0;
	munmap(p, s->len);
	return -EINVAL;
}

/* Opens the descriptors that are passed on; the new bee closes all others. */
static void open_handles(const struct start *s, s32 handle)
{
	u32 i;

	for (i = 0; i < s->head->numbers; i++)
		fcntl(abi_exec_handle(s->head, i), F_SETFD, 0);
	fcntl(handle, F_SETFD, 0);
}

/*
 * Until the kernel has ended them, other threads may kick this one. The new bee
 * has no handlers at first, so such a kick would end it, and so would a signal
 * of faults that a process sends. So they stay blocked: the new bee discards a
 * pending kick, and keeps the others for its program.
 */
static s64 execute_bee(const struct start *s)
{
	static const int kept[] = {LIN_KICK, SIGSEGV, SIGBUS,
				   SIGFPE,   SIGILL,  SIGTRAP};
	sigset_t set, old;
	s64 rc;
	u32 i;

	sigemptyset(&set);
	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		sigaddset(&set, kept[i]);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	lin_sent_keep(1);
	execve("/proc/self/exe", s->argv, s->envp);
	rc = -errno;
	lin_sent_keep(0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

static s64 execute_program(struct start *s, s32 handle, char *program)
{
	s64 rc;

	s->argv = calloc((u64)s->head->argc + WORDS, sizeof(*s->argv));
	s->envp = calloc((u64)s->head->envc + 1, sizeof(*s->envp));
	rc = s->argv && s->envp ? 0 : -ENOMEM;
	if (!rc) {
		put_options(s, handle);
		rc = put_strings(s, program);
	}
	if (!rc) {
		open_handles(s, handle);
		lin_vfork_report();
		lin_live_cancel();
		rc = execute_bee(s);
	}
	free(s->argv);
	free(s->envp);
	return rc;
}

/* Above the numbers that the command line uses. */
s64 lin_exec_file(void)
{
	int low = memfd_create("bee exec", MFD_CLOEXEC), fd;

	if (low < 0)
		return -errno;
	fd = fcntl(low, F_DUPFD_CLOEXEC, BEE_FAMILY_FD + 1);
	close(low);
	return fd < 0 ? -EMFILE : fd;
}

s64 lin_exec(const struct abi_family_op *op)
{
	struct start s = {.words = 0};
	char program[PATH_MAX];
	s64 rc = abi_lin_path_host(op->path, program, sizeof(program), 1);

	if (!rc)
		rc = map_state(&s, op->handle);
	if (rc)
		return rc;
	rc = execute_program(&s, op->handle, program);
	munmap((void *)(__UINTPTR_TYPE__)s.head, s.len);
	return rc;
}

/* The new bee -------------------------------------------------------------- */

static int is_wanted(const struct abi_exec_head *head, int fd, int own)
{
	u32 i;

	if (fd == BEE_FAMILY_FD || fd == own ||
	    (fd == BEE_WORD_FD && !head->child) || fd == lin_control)
		return 1;
	for (i = 0; i < head->numbers; i++)
		if (abi_exec_handle(head, i) == fd)
			return 1;
	return 0;
}

/* Closes descriptors that another thread was opening during the execve. `wake`
 * was opened after it: the program's next file must not get its number. */
static int close_others(const struct abi_exec_head *head, int wake)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int fd;

	if (!dir)
		return -errno;
	while ((e = readdir(dir))) {
		fd = atoi(e->d_name);
		if (e->d_name[0] != '.' && fd != dirfd(dir) &&
		    !is_wanted(head, fd, wake))
			close(fd);
	}
	closedir(dir);
	return 0;
}

/* The handle of the guest's standard error. */
static int error_handle(const struct abi_exec_head *head)
{
	u32 i;

	for (i = 0; i < head->numbers; i++)
		if (abi_exec_number(head, i) == 2)
			return abi_exec_handle(head, i);
	return -1;
}

int lin_exec_resume(s32 handle, s32 wake)
{
	struct start s = {.words = 0};

	if (map_state(&s, handle))
		return -EINVAL;
	bee.resume = s.head;
	bee.resume_len = s.len;
	lin_message_fd = error_handle(s.head);
	lin_proc_resumed(s.head->child);
	return close_others(s.head, wake);
}
