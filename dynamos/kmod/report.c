// SPDX-License-Identifier: GPL-2.0-only
/*
 * Problems that the kernel only prints, without a WARN or an oops: scheduling
 * while atomic, a page or a lock in a bad state, a stuck processor. All of
 * these messages go through vprintk_store(), where a kprobe reads the format.
 * (The console's tracepoint is no alternative: 6.1 triggers a warning if an NMI
 * prints while it is on.)
 *
 * The update to blame is the one whose text is on the stack, or else the one
 * whose function the message names.
 *
 * Context: on_print() is a kprobe's handler: it runs where the kernel prints,
 * which is anywhere, with preemption off.
 */
#include <linux/kprobes.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "internal.h"
#include "stack.h"

#define ARGUMENTS 8

/* `interrupted`: printed by an interrupt handler about the code that it
 * interrupted. */
static const struct report {
	const char *text;
	bool interrupted;
} reports[] = {
	{"BUG: scheduling while atomic", false},
	{"BUG: sleeping function called from invalid context", false},
	{"BUG: workqueue leaked", false},
	{"BUG: Bad page", false},
	{"BUG: Bad rss-counter", false},
	{"BUG: spinlock", false},
	{"BUG: rwlock", false},
	{"BUG: using", false},
	{"possible circular locking dependency", false},
	{"possible recursive locking", false},
	{"inconsistent lock state", false},
	{"suspicious RCU usage", false},
	{"bad unlock balance", false},
	{"held lock freed", false},
	{"BUG: soft lockup", true},
	{"self-detected stall", true},
};

static const struct report *find_report(const char *format)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(reports); i++)
		if (strstr(format, reports[i].text))
			return &reports[i];
	return NULL;
}

/* Reads up to ARGUMENTS arguments of the format, each as one word, and returns
 * the first pointer into an update's text, or 0. */
static unsigned long find_named_pointer(const char *format, va_list *given)
{
	unsigned long word = 0;
	va_list args;
	u32 n;

	va_copy(args, *given);
	for (n = 0; n < ARGUMENTS && (format = strchr(format, '%')); format++) {
		if (*++format == '%')
			continue;
		word = va_arg(args, unsigned long);
		n++;
		if (*format == 'p' && dynamos_update_at(word))
			break;
		word = 0;
		if (!*format)
			break;
	}
	va_end(args);
	return word;
}

/* The arguments are those of vprintk_store(facility, level, dev_info, format,
 * args). */
static int on_print(struct kprobe *probe, struct pt_regs *regs)
{
	const char *format = (const char *)regs->cx;
	va_list *args = (va_list *)regs->r8;
	const struct report *report = format ? find_report(format) : NULL;

	if (report &&
	    !dynamos_stack_accuse(report->text, report->interrupted, 0))
		dynamos_stack_accuse(report->text, false,
				     find_named_pointer(format, args));
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "vprintk_store",
	.pre_handler = on_print,
};

int dynamos_report_init(void)
{
	int err = register_kprobe(&probe);

	if (err)
		pr_err("vprintk_store cannot be probed (%d)\n", err);
	return err;
}

void dynamos_report_exit(void)
{
	unregister_kprobe(&probe);
}
