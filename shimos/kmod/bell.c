// SPDX-License-Identifier: GPL-2.0-only
/*
 * The interrupt by which an image rings Linux: a vector of the kernel's own
 * allocator, at CPU 0, which is never lent. It owns the irq of a partition;
 * how often it rang is an atomic counter.
 */
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <asm/hw_irq.h>
#include <asm/irqdomain.h>
#include <asm/smp.h>

#include "partition.h"

static irqreturn_t doorbell_irq(int irq, void *data)
{
	struct shimos_partition *p = data;

	atomic_inc(&p->rung);
	wake_up_interruptible_all(&p->bell);
	return IRQ_HANDLED;
}

int shimos_bell_take(struct shimos_partition *p, struct shimos_text *why)
{
	struct irq_alloc_info info = {.mask = cpumask_of(0)};
	int err, irq = irq_domain_alloc_irqs(x86_vector_domain, 1, NUMA_NO_NODE,
					     &info);

	if (irq < 0) {
		shimos_text_add(why, "CPU 0 has no interrupt vector left");
		return irq;
	}
	irq_set_handler(irq, handle_edge_irq);
	snprintf(p->bell_name, sizeof(p->bell_name), "shimos-%u", p->id);
	err = request_irq(irq, doorbell_irq, IRQF_NOBALANCING | IRQF_NO_THREAD,
			  p->bell_name, p);
	if (err) {
		irq_dispose_mapping(irq);
		return err;
	}
	p->irq = irq;
	return 0;
}

void shimos_bell_return(struct shimos_partition *p)
{
	if (!p->irq)
		return;
	free_irq(p->irq, p);
	irq_dispose_mapping(p->irq);
	p->irq = 0;
}

/* The vector's own idea of its target is a logical id in flat mode. */
void shimos_bell_where(struct shimos_partition *p, u32 *apic_id, u32 *vector)
{
	struct irq_data *data = irq_get_irq_data(p->irq);

	*apic_id = per_cpu(x86_cpu_to_apicid, 0);
	*vector = irqd_cfg(data)->vector;
}
