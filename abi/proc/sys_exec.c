// SPDX-License-Identifier: MIT
/*
 * execve(2): resolves the program, saves the state that the process keeps, and
 * lets the host execute itself. Before that nothing is changed.
 */
#include "exec.h"
#include "fork.h"
#include "log.h"
#include "refuse.h"
#include "abi/fs/desc.h"
#include "abi/fs/filelock.h"
#include "abi/fs/names.h"
#include "abi/fs/open.h"
#include "abi/fs/ops.h"
#include "abi/fs/path.h"
#include "abi/fs/pipe.h"
#include "abi/fs/procfs.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/net/pair.h"
#include "abi/poll/eventfd.h"
#include "abi/signal/signal.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/uapi/linux.h"
#include "base/errno.h"
#include "call.h"
#include "vfork.h"

#define SCRIPTS 4 /* a script's interpreter may be a script */
#define LINE 256  /* of #!, as Linux reads it */
#define STRINGS_MAX (6u << 20)
#define POINTERS_MAX 0x100000u
#define AT_EMPTY_PATH 0x1000u
#define AT_SYMLINK_NOFOLLOW 0x100u

struct exec {
	struct abi_call *c;
	u64 argv, envp;
	u32 scripts, words;
	/* words before argv, the first one last */
	const char *before[3 * SCRIPTS];
	char path[ABI_PATH_MAX];	 /* of the program, absolute */
	char name[ABI_PATH_MAX];	 /* as the guest wrote it */
	char loader[ABI_ELF_INTERP_MAX]; /* of a dynamic program; else empty */
	char line[SCRIPTS][LINE];
};

/* What is to run ----------------------------------------------------------- */

static int is_space(char c)
{
	return c == ' ' || c == '\t';
}

static char *word_end(char *s)
{
	while (*s && !is_space(*s))
		s++;
	return s;
}

/* "#! interpreter [one argument]": from now on the interpreter is the
 * program. */
static s64 take_script(struct exec *x, const char *head, u64 len)
{
	char *line = x->line[x->scripts], *end, *arg;
	u64 n;
	u32 ignored;

	if (++x->scripts >= SCRIPTS)
		return -LINUX_ELOOP;
	for (n = 0; n + 2 < len && n < LINE - 1 && head[n + 2] != '\n'; n++)
		line[n] = head[n + 2];
	while (n && is_space(line[n - 1]))
		n--;
	line[n] = 0;
	while (is_space(*line))
		line++;
	end = word_end(line);
	for (arg = end; is_space(*arg); arg++)
		;
	if (!*line)
		return -LINUX_ENOEXEC;
	/* otherwise it is replaced by the inner script's interpreter */
	if (!x->words)
		x->before[x->words++] = x->name;
	if (*arg)
		x->before[x->words++] = arg;
	*end = 0;
	x->before[x->words++] = line;
	return abi_path_name(x->c, (u64)ABI_AT_FDCWD, line, x->path, &ignored);
}

static s64 refuse_program(struct exec *x, const char *why)
{
	struct abi_text text;
	char line[300];

	if (!__atomic_exchange_n(&x->c->p->said_exec, 1, __ATOMIC_RELAXED)) {
		abi_text_init(&text, line, sizeof(line));
		abi_text_str(&text, "execve of ");
		abi_text_str(&text, x->path);
		abi_text_str(&text, " refused (ELIBACC): ");
		abi_text_str(&text, why ? why : "not a program for bee");
		x->c->p->host->log(line);
	}
	return -LINUX_ELIBACC;
}

/* Examines the head of the file, in fds->bounce. 1: a script, whose interpreter
 * must be examined; 0: a program. */
static s64 judge_head(struct exec *x, const u8 *head, u64 len, u64 size)
{
	const struct abi_elf_use use = {.role = *x->loader ? ABI_ELF_LOADER
							   : ABI_ELF_PROGRAM};
	struct abi_elf_plan plan;

	if (len >= 2 && head[0] == '#' && head[1] == '!' && !*x->loader) {
		s64 rc = take_script(x, (const char *)head, len);

		return rc < 0 ? rc : 1;
	}
	if (len < 4 || head[0] != 0x7f || head[1] != 'E' || head[2] != 'L' ||
	    head[3] != 'F')
		return *x->loader ? refuse_program(x, "its dynamic loader is "
						      "not an ELF file")
				  : -LINUX_ENOEXEC;
	if (abi_elf_plan(&use, head, len, size, &plan))
		return refuse_program(x, plan.why);
	abi_strcpy(x->loader, plan.interp, sizeof(x->loader));
	return 0;
}

