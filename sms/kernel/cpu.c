// SPDX-License-Identifier: MIT
/* The processor: control registers, tables, vector state, sending of
 * interrupts. */
#include "abi/include/vec.h"
#include "kernel.h"

#define MSR_EFER 0xc0000080
#define MSR_STAR 0xc0000081
#define MSR_LSTAR 0xc0000082
#define MSR_FMASK 0xc0000084
#define MSR_FS 0xc0000100
#define MSR_GS 0xc0000101
#define MSR_HIDDEN_GS 0xc0000102
#define MSR_X2APIC_ICR 0x830
#define MSR_HWP 0x774
#define MSR_PERF 0x199
#define MSR_EPB 0x1b0

#define EFER_SCE 1ull
#define EFER_NXE (1ull << 11)
#define CR0_WANTED 0x80050033ull /* PG AM WP NE ET MP PE */
#define CR4_PAE (1ull << 5)
#define CR4_MCE (1ull << 6)
#define CR4_FXSR (1ull << 9)
#define CR4_XMM (1ull << 10)
#define CR4_XSAVE (1ull << 18)
#define CR4_SMEP (1ull << 20)
#define CR4_UMIP (1ull << 11)
/* All flags but the fixed one: IF, DF, TF, AC, ... */
#define FLAGS_CLEARED 0x257fd5ull

#define XCR0_SEEN 0xe7ull /* x87, SSE, AVX, AVX-512; no AMX */
#define ICR_NMI 0x4400u
#define ICR_BUSY 0x1000u

static struct {
	u64 low, high;
} idt[32] __attribute__((aligned(16)));
static u64 vec_mask;	   /* 0: no XSAVE */
static u64 vec_size = 576; /* bytes in the standard format */
static u32 has_wait;	   /* the processor has monitor and mwait */
static u8 vec_zero[ABI_VEC_AREA] __attribute__((aligned(64)));

static void read_cpuid(u32 leaf, u32 sub, u32 out[4])
{
	__asm__ volatile("cpuid"
			 : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]),
			   "=d"(out[3])
			 : "a"(leaf), "c"(sub));
}

static void set_gate(u32 vector, u64 at, u32 stack)
{
	idt[vector].low = (at & 0xffff) | SELECT_CODE << 16 | (u64)stack << 32 |
			  0x8eull << 40 | (at >> 16 & 0xffff) << 48;
	idt[vector].high = at >> 32;
}

/* Interrupt stacks: 1 for NMI, 2 for a double fault, 3 for a machine check. */
void sms_cpu_tables(void)
{
	u32 i;

	for (i = 0; i < 32; i++)
		set_gate(i, sms_trap_table[i], i == 8 ? 2 : 0);
	idt[3].low |= 3ull << 45; /* the program may use int3 */
	set_gate(2, (u64)sms_entry_nmi, 1);
	set_gate(18, (u64)sms_entry_machine, 3);
}

static void task_set(struct core *c, u32 at, u64 value)
{
	c->task[at] = (u32)value;
	c->task[at + 1] = (u32)(value >> 32);
}

static void load_tables(struct core *c)
{
	struct {
		u16 limit;
		u64 base;
	} __attribute__((packed)) gdtr = {sizeof(c->gdt) - 1, (u64)c->gdt},
				  idtr = {sizeof(idt) - 1, (u64)idt};
	u64 task = (u64)c->task, block = (u64)c;

	c->gdt[SELECT_CODE / 8] = 0x00af9b000000ffff;
	c->gdt[SELECT_DATA / 8] = 0x00cf93000000ffff;
	c->gdt[SELECT_USER_DATA / 8] = 0x00cff3000000ffff;
	c->gdt[SELECT_USER_CODE / 8] = 0x00affb000000ffff;
	c->gdt[SELECT_TASK / 8] = (sizeof(c->task) - 1) |
				  (task & 0xffffff) << 16 | 0x89ull << 40 |
				  (task >> 24 & 0xff) << 56;
	c->gdt[SELECT_TASK / 8 + 1] = task >> 32;
	*(struct core **)(block + BLOCK_NMI) = c;
	task_set(c, 1, (u64)c->frame);
	task_set(c, 9, block + BLOCK_NMI);
	task_set(c, 11, block + BLOCK_DOUBLE);
	task_set(c, 13, block + BLOCK_MACHINE);
	c->task[25] = sizeof(c->task) << 16;
	__asm__ volatile("lgdt %0\n\tlidt %1\n\tltr %2\n\t"
			 "mov %3, %%ss\n\tmov %4, %%ds\n\tmov %4, %%es\n\t"
			 "mov %4, %%fs\n\tmov %4, %%gs\n\t"
			 "push %5\n\tlea 1f(%%rip), %%rax\n\tpush %%rax\n\t"
			 "lretq\n1:"
			 :
			 : "m"(gdtr), "m"(idtr), "r"((u16)SELECT_TASK),
			   "r"((u32)SELECT_DATA), "r"(0), "i"(SELECT_CODE)
			 : "rax", "memory");
	sms_msr_write(MSR_GS, (u64)c);
	sms_msr_write(MSR_HIDDEN_GS, 0);
	sms_msr_write(MSR_FS, 0);
}

