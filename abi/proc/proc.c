/* SPDX-License-Identifier: MIT */
/* The process: its creation and exec. */
#include "limits.h"
#include "stack.h"
#include "abi/fs/fd.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/page.h"
#include "abi/mm/space.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/futex.h"
#include "abi/thread/thread.h"
#include "abi/uapi/linux.h"

#define STACK_MIN (64ull << 10)

u64 abi_proc_size(void)
{
	return sizeof(struct abi_proc);
}

static void limits_init(struct abi_proc *p)
{
	u32 i;

	for (i = 0; i < ABI_RLIMITS; i++)
		p->limit[i] = abi_limit_first(i);
}

int abi_proc_init(struct abi_proc *p, const struct abi_host *host)
{
	int rc;

	p->host = host;
	p->cwd[0] = '/';
	limits_init(p);
	rc = (int)host->info(&p->info);
	p->umask = p->info.umask;
	if (!rc)
		rc = abi_space_init(p);
	if (!rc)
		rc = abi_threads_init(p);
	if (!rc)
		rc = abi_futexes_init(p);
	if (!rc)
		rc = abi_signals_init(p);
	if (!rc)
		rc = abi_fds_init(p);
	return rc;
}

u32 abi_proc_pid(const struct abi_proc *p)
{
	return p->info.pid;
}

void abi_proof_set(struct abi_proc *p, u64 nonce)
{
	p->nonce = nonce;
}

/* exec --------------------------------------------------------------------- */

static int enter_image(struct abi_proc *p, const struct abi_elf_plan *plan,
		       u64 stubs_end)
{
	const struct abi_elf_segment *s;
	u32 i;
	s64 rc = 0;

	for (i = 0; i < plan->segments && !rc; i++) {
		s = &plan->segment[i];
		rc = abi_space_enter(p, ABI_PAGE_DOWN(s->addr),
				     ABI_PAGE_UP(s->addr + s->memsz), s->prot);
	}
	if (!rc && stubs_end > plan->end)
		rc = abi_space_enter(p, plan->end, ABI_PAGE_UP(stubs_end),
				     ABI_PROT_READ | ABI_PROT_EXEC);
	return (int)rc;
}

/* Maps a stack with an inaccessible page below it; returns its top, or an
 * error. */
static s64 stack_map(struct abi_proc *p, u64 size)
{
	struct abi_map m = {.len = size + SKEP_PAGE_SIZE,
			    .bits = ABI_AREA_STACK};
	s64 addr = abi_space_map(p, &m), rc;

	if (addr < 0)
		return addr;
	rc = abi_space_protect(p, (u64)addr + SKEP_PAGE_SIZE, size,
			       ABI_PROT_READ | ABI_PROT_WRITE);
	return rc ? rc : addr + SKEP_PAGE_SIZE + (s64)size;
}

static void set_names(struct abi_proc *p, const struct abi_exec *exec)
{
	const char *base = exec->path, *s;

	for (s = exec->path; *s; s++)
		if (*s == '/')
			base = s + 1;
	abi_strcpy(p->comm, base, sizeof(p->comm));
	abi_strcpy(p->threads.thread[0].comm, base, sizeof(p->comm));
	abi_strcpy(p->exe, exec->path, sizeof(p->exe));
	abi_strcpy(p->cwd, exec->cwd, sizeof(p->cwd));
}

int abi_exec(struct abi_proc *p, const struct abi_exec *exec)
{
	u64 size = exec->stack_size ? exec->stack_size : ABI_STACK_DEFAULT;
	s64 top;
	int rc;

	if (size < STACK_MIN || size > (1ull << 40))
		return -LINUX_EINVAL;
	if (abi_strlen(exec->path) >= ABI_PATH_MAX ||
	    abi_strlen(exec->cwd) >= ABI_PATH_MAX)
		return -LINUX_ENAMETOOLONG;
	size = ABI_PAGE_UP(size);
	p->limit[ABI_RLIMIT_STACK].cur = size;
	set_names(p, exec);
	abi_strcpy(p->interp, exec->plan->interp, sizeof(p->interp));
	rc = enter_image(p, exec->plan, exec->image_end);
	if (!rc && exec->loader)
		rc = enter_image(p, exec->loader, exec->loader_end);
	if (rc)
		return rc;
	top = stack_map(p, size);
	if (top < 0)
		return (int)top;
	p->vdso = exec->vdso;
	p->vdso_end = exec->vdso_end;
	p->start_ns = (u64)p->host->clock(ABI_CLOCK_MONOTONIC);
	return abi_stack_build(p, exec, (u64)top, size);
}
