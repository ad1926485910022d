// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether lent cores run when the machine goes down, seen by the first and by
 * the last of those who are told of a reboot, a kexec or a panic.
 *
 * A core that waits for SIPI answers one, from a page below 1 MiB; a core that
 * runs ignores it, and its counter goes up. One of both happens, however slow
 * the machine is: a counter that stands still says nothing, and is not asked.
 *
 * First and last in a panic is true of a module that was loaded before the one
 * it watches.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <linux/reboot.h>
#include <linux/string.h>
#include <asm/apicdef.h>
#include <asm/e820/api.h>
#include <asm/msr.h>
#include <asm/pgtable.h>

#define CORES 8
#define TIMEOUT_MS 300000 /* an emulator may not run a core for long */
#define AGAIN_MS 100	  /* between two SIPIs */
#define ENOUGH 10000	  /* rounds of a core that runs, not of one that ends */
#define ANSWER 0xff0	  /* in the page */

static unsigned long long at[CORES];
static unsigned int ats;
module_param_array(at, ullong, &ats, 0600);
MODULE_PARM_DESC(at, "physical addresses of the cores' counters, 8 bytes each");

static unsigned int id[CORES];
static unsigned int ids;
module_param_array(id, uint, &ids, 0600);
MODULE_PARM_DESC(id, "APIC ids of the cores; written last");

/* 16 bits: mov %cs, %ax; mov %ax, %ds; incw ANSWER; 1: hlt; jmp 1b */
static const u8 answer_code[] = {0x8c, 0xc8, 0x8e, 0xd8, 0xff, 0x06,
				 0xf0, 0x0f, 0xf4, 0xeb, 0xfd};

static void __iomem *apic;
static unsigned long page_pfn;

enum verdict { WAITS, RUNS, NEITHER };

static void send_ipi(u32 to, u32 what)
{
	unsigned long flags;

	local_irq_save(flags);
	writel(to << 24, apic + APIC_ICR2);
	writel(what, apic + APIC_ICR);
	while (readl(apic + APIC_ICR) & APIC_ICR_BUSY)
		cpu_relax();
	local_irq_restore(flags);
}

static enum verdict ask_core(u32 core)
{
	const u64 *counter = phys_to_virt(at[core]);
	u16 *answer = phys_to_virt(PFN_PHYS(page_pfn) + ANSWER);
	u64 was = READ_ONCE(*counter);
	u32 ms;

	WRITE_ONCE(*answer, 0);
	for (ms = 0; ms < TIMEOUT_MS; ms++) {
		if (ms % AGAIN_MS == 0)
			send_ipi(id[core], APIC_DM_STARTUP | page_pfn);
		mdelay(1);
		if (READ_ONCE(*answer)) {
			send_ipi(id[core], APIC_INT_ASSERT | APIC_DM_INIT);
			return WAITS;
		}
		if (READ_ONCE(*counter) - was > ENOUGH)
			return RUNS;
	}
	return NEITHER;
}

static int print_verdicts(const char *what, const char *who)
{
	static const char *const says[] = {"waits", "runs", "is silent"};
	u32 i, n = min3(ids, ats, (u32)CORES);

	for (i = 0; i < n; i++)
		pr_warn("witness: %s, %s: core %u %s\n", what, who, i,
			says[ask_core(i)]);
	return NOTIFY_OK;
}

static int reboots_first(struct notifier_block *nb, unsigned long e, void *data)
{
	return print_verdicts("reboot", "first");
}

static int reboots_last(struct notifier_block *nb, unsigned long e, void *data)
{
	return print_verdicts("reboot", "last");
}

static int panics_first(struct notifier_block *nb, unsigned long e, void *data)
{
	return print_verdicts("panic", "first");
}

static int panics_last(struct notifier_block *nb, unsigned long e, void *data)
{
	return print_verdicts("panic", "last");
}

static struct notifier_block reboot_first = {.notifier_call = reboots_first,
					     .priority = INT_MAX};
static struct notifier_block reboot_last = {.notifier_call = reboots_last,
					    .priority = INT_MIN};
static struct notifier_block panic_first = {.notifier_call = panics_first,
					    .priority = INT_MAX};
static struct notifier_block panic_last = {.notifier_call = panics_last,
					   .priority = INT_MIN};

/* RAM that Linux keeps back and does not use, from the other end than where
 * the module that is watched looks for its own.
 */
static bool page_borrowable(unsigned long pfn)
{
	u64 start = PFN_PHYS(pfn);
	unsigned int level;
	pte_t *pte;

	if (!e820__mapped_any(start, start + PAGE_SIZE, E820_TYPE_RAM) ||
	    !pfn_valid(pfn) || !PageReserved(pfn_to_page(pfn)))
		return false;
	pte = lookup_address((unsigned long)phys_to_virt(start), &level);
	return pte && pte_present(*pte) && pte_write(*pte) &&
	       !memchr_inv(phys_to_virt(start), 0, PAGE_SIZE);
}

static int __init witness_init(void)
{
	u64 base;
	int err;

	rdmsrl(MSR_IA32_APICBASE, base);
	if (base & X2APIC_ENABLE)
		return -ENODEV;
	for (page_pfn = 0x10; !page_borrowable(page_pfn); page_pfn++)
		if (page_pfn == 0x9f)
			return -ENODEV;
	apic = ioremap(base & MSR_IA32_APICBASE_BASE, PAGE_SIZE);
	if (!apic)
		return -ENOMEM;
	memcpy(phys_to_virt(PFN_PHYS(page_pfn)), answer_code,
	       sizeof(answer_code));
	err = register_reboot_notifier(&reboot_first);
	if (err) {
		iounmap(apic);
		return err;
	}
	register_reboot_notifier(&reboot_last);
	atomic_notifier_chain_register(&panic_notifier_list, &panic_first);
	atomic_notifier_chain_register(&panic_notifier_list, &panic_last);
	return 0;
}

/* It stays until the machine ends: no exit. */
module_init(witness_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("sees whether lent cores run when a machine goes down");