static void load_vector(u64 *cr4)
{
	u32 r[4];
	u64 mask;

	read_cpuid(1, 0, r);
	has_wait = r[2] >> 3 & 1;
	if (!(r[2] >> 26 & 1)) /* XSAVE */
		return;
	*cr4 |= CR4_XSAVE;
	__asm__ volatile("mov %0, %%cr4" : : "r"(*cr4));
	read_cpuid(0xd, 0, r);
	mask = r[0] & XCR0_SEEN;
	__asm__ volatile("xsetbv" : : "c"(0), "a"((u32)mask), "d"(0));
	vec_mask = mask;
	vec_size = abi_vec_size(mask);
}

/* Linux leaves an offline core at its lowest frequency. */
static void full_speed(void)
{
	const struct skep_partition *p = sms_partition;

	if (p->saved_hwp)
		sms_msr_write(MSR_HWP, p->saved_hwp);
	if (p->saved_perf)
		sms_msr_write(MSR_PERF, p->saved_perf);
	if (p->saved_epb)
		sms_msr_write(MSR_EPB, p->saved_epb);
}

void sms_cpu_begin(struct core *c)
{
	u64 cr4 = CR4_PAE | CR4_MCE | CR4_FXSR | CR4_XMM;
	u32 r[4];

	sms_msr_write(MSR_EFER, sms_msr_read(MSR_EFER) | EFER_SCE | EFER_NXE);
	load_tables(c);
	__asm__ volatile("mov %0, %%cr0" : : "r"(CR0_WANTED));
	read_cpuid(7, 0, r);
	if (r[1] >> 7 & 1)
		cr4 |= CR4_SMEP;
	if (r[2] >> 2 & 1)
		cr4 |= CR4_UMIP;
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4));
	load_vector(&cr4);
	sms_msr_write(MSR_STAR, (u64)SELECT_CODE << 32 |
					(u64)(SELECT_USER_DATA - 8) << 48);
	sms_msr_write(MSR_LSTAR, (u64)sms_entry_syscall);
	sms_msr_write(MSR_FMASK, FLAGS_CLEARED);
	full_speed();
}

static void send_ipi(u32 apic_id, u32 what)
{
	volatile u32 *apic = (u32 *)AT_APIC;

	if (!sms_partition->apic_base) {
		/* The write to the APIC could pass earlier stores, which must
		 * be visible first. */
		__asm__ volatile("mfence\n\tlfence" : : : "memory");
		sms_msr_write(MSR_X2APIC_ICR, (u64)apic_id << 32 | what);
		return;
	}
	while (apic[0x300 / 4] & ICR_BUSY)
		__builtin_ia32_pause();
	apic[0x310 / 4] = apic_id << 24;
	apic[0x300 / 4] = what;
}

void sms_cpu_nmi(struct core *to, enum mail_nmi why)
{
	if (skep_nmi_request(&sms_partition->nmi[to->number], 1u << why))
		send_ipi(to->apic_id, ICR_NMI);
}

/* Requests that arrived before are handled now, as after an NMI. */
void sms_cpu_open(struct core *c)
{
	u64 *foreign = &c->count.nmi[MAIL_NMI_FOREIGN], n;

	c->ledger = &c->slot->ledger;
	do {
		n = __atomic_load_n(foreign, __ATOMIC_SEQ_CST);
		c->ledger->nmi[MAIL_NMI_FOREIGN] = n;
	} while (__atomic_load_n(foreign, __ATOMIC_SEQ_CST) != n);
	if (skep_nmi_open(&sms_partition->nmi[c->number]))
		__atomic_store_n(&c->kicked, 1, __ATOMIC_SEQ_CST);
}

