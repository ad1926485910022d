// SPDX-License-Identifier: MIT
/*
 * Flushes of other cores at the moments that matter: a core becomes busy while
 * another one waits for flushes, and an NMI comes while a core flushes. A core
 * that waits forever ends the test by SIGALRM.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sms/kernel/kernel.h"
#include "tests/tap.h"

#define CORES 3
#define FOREVER 60 /* seconds */

static struct core core[CORES];
static struct skep_partition partition = {.cores = CORES};
struct skep_partition *sms_partition = &partition;
struct spin sms_memory_lock = {.word = 1}; /* of the core that flushes */

static u32 flushes, nmis;
static void (*during_nmi)(void), (*during_flush)(void);

struct core *sms_core_at(u32 number)
{
	return &core[number];
}

static void run_once(void (**hook)(void))
{
	void (*run)(void) = *hook;

	*hook = NULL;
	if (run)
		run();
}

void sms_cpu_flush(void)
{
	flushes++;
	run_once(&during_flush);
}

void sms_cpu_nmi(struct core *to, enum mail_nmi why)
{
	nmis += why == MAIL_NMI_MAPPING;
	run_once(&during_nmi);
	sms_core_flush(to);
}

static void become_core(u32 number)
{
	core[number].self = &core[number];
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, &core[number]))
		_exit(1);
}

static void start_cores(u32 busy)
{
	u32 i;

	for (i = 0; i < CORES; i++)
		core[i].state = i < busy ? CORE_BUSY : CORE_IDLE;
	flushes = nmis = 0;
	become_core(0);
	alarm(FOREVER);
}

static void wake_core_1(void)
{
	sms_core_busy(&core[1]);
}

/* Core 1 is idle when its turn of an NMI comes, and busy when core 0 waits. */
static void test_core_becomes_busy(void)
{
	start_cores(3);
	core[1].state = CORE_IDLE;
	during_nmi = wake_core_1; /* that of core 2 */
	sms_thread_flush();
	TAP(core[1].state == CORE_BUSY && nmis == 1);
	TAP(core[1].flushed == core[2].flushed);
	TAP(flushes == 3);
}

static void flush_from_core_0(void)
{
	sms_thread_flush();
}

/* An NMI with a later change comes while core 2 flushes on its way. */
static void test_nmi_during_flush(void)
{
	u64 before;

	start_cores(2);
	sms_thread_flush();
	before = core[1].flushed;
	during_flush = flush_from_core_0;
	sms_core_busy(&core[2]);
	TAP(core[1].flushed == before + 1);
	TAP(core[2].flushed == before + 1);
}

static void test_idle_cores(void)
{
	start_cores(1);
	sms_thread_flush();
	TAP(nmis == 0 && flushes == 1);
	sms_core_busy(&core[1]);
	TAP(flushes == 2);
	core[1].state = CORE_IDLE;
	sms_core_busy(&core[1]);
	TAP(flushes == 2); /* nothing changed since */
}

int main(void)
{
	test_core_becomes_busy();
	test_nmi_during_flush();
	test_idle_cores();
	return tap_done();
}
