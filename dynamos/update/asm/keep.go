// SPDX-License-Identifier: MIT

package asm

import (
	"regexp"

	"skep/internal/lazy"
)

// What functions of the kernel do with an address that they are given. A module
// whose address somebody keeps must not be unloaded. A function in no table is
// assumed to keep it.

// argument marks of a function's six registers.
const (
	arg0 = 1 << iota
	arg1
	arg2
	arg3
	arg4
	arg5
	argAll = 1<<6 - 1
)

// A use says what a function does with its arguments' addresses.
type use struct {
	looks   uint8 // arguments that are only looked at while it runs
	returns uint8 // arguments whose address its result may hold
	copies  uint8 // arguments whose content is copied elsewhere
}

// lookers only read through the address. The text of a message is the most frequent.
var lookers = map[string]use{
	// messages
	"_printk": {looks: argAll}, "_printk_deferred": {looks: argAll}, "vprintk": {looks: argAll},
	"__warn_printk": {looks: argAll}, "panic": {looks: argAll}, "___ratelimit": {looks: argAll},
	"__printk_ratelimit": {looks: argAll}, "dev_printk_emit": {looks: argAll}, "_dev_printk": {looks: argAll},
	"_dev_emerg": {looks: argAll}, "_dev_alert": {looks: argAll}, "_dev_crit": {looks: argAll}, "_dev_err": {looks: argAll},
	"_dev_warn": {looks: argAll}, "_dev_notice": {looks: argAll}, "_dev_info": {looks: argAll}, "dev_err_probe": {looks: argAll},
	"netdev_printk": {looks: argAll}, "netdev_emerg": {looks: argAll}, "netdev_alert": {looks: argAll},
	"netdev_crit": {looks: argAll}, "netdev_err": {looks: argAll}, "netdev_warn": {looks: argAll},
	"netdev_notice": {looks: argAll}, "netdev_info": {looks: argAll},
	"__dynamic_pr_debug": {looks: argAll}, "__dynamic_dev_dbg": {looks: argAll}, "__dynamic_netdev_dbg": {looks: argAll},
	"audit_log": {looks: argAll}, "audit_log_format": {looks: argAll}, "audit_log_untrustedstring": {looks: argAll},
	"audit_log_path_denied": {looks: argAll}, "audit_log_d_path": {looks: argAll}, "audit_log_key": {looks: argAll},
	"audit_log_n_hex": {looks: argAll}, "audit_log_n_string": {looks: argAll}, "audit_log_n_untrustedstring": {looks: argAll},
	"verbose": {looks: argAll}, "bpf_log": {looks: argAll}, "bpf_verifier_log_write": {looks: argAll},
	"print_hex_dump": {looks: argAll}, "dump_page": {looks: argAll}, "warn_slowpath_fmt": {looks: argAll},
	"__stack_chk_fail": {looks: argAll}, "fortify_panic": {looks: argAll}, "__fortify_panic": {looks: argAll},
	"refcount_warn_saturate": {looks: argAll}, "__ubsan_handle_out_of_bounds": {looks: argAll},
	"__ubsan_handle_shift_out_of_bounds": {looks: argAll}, "__check_object_size": {looks: argAll},
	"usercopy_abort": {looks: argAll}, "copy_overflow": {looks: argAll}, "__copy_overflow": {looks: argAll},
	// trees and stacks
	"rb_next": {looks: argAll}, "rb_prev": {looks: argAll}, "rb_first": {looks: argAll}, "rb_last": {looks: argAll},
	"stack_trace_save_tsk": {looks: argAll}, "kallsyms_lookup_size_offset": {looks: argAll},
	// text
	"seq_printf": {looks: argAll}, "seq_puts": {looks: argAll}, "__seq_puts": {looks: argAll}, "seq_write": {looks: argAll},
	"seq_put_decimal_ull": {looks: argAll}, "seq_put_decimal_ll": {looks: argAll}, "seq_put_hex_ll": {looks: argAll},
	"sprintf": {looks: argAll}, "snprintf": {looks: argAll}, "scnprintf": {looks: argAll}, "vsnprintf": {looks: argAll},
	"vscnprintf": {looks: argAll}, "sysfs_emit": {looks: argAll}, "sysfs_emit_at": {looks: argAll}, "kasprintf": {looks: argAll},
	"kvasprintf": {looks: argAll}, "sscanf": {looks: argAll}, "vsscanf": {looks: argAll}, "kstrdup": {looks: argAll},
	"kstrdup_const": {looks: argAll}, "kstrndup": {looks: argAll}, "strcmp": {looks: argAll}, "strncmp": {looks: argAll},
	"strcasecmp": {looks: argAll}, "strncasecmp": {looks: argAll}, "strlen": {looks: argAll}, "strnlen": {looks: argAll},
	"sysfs_streq": {looks: argAll}, "match_string": {looks: argAll}, "__sysfs_match_string": {looks: argAll},
	"strscpy": {looks: argAll}, "strscpy_pad": {looks: argAll}, "sized_strscpy": {looks: argAll}, "strlcpy": {looks: argAll},
	"strlcat": {looks: argAll}, "strcpy": {looks: argAll, returns: arg0}, "strncpy": {looks: argAll, returns: arg0},
	"strcat": {looks: argAll, returns: arg0}, "strncat": {looks: argAll, returns: arg0},
	"strchr": {looks: argAll, returns: arg0}, "strrchr": {looks: argAll, returns: arg0}, "strnchr": {looks: argAll, returns: arg0},
	"strstr": {looks: argAll, returns: arg0}, "strnstr": {looks: argAll, returns: arg0}, "memchr": {looks: argAll, returns: arg0},
	// memory
	"memcmp": {looks: argAll}, "bcmp": {looks: argAll}, "memset": {looks: argAll, returns: arg0}, "__memset": {looks: argAll, returns: arg0},
	"memcpy": {looks: argAll, returns: arg0, copies: arg1}, "__memcpy": {looks: argAll, returns: arg0, copies: arg1},
	"memmove": {looks: argAll, returns: arg0, copies: arg1}, "__memmove": {looks: argAll, returns: arg0, copies: arg1},
	"kmemdup": {looks: argAll, copies: arg0}, "kmemdup_noprof": {looks: argAll, copies: arg0},
	"_copy_to_user": {looks: argAll}, "_copy_from_user": {looks: argAll}, "copy_user_generic_unrolled": {looks: argAll},
	"copy_user_generic_string": {looks: argAll}, "copy_user_enhanced_fast_string": {looks: argAll}, "rep_movs_alternative": {looks: argAll},
	// locks, and queues of tasks that wait: whoever waits is inside
	"mutex_lock": {looks: argAll}, "mutex_unlock": {looks: argAll}, "mutex_trylock": {looks: argAll},
	"mutex_lock_interruptible": {looks: argAll}, "mutex_lock_killable": {looks: argAll}, "mutex_is_locked": {looks: argAll},
	"down_read": {looks: argAll}, "down_write": {looks: argAll}, "up_read": {looks: argAll}, "up_write": {looks: argAll},
	"_raw_spin_lock": {looks: argAll}, "_raw_spin_lock_irqsave": {looks: argAll}, "_raw_spin_lock_irq": {looks: argAll},
	"_raw_spin_lock_bh": {looks: argAll}, "_raw_spin_unlock": {looks: argAll}, "_raw_spin_unlock_irqrestore": {looks: argAll},
	"_raw_spin_unlock_irq": {looks: argAll}, "_raw_spin_unlock_bh": {looks: argAll}, "_raw_spin_trylock": {looks: argAll},
	"_raw_read_lock": {looks: argAll}, "_raw_write_lock": {looks: argAll}, "queued_spin_lock_slowpath": {looks: argAll},
	"__mutex_init": {looks: argAll}, "__init_rwsem": {looks: argAll}, "__init_swait_queue_head": {looks: argAll},
	"__init_waitqueue_head": {looks: argAll}, "prepare_to_wait": {looks: arg0}, "prepare_to_wait_event": {looks: arg0},
	"prepare_to_wait_exclusive": {looks: arg0}, "finish_wait": {looks: argAll}, "__wake_up": {looks: argAll},
	"wake_up_process": {looks: argAll}, "complete": {looks: argAll}, "complete_all": {looks: argAll},
	"wait_for_completion": {looks: argAll}, "__tracepoint_iter": {looks: argAll},
	// functions that are called and forgotten
	"sort": {looks: argAll}, "sort_r": {looks: argAll}, "list_sort": {looks: argAll}, "bsearch": {looks: argAll},
	"walk_page_range": {looks: argAll}, "walk_page_range_novma": {looks: argAll}, "walk_page_vma": {looks: argAll},
	"iterate_fd": {looks: argAll}, "idr_for_each": {looks: argAll}, "stop_machine": {looks: argAll},
	"bus_for_each_dev": {looks: argAll}, "class_for_each_device": {looks: argAll}, "device_for_each_child": {looks: argAll},
	"rtnl_dump_all": {looks: argAll}, "bitmap_parselist": {looks: argAll},
	// of these functions only some arguments
	"init_timer_key": {looks: arg0 | arg3 | arg4}, "init_on_stack_timer_key": {looks: arg0 | arg3 | arg4},
	"kthread_create_on_node": {looks: arg3}, "kthread_create_on_cpu": {looks: arg3},
	"alloc_workqueue": {looks: arg0}, "kobject_set_name": {looks: arg1}, "dev_set_name": {looks: arg1},
}

