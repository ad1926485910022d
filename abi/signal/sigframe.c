/* SPDX-License-Identifier: MIT */
/*
 * The signal frame on a guest stack: rt_sigframe of x86-64 Linux, as
 * sigreturn(2), the psABI and <asm/sigcontext.h> describe it:
 *
 *   high   XSAVE area, 64-byte aligned, then its end mark
 *          record of a call to run again (ours; see below)
 *          struct siginfo
 *          struct ucontext
 *   rsp -> return address: the restorer        rsp % 16 == 8
 *
 * The guest may change everything in the frame, so nothing in it is trusted:
 * rt_sigreturn can only do what the guest could do itself.
 *
 * Running a call again. As Linux does, the frame points rip back at the
 * instruction, with the call's number in rax; from this musl detects that the
 * call has not been made. The instruction is rewritten here, so the record
 * names the call too: if the handler left rip, rsp and rax alone, rt_sigreturn
 * has the call dispatched again with the registers of the frame.
 */
#include "sigframe.h"
#include "signal.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/state/proc.h"

#define RED_ZONE 128
#define UC_FP_XSTATE 1
#define UC_SIGCONTEXT_SS 2
#define UC_STRICT_RESTORE_SS 4
#define CS_USER 0x33
#define SS_USER 0x2b
#define FLAGS_KEPT 0xcd5u /* CF PF AF ZF SF DF OF */
#define FLAGS_SET 0x202u  /* IF and the bit that is always one */
#define FLAG_TF 0x100u
#define FLAG_DF 0x400u
#define FLAG_RF 0x10000u
#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u
#define AGAIN_MAGIC 0x6e69616741706553ull
#define NR_RT_SIGRETURN 15
#define SYSCALL_LEN 2 /* bytes of the instruction */

#define FX_SIZE 512 /* the FXSAVE part */
#define FX_MXCSR 24
#define FX_SW 464    /* software bytes: struct fx_sw */
#define XSAVE_BV 512 /* header: XSTATE_BV, XCOMP_BV, zeros */

struct fx_sw {
	u32 magic1, extended_size;
	u64 features;
	u32 xstate_size, pad[7];
};
SKEP_ASSERT_SIZE(struct fx_sw, 48);

struct context {
	u64 r8, r9, r10, r11, r12, r13, r14, r15;
	u64 rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags;
	u16 cs, gs, fs, ss;
	u64 err, trapno, oldmask, cr2;
	u64 fpstate;
	u64 reserved[8];
};
SKEP_ASSERT_SIZE(struct context, 256);

struct ucontext {
	u64 flags, link;
	u64 alt_sp;
	u32 alt_flags, pad;
	u64 alt_size;
	struct context mc;
	u64 mask;
};
SKEP_ASSERT_SIZE(struct ucontext, 304);

struct again {
	u64 magic, nr, rip, rsp;
};

struct frame {
	u64 restorer;
	struct ucontext uc;
	struct abi_siginfo info;
	struct again again;
};
SKEP_ASSERT_SIZE(struct frame, 472);

struct vec {
	u8 byte[ABI_VEC_MAX];
} __attribute__((aligned(64)));

static int on_altstack(const struct abi_thread *t, u64 rsp)
{
	return !(t->alt_flags & (ABI_SS_DISABLE | ABI_SS_AUTODISARM)) &&
	       rsp > t->alt_sp && rsp - t->alt_sp <= t->alt_size;
}

s64 abi_signal_altstack(struct abi_thread *t, u64 rsp, u64 sp, u64 size,
			u32 flags)
{
	u32 mode = flags & ~ABI_SS_AUTODISARM;

	if (on_altstack(t, rsp))
		return -LINUX_EPERM;
	if (mode != ABI_SS_DISABLE && mode != ABI_SS_ONSTACK && mode != 0)
		return -LINUX_EINVAL;
	if (mode == ABI_SS_DISABLE) {
		t->alt_sp = t->alt_size = 0;
		t->alt_flags = flags;
		return 0;
	}
	if (size < 2048) /* MINSIGSTKSZ */
		return -LINUX_ENOMEM;
	t->alt_sp = sp;
	t->alt_size = size;
	t->alt_flags = flags & ABI_SS_AUTODISARM;
	return 0;
}

u32 abi_signal_altstack_flags(const struct abi_thread *t, u64 rsp)
{
	return on_altstack(t, rsp) ? t->alt_flags | ABI_SS_ONSTACK
				   : t->alt_flags;
}

/* Pushing ---------------------------------------------------------------------
 */

static u64 vec_size(struct abi_proc *p)
{
	return p->info.xsave_size;
}

