// SPDX-License-Identifier: MIT
/* The texts of proc(5) and sysfs about the guest. No state. */
#include "proctext.h"
#include "abi/include/mem.h"
#include "abi/mm/space.h"
#include "abi/proc/call.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/thread.h"

static void add_line(struct abi_text *t, const char *name, u64 value,
		     const char *unit)
{
	abi_text_str(t, name);
	abi_text_dec(t, value);
	abi_text_str(t, unit);
}

/* Whether memory is allocated on first touch; if so, *left is how much is free
 * now. */
static int is_lazy(const struct abi_proc *p, u64 *left)
{
	struct abi_host_info now;

	if (p->info.mem_limit <= p->info.mem_total || p->host->info(&now))
		return 0;
	*left = now.mem_free;
	return 1;
}

/* Bytes of memory that are resident. */
static u64 resident_bytes(struct abi_proc *p, u64 *mapped)
{
	u64 left, committed;

	abi_space_count(p, &committed, mapped);
	return is_lazy(p, &left) ? p->info.mem_total - left : committed;
}

/* thread: the one that the file is about, or 0: the process. */
static const char *name_of(struct abi_proc *p, const struct abi_thread *thread)
{
	return thread && thread->comm[0] ? thread->comm : p->comm;
}

/* The process's is that of its first thread. */
static char letter_of(struct abi_proc *p, const struct abi_thread *thread)
{
	return abi_thread_letter(thread ? thread : &p->threads.thread[0]);
}

static void write_state(struct abi_text *t, char letter)
{
	abi_text_str(t, letter == 'R'	? "\nState:\tR (running)\n"
			: letter == 'S' ? "\nState:\tS (sleeping)\n"
					: "\nState:\tZ (zombie)\n");
}

static void write_status(struct abi_proc *p, const struct abi_thread *thread,
			 struct abi_text *t)
{
	u64 mapped, has = resident_bytes(p, &mapped);
	s32 bit;

	abi_text_str(t, "Name:\t");
	abi_text_str(t, name_of(p, thread));
	abi_text_str(t, "\nUmask:\t0");
	for (bit = 6; bit >= 0; bit -= 3)
		abi_text_chr(t, (char)('0' + (*abi_umask(p) >> bit & 7)));
	write_state(t, letter_of(p, thread));
	add_line(t, "Tgid:\t", p->info.pid, "\n");
	add_line(t, "Pid:\t", thread ? thread->tid : p->info.pid,
		 "\nPPid:\t1\nTracerPid:\t0\n");
	add_line(t, "VmPeak:\t", mapped / 1024, " kB\n");
	add_line(t, "VmSize:\t", mapped / 1024, " kB\n");
	add_line(t, "VmHWM:\t", p->space.committed_peak / 1024, " kB\n");
	add_line(t, "VmRSS:\t", has / 1024, " kB\n");
	add_line(t, "Threads:\t", p->threads.live, "\n");
	abi_text_str(t, "Cpus_allowed_list:\t0");
	if (p->info.cpus > 1)
		add_line(t, "-", p->info.cpus - 1, "");
	abi_text_chr(t, '\n');
}

static void stat_self(struct abi_proc *p, const struct abi_thread *thread,
		      struct abi_text *t)
{
	u64 mapped, has = resident_bytes(p, &mapped);
	s64 user = 0, sys = 0;
	u32 i;

	(void)p->host->rusage(&user, &sys);
	abi_text_dec(t, thread ? thread->tid : p->info.pid);
	abi_text_str(t, " (");
	abi_text_str(t, name_of(p, thread));
	abi_text_str(t, ") ");
	abi_text_chr(t, letter_of(p, thread));
	abi_text_str(t, " 1");
	add_line(t, " ", p->info.pid, "");
	add_line(t, " ", p->info.pid, " 0 -1 0 0 0 0 0");
	add_line(t, " ", (u64)user / 10000000, "");
	add_line(t, " ", (u64)sys / 10000000, " 0 0 20 0");
	add_line(t, " ", p->threads.live, " 0 1");
	add_line(t, " ", mapped, "");
	add_line(t, " ", has / 4096, "");
	for (i = 25; i <= 52; i++)
		abi_text_str(t, " 0");
	abi_text_chr(t, '\n');
}

static void write_cpuinfo(struct abi_proc *p, struct abi_text *t)
{
	u32 i;

	for (i = 0; i < p->info.cpus; i++) {
		add_line(t, "processor\t: ", i, "\n");
		abi_text_str(t, "vendor_id\t: unknown\n"
				"model name\t: x86-64 processor\n");
		add_line(t, "siblings\t: ", p->info.cpus, "\n");
		add_line(t, "core id\t\t: ", i, "\n");
		add_line(t, "cpu cores\t: ", p->info.cpus, "\n");
		abi_text_str(t, "flags\t\t: fpu tsc cx8 cmov mmx fxsr sse "
				"sse2 syscall lm\n\n");
	}
}

