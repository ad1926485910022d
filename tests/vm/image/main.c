// SPDX-License-Identifier: MIT
/*
 * The least that can run on a partition: each core takes commands from its slot
 * in the mail. It maps all memory as it lies, in 1 GiB pages, which no image
 * for users may do.
 */
#include <skep/nmi.h>
#include <skep/partition.h>

#include "slot.h"

#define NMI 0x4400
#define GIANT 0x83ull /* present, writable, 1 GiB */

static u64 root[512] __attribute__((aligned(4096)));
static u64 low[512] __attribute__((aligned(4096)));
static u64 high[512] __attribute__((aligned(4096)));
static u64 large[512] __attribute__((aligned(4096)));
static u64 idt[512];
static u64 gdt[2] = {0, 0x00209b0000000000};
static volatile u32 ready;
static struct {
	u64 slot, end_of_interrupt, nmi;
} local[16];

void image_main(struct skep_partition *p, u32 core);
void on_nmi(void);
void on_interrupt(void);
void quiet_loop(volatile u64 *leave);
void noisy_loop(volatile u64 *interrupts);
void idle_begin_10(volatile u64 *inside), idle_end_10(volatile u64 *inside);
void idle_begin_11(volatile u64 *inside), idle_end_11(volatile u64 *inside);
void idle_begin_12(volatile u64 *inside), idle_end_12(volatile u64 *inside);

static void set_gate(u32 vector, void (*f)(void))
{
	u64 at = (u64)f;

	idt[vector * 2] = (at & 0xffff) | 8 << 16 | 0x8eull << 40 |
			  (at >> 16 & 0xffff) << 48;
	idt[vector * 2 + 1] = at >> 32;
}

/* The kernel region where it is, everything else at its physical address. */
static void make_tables(struct skep_partition *p)
{
	u64 base = p->kernel_start - SKEP_PARTITION_BASE, at;
	u32 i;

	for (i = 0; i < 512; i++)
		low[i] = (u64)i << 30 | GIANT;
	for (at = 0; at < p->kernel_size; at += 0x200000)
		large[at >> 21] = (p->kernel_start + at) | 0x83;
	high[510] = (base + (u64)large) | 3;
	root[0] = (base + (u64)low) | 3;
	root[511] = (base + (u64)high) | 3;
	set_gate(2, on_nmi);
	for (i = 32; i < 256; i++)
		set_gate(i, on_interrupt);
}

static void write_msr(u32 msr, u64 value)
{
	__asm__ volatile("wrmsr"
			 :
			 : "c"(msr), "a"((u32)value), "d"((u32)(value >> 32)));
}

static void load_tables(struct skep_partition *p, u32 core)
{
	struct {
		u16 limit;
		u64 base;
	} __attribute__((packed)) gdtr = {sizeof(gdt) - 1, (u64)gdt},
				  idtr = {sizeof(idt) - 1, (u64)idt};
	u64 root_at = (u64)root + p->kernel_start - SKEP_PARTITION_BASE;

	write_msr(0xc0000101, (u64)&local[core]); /* GS base */
	__asm__ volatile("lidt %0\n\tmov %1, %%cr3\n\tlgdt %2"
			 :
			 : "m"(idtr), "r"(root_at), "m"(gdtr)
			 : "memory");
}

static void send_ipi(struct skep_partition *p, u32 id, u32 what)
{
	volatile u32 *apic = (u32 *)p->apic_base;

	if (!p->apic_base) {
		write_msr(0x830, (u64)id << 32 | what);
		return;
	}
	apic[0x310 / 4] = id << 24;
	apic[0x300 / 4] = what;
}

static void ring_doorbell(struct skep_partition *p)
{
	send_ipi(p, *(volatile u32 *)&p->doorbell_apic_id, p->doorbell_vector);
}

static void take_interrupts(struct skep_partition *p)
{
	volatile u32 *apic = (u32 *)p->apic_base;

	apic[0xf0 / 4] = 0x1ff; /* software enable */
	__asm__ volatile("mov %0, %%cr8\n\tsti" : : "r"(0ull));
}

/* The loop at its physical address: in the lower half, as a program's code, so
 * that a counter takes the handlers of interrupts for a kernel. No other code
 * shares its page.
 */
static void go_round(struct skep_partition *p, void (*loop)(volatile u64 *),
		     volatile u64 *until)
{
	u64 at = (u64)loop - SKEP_PARTITION_BASE + p->kernel_start;

	((void (*)(volatile u64 *))at)(until);
}

