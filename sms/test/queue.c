// SPDX-License-Identifier: MIT
/*
 * The queues of cores: which thread a core takes, and where a thread is placed.
 * The assertions of the lock are on here, as in every test.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/include/thread_state.h"
#include "sms/kernel/kernel.h"
#include "tests/tap.h"

#define CORES 3
#define THREADS 6
#define ALL_CORES ((1u << CORES) - 1)

static struct core core[CORES];
static struct task task[THREADS];
static struct mail_slot slot[CORES];
static struct skep_partition partition = {.cores = CORES};
static struct abi_thread thread = {.state = ABI_THREAD_LIVE};
static u32 doorbells, nmis;
struct skep_partition *sms_partition = &partition;
struct abi_proc *sms_proc;
struct spin sms_thread_lock = {.word = 1};

struct core *sms_core_at(u32 number)
{
	return &core[number];
}

struct task *sms_task_at(u32 number)
{
	return &task[number];
}

int sms_task_fits(const struct task *t, u32 number)
{
	return t->allowed[0] >> number & 1;
}

struct abi_thread *abi_thread_get(struct abi_proc *p, u32 index)
{
	(void)p;
	(void)index;
	return &thread;
}

void sms_cpu_doorbell(void)
{
	doorbells++;
}

int sms_cpu_sleeps(void)
{
	return 1;
}

void sms_cpu_nmi(struct core *to, enum mail_nmi why)
{
	nmis += to == &core[1] && why == MAIL_NMI_START;
}

static void start_cores(void)
{
	u32 i;

	for (i = 0; i < CORES; i++) {
		core[i] = (struct core){.self = &core[i], .number = i};
		core[i].state = CORE_BUSY;
		core[i].slot = &slot[i];
		slot[i].slice = 0;
	}
	for (i = 0; i < THREADS; i++) {
		task[i] = (struct task){.thread = i};
		task[i].allowed[0] = ALL_CORES;
	}
	doorbells = nmis = 0;
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, &core[0]))
		_exit(1);
}

/* Threads 0 to n - 1 in the queue of core 0. */
static void fill_queue(u32 n)
{
	u32 i;

	start_cores();
	for (i = 0; i < n; i++)
		sms_queue_add(&core[0], &task[i]);
}

static void test_order(void)
{
	fill_queue(3);
	TAP(sms_queue_ready() == 3 && core[0].queued == 3);
	TAP(task[2].state == TASK_READY && task[2].core == 0);
	TAP(sms_queue_take(&core[0], &core[0]) == &task[0]);
	TAP(sms_queue_take(&core[0], &core[0]) == &task[1]);
	TAP(sms_queue_take(&core[0], &core[0]) == &task[2]);
	TAP(!sms_queue_take(&core[0], &core[0]) && !sms_queue_ready());
}

static void test_removed(void)
{
	fill_queue(3);
	sms_queue_remove(&task[1]);
	sms_queue_remove(&task[2]);
	sms_queue_add(&core[0], &task[3]);
	TAP(sms_queue_take(&core[0], &core[0]) == &task[0]);
	TAP(sms_queue_take(&core[0], &core[0]) == &task[3]);
	TAP(!sms_queue_ready());
}

/* A core passes over threads that may not run on it. */
static void test_affinity(void)
{
	fill_queue(3);
	task[0].allowed[0] = task[1].allowed[0] = 1;
	TAP(sms_queue_pick(&core[2]) == &task[2]);
	TAP(!sms_queue_pick(&core[2]) && core[0].queued == 2);
	TAP(sms_queue_pick(&core[0]) == &task[0]);
	TAP(sms_queue_pick(&core[0]) == &task[1]);
}

/* The time slices of a core end with its queue. */
static void test_slices(void)
{
	fill_queue(2);
	sms_queue_slice(&core[0]);
	sms_queue_slice(&core[0]);
	TAP(slot[0].slice == 1 && doorbells == 1);
	sms_queue_take(&core[0], &core[0]);
	TAP(slot[0].slice == 1);
	sms_queue_take(&core[0], &core[0]);
	TAP(slot[0].slice == 0);
}

static void test_placed(void)
{
	start_cores();
	core[1].state = CORE_IDLE;
	sms_queue_place(&task[0]);
	TAP(task[0].core == 1 && nmis == 1 && !slot[1].slice);
	task[1].core = 2;
	sms_queue_place(&task[1]);
	TAP(task[1].core == 2 && slot[2].slice == 1 && doorbells == 1);
	task[2].allowed[0] = 1u << 2;
	sms_queue_place(&task[2]);
	TAP(task[2].core == 2 && core[2].queued == 2);
}

int main(void)
{
	test_order();
	test_removed();
	test_affinity();
	test_slices();
	test_placed();
	return tap_done();
}
