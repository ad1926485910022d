/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * NMIs to a core of a partition. An NMI carries no reason, and two that are
 * under way may arrive as one. So each core has a word of reasons in memory,
 * which all senders share: the image's other cores, and Linux.
 *
 *	sender                          the core, in its handler
 *	------                          ------------------------
 *	makes its reason visible
 *	old = word, word |= reason      reasons = word, word = 0
 *	old was 0: sends an NMI         looks for each of them
 *	else: nothing, see below
 *
 * Who finds the word not empty sends nothing: somebody else found it empty, has
 * sent an NMI for it or is about to, and no handler has taken the word since.
 * That handler takes this reason too. So between two takings one NMI is sent,
 * it cannot merge with another one of ours, and it finds its reasons:
 *
 *	A: |= start (was 0) ........ NMI
 *	B: ........ |= slice (was not 0)
 *	core: ............................ takes start and slice
 *
 * A handler that finds the word empty was called by somebody else. A foreign
 * NMI may come between a sender's two steps: then its handler takes the reasons
 * and the sender's own NMI finds none. Of the two, one is counted as foreign.
 *
 * A sender must not be stopped between its two steps: the others rely on it.
 *
 * The word begins as SKEP_NMI_CLOSED, so that nobody sends to a core that has
 * no handler yet; the image opens it.
 */
#ifndef SKEP_NMI_H
#define SKEP_NMI_H

#include <skep/types.h>

#define SKEP_NMI_CLOSED 0x80000000u
/* Whose reasons they are: bits 0 to 15 and 16 to 30. */
#define SKEP_NMI_IMAGE 0x0000ffffu
#define SKEP_NMI_LINUX 0x7fff0000u
#define SKEP_NMI_LINUX_SHIFT 16

/* 1: the caller has to send an NMI now. */
static inline int skep_nmi_request(u32 *word, u32 reasons)
{
	return !__atomic_fetch_or(word, reasons, __ATOMIC_SEQ_CST);
}

/* In the handler. 0: the NMI is foreign. */
static inline u32 skep_nmi_take(u32 *word)
{
	u32 reasons = __atomic_load_n(word, __ATOMIC_SEQ_CST);

	if (reasons & SKEP_NMI_CLOSED)
		return 0;
	return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST);
}

/* From now on NMIs are sent; what was wanted before, with no NMI. */
static inline u32 skep_nmi_open(u32 *word)
{
	return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST) &
	       ~SKEP_NMI_CLOSED;
}

#endif
