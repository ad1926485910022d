// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux's time for images: the parameters of its clock, copied at each of its
 * updates into the mail of every partition that runs. clock_lock guards the
 * list and the copy; it nests inside the timekeeper's own lock.
 *
 * Process context, and may sleep; but clock_notify runs in the timekeeper's
 * update with interrupts off.
 */
#include <linux/clocksource.h>
#include <linux/io.h>
#include <linux/lockdep.h>
#include <linux/pvclock_gtod.h>
#include <linux/timekeeper_internal.h>

#include "partition.h"

static DEFINE_RAW_SPINLOCK(clock_lock);
static LIST_HEAD(clocks);
static struct skep_partition_clock last;
static bool usable;

bool shimos_clock_usable(void)
{
	return READ_ONCE(usable);
}

/* The sequence number is in memory that a proxy may write too. So the next
 * number is made odd and then even, whatever the current one is. */
static void publish_clock(struct skep_partition_clock *to)
{
	u32 sequence = READ_ONCE(to->sequence) & ~1u;

	lockdep_assert_held(&clock_lock);
	WRITE_ONCE(to->sequence, sequence + 1);
	smp_wmb();
	to->shift = last.shift;
	to->tsc_base = last.tsc_base;
	to->mult = last.mult;
	to->realtime = last.realtime;
	to->monotonic = last.monotonic;
	to->fraction = last.fraction;
	smp_wmb();
	WRITE_ONCE(to->sequence, sequence + 2);
}

static int clock_notify(struct notifier_block *nb, unsigned long set,
			void *data)
{
	const struct timekeeper *tk = data;
	const struct tk_read_base *r = &tk->tkr_mono;
	struct shimos_partition *p;
	unsigned long flags;

	raw_spin_lock_irqsave(&clock_lock, flags);
	usable = r->clock->vdso_clock_mode == VDSO_CLOCKMODE_TSC;
	last.shift = r->shift;
	last.mult = r->mult;
	last.tsc_base = r->cycle_last;
	last.monotonic = r->base + (r->xtime_nsec >> r->shift);
	last.realtime = last.monotonic + tk->offs_real;
	last.fraction = r->xtime_nsec & ((1ull << r->shift) - 1);
	list_for_each_entry(p, &clocks, clocks) {
		publish_clock(p->clock);
	}
	raw_spin_unlock_irqrestore(&clock_lock, flags);
	return NOTIFY_OK;
}

static struct notifier_block watch = {.notifier_call = clock_notify};

void shimos_clock_start(struct shimos_partition *p)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&clock_lock, flags);
	p->clock = phys_to_virt(p->plan.mail.start + SKEP_MAIL_CLOCK);
	publish_clock(p->clock);
	list_add(&p->clocks, &clocks);
	raw_spin_unlock_irqrestore(&clock_lock, flags);
}

void shimos_clock_stop(struct shimos_partition *p)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&clock_lock, flags);
	if (p->clock)
		list_del(&p->clocks);
	p->clock = NULL;
	raw_spin_unlock_irqrestore(&clock_lock, flags);
}

int shimos_clock_init(void)
{
	return pvclock_gtod_register_notifier(&watch);
}

void shimos_clock_exit(void)
{
	pvclock_gtod_unregister_notifier(&watch);
}