static s64 judge_file(struct exec *x, s32 handle)
{
	struct abi_proc *p = x->c->p;
	struct abi_stat st;
	struct abi_file_op op = {.verb = ABI_FILE_STAT, .stat = &st};
	struct abi_io io = {p->fds.bounce, sizeof(p->fds.bounce), 0};
	s64 rc = p->host->file(handle, &op);

	if (rc < 0)
		return rc;
	if ((st.mode & ABI_S_IFMT) != ABI_S_IFREG)
		return -LINUX_EACCES;
	abi_lock(p, &p->fds.bounce_lock);
	rc = p->host->file_read(handle, &io);
	if (rc >= 0)
		rc = judge_head(x, p->fds.bounce, (u64)rc, st.size);
	abi_unlock(p, &p->fds.bounce_lock);
	return rc;
}

static s64 judge_path(struct exec *x, const char *path)
{
	const struct abi_host *host = x->c->p->host;
	struct abi_open open = {.path = path};
	s64 rc =
		abi_name_run(x->c, (struct abi_path_op){.verb = ABI_PATH_ACCESS,
							.mode = 1,
							.path = path});

	if (!rc)
		rc = abi_synth_is_own(x->c->p, path) ? -LINUX_EACCES
						     : host->file_open(&open);
	if (rc < 0)
		return rc;
	rc = judge_file(x, open.handle);
	host->file_close(open.handle);
	return rc;
}

/* Finds the program that bee can run, and the loader that it names. */
static s64 find_program(struct exec *x)
{
	char loader[ABI_ELF_INTERP_MAX];
	s64 rc;

	do {
		rc = judge_path(x, x->path);
	} while (rc == 1);
	if (rc || !*x->loader)
		return rc;
	abi_strcpy(loader, x->loader, sizeof(loader));
	return judge_path(x, loader);
}

/* What it takes along ------------------------------------------------------ */

struct writer {
	struct abi_proc *p;
	s32 handle;
	u64 at;
	s64 error;
};

static void put_bytes(struct writer *w, const void *from, u64 len)
{
	struct abi_io io = {(void *)(__UINTPTR_TYPE__)from, len, (s64)w->at};
	s64 n = w->error ? 0 : w->p->host->file_write(w->handle, &io);

	if (!w->error && n != (s64)len)
		w->error = n < 0 ? n : -LINUX_ENOMEM;
	w->at += len;
}

/* Page by page, because the string may end at the end of mapped memory. */
static void put_string(struct writer *w, u64 gaddr)
{
	char part[512];
	u64 n, len;

	do {
		n = sizeof(part) - gaddr % sizeof(part);
		if (!w->error && abi_user_get(w->p, part, gaddr, n))
			w->error = -LINUX_EFAULT;
		if (w->error)
			return;
		for (len = 0; len < n && part[len]; len++)
			;
		put_bytes(w, part, len < n ? len + 1 : n);
		gaddr += n;
		if (w->at > STRINGS_MAX)
			w->error = -LINUX_E2BIG;
	} while (len == n);
}

/* Writes the strings of a NULL terminated vector from `skip` on; returns how
 * many. */
static u32 put_vector(struct writer *w, u64 gaddr, u32 skip)
{
	u64 string;
	u32 i;

	for (i = 0; gaddr && i < POINTERS_MAX; i++) {
		if (!w->error && ABI_GET(w->p, &string, gaddr + 8ull * i))
			w->error = -LINUX_EFAULT;
		if (w->error || !string)
			break;
		if (i >= skip)
			put_string(w, string);
	}
	return i > skip ? i - skip : 0;
}

/* What the new process can have: on a host that spawns it is another one. */
static int is_passed(struct writer *w, struct abi_desc *d)
{
	struct abi_proc *p = w->p;

	if (abi_desc_ops(d)->unpassed) {
		abi_log_once(p, &p->fds.said_exec,
			     "execve closes an epoll without CLOEXEC: it "
			     "cannot be taken along");
		return 0;
	}
	if (!p->info.spawns)
		return 1;
	if (!w->error)
		w->error = abi_pipe_share(p, d);
	if (!w->error)
		w->error = abi_pair_share(p, d);
	if (!w->error)
		w->error = abi_eventfd_share(p, d);
	if (d->kind == ABI_DESC_UNIX ||
	    (abi_vfork_is(p) &&
	     (d->kind == ABI_DESC_TIMER || d->kind == ABI_DESC_SIGNAL))) {
		abi_refuse(p, ABI_REFUSE_PASS, 0);
		return 0;
	}
	return 1;
}

