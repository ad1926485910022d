// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module in a kernel that runs on a partition: its console, and its end. A
 * kernel that restarts, powers off or panics would reset the whole machine,
 * which belongs to another Linux. So this one says in the mailbox that it ends,
 * and stands still; the command that booted it then stops its cores.
 *
 * Owns the mapping of the mailbox. Process context; the notifiers also run in a
 * panic.
 */
#include <linux/init.h>
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <linux/reboot.h>
#include <linux/string.h>
#include <asm/processor.h>

#include "compat.h"
#include "guest.h"

static ulong mail;
module_param(mail, ulong, 0400);
MODULE_PARM_DESC(mail, "physical address of the partition's mailbox");

struct skep_linux *shimos_guest_mail;

/* The first reason stays. */
static void end_kernel(u32 state)
{
	cmpxchg(&shimos_guest_mail->state, SKEP_LINUX_UP, state);
	local_irq_disable();
	for (;;)
		cpu_relax();
}

/* A restart with this word is the end of the program that this kernel ran. */
static void end_by_restart(const char *word)
{
	u8 code;

	if (!word ||
	    strncmp(word, SKEP_LINUX_EXIT_WORD, strlen(SKEP_LINUX_EXIT_WORD)) ||
	    kstrtou8(word + strlen(SKEP_LINUX_EXIT_WORD), 10, &code))
		end_kernel(SKEP_LINUX_RESTART);
	WRITE_ONCE(shimos_guest_mail->code, code);
	end_kernel(SKEP_LINUX_EXIT);
}

static int on_reboot(struct notifier_block *block, unsigned long event,
		     void *data)
{
	switch (event) {
	case SYS_RESTART:
		end_by_restart(data);
		break;
	case SYS_POWER_OFF:
		end_kernel(SKEP_LINUX_POWER_OFF);
		break;
	case SYS_HALT:
		end_kernel(SKEP_LINUX_HALT);
		break;
	}
	return NOTIFY_DONE;
}

static int on_panic(struct notifier_block *block, unsigned long event,
		    void *data)
{
	end_kernel(SKEP_LINUX_PANIC);
	return NOTIFY_DONE;
}

/* An emergency restart calls no notifier, but the dumpers. */
static void on_dump(struct kmsg_dumper *dumper, SHIMOS_DUMP_PARAMETER p)
{
	if (SHIMOS_DUMP_REASON(p) == KMSG_DUMP_EMERG)
		end_kernel(SKEP_LINUX_RESTART);
}

/* Last of all: others still write to the console. */
static struct notifier_block reboot_block = {.notifier_call = on_reboot,
					     .priority = INT_MIN};
static struct notifier_block panic_block = {.notifier_call = on_panic,
					    .priority = INT_MIN};
static struct kmsg_dumper dumper = {.dump = on_dump,
				    .max_reason = KMSG_DUMP_EMERG};

static int __init watch_ends(void)
{
	int err = register_reboot_notifier(&reboot_block);

	if (err)
		return err;
	atomic_notifier_chain_register(&panic_notifier_list, &panic_block);
	err = kmsg_dump_register(&dumper);
	if (!err)
		return 0;
	atomic_notifier_chain_unregister(&panic_notifier_list, &panic_block);
	unregister_reboot_notifier(&reboot_block);
	return err;
}

static int __init start_guest(void)
{
	int err;

	if (shimos_guest_mail->magic != SKEP_LINUX_MAGIC ||
	    shimos_guest_mail->revision != SKEP_LINUX_REVISION)
		return -ENODEV;
	err = shimos_tty_init();
	if (err)
		return err;
	/* last, since a notifier of a module that failed would be called */
	err = watch_ends();
	if (err)
		shimos_tty_exit();
	return err;
}

static int __init shimos_guest_init(void)
{
	int err;

	if (!mail || mail & ~PAGE_MASK)
		return -EINVAL;
	shimos_guest_mail = memremap(mail + SKEP_LINUX_MAIL,
				     sizeof(*shimos_guest_mail), MEMREMAP_WB);
	if (!shimos_guest_mail)
		return -ENOMEM;
	err = start_guest();
	if (err) {
		memunmap(shimos_guest_mail);
		return err; /* the caller ends this kernel */
	}
	cmpxchg(&shimos_guest_mail->state, SKEP_LINUX_BOOTING, SKEP_LINUX_UP);
	return 0;
}

/* There is no exit: without it this kernel could reset the machine. */
module_init(shimos_guest_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Console and end of a Linux kernel on lent cores");