// keepers are functions that keep an address beyond their call; the text says
// for how long. All others that are in no table keep it as well.
var keepers = []struct {
	name func() *regexp.Regexp
	says string
}{
	{lazy.Regexp(`^(call_srcu|call_rcu_tasks.*|call_rcu.*)$`), "until a grace period is over"},
	{lazy.Regexp(`^(__)?(init_timer|init_on_stack_timer|add_timer|mod_timer|timer_).*`), "until the timer has run"},
	{lazy.Regexp(`^hrtimer_.*`), "until the timer has run"},
	{lazy.Regexp(`^(__)?(queue|mod|schedule|queue_rcu).*work.*`), "until the work is done, in a queue that nobody can list"},
	{lazy.Regexp(`^(irq_work|task_work|tasklet)_.*`), "until the work is done"},
	{lazy.Regexp(`^(__)?add_wait_queue.*|^prepare_to_wait.*`), "until the queue is left"},
	{lazy.Regexp(`^kthread_.*`), "as long as the thread runs"},
	{lazy.Regexp(`^(devm_)?request_([a-z_]+_)?(irq|nmi)$|^setup_irq$`), "until the interrupt is given back"},
	{lazy.Regexp(`register|^(proc|debugfs|sysfs|configfs|tracefs)_create.*|^(single|seq)_open.*|^anon_inode_.*`), "until it is taken back"},
}

// barriers are functions that keep an address until rcu_barrier() is through,
// which removing an update calls.
var barriers = map[string]bool{"call_rcu": true, "call_rcu_hurry": true}

// keepReason is the reason why a function keeps an address.
func keepReason(name string) string {
	for _, k := range keepers {
		if k.name().MatchString(name) {
			return "which keeps it " + k.says
		}
	}
	return "of which it is not known that it forgets the address"
}
