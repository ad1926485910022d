// SPDX-License-Identifier: GPL-2.0-only
/*
 * The two rings of the mailbox. ring_lock guards the counters of this side. The
 * other side's counters are read once per call; wrong ones make this side lose
 * or repeat text, and read or write nothing outside of the rings.
 *
 * Any context but an NMI; interrupts are off while the lock is held.
 */
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/spinlock.h>

#include "guest.h"

#define WAIT_US 200000 /* for room, before a message is dropped */

static DEFINE_RAW_SPINLOCK(ring_lock);
static u64 lost;

static u32 out_room(void)
{
	struct skep_linux_ring *r = &shimos_guest_mail->out;
	u32 used = r->put - smp_load_acquire(&r->take);

	return used > SKEP_LINUX_RING ? 0 : SKEP_LINUX_RING - used;
}

u32 shimos_ring_room(void)
{
	return out_room();
}

static u32 put_locked(const u8 *from, u32 bytes)
{
	struct skep_linux_ring *r = &shimos_guest_mail->out;
	u32 i, n = min(bytes, out_room());

	for (i = 0; i < n; i++)
		shimos_guest_mail->out_bytes[(r->put + i) % SKEP_LINUX_RING] =
			from[i];
	smp_store_release(&r->put, r->put + n);
	return n;
}

u32 shimos_ring_put(const u8 *from, u32 bytes)
{
	unsigned long flags;
	u32 n;

	raw_spin_lock_irqsave(&ring_lock, flags);
	n = put_locked(from, bytes);
	raw_spin_unlock_irqrestore(&ring_lock, flags);
	return n;
}

static void print_locked(const char *text, u32 bytes)
{
	char note[48];
	u32 n, us = 0;

	if (lost) {
		n = scnprintf(note, sizeof(note),
			      "[console: %llu bytes lost]\n", lost);
		if (out_room() < n + bytes) {
			lost += bytes;
			return;
		}
		put_locked((u8 *)note, n);
		lost = 0;
	}
	for (;;) {
		n = put_locked((const u8 *)text, bytes);
		text += n;
		bytes -= n;
		if (!bytes)
			return;
		if (us++ == WAIT_US) {
			lost += bytes;
			return;
		}
		udelay(1);
	}
}

void shimos_ring_print(const char *text, u32 bytes)
{
	unsigned long flags;

	/* whoever holds it may have been stopped by a panic */
	if (oops_in_progress) {
		if (!raw_spin_trylock_irqsave(&ring_lock, flags)) {
			print_locked(text, bytes);
			return;
		}
	} else {
		raw_spin_lock_irqsave(&ring_lock, flags);
	}
	print_locked(text, bytes);
	raw_spin_unlock_irqrestore(&ring_lock, flags);
}

u32 shimos_ring_take(u8 *to, u32 bytes)
{
	struct skep_linux_ring *r = &shimos_guest_mail->in;
	u32 i, n = smp_load_acquire(&r->put) - r->take;

	n = min3(n, bytes, (u32)SKEP_LINUX_RING);
	for (i = 0; i < n; i++)
		to[i] = shimos_guest_mail
				->in_bytes[(r->take + i) % SKEP_LINUX_RING];
	smp_store_release(&r->take, r->take + n);
	return n;
}
