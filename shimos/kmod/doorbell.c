// SPDX-License-Identifier: GPL-2.0-only
/*
 * The doorbell interrupt, by which an image notifies Linux: a vector from the
 * kernel's allocator, at CPU 0, which is never lent. Owns a partition's irq;
 * each core has an atomic counter of its doorbells, with a wait queue.
 *
 * Process context; but doorbell_irq runs in hard interrupt context, on CPU 0.
 */
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <asm/hw_irq.h>
#include <asm/irqdomain.h>
#include <asm/smp.h>

#include "partition.h"

static void ring_one(struct shimos_doorbell *doorbell)
{
	atomic_inc(&doorbell->rung);
	wake_up_interruptible_all(&doorbell->wait);
}

/* The word is in memory that the proxy can write to. */
static u64 take_bits(u64 *word)
{
	return READ_ONCE(*word) ? xchg(word, 0) : 0;
}

static void ring_cores(struct shimos_partition *p, u32 first, u64 bits)
{
	u32 core;

	for (; bits; bits &= bits - 1) {
		core = first + __ffs64(bits);
		if (core < p->cores)
			ring_one(&p->doorbell[core]);
	}
}

static irqreturn_t doorbell_irq(int irq, void *data)
{
	struct shimos_partition *p = data;
	struct skep_partition_doorbell *said =
		phys_to_virt(p->plan.mail.start + SKEP_MAIL_DOORBELL);
	u32 i;

	for (i = 0; i * 64 < p->cores; i++)
		ring_cores(p, i * 64, take_bits(&said->core[i]));
	if (take_bits(&said->other))
		ring_one(&p->other);
	ring_one(&p->any);
	return IRQ_HANDLED;
}

static void for_each_doorbell(struct shimos_partition *p,
			      void (*f)(struct shimos_doorbell *doorbell))
{
	u32 i;

	for (i = 0; i < p->cores; i++)
		f(&p->doorbell[i]);
	f(&p->other);
	f(&p->any);
}

static void init_one(struct shimos_doorbell *doorbell)
{
	init_waitqueue_head(&doorbell->wait);
}

static void reset_one(struct shimos_doorbell *doorbell)
{
	atomic_set(&doorbell->rung, 0);
}

static void wake_one(struct shimos_doorbell *doorbell)
{
	wake_up_all(&doorbell->wait);
}

void shimos_doorbell_init(struct shimos_partition *p)
{
	for_each_doorbell(p, init_one);
}

void shimos_doorbell_reset(struct shimos_partition *p)
{
	for_each_doorbell(p, reset_one);
}

void shimos_doorbell_wake(struct shimos_partition *p)
{
	for_each_doorbell(p, wake_one);
}

struct shimos_doorbell *shimos_doorbell_find(struct shimos_partition *p,
					     u32 core)
{
	if (core == SHIMOS_WAIT_ANY)
		return &p->any;
	if (core == SHIMOS_WAIT_OTHER)
		return &p->other;
	return core < p->cores ? &p->doorbell[core] : NULL;
}

int shimos_doorbell_take(struct shimos_partition *p, struct shimos_text *why)
{
	struct irq_alloc_info info = {.mask = cpumask_of(0)};
	int err, irq = irq_domain_alloc_irqs(x86_vector_domain, 1, NUMA_NO_NODE,
					     &info);

	if (irq < 0) {
		shimos_text_add(why, "CPU 0 has no interrupt vector left");
		return irq;
	}
	irq_set_handler(irq, handle_edge_irq);
	snprintf(p->doorbell_name, sizeof(p->doorbell_name), "shimos-%u",
		 p->id);
	err = request_irq(irq, doorbell_irq, IRQF_NOBALANCING | IRQF_NO_THREAD,
			  p->doorbell_name, p);
	if (err) {
		irq_dispose_mapping(irq);
		return err;
	}
	p->irq = irq;
	return 0;
}

void shimos_doorbell_return(struct shimos_partition *p)
{
	if (!p->irq)
		return;
	free_irq(p->irq, p);
	irq_dispose_mapping(p->irq);
	p->irq = 0;
}

/* In flat mode the vector's target is a logical id. */
void shimos_doorbell_where(struct shimos_partition *p, u32 *apic_id,
			   u32 *vector)
{
	struct irq_data *data = irq_get_irq_data(p->irq);

	*apic_id = per_cpu(x86_cpu_to_apicid, 0);
	*vector = irqd_cfg(data)->vector;
}
