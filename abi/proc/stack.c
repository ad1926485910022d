/* SPDX-License-Identifier: MIT */
/*
 * The initial stack of the System V ABI for x86-64, with the auxiliary vector
 * of getauxval(3). Runs before any guest thread: no lock. Without a vDSO of the
 * substrate there is no AT_SYSINFO_EHDR; C libraries and Go make system calls.
 */
#include "stack.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

#define ARGS_MAX (6ull << 20)
#define AUXV_MAX 24

struct builder {
	struct abi_proc *p;
	u64 sp;
	u64 bottom; /* strings must remain above it */
	u64 aux[AUXV_MAX][2];
	u32 auxs;
};

static void add_aux(struct builder *b, u64 type, u64 value)
{
	b->aux[b->auxs][0] = type;
	b->aux[b->auxs++][1] = value;
}

/* Copies a string below sp; its address, or 0 if there is no room. */
static u64 push_string(struct builder *b, const char *s)
{
	u64 n = abi_strlen(s) + 1;

	if (n > b->sp - b->bottom)
		return 0;
	b->sp -= n;
	abi_memcpy(abi_user_ptr(b->sp), s, n);
	return b->sp;
}

static u64 count_strings(const char *const *list)
{
	u64 n = 0;

	while (list && list[n])
		n++;
	return n;
}

/* Copies the strings of a list, the first one lowest, as /proc/self/cmdline
 * needs it. */
static int push_strings(struct builder *b, const char *const *list, u64 *start,
			u64 *end)
{
	u64 n = count_strings(list);

	*end = b->sp;
	while (n--)
		if (!push_string(b, list[n]))
			return -LINUX_E2BIG;
	*start = b->sp;
	return 0;
}

static int put_word(struct builder *b, u64 *at, u64 value)
{
	int rc = abi_user_put(b->p, *at, &value, sizeof(value));

	*at += sizeof(value);
	return rc;
}

/* Writes pointers to `n` strings that follow one another from `s` on. */
static int put_pointers(struct builder *b, u64 *at, u64 s, u64 n)
{
	int rc = 0;

	for (; n && !rc; n--) {
		rc = put_word(b, at, s);
		s += abi_strlen(abi_user_ptr(s)) + 1;
	}
	return rc ? rc : put_word(b, at, 0);
}

static void aux_image(struct builder *b, const struct abi_exec *exec)
{
	add_aux(b, ABI_AT_HWCAP, exec->hwcap);
	add_aux(b, ABI_AT_PAGESZ, SKEP_PAGE_SIZE);
	add_aux(b, ABI_AT_CLKTCK, 100);
	add_aux(b, ABI_AT_PHDR, exec->plan->phdr);
	add_aux(b, ABI_AT_PHENT, exec->plan->phent);
	add_aux(b, ABI_AT_PHNUM, exec->plan->phnum);
	add_aux(b, ABI_AT_BASE, exec->loader ? exec->loader->bias : 0);
	add_aux(b, ABI_AT_FLAGS, 0);
	add_aux(b, ABI_AT_ENTRY, exec->plan->entry);
	add_aux(b, ABI_AT_HWCAP2, exec->hwcap2);
	if (exec->vdso)
		add_aux(b, ABI_AT_SYSINFO_EHDR, exec->vdso);
}

/* Bytes of one signal frame: registers, siginfo, red zone, XSAVE, and a
 * reserve. */
static u64 signal_stack(const struct abi_proc *p)
{
	u64 xsave = p->info.xsave_size > 576 ? p->info.xsave_size : 576;

	return (xsave + 128 + 1024 + 63) & ~63ull;
}

static int aux_process(struct builder *b, const struct abi_exec *exec)
{
	struct abi_proc *p = b->p;
	u64 name, platform, random;

	name = push_string(b, exec->path);
	platform = push_string(b, "x86_64");
	if (!name || !platform || b->sp - b->bottom < 64)
		return -LINUX_E2BIG;
	b->sp = (b->sp - 16) & ~15ull;
	random = b->sp;
	if (p->host->random(abi_user_ptr(random), 16))
		return -LINUX_EIO;
	add_aux(b, ABI_AT_UID, p->info.uid);
	add_aux(b, ABI_AT_EUID, p->info.uid);
	add_aux(b, ABI_AT_GID, p->info.gid);
	add_aux(b, ABI_AT_EGID, p->info.gid);
	add_aux(b, ABI_AT_SECURE, 0);
	add_aux(b, ABI_AT_RANDOM, random);
	add_aux(b, ABI_AT_EXECFN, name);
	add_aux(b, ABI_AT_PLATFORM, platform);
	add_aux(b, ABI_AT_MINSIGSTKSZ, signal_stack(p));
	add_aux(b, ABI_AT_NULL, 0);
	return 0;
}

/* Writes argc, argv, envp and auxv; sp is then a multiple of 16. */
static int put_table(struct builder *b, u64 argc, u64 envc)
{
	struct abi_proc *p = b->p;
	u64 words = 1 + argc + 1 + envc + 1 + 2 * b->auxs, at;
	int rc;

	if (words * 8 + 16 > b->sp - b->bottom)
		return -LINUX_E2BIG;
	b->sp = (b->sp - words * 8) & ~15ull;
	at = b->sp;
	rc = put_word(b, &at, argc);
	if (!rc)
		rc = put_pointers(b, &at, p->arg_start, argc);
	if (!rc)
		rc = put_pointers(b, &at, p->env_start, envc);
	p->auxv_start = at;
	p->auxv_end = at + b->auxs * 16;
	return rc ? rc : abi_user_put(p, at, b->aux, b->auxs * 16);
}

int abi_stack_build(struct abi_proc *p, const struct abi_exec *exec, u64 top,
		    u64 size)
{
	struct builder b = {.p = p, .sp = top - 16};
	u64 most = size / 4 < ARGS_MAX ? size / 4 : ARGS_MAX;
	struct abi_regs *regs = &p->threads.thread[0].regs;
	int rc;

	b.bottom = top - most;
	aux_image(&b, exec);
	rc = push_strings(&b, exec->envp, &p->env_start, &p->env_end);
	if (!rc)
		rc = push_strings(&b, exec->argv, &p->arg_start, &p->arg_end);
	if (!rc)
		rc = aux_process(&b, exec);
	if (!rc)
		rc = put_table(&b, count_strings(exec->argv),
			       count_strings(exec->envp));
	if (rc)
		return rc;
	abi_memset(regs, 0, sizeof(*regs));
	regs->rip = exec->loader ? exec->loader->entry : exec->plan->entry;
	regs->rsp = b.sp;
	regs->rflags = 0x202;
	return 0;
}