static void put_numbers(struct writer *w, struct abi_exec_head *head)
{
	struct abi_fds *fds = &w->p->fds;
	struct abi_slot *slot = abi_slots(w->p);
	struct abi_desc *d;
	u32 fd, index;

	for (fd = 0; fd < ABI_FD_MAX; fd++) {
		if (!slot[fd].desc || slot[fd].cloexec)
			continue;
		index = slot[fd].desc - 1u;
		d = &fds->desc[index];
		if (!is_passed(w, d))
			continue;
		abi_lock(w->p, &d->lock);
		abi_fork_share(w->p, d);
		abi_unlock(w->p, &d->lock);
		put_bytes(w, &fd, sizeof(fd));
		put_bytes(w, &index, sizeof(index));
		put_bytes(w, d, sizeof(*d));
		head->numbers++;
	}
}

static void fill_state(struct abi_call *c, struct abi_exec_state *s)
{
	struct abi_proc *p = c->p;
	u32 i;

	s->head.child = p->child || abi_vfork_is(p);
	s->blocked = abi_vfork_is(p)	     ? p->vfork.blocked
		     : c->t->restore_blocked ? c->t->saved_blocked
					     : c->t->blocked;
	abi_lock(p, &p->alarms.lock);
	if (!abi_vfork_is(p))
		abi_memcpy(s->itimer, p->alarms.itimer, sizeof(s->itimer));
	abi_unlock(p, &p->alarms.lock);
	abi_lock(p, &p->signals.lock);
	for (i = 0; i < ABI_SIGNALS; i++)
		if (abi_actions(p)[i].handler == ABI_SIG_IGN)
			s->ignored |= 1ull << i;
	abi_unlock(p, &p->signals.lock);
	abi_lock(p, &p->lock);
	abi_memcpy(s->limit, abi_limits(p), sizeof(s->limit));
	abi_strcpy(s->cwd, abi_cwd(p), sizeof(s->cwd));
	s->umask = *abi_umask(p);
	abi_unlock(p, &p->lock);
	s->death_signal = p->death_signal;
	s->nice = p->threads.nice;
}

/*
 * Signals that are pending for the process and the calling thread, in order. No
 * other thread takes one meanwhile. Those of timers end with the timers.
 */
static void put_signals(struct abi_call *c, struct writer *w,
			struct abi_exec_head *head)
{
	const u32 from[] = {ABI_NONE, c->t->index};
	struct abi_snap_signal one;
	u32 i, k;

	if (abi_vfork_is(c->p)) /* a child has none */
		return;
	abi_lock(c->p, &c->p->signals.lock);
	for (k = 0; k < 2; k++)
		for (i = 0; abi_snap_signal(c->p, from[k], i, &one); i++) {
			if (one.info.code == ABI_SI_TIMER)
				continue;
			put_bytes(w, &one, sizeof(one));
			head->signals++;
		}
	abi_unlock(c->p, &c->p->signals.lock);
}

static void put_state(struct exec *x, struct writer *w,
		      struct abi_exec_state *s)
{
	u64 strings;
	u32 i;

	w->at = sizeof(*s);
	put_numbers(w, &s->head);
	s->head.size = (u32)w->at;
	strings = w->at;
	w->at = strings;
	for (i = x->words; i-- > 0;)
		put_bytes(w, x->before[i], abi_strlen(x->before[i]) + 1);
	s->head.argc = x->words + put_vector(w, x->argv, x->words ? 1 : 0);
	s->head.envc = put_vector(w, x->envp, 0);
	s->head.strings = (u32)(w->at - strings);
	fill_state(x->c, s);
	put_signals(x->c, w, &s->head);
	w->at = 0;
	put_bytes(w, s, sizeof(*s));
}

/* As Linux: of a script the script, and of a link the link. */
static void put_comm(const struct exec *x, char comm[16])
{
	const char *base = x->name, *s;

	for (s = x->name; *s; s++)
		if (*s == '/')
			base = s + 1;
	abi_strcpy(comm, base, 16);
}

/* Signals that arrive from now on are for the new program. */
static void hold_signals(struct abi_call *c, int on)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_HOLD, .status = on};

	if (!abi_vfork_is(c->p))
		c->p->host->family(&op, c->t->index);
}

