// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes cores offline, brings them back online, and sends them INIT, SIPI and
 * NMI.
 *
 * A lent core is offline for Linux. `held` keeps others from bringing it
 * online, which would send INIT to a running image. It is written under the
 * partition's lock and read when a CPU comes online.
 *
 * Process context, and may sleep; but shimos_cpu_signal runs anywhere, also in
 * a panic, and refuse_up where CPUs come online.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/lockdep.h>
#include <linux/sched/signal.h>
#include <linux/topology.h>
#include <linux/workqueue.h>
#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/msr.h>
#include <asm/smp.h>

#include "partition.h"
#include <shimos/core/apic.h>
#include <shimos/core/power.h>

#define DELIVERY_US 1000

static struct cpumask held;
static void __iomem *xapic; /* null if x2APIC is enabled */
static enum cpuhp_state guard;

static int refuse_up(unsigned int cpu)
{
	if (!cpumask_test_cpu(cpu, &held))
		return 0;
	pr_info_ratelimited(
		"shimos: CPU %u is lent; 'skep part release' returns it\n",
		cpu);
	return -EBUSY;
}

/* Interrupts are off between the writes to the two halves of the register,
 * because Linux's interrupt handlers send too. May be called in a panic. */
void shimos_cpu_signal(u32 apic_id, enum shimos_signal signal, u32 page)
{
	unsigned long flags;
	u32 high, spins = DELIVERY_US;

	if (!xapic) {
		weak_wrmsr_fence();
		wrmsrl(SHIMOS_ICR_MSR, shimos_apic_x2(signal, page, apic_id));
		return;
	}
	if (shimos_apic_high(apic_id, &high))
		/* cannot happen: checked when the CPU was taken offline */
		return;
	local_irq_save(flags);
	writel(high, xapic + SHIMOS_ICR_HIGH);
	writel(shimos_apic_low(signal, page), xapic + SHIMOS_ICR_LOW);
	while (readl(xapic + SHIMOS_ICR_LOW) & SHIMOS_ICR_PENDING && --spins)
		udelay(1);
	local_irq_restore(flags);
}

/* Saves the power settings before Linux lowers them when the CPU goes
 * offline. */
static void save_power(struct shimos_partition *p, u32 cpu)
{
	u64 value;

	if (boot_cpu_has(X86_FEATURE_HWP) &&
	    !rdmsrl_safe_on_cpu(cpu, SHIMOS_MSR_HWP_CAPABILITIES, &value))
		p->saved_hwp = shimos_power_hwp(value);
	else if (boot_cpu_data.x86_vendor == X86_VENDOR_INTEL &&
		 !rdmsrl_safe_on_cpu(cpu, SHIMOS_MSR_PERF_CTL, &value))
		p->saved_perf = value;
	if (boot_cpu_has(X86_FEATURE_EPB) &&
	    !rdmsrl_safe_on_cpu(cpu, SHIMOS_MSR_EPB, &value))
		p->saved_epb = value;
}

static int refuse_cpu(struct shimos_text *why, u32 cpu, const char *what,
		      int err)
{
	shimos_text_add(why, "CPU ");
	shimos_text_number(why, cpu);
	shimos_text_add(why, what);
	shimos_text_number(why, -err);
	shimos_text_add(why, ")");
	return err;
}

static int offline_cpu(struct shimos_partition *p, u32 i,
		       struct shimos_text *why)
{
	u32 high, cpu = p->core[i].cpu;
	int err;

	p->place[i].apic_id = per_cpu(x86_cpu_to_apicid, cpu);
	p->place[i].node = cpu_to_node(cpu);
	if (xapic && shimos_apic_high(p->place[i].apic_id, &high))
		return refuse_cpu(why, cpu,
				  " has an APIC id beyond xAPIC (error ",
				  -EINVAL);
	cpumask_set_cpu(cpu, &held);
	err = remove_cpu(cpu);
	if (!err) {
		p->core[i].out = true;
		return 0;
	}
	cpumask_clear_cpu(cpu, &held);
	return refuse_cpu(why, cpu,
			  " can't be taken offline now: Linux is suspending, "
			  "or needs it (error ",
			  err < 0 ? err : -EBUSY);
}

int shimos_cpu_take(struct shimos_partition *p, struct shimos_text *why)
{
	struct shimos_text ignored;
	char none[1];
	u32 i;
	int err = 0;

	lockdep_assert_held(&p->lock);
	save_power(p, p->core[0].cpu);
	for (i = 0; i < p->cores && !err; i++)
		err = fatal_signal_pending(current) ? -EINTR
						    : offline_cpu(p, i, why);
	if (!err)
		return 0;
	shimos_text_begin(&ignored, none, sizeof(none));
	shimos_cpu_return(p, &ignored);
	return err;
}

struct coming {
	struct work_struct work;
	u32 cpu;
	int err;
};

static void online_work(struct work_struct *work)
{
	struct coming *c = container_of(work, struct coming, work);

	c->err = add_cpu(c->cpu);
}

/* Runs in a worker: the caller may be about to die of a signal, and then Linux
 * could not start the threads that the CPU needs. */
static int online_cpu(u32 cpu)
{
	struct coming c = {.cpu = cpu};

	INIT_WORK_ONSTACK(&c.work, online_work);
	queue_work(system_unbound_wq, &c.work);
	flush_work(&c.work);
	destroy_work_on_stack(&c.work);
	return c.err;
}

/* Each core waits for SIPI or was never touched, so Linux can start it like any
 * other. A core that Linux cannot start stays offline, but belongs to Linux
 * again. */
int shimos_cpu_return(struct shimos_partition *p, struct shimos_text *why)
{
	u32 i;
	int err, first = 0;

	lockdep_assert_held(&p->lock);
	for (i = 0; i < p->cores; i++) {
		if (!p->core[i].out)
			continue;
		p->core[i].out = false;
		cpumask_clear_cpu(p->core[i].cpu, &held);
		err = online_cpu(p->core[i].cpu);
		if (err >= 0 || first)
			continue;
		first = refuse_cpu(why, p->core[i].cpu,
				   " did not come online; try 'echo 1' to its "
				   "online file in /sys (error ",
				   err);
	}
	return first;
}

int shimos_cpu_init(void)
{
	u64 base;
	int state;

	rdmsrl(MSR_IA32_APICBASE, base);
	if (!(base & X2APIC_ENABLE)) {
		xapic = ioremap(base & MSR_IA32_APICBASE_BASE, PAGE_SIZE);
		if (!xapic)
			return -ENOMEM;
	}
	state = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "shimos:lent",
					  refuse_up, NULL);
	if (state < 0) {
		shimos_cpu_exit();
		return state;
	}
	guard = state;
	return 0;
}

void shimos_cpu_exit(void)
{
	if (guard)
		cpuhp_remove_state_nocalls(guard);
	if (xapic)
		iounmap(xapic);
}

u64 shimos_cpu_apic_base(void)
{
	u64 base;

	if (!xapic)
		return 0;
	rdmsrl(MSR_IA32_APICBASE, base);
	return base & MSR_IA32_APICBASE_BASE;
}
