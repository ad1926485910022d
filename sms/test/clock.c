// SPDX-License-Identifier: MIT
/*
 * Reading the clock page. Its writer comes at every single instruction of a
 * reader in turn (trap flag), writes one half there and the other half some
 * instructions later.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "sms/clock.h"
#include "sms/test/play.h"
#include "tests/tap.h"

#define TRAP_FLAG 0x100
#define FAR (1ull << 62) /* a TSC that no machine reaches */

static struct skep_partition_clock page;
static u32 steps, begin_at, end_at, reading;

static const struct skep_partition_clock before =
						 {
							 .mult = 1,
							 .tsc_base = FAR,
							 .realtime = 1000,
							 .fraction = 7,
},
					 after = {
						 .mult = 1,
						 .tsc_base = FAR,
						 .realtime = 5000,
						 .fraction = 9 << 4,
						 .shift = 4,
};
#define BEFORE 1007
#define AFTER 5009

static void write_first_half(void)
{
	page.sequence++;
	page.shift = after.shift;
	page.realtime = after.realtime;
}

static void write_second_half(void)
{
	page.fraction = after.fraction;
	page.sequence++;
}

/* After each instruction; the first one comes from raise(). */
static void on_step(int signal, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	(void)signal;
	(void)info;
	steps++;
	if (steps == begin_at)
		write_first_half();
	if (steps == end_at)
		write_second_half();
	if (reading && steps < end_at)
		*flags |= TRAP_FLAG;
	else
		*flags &= ~(greg_t)TRAP_FLAG;
}

/* The time that a reader gets when the writer comes at that instruction. */
static u64 read_disturbed(u32 first, u32 between)
{
	u64 now;

	page = before;
	steps = 0;
	begin_at = first;
	end_at = first + between;
	reading = 1;
	raise(SIGTRAP);
	now = sms_clock_read(&page, 1);
	__atomic_store_n(&reading, 0, __ATOMIC_SEQ_CST);
	return now;
}

/* Until the writer comes only after the reader is done. */
static void disturb_all(u32 between)
{
	u32 first = 1, mixed = 0, early = 0, late = 0;
	u64 now;

	do {
		now = read_disturbed(++first, between);
		mixed += now != BEFORE && now != AFTER;
		early += now == BEFORE;
		late += now == AFTER;
	} while (steps >= first && first < 20000);
	tap_ok(!mixed && early && late && first < 20000,
	       "writer: %u instructions long, at each instruction of a reader: "
	       "the old time or the new one",
	       between);
}

static void test_formula(void)
{
	u64 low, now;

	page = before;
	page.monotonic = 300;
	page.shift = 1;
	tap_ok(sms_clock_read(&page, 1) == 1003 &&
		       sms_clock_read(&page, 0) == 303,
	       "time: base and fraction, before the TSC reaches the base");
	page = (struct skep_partition_clock){.mult = 1ull << 40, .shift = 40};
	low = sms_clock_tsc();
	now = sms_clock_read(&page, 0);
	tap_ok(now >= low && now <= sms_clock_tsc(),
	       "time: goes with the TSC, in more than 64 bits");
	page.tsc_base = low;
	page.monotonic = low;
	tap_ok(sms_clock_read(&page, 0) >= now, "time: counts from its base");
}

int main(void)
{
	struct sigaction act = {.sa_flags = SA_SIGINFO};

	act.sa_sigaction = on_step;
	must(!sigaction(SIGTRAP, &act, NULL));
	test_formula();
	disturb_all(7);
	disturb_all(400);
	page = before;
	page.sequence = 1;
	tap_ok(sms_clock_read(&page, 1) == BEFORE,
	       "writer: readers give up on a writer that never ends");
	return tap_done();
}