static s64 start_over(struct exec *x)
{
	struct abi_exec_state state;
	struct abi_proc *p = x->c->p;
	struct abi_family_op op = {.verb = ABI_FAMILY_EXEC_FILE};
	struct writer w = {.p = p};
	s32 closed[ABI_LOCKED_FILES];
	s64 rc = p->host->family(&op, x->c->t->index);

	if (rc < 0)
		return rc;
	w.handle = (s32)rc;
	abi_memset(&state, 0, sizeof(state));
	put_comm(x, state.comm);
	if (!abi_vfork_is(p)) { /* a child has none */
		op.unlocked = closed;
		op.unlocked_count = abi_filelock_exec(
			p, closed, state.locked_file, &state.locked_files);
		op.locked = state.locked_files + op.unlocked_count;
	}
	hold_signals(x->c, 1);
	put_state(x, &w, &state);
	op.verb = abi_vfork_is(p) ? ABI_FAMILY_SPAWN : ABI_FAMILY_EXEC;
	op.pid = (s32)p->vfork.pid;
	op.handle = w.handle;
	op.path = x->path;
	rc = w.error ? w.error : p->host->family(&op, x->c->t->index);
	hold_signals(x->c, 0);
	p->host->file_close(w.handle);
	if (!rc && abi_vfork_is(p))
		return abi_vfork_finish(x->c);
	return rc;
}

/* The calls ----------------------------------------------------------------
 */

static s64 exec_named(struct exec *x)
{
	char path[ABI_PATH_MAX];
	s64 rc;

	abi_strcpy(x->path, abi_synth_real(x->c->p, x->path), sizeof(x->path));
	if (abi_spawns_helpers(x->c->p))
		return start_over(x);
	rc = find_program(x);
	if (rc == -LINUX_ELOOP) { /* names.h */
		abi_strcpy(path, x->path, sizeof(path));
		rc = abi_path_whole(x->c, path, 1, x->path);
		rc = rc < 0 ? rc : find_program(x);
	}
	return rc ? rc : start_over(x);
}

/* Reads the name, argv and envp, which begin at argument `first`; returns the
 * name's length. */
static s64 begin_exec(struct abi_call *c, struct exec *x, u32 first)
{
	x->c = c;
	x->argv = c->a[first + 1];
	x->envp = c->a[first + 2];
	x->scripts = x->words = 0;
	*x->loader = 0;
	return abi_user_string(c->p, x->name, sizeof(x->name), c->a[first],
			       -LINUX_ENAMETOOLONG);
}

s64 abi_sys_execve(struct abi_call *c)
{
	struct exec x;
	u32 flags;
	s64 rc;

	if (!c->p->host->family)
		return abi_thread_no_children(c->p, "execve");
	if (abi_spawns_helpers(c->p) && !abi_vfork_is(c->p))
		return abi_refuse(c->p, ABI_REFUSE_EXEC, -LINUX_ENOSYS);
	rc = begin_exec(c, &x, 0);
	if (rc >= 0)
		rc = abi_path_at(c, (u64)ABI_AT_FDCWD, c->a[0], x.path, &flags);
	return rc < 0 ? rc : exec_named(&x);
}

/* The file of a descriptor, by its name. */
static s64 name_of_fd(struct abi_call *c, char *path)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);

	if (!d)
		return -LINUX_EBADF;
	abi_strcpy(path, d->path, ABI_PATH_MAX);
	abi_desc_put(c->p, d);
	return *path == '/' ? 0 : -LINUX_EACCES;
}

s64 abi_sys_execveat(struct abi_call *c)
{
	u32 how = (u32)c->a[4], flags;
	struct exec x;
	s64 rc;

	if (!c->p->host->family)
		return abi_thread_no_children(c->p, "execveat");
	if (abi_spawns_helpers(c->p) && !abi_vfork_is(c->p))
		return abi_refuse(c->p, ABI_REFUSE_EXEC, -LINUX_ENOSYS);
	if (how & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return -LINUX_EINVAL;
	rc = begin_exec(c, &x, 1);
	if (rc > 0)
		rc = abi_path_at(c, c->a[0], c->a[1], x.path, &flags);
	else if (!rc && how & AT_EMPTY_PATH)
		rc = name_of_fd(c, x.path);
	else if (!rc)
		rc = -LINUX_ENOENT;
	if (!rc)
		abi_strcpy(x.name, x.path, sizeof(x.name));
	return rc < 0 ? rc : exec_named(&x);
}
