// SPDX-License-Identifier: MIT
#include "probe.h"

#include <skep/types.h>

#define STAYS "is where tasks stay for good, so its probe could not be removed"
#define USED                                                                   \
	"belongs to what probes are made of: ftrace, livepatch, RCU, modules " \
	"or text patching"
#define NMI "runs in NMIs, where a fault is the end of the machine"

/* Patterns may have one `*` at either end, or both. */
static const struct {
	const char *pattern, *why;
} refused[] = {
	{"schedule", STAYS},
	{"schedule_idle", STAYS},
	{"schedule_preempt_disabled", STAYS},
	{"preempt_schedule*", STAYS},
	{"kthread*", STAYS},
	{"kswapd", STAYS},
	{"kcompactd", STAYS},
	{"kauditd_thread", STAYS},
	{"khugepaged", STAYS},
	{"ksmd", STAYS},
	{"oom_reaper", STAYS},
	{"devtmpfsd", STAYS},
	{"worker_thread", STAYS},
	{"rescuer_thread", STAYS},
	{"smpboot_thread_fn", STAYS},
	{"migration_cpu_stop", STAYS},
	{"irq_thread", STAYS},
	{"cpu_startup_entry", STAYS},
	{"do_idle", STAYS},
	{"start_kernel", STAYS},
	{"start_secondary", STAYS},
	{"rest_init", STAYS},
	{"kernel_init", STAYS},
	{"do_exit", STAYS},
	{"do_group_exit", STAYS},
	{"do_task_dead", STAYS},
	{"make_task_dead", STAYS},
	{"panic", STAYS},
	{"rcu_*", USED},
	{"call_rcu*", USED},
	{"synchronize_*", USED},
	{"*srcu*", USED},
	{"*ftrace*", USED},
	{"klp_*", USED},
	{"*kallsyms*", USED},
	{"*text_poke*", USED},
	{"*stop_machine*", USED},
	{"cpu_stop*", USED},
	{"multi_cpu_stop", USED},
	{"load_module", USED},
	{"free_module", USED},
	{"*nmi*", NMI},
	{"*_pmu_handle_irq*", NMI},
	{"*mce*", NMI},
	{"*machine_check*", NMI},
};

static int begins_with(const char *text, const char *part, u32 length)
{
	u32 i;

	for (i = 0; i < length; i++)
		if (text[i] != part[i])
			return 0;
	return 1;
}

static int match_pattern(const char *text, const char *pattern)
{
	int before = *pattern == '*', after;
	u32 length = 0;

	pattern += before;
	while (pattern[length])
		length++;
	after = pattern[length - 1] == '*';
	length -= after;
	do {
		if (begins_with(text, pattern, length) &&
		    (after || !text[length]))
			return 1;
	} while (before && *text++);
	return 0;
}

const char *dynamos_probe_wrong(const char *symbol)
{
	u32 i;

	for (i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (match_pattern(symbol, refused[i].pattern))
			return refused[i].why;
	return (void *)0;
}