static struct skep_partition_doorbell *mail_doorbell(void)
{
	return (void *)(AT_MAIL + SKEP_MAIL_DOORBELL);
}

static void ring_doorbell(u64 *word, u64 bits)
{
	const volatile struct skep_partition *p = sms_partition;

	__atomic_or_fetch(word, bits, __ATOMIC_SEQ_CST);
	send_ipi(p->doorbell_apic_id, p->doorbell_vector & 0xff);
}

void sms_cpu_doorbell_call(struct core *c)
{
	ring_doorbell(&mail_doorbell()->core[c->number / 64],
		      1ull << c->number % 64);
}

void sms_cpu_doorbell(void)
{
	ring_doorbell(&mail_doorbell()->other, 1);
}

#define SPINS 4096
#define LOOKS 100 /* checks; a quick answer takes less time */

int sms_cpu_poll(const u32 *word, u32 expect)
{
	u32 i;

	for (i = 0; i < LOOKS; i++) {
		if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != expect)
			return 1;
		__builtin_ia32_pause();
	}
	return 0;
}

int sms_cpu_sleeps(void)
{
	return (int)has_wait;
}

/* Waits until *word changes or the deadline passes; may also return early. */
void sms_cpu_wait(const u32 *word, u32 expect, u64 deadline_ns)
{
	struct core *c = sms_core();
	u32 i;

	__atomic_store_n(&c->poked, 0, __ATOMIC_SEQ_CST);
	for (i = 0; i < SPINS; i++) {
		if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != expect ||
		    sms_events_is_here() ||
		    __atomic_load_n(&c->queued, __ATOMIC_RELAXED))
			return;
		__builtin_ia32_pause();
	}
	if (deadline_ns == ABI_FOREVER && has_wait)
		sms_wait_word(word, expect);
}

/* Flushes this core's TLB, or its entries for one page. */
void sms_cpu_flush(void)
{
	u64 root;

	__asm__ volatile("mov %%cr3, %0\n\tmov %0, %%cr3"
			 : "=r"(root)
			 :
			 : "memory");
}

void sms_cpu_forget(u64 addr)
{
	__asm__ volatile("invlpg (%0)" : : "r"(addr) : "memory");
}

u64 sms_cpu_hwcap(void)
{
	u32 r[4];

	read_cpuid(1, 0, r);
	return r[3];
}

u64 sms_cpu_vec_mask(void)
{
	return vec_mask ? vec_mask : 3;
}

u64 sms_cpu_vec_size(void)
{
	return vec_size;
}

static void restore_vectors(const void *area)
{
	if (vec_mask)
		__asm__ volatile("xrstor64 (%0)"
				 :
				 : "r"(area), "a"((u32)vec_mask), "d"(0)
				 : "memory");
	else
		__asm__ volatile("fxrstor64 (%0)" : : "r"(area) : "memory");
}

static void save_vectors(void *area)
{
	if (vec_mask)
		__asm__ volatile("xsave64 (%0)"
				 :
				 : "r"(area), "a"((u32)vec_mask), "d"(0)
				 : "memory");
	else
		__asm__ volatile("fxsave64 (%0)" : : "r"(area) : "memory");
}

s64 sms_cpu_vec_save(void *buf, u64 len)
{
	u8 *area = sms_core()->vec;

	if (len < vec_size)
		return -LINUX_EINVAL;
	abi_memset(area, 0, vec_size);
	save_vectors(area);
	abi_memcpy(buf, area, vec_size);
	return 0;
}

s64 sms_cpu_vec_load(const void *buf, u64 len)
{
	u8 *area = sms_core()->vec;
	s64 err = abi_vec_take(area, buf, len, vec_mask);

	if (!err)
		restore_vectors(area);
	return err;
}

/* As clone(2) requires: only the floating-point modes are inherited. */
void sms_cpu_vec_fresh(u32 mxcsr, u16 control)
{
	*(u16 *)vec_zero = 0x37f;
	*(u32 *)(vec_zero + 24) = 0x1f80;
	restore_vectors(vec_zero);
	__asm__ volatile("fninit\n\tldmxcsr %0\n\tfldcw %1"
			 :
			 : "m"(mxcsr), "m"(control));
}

void sms_cpu_vec_keep(void *area)
{
	save_vectors(area);
}

void sms_cpu_vec_bring(const void *area)
{
	restore_vectors(area);
}

void sms_cpu_frame(struct core *c, u64 frame)
{
	c->frame = (struct abi_regs *)frame;
	task_set(c, 1, frame);
}