static u64 sum_words(u64 start, u64 length)
{
	volatile u64 *w = (u64 *)start;
	u64 found = 0, i;

	for (i = 0; i < length / 8; i++)
		found += w[i] != 0;
	return found;
}

static void fill_memory(struct skep_partition *p)
{
	const struct skep_partition_range *range = skep_partition_ranges(p);
	volatile u64 *w;
	u64 i;
	u32 r;

	for (r = 0; r < p->ranges; r++) {
		w = (u64 *)range[r].start;
		for (i = 0; i < range[r].length / 8; i++)
			w[i] = SLOT_SECRET;
	}
	w = (u64 *)(p->kernel_start + p->free_start);
	for (i = 0; i < (p->kernel_size - p->free_start) / 8; i++)
		w[i] = SLOT_SECRET;
}

static u64 sum_memory(struct skep_partition *p)
{
	const struct skep_partition_range *range = skep_partition_ranges(p);
	u64 found = sum_words(p->kernel_start + p->free_start,
			      p->kernel_size - p->free_start);
	u32 r;

	for (r = 0; r < p->ranges; r++)
		found += sum_words(range[r].start, range[r].length);
	return found;
}

/* The command before is as often looked at, whichever it is. */
static void mark_idle(struct skep_partition *p, struct slot *s, u64 command)
{
	static void (*const mark[])(volatile u64 *) = {
		idle_begin_10, idle_begin_11, idle_begin_12,
		idle_end_10,   idle_end_11,   idle_end_12};

	if (command == SLOT_BACK_2)
		ring_doorbell(p);
	mark[command - SLOT_IDLE](&s->inside);
}

static void carry_out(struct skep_partition *p, struct slot *s, u64 command)
{
	switch (command) {
	case SLOT_RING:
		ring_doorbell(p);
		break;
	case SLOT_SPIN:
		for (;;)
			__asm__ volatile("cli");
	case SLOT_HALT:
		for (;;)
			__asm__ volatile("cli\n\thlt");
	case SLOT_INTERRUPT:
		take_interrupts(p);
		break;
	case SLOT_FILL:
		fill_memory(p);
		break;
	case SLOT_SUM:
		s->dirty = sum_memory(p);
		break;
	case SLOT_QUIET:
		s->inside = 1;
		go_round(p, quiet_loop, &s->leave);
		break;
	case SLOT_STRAY:
		send_ipi(p, (u32)s->target, NMI);
		break;
	case SLOT_NOISY:
		take_interrupts(p);
		go_round(p, noisy_loop, &s->interrupts);
		__asm__ volatile("cli");
		break;
	default:
		mark_idle(p, s, command);
	}
}

static u32 own_id(struct skep_partition *p)
{
	u32 a = 1, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return p->apic_base ? b >> 24 : d;
}

static void widen_range(struct slot *s, u64 start, u64 length)
{
	if (!s->high || start < s->low)
		s->low = start;
	if (start + length > s->high)
		s->high = start + length;
}

static void describe_slot(struct skep_partition *p, u32 core, struct slot *s)
{
	const struct skep_partition_range *range = skep_partition_ranges(p);
	u32 r;

	s->apic_id = own_id(p);
	s->pool = range[0].start;
	s->ranges = p->ranges;
	s->mail = p->mail_start;
	s->kernel = p->kernel_start + p->free_start;
	s->nodes = p->core[core].node | range[0].node << 8 |
		   range[p->ranges - 1].node << 16;
	widen_range(s, p->kernel_start, p->kernel_size);
	widen_range(s, p->mail_start, p->mail_size);
	for (r = 0; r < p->ranges; r++)
		widen_range(s, range[r].start, range[r].length);
}

void image_main(struct skep_partition *p, u32 core)
{
	struct slot *s = (struct slot *)(p->mail_start + SLOT_AT(core));
	u32 low_tsc, high_tsc;
	u64 command;

	if (!core) {
		make_tables(p);
		ready = 1;
	}
	while (!ready)
		__asm__ volatile("pause");
	local[core].slot = (u64)s;
	local[core].end_of_interrupt = p->apic_base + 0xb0;
	local[core].nmi = (u64)&p->nmi[core];
	load_tables(p, core);
	skep_nmi_open(&p->nmi[core]);
	__asm__ volatile("rdtsc" : "=a"(low_tsc), "=d"(high_tsc));
	s->tsc = (u64)high_tsc << 32 | low_tsc;
	describe_slot(p, core, s);
	s->alive = core + 1;
	for (;;) {
		command = s->command;
		if (command) {
			carry_out(p, s, command);
			s->command = SLOT_WAIT;
		}
		s->alive++;
		__asm__ volatile("pause");
	}
}
