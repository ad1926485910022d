// SPDX-License-Identifier: GPL-2.0-only
/*
 * Describes this machine for the check of a request. Owns nothing; what it
 * reads may change afterwards, so later steps may still fail.
 *
 * Process context, and may sleep.
 */
#include <linux/cc_platform.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <asm/hypervisor.h>
#include <xen/xen.h>

#include "machine.h"
#include "partition.h"
#include <shimos/core/map.h>

#define CPUS (SHIMOS_CPU_WORDS * 64)

static enum shimos_machine_kind machine_kind(void)
{
	if (xen_domain())
		return SHIMOS_XEN;
	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return SHIMOS_CONFIDENTIAL;
	if (cc_platform_has(CC_ATTR_MEM_ENCRYPT))
		return SHIMOS_ENCRYPTED;
	if (!shimos_clock_usable())
		return SHIMOS_NO_TSC;
	return SHIMOS_PLAIN;
}

/* Free pages and page cache: the most that page migration can free. */
static u64 spare_bytes(int node)
{
	struct pglist_data *data = NODE_DATA(node);
	struct zone *zone;
	long pages = 0;

	for (zone = data->node_zones; zone < data->node_zones + MAX_NR_ZONES;
	     zone++)
		if (populated_zone(zone))
			pages += zone_page_state(zone, NR_FREE_PAGES);
	pages += atomic_long_read(&data->vm_stat[NR_ACTIVE_FILE]);
	pages += atomic_long_read(&data->vm_stat[NR_INACTIVE_FILE]);
	return pages > 0 ? (u64)pages << PAGE_SHIFT : 0;
}

static void look_at_cpus(struct shimos_machine *m, u32 *core)
{
	unsigned int cpu;

	for_each_present_cpu(cpu) {
		if (cpu >= m->cpus)
			break;
		shimos_map_set(m->present, cpu);
		core[cpu] = cpu;
		if (!cpu_online(cpu))
			continue;
		shimos_map_set(m->online, cpu);
		core[cpu] =
			min(cpu, cpumask_first(topology_sibling_cpumask(cpu)));
	}
	m->core = core;
}

struct shimos_machine *shimos_machine_get(void)
{
	struct shimos_machine *m = kzalloc(sizeof(*m), GFP_KERNEL);
	u32 cpus = min_t(u32, nr_cpu_ids, CPUS);
	u32 *core = kvcalloc(cpus, sizeof(*core), GFP_KERNEL);
	int node;

	if (!m || !core) {
		kfree(m);
		kvfree(core);
		return NULL;
	}
	m->kind = machine_kind();
	m->cpus = cpus;
	cpus_read_lock();
	look_at_cpus(m, core);
	cpus_read_unlock();
	for_each_node_state(node, N_MEMORY) {
		if (node >= SHIMOS_NODES)
			break;
		m->nodes |= 1ull << node;
		m->spare[node] = spare_bytes(node);
	}
	return m;
}

void shimos_machine_put(struct shimos_machine *m)
{
	kvfree(m->core);
	kfree(m);
}
