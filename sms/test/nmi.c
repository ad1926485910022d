// SPDX-License-Identifier: MIT
/*
 * NMIs and their reasons (skep/nmi.h) in every order: two cores and Linux ask
 * twice each, another sender sends an NMI or does not, the core opens late, and
 * the processor keeps one NMI that comes during another, as hardware does. In
 * the end no reason is left, and the handler counted as foreign what was:
 * unless that became one with another NMI.
 */
#include <skep/nmi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

#define SENDERS 3
#define STEPS 4 /* to ask and to send, twice */
#define CAP 3

enum stage { OUTSIDE, ENTERED, TAKEN };

struct world {
	u32 word, stage, pending, open, stray, merged, foreign;
	u32 at[SENDERS], sends[SENDERS];
};

static const u32 reason[SENDERS] = {1, 2, 1u << SKEP_NMI_LINUX_SHIFT};
static int (*ask)(u32 *word, u32 reasons);
static u32 strays; /* how many come in this search */
static u64 ends, wrong;
static u8 seen[1 << 20];

static u32 add_digit(u32 key, u32 base, u32 digit)
{
	return key * base + digit;
}

/* A number of its own for each world. */
static u32 key_of(const struct world *w)
{
	u32 key = w->word >> 31, i;

	for (i = 0; i < SENDERS; i++) {
		key = add_digit(key, STEPS + 1, w->at[i]);
		key = add_digit(key, 2, w->sends[i]);
		key = add_digit(key, 2, (w->word & reason[i]) != 0);
	}
	key = add_digit(key, 3, w->stage);
	key = add_digit(key, 2, w->pending);
	key = add_digit(key, 2, w->open);
	key = add_digit(key, 2, w->stray);
	key = add_digit(key, CAP + 1, w->merged);
	return add_digit(key, CAP + 1, w->foreign);
}

static int is_new(const struct world *w)
{
	u32 key = key_of(w), bit = 1u << key % 8;

	if (key / 8 >= sizeof(seen))
		abort();
	if (seen[key / 8] & bit)
		return 0;
	seen[key / 8] |= (u8)bit;
	return 1;
}

static void deliver_nmi(struct world *w)
{
	if (w->pending && w->merged < CAP)
		w->merged++;
	w->pending = 1;
}

static int step_sender(struct world *w, u32 i)
{
	if (w->at[i] == STEPS)
		return 0;
	if (w->at[i] % 2 == 0)
		w->sends[i] = (u32)ask(&w->word, reason[i]);
	else if (w->sends[i])
		deliver_nmi(w);
	if (w->at[i] % 2)
		w->sends[i] = 0;
	w->at[i]++;
	return 1;
}

static int step_handler(struct world *w)
{
	if (w->stage == OUTSIDE && !w->pending)
		return 0;
	if (w->stage == OUTSIDE)
		w->pending = 0;
	else if (w->stage == ENTERED && !skep_nmi_take(&w->word) &&
		 w->foreign < CAP)
		w->foreign++;
	w->stage = (w->stage + 1) % 3;
	return 1;
}

/* The core itself gets no further while its handler runs. */
static int step_core(struct world *w)
{
	if (w->open || w->stage != OUTSIDE)
		return 0;
	w->open = 1;
	skep_nmi_open(&w->word);
	return 1;
}

static int step_stray(struct world *w)
{
	if (w->stray == strays)
		return 0;
	w->stray++;
	deliver_nmi(w);
	return 1;
}

static int step_world(struct world *w, u32 which)
{
	switch (which) {
	case SENDERS:
		return step_handler(w);
	case SENDERS + 1:
		return step_core(w);
	case SENDERS + 2:
		return step_stray(w);
	}
	return step_sender(w, which);
}

static void search_from(struct world w)
{
	struct world next;
	u32 i, moved = 0;

	if (!is_new(&w))
		return;
	for (i = 0; i < SENDERS + 3; i++) {
		next = w;
		if (!step_world(&next, i))
			continue;
		moved = 1;
		search_from(next);
	}
	if (moved)
		return;
	ends++;
	wrong += w.word || w.foreign + w.merged != strays;
}

static void search_states(int (*how)(u32 *, u32), u32 foreign)
{
	struct world w = {.word = SKEP_NMI_CLOSED};

	memset(seen, 0, sizeof(seen));
	ask = how;
	strays = foreign;
	ends = wrong = 0;
	search_from(w);
}

static int send_always(u32 *word, u32 reasons)
{
	skep_nmi_request(word, reasons);
	return !(*word & SKEP_NMI_CLOSED);
}

static int send_never(u32 *word, u32 reasons)
{
	skep_nmi_request(word, reasons);
	return 0;
}

int main(void)
{
	search_states(skep_nmi_request, 0);
	tap_ok(ends && !wrong, "nmi: in every order each NMI finds its reason");
	search_states(skep_nmi_request, 1);
	tap_ok(ends && !wrong, "nmi: a foreign NMI is counted as foreign");
	search_states(send_always, 0);
	tap_ok(wrong, "nmi: the search finds a sender that always sends");
	search_states(send_never, 0);
	tap_ok(wrong, "nmi: the search finds a sender that never sends");
	return tap_done();
}
