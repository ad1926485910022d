// SPDX-License-Identifier: MIT
/* Which functions are not probed. */
#include <string.h>

#include "../probe.h"
#include "tests/tap.h"

static void is_refused(const char *symbol, const char *part)
{
	const char *why = dynamos_probe_wrong(symbol);

	tap_ok(why && strstr(why, part), "%s is refused: %s", symbol, part);
}

static void is_allowed(const char *symbol)
{
	tap_ok(!dynamos_probe_wrong(symbol), "%s is allowed", symbol);
}

int main(void)
{
	is_refused("schedule", "stay for good");
	is_refused("kthread_worker_fn", "stay for good");
	is_refused("start_secondary", "stay for good");
	is_refused("synchronize_rcu_tasks", "made of");
	is_refused("rcu_barrier", "made of");
	is_refused("call_rcu", "made of");
	is_refused("__register_ftrace_function", "made of");
	is_refused("klp_enable_patch", "made of");
	is_refused("load_module", "made of");
	is_refused("perf_event_nmi_handler", "NMI");
	is_refused("nmi_handle", "NMI");
	is_refused("intel_pmu_handle_irq", "NMI");
	is_refused("mce", "NMI");
	is_allowed("schedule_timeout");
	is_allowed("my_schedule");
	is_allowed("kswapd_shrink_node");
	is_allowed("sys_klp_x");
	is_allowed("load_module_x");
	is_allowed("ksys_read");
	is_allowed("vfs_read");
	is_allowed("__d_lookup_rcu");
	is_allowed("start_creating");
	is_allowed("rc");
	is_allowed("");
	return tap_done();
}