static void write_meminfo(struct abi_proc *p, struct abi_text *t)
{
	u64 total = p->info.mem_total / 1024, committed, mapped, left;

	abi_space_count(p, &committed, &mapped);
	if (!is_lazy(p, &left))
		left = p->info.mem_free > committed
			       ? p->info.mem_free - committed
			       : 0;
	left /= 1024;
	add_line(t, "MemTotal:       ", total, " kB\n");
	add_line(t, "MemFree:        ", left, " kB\n");
	add_line(t, "MemAvailable:   ", left, " kB\n");
	abi_text_str(t, "Buffers:        0 kB\nCached:         0 kB\n"
			"SwapTotal:      0 kB\nSwapFree:       0 kB\n");
	add_line(t, "CommitLimit:    ", p->info.mem_limit / 1024, " kB\n");
	add_line(t, "Committed_AS:   ", committed / 1024, " kB\n");
	abi_text_str(t, "HugePages_Total: 0\nHugepagesize:   2048 kB\n");
}

static void stat_all(struct abi_proc *p, struct abi_text *t)
{
	u32 i;

	abi_text_str(t, "cpu  0 0 0 0 0 0 0 0 0 0\n");
	for (i = 0; i < p->info.cpus; i++)
		add_line(t, "cpu", i, " 0 0 0 0 0 0 0 0 0 0\n");
	abi_text_str(t, "intr 0\nctxt 0\n");
	add_line(t, "btime ",
		 (u64)(p->host->clock(ABI_CLOCK_REALTIME) -
		       p->host->clock(ABI_CLOCK_MONOTONIC)) /
			 1000000000,
		 "\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n");
}

static void write_uptime(struct abi_proc *p, struct abi_text *t)
{
	u64 cs = (u64)p->host->clock(ABI_CLOCK_MONOTONIC) / 10000000;

	add_line(t, "", cs / 100, ".");
	abi_text_chr(t, (char)('0' + cs / 10 % 10));
	abi_text_chr(t, (char)('0' + cs % 10));
	abi_text_str(t, " 0.00\n");
}

static void write_cpus(struct abi_proc *p, struct abi_text *t)
{
	abi_text_chr(t, '0');
	if (p->info.cpus > 1)
		add_line(t, "-", p->info.cpus - 1, "");
	abi_text_chr(t, '\n');
}

void abi_proctext_write(struct abi_proc *p, u32 code,
			const struct abi_thread *thread, struct abi_text *t)
{
	static const char *const fixed[] = {
		[ABI_TEXT_LOADAVG] = "0.00 0.00 0.00 1/1 1\n",
		[ABI_TEXT_OVERCOMMIT] = "2\n", /* abi never overcommits */
		[ABI_TEXT_OSTYPE] = "Linux\n",
		[ABI_TEXT_OSRELEASE] = "6.1.0-skep\n",
		[ABI_TEXT_NGROUPS] = "65536\n",
		[ABI_TEXT_SOMAXCONN] = "4096\n",
		[ABI_TEXT_PID_MAX] = "1073741824\n", /* see thread.c */
		[ABI_TEXT_ZERO] = "0\n",
	};
	u32 number = code >> ABI_TEXT_NUMBER;

	code &= (1u << ABI_TEXT_NUMBER) - 1;
	switch (code) {
	case ABI_TEXT_STATUS:
		return write_status(p, thread, t);
	case ABI_TEXT_STAT_SELF:
		return stat_self(p, thread, t);
	case ABI_TEXT_COMM:
		abi_text_str(t, name_of(p, thread));
		return abi_text_chr(t, '\n');
	case ABI_TEXT_CPUINFO:
		return write_cpuinfo(p, t);
	case ABI_TEXT_MEMINFO:
		return write_meminfo(p, t);
	case ABI_TEXT_STAT:
		return stat_all(p, t);
	case ABI_TEXT_UPTIME:
		return write_uptime(p, t);
	case ABI_TEXT_HOSTNAME:
		abi_text_str(t, p->info.node);
		return abi_text_chr(t, '\n');
	case ABI_TEXT_PIPE_MAX: /* the kernel's, where pipes are */
		return add_line(t, "",
				p->host->pipe && !p->info.spawns
					? 1048576
					: ABI_RING_SIZE,
				"\n");
	case ABI_TEXT_MAX_MAP_COUNT:
		return add_line(t, "", ABI_AREAS_MAX, "\n");
	case ABI_TEXT_CPUS:
		return write_cpus(p, t);
	case ABI_TEXT_OF_NUMBER:
		return add_line(t, "", number, "\n");
	default:
		if (code < sizeof(fixed) / sizeof(fixed[0]) && fixed[code])
			abi_text_str(t, fixed[code]);
	}
}