/* Chooses addresses for frame and vector state, or returns -EFAULT. */
static s64 place_frame(struct abi_proc *p, struct abi_thread *t, u64 rsp,
		       u64 sa_flags, u64 *vec, u64 *frame)
{
	u64 low = 0, top = rsp - RED_ZONE, need;

	if (on_altstack(t, rsp)) {
		low = t->alt_sp;
	} else if (sa_flags & ABI_SA_ONSTACK &&
		   !(t->alt_flags & ABI_SS_DISABLE)) {
		low = t->alt_sp;
		top = t->alt_sp + t->alt_size;
	}
	need = vec_size(p) + 4 + sizeof(struct frame) + 256;
	if (top < need || top - need < low || top > 1ull << 47)
		return -LINUX_EFAULT;
	*vec = (top - vec_size(p) - 4) & ~63ull;
	*frame = ((*vec - sizeof(struct frame)) & ~15ull) - 8;
	return abi_user_check(p, *frame, *vec + vec_size(p) + 4 - *frame,
			      ABI_PROT_READ | ABI_PROT_WRITE);
}

static s64 vec_push(struct abi_proc *p, u64 vec)
{
	u64 size = vec_size(p);
	struct vec v;
	struct fx_sw sw = {
		MAGIC1, (u32)size + 4, p->info.xsave_mask, (u32)size, {0}};
	u32 magic2 = MAGIC2;

	abi_memset(v.byte, 0, ABI_VEC_MIN);
	if (p->host->vec_save(v.byte, size))
		return -LINUX_EFAULT;
	abi_memcpy(v.byte + FX_SW, &sw, sizeof(sw));
	if (abi_user_put(p, vec, v.byte, size))
		return -LINUX_EFAULT;
	return ABI_PUT(p, vec + size, &magic2);
}

static void context_save(struct context *mc, const struct abi_regs *r)
{
	mc->r8 = r->r8;
	mc->r9 = r->r9;
	mc->r10 = r->r10;
	mc->r11 = r->r11;
	mc->r12 = r->r12;
	mc->r13 = r->r13;
	mc->r14 = r->r14;
	mc->r15 = r->r15;
	mc->rdi = r->rdi;
	mc->rsi = r->rsi;
	mc->rbp = r->rbp;
	mc->rbx = r->rbx;
	mc->rdx = r->rdx;
	mc->rax = r->rax;
	mc->rcx = r->rcx;
	mc->rsp = r->rsp;
	mc->rip = r->rip;
	mc->rflags = r->rflags;
	mc->cs = CS_USER;
	mc->ss = SS_USER;
}

static void frame_fill(struct abi_proc *p, const struct abi_thread *t,
		       const struct abi_regs *regs,
		       const struct abi_delivery *d, struct frame *f)
{
	struct ucontext *uc = &f->uc;

	abi_memset(f, 0, sizeof(*f));
	f->restorer = d->action->restorer;
	uc->flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
	uc->alt_sp = t->alt_sp;
	uc->alt_size = t->alt_size;
	uc->alt_flags = abi_signal_altstack_flags(t, regs->rsp);
	context_save(&uc->mc, regs);
	uc->mc.rip = p->host->text_pc(regs->rip);
	uc->mc.oldmask = d->mask;
	uc->mask = d->mask;
	if (d->fault) {
		uc->mc.err = d->fault->error;
		uc->mc.trapno = d->fault->trapno;
		uc->mc.cr2 = d->fault->addr;
	}
	f->info = *d->info;
	if (d->again != ABI_NONE) {
		f->again.magic = AGAIN_MAGIC;
		f->again.nr = d->again;
		uc->mc.rax = d->again;
		uc->mc.rip -= SYSCALL_LEN;
		f->again.rip = uc->mc.rip;
		f->again.rsp = regs->rsp;
	}
}

static void regs_enter(struct abi_regs *regs, const struct abi_delivery *d,
		       u64 frame)
{
	regs->rsp = frame;
	regs->rip = d->action->handler;
	regs->rax = 0;
	regs->rdi = (u64)d->info->signo;
	regs->rsi = frame + __builtin_offsetof(struct frame, info);
	regs->rdx = frame + __builtin_offsetof(struct frame, uc);
	regs->rflags &= ~(u64)(FLAG_DF | FLAG_TF | FLAG_RF);
}

s64 abi_sigframe_push(struct abi_proc *p, struct abi_thread *t,
		      struct abi_regs *regs, const struct abi_delivery *d)
{
	struct frame f;
	u64 vec, frame;
	s64 rc;

	/* without a restorer a handler could not return; libcs set it */
	if (!(d->action->flags & ABI_SA_RESTORER))
		return -LINUX_EFAULT;
	rc = place_frame(p, t, regs->rsp, d->action->flags, &vec, &frame);
	if (!rc)
		rc = vec_push(p, vec);
	if (rc)
		return rc;
	frame_fill(p, t, regs, d, &f);
	f.uc.mc.fpstate = vec;
	rc = ABI_PUT(p, frame, &f);
	if (rc)
		return rc;
	if (t->alt_flags & ABI_SS_AUTODISARM) {
		t->alt_sp = t->alt_size = 0;
		t->alt_flags = ABI_SS_DISABLE;
	}
	regs_enter(regs, d, frame);
	return 0;
}

/* Popping
 * ---------------------------------------------------------------------- */

