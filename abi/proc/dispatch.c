/* SPDX-License-Identifier: MIT */
/*
 * Calls the handler of a system call, and counts calls. No lock: the table is
 * constant, and each thread counts its own calls.
 */
#include "call.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/thread.h"
#include "build/gen/abi/numbers.h"

struct entry {
	abi_handler *handler; /* NULL: refused */
	const char *name, *route, *args;
};

static const struct entry entries[ABI_NR_MAX] = {
#include "build/gen/abi/calls.inc"
};

const char *abi_syscall_name(u32 nr)
{
	return nr < ABI_NR_MAX ? entries[nr].name : 0;
}

const char *abi_syscall_route(u32 nr)
{
	return nr < ABI_NR_MAX ? entries[nr].route : 0;
}

/* What is missing in a call if the host lacks a function. */
const char *abi_syscall_limit(const struct abi_host *host, u32 nr)
{
	switch (nr) {
	case ABI_NR_fcntl:
	case ABI_NR_flock:
		return host->file_lock ? 0
				       : "other programs do not see its locks";
	case ABI_NR_mmap:
	case ABI_NR_msync:
		if (!host->mem_file)
			return "shared file mappings are copies";
		return host->mem_place ? "no MAP_FIXED for shared file mappings"
				       : 0;
	case ABI_NR_alarm:
	case ABI_NR_setitimer:
	case ABI_NR_timer_create:
		return host->timer_arm ? 0 : "returns ENOSYS";
	case ABI_NR_splice:
	case ABI_NR_tee:
		return host->splice ? 0 : "returns EINVAL";
	case ABI_NR_fork:
		if (host->thread_self)
			return "not with some shared memory";
		return host->family ? 0 : "returns ENOSYS";
	case ABI_NR_vfork:
	case ABI_NR_execve:
	case ABI_NR_execveat:
		return host->family ? 0 : "returns ENOSYS";
	case ABI_NR_clone:
		if (host->thread_self)
			return "processes as fork and vfork make them";
		return host->family ? 0 : "threads only";
	case ABI_NR_inotify_init:
	case ABI_NR_inotify_init1:
	case ABI_NR_inotify_add_watch:
	case ABI_NR_inotify_rm_watch:
		return host->watch ? 0 : "returns ENOSYS";
	case ABI_NR_shmget:
	case ABI_NR_shmat:
	case ABI_NR_shmctl:
	case ABI_NR_shmdt:
	case ABI_NR_semget:
	case ABI_NR_semop:
	case ABI_NR_semctl:
	case ABI_NR_semtimedop:
	case ABI_NR_msgget:
	case ABI_NR_msgsnd:
	case ABI_NR_msgrcv:
	case ABI_NR_msgctl:
		return host->ipc ? 0 : "returns ENOSYS";
	default:
		return 0;
	}
}

const char *abi_syscall_args(u32 nr)
{
	return nr < ABI_NR_MAX ? entries[nr].args : 0;
}

u64 abi_count_calls(const struct abi_proc *p)
{
	u32 i, high = __atomic_load_n(&p->threads.high, __ATOMIC_RELAXED);
	u64 n = 0;

	for (i = 0; i < high; i++)
		n += __atomic_load_n(&p->threads.thread[i].calls,
				     __ATOMIC_RELAXED);
	return n;
}

u32 abi_count_refused(const struct abi_proc *p, u32 nr)
{
	return nr < ABI_NR_MAX
		       ? __atomic_load_n(&p->refused[nr], __ATOMIC_RELAXED)
		       : 0;
}

static s64 answer_proof(struct abi_call *c)
{
	switch (c->a[0]) {
	case 0:
		return ABI_NR_PROOF;
	case 1:
		return (s64)c->p->nonce;
	case 2:
		return (s64)abi_count_calls(c->p);
	default:
		return -LINUX_EINVAL;
	}
}

static void log_refused(struct abi_proc *p, u64 nr)
{
	const char *name = nr < ABI_NR_MAX ? entries[nr].name : 0;
	char line[96];
	struct abi_text t;

	abi_text_init(&t, line, sizeof(line));
	abi_text_str(&t, "system call ");
	if (name)
		abi_text_str(&t, name);
	else
		abi_text_dec(&t, nr);
	abi_text_str(&t, " is not supported: returned ENOSYS");
	p->host->log(line);
}

/* Calls that run-times try, and for which they have a fallback. */
static int is_probed(u64 nr)
{
	return nr < ABI_NR_MAX && entries[nr].route &&
	       entries[nr].route[0] == 'p';
}

static s64 refuse_call(struct abi_call *c, u64 nr)
{
	struct abi_proc *p = c->p;
	u32 first = 0;

	if (nr == ABI_NR_PROOF)
		return answer_proof(c);
	if (nr < ABI_NR_MAX)
		first = !__atomic_fetch_add(&p->refused[nr], 1,
					    __ATOMIC_RELAXED);
	else
		first = !__atomic_fetch_add(&p->refused_other, 1,
					    __ATOMIC_RELAXED);
	if (first && (p->trace || !is_probed(nr)))
		log_refused(p, nr);
	c->counted = 1;
	return -LINUX_ENOSYS;
}

s64 abi_call_refuse(struct abi_call *c)
{
	return refuse_call(c, (u32)c->regs->rax);
}

/* The kernel takes the number from eax; the upper half does not count. */
static s64 run_call(struct abi_call *c)
{
	const struct abi_regs *regs = c->regs;
	u32 nr = (u32)regs->rax;
	s64 rc;

	c->a[0] = regs->rdi;
	c->a[1] = regs->rsi;
	c->a[2] = regs->rdx;
	c->a[3] = regs->r10;
	c->a[4] = regs->r8;
	c->a[5] = regs->r9;
	if (nr >= ABI_NR_MAX || !entries[nr].handler)
		return refuse_call(c, nr);
	rc = entries[nr].handler(c);
	if (rc == -LINUX_ENOSYS &&
	    !c->counted) /* a part that this host lacks */
		__atomic_fetch_add(&c->p->refused[nr], 1, __ATOMIC_RELAXED);
	return rc;
}

static enum abi_return make_call(struct abi_proc *p, struct abi_thread *t,
				 struct abi_regs *regs)
{
	struct abi_call c = {
		.p = p, .t = t, .regs = regs, .how = ABI_RETURN_FAST};
	s64 rc;

	do
		rc = run_call(&c);
	while (abi_signal_finish(&c, rc));
	return c.how;
}

enum abi_return abi_syscall(struct abi_proc *p, u32 t, struct abi_regs *regs)
{
	struct abi_thread *thread = &p->threads.thread[t];

	__atomic_store_n(&thread->calls, thread->calls + 1, __ATOMIC_RELAXED);
	return make_call(p, thread, regs);
}

enum abi_return abi_call_redo(struct abi_proc *p, struct abi_thread *t,
			      struct abi_regs *regs)
{
	t->redo = 0;
	return make_call(p, t, regs);
}