/* Checks the header of an XSAVE image as the CPU does: Intel SDM 1, 13.4.2. */
static s64 vec_check(struct abi_proc *p, struct vec *v, int extended)
{
	u64 header[8];
	u32 mxcsr, i;

	abi_memcpy(&mxcsr, v->byte + FX_MXCSR, sizeof(mxcsr));
	if (mxcsr >> 16)
		return -LINUX_EFAULT;
	if (!extended) {
		abi_memset(header, 0, sizeof(header));
		header[0] = 3; /* x87 and SSE */
	} else {
		abi_memcpy(header, v->byte + XSAVE_BV, sizeof(header));
		for (i = 1; i < 8; i++)
			if (header[i])
				return -LINUX_EFAULT;
	}
	header[0] &= p->info.xsave_mask;
	abi_memcpy(v->byte + XSAVE_BV, header, sizeof(header));
	return 0;
}

/* 1: a complete image of our size follows; 0: only the FXSAVE part is used. */
static int vec_is_extended(struct abi_proc *p, const struct vec *v, u64 vec)
{
	struct fx_sw sw;
	u32 magic2;

	abi_memcpy(&sw, v->byte + FX_SW, sizeof(sw));
	if (sw.magic1 != MAGIC1 || sw.xstate_size != vec_size(p) ||
	    sw.extended_size != vec_size(p) + 4)
		return 0;
	return !ABI_GET(p, &magic2, vec + vec_size(p)) && magic2 == MAGIC2;
}

/*
 * Uses a copy, because another guest thread may write to the frame meanwhile,
 * and a reserved bit would fault in the host.
 */
static s64 vec_pop(struct abi_proc *p, u64 vec)
{
	struct vec v;
	u32 mxcsr = 0x1f80; /* the initial value */
	int extended = 0;
	s64 rc;

	abi_memset(v.byte, 0, ABI_VEC_MIN);
	if (!vec) {
		abi_memcpy(v.byte + FX_MXCSR, &mxcsr, sizeof(mxcsr));
		return p->host->vec_load(v.byte, ABI_VEC_MIN);
	}
	if (vec % 64 || abi_user_get(p, v.byte, vec, FX_SIZE))
		return -LINUX_EFAULT;
	extended = vec_is_extended(p, &v, vec);
	if (extended && abi_user_get(p, v.byte, vec, vec_size(p)))
		return -LINUX_EFAULT;
	rc = vec_check(p, &v, extended);
	if (rc)
		return rc;
	if (p->host->vec_load(v.byte, extended ? vec_size(p) : ABI_VEC_MIN))
		return -LINUX_EFAULT;
	return 0;
}

static void context_load(struct abi_regs *r, const struct context *mc)
{
	r->r8 = mc->r8;
	r->r9 = mc->r9;
	r->r10 = mc->r10;
	r->r11 = mc->r11;
	r->r12 = mc->r12;
	r->r13 = mc->r13;
	r->r14 = mc->r14;
	r->r15 = mc->r15;
	r->rdi = mc->rdi;
	r->rsi = mc->rsi;
	r->rbp = mc->rbp;
	r->rbx = mc->rbx;
	r->rdx = mc->rdx;
	r->rax = mc->rax;
	r->rcx = mc->rcx;
	r->rsp = mc->rsp;
	r->rip = mc->rip;
	r->rflags = (mc->rflags & FLAGS_KEPT) | FLAGS_SET;
}

static u32 again_nr(const struct frame *f)
{
	const struct again *a = &f->again;
	const struct context *mc = &f->uc.mc;

	if (a->magic != AGAIN_MAGIC || a->nr >= ABI_NR_MAX ||
	    a->nr == NR_RT_SIGRETURN || a->rip != mc->rip ||
	    a->rsp != mc->rsp || mc->rax != a->nr)
		return ABI_NONE;
	return (u32)a->nr;
}

/* Whether the guest may continue there: in its own text, or in the vDSO if that
 * was interrupted. */
static int is_text(struct abi_proc *p, u64 rip)
{
	return (rip >= p->vdso && rip < p->vdso_end) ||
	       !abi_user_check(p, rip, 1, ABI_PROT_EXEC);
}

s64 abi_sigframe_pop(struct abi_proc *p, struct abi_thread *t,
		     struct abi_regs *regs, u32 *again)
{
	struct frame f;

	/* the handler's return has popped the restorer's address */
	if (ABI_GET(p, &f, regs->rsp - 8))
		return -LINUX_EFAULT;
	if (!is_text(p, f.uc.mc.rip) || f.uc.mc.rsp >= 1ull << 47)
		return -LINUX_EFAULT;
	if (vec_pop(p, f.uc.mc.fpstate))
		return -LINUX_EFAULT;
	context_load(regs, &f.uc.mc);
	*again = again_nr(&f);
	if (*again != ABI_NONE)
		regs->rip += SYSCALL_LEN;
	abi_signal_mask_set(p, t, f.uc.mask);
	/* as on Linux, a stack that cannot be set now is not changed */
	abi_signal_altstack(t, regs->rsp, f.uc.alt_sp, f.uc.alt_size,
			    f.uc.alt_flags &
				    (ABI_SS_AUTODISARM | ABI_SS_DISABLE));
	return 0;
}
