/* SPDX-License-Identifier: MIT */
/* The table of a message's states, as a graph. */
#include <o2g/core/message_state.h>

#include "suite.h"

#define UNMATCHED (O2G_IS_UNEXPECTED | O2G_IS_CLAIMED)
#define OWNED (UNMATCHED | O2G_IS_MATCHED | O2G_IS_DISCARDED)
#define COPIES (O2G_IS_BUFFERING | O2G_IS_COPYING)

/* Does this hold for each step that there is? */
static int each_step(int (*holds)(u32 event, u32 from, u32 to))
{
	for (u32 event = 0; event < O2G_MSG_EVENTS; event++) {
		for (u32 from = 0; from < O2G_MSG_STATES; from++) {
			const u32 to = o2g_message_steps[event][from];

			if (to && !holds(event, from, to))
				return 0;
		}
	}
	return 1;
}

static u32 state_facts(u32 state)
{
	return o2g_message_facts[state];
}

/* All states that steps lead to from this one, itself too, as a set. */
static u32 states_reached(u32 from)
{
	u32 set = 1u << from, before = 0;

	while (set != before) {
		before = set;
		for (u32 event = 0; event < O2G_MSG_EVENTS; event++) {
			for (u32 at = 1; at < O2G_MSG_STATES; at++) {
				const u32 to = o2g_message_steps[event][at];

				if (to && before & 1u << at)
					set |= 1u << to;
			}
		}
	}
	return set;
}

static int all_end(void)
{
	for (u32 at = 1; at < O2G_MSG_STATES; at++) {
		if (!(states_reached(at) & 1u << O2G_MSG_DONE))
			return 0;
	}
	return 1;
}

/* A copy that the engine does later writes to the message when it ends. */
static int copy_stays(u32 event, u32 from, u32 to)
{
	const int ends = event == O2G_MSG_BUFFERED || event == O2G_MSG_COPIED;

	return ends || (state_facts(from) & COPIES & ~state_facts(to)) == 0;
}

static int copy_once(u32 event, u32 from, u32 to)
{
	(void)to;
	return event != O2G_MSG_COPY ||
	       !(state_facts(from) & (COPIES | O2G_IS_COPIED | UNMATCHED));
}

static int bytes_end(u32 event, u32 from, u32 to)
{
	const u32 gone = state_facts(from) & ~state_facts(to);

	return !(gone & O2G_IS_ARRIVING) || event == O2G_MSG_RECEIVED ||
	       event == O2G_MSG_CUT;
}

static int index_leaves(u32 event, u32 from, u32 to)
{
	const u32 gone = state_facts(from) & ~state_facts(to);

	return !(gone & O2G_IS_UNEXPECTED) || event == O2G_MSG_MATCH ||
	       event == O2G_MSG_CLAIM || event == O2G_MSG_DISCARD ||
	       (event == O2G_MSG_CUT && state_facts(from) & O2G_IS_ARRIVING);
}

static int match_ends(u32 event, u32 from, u32 to)
{
	const u32 gone = state_facts(from) & ~state_facts(to);

	return !(gone & O2G_IS_MATCHED) || event == O2G_MSG_COMPLETE;
}

static int complete_received(u32 event, u32 from, u32 to)
{
	(void)to;
	return event != O2G_MSG_COMPLETE ||
	       !(state_facts(from) & (O2G_IS_ARRIVING | COPIES));
}

static int answer_leaves(u32 event, u32 from, u32 to)
{
	const u32 frames = O2G_IS_ANSWERING | O2G_IS_REPLYING;

	return !(state_facts(from) & frames & ~state_facts(to)) ||
	       event == O2G_MSG_ANSWER || event == O2G_MSG_ANSWERED ||
	       event == O2G_MSG_CUT;
}

static int done_is_empty(u32 event, u32 from, u32 to)
{
	(void)event;
	(void)from;
	return to != O2G_MSG_DONE || !state_facts(to);
}

/* At most one has the message. */
static int one_owner(void)
{
	for (u32 at = 1; at < O2G_MSG_STATES; at++) {
		const u32 owner = state_facts(at) & OWNED;

		if (owner & (owner - 1))
			return 0;
	}
	return 1;
}

static int cut_is_final(u32 event, u32 from, u32 to)
{
	const u32 wire = O2G_IS_ARRIVING | O2G_IS_ANSWERING | O2G_IS_REPLYING;

	(void)from;
	return event != O2G_MSG_CUT || !(state_facts(to) & wire);
}

void state_run(check_fn *check)
{
	const u32 all = (1u << O2G_MSG_STATES) - 1 - (1u << O2G_MSG_NONE);

	check(states_reached(O2G_MSG_NEW) == all,
	      "state: each state is reached from NEW");
	check(all_end(), "state: each state leads to DONE");
	check(one_owner(), "state: a message has one owner at most");
	check(each_step(done_is_empty),
	      "state: a message that is done has no facts");
	check(each_step(copy_stays), "state: a copy is waited for");
	check(each_step(copy_once), "state: what is matched is copied once");
	check(each_step(bytes_end),
	      "state: a body is read until it is complete");
	check(each_step(index_leaves), "state: only match, claim, discard and "
				       "a cut arrival leave the index");
	check(each_step(match_ends), "state: a match ends by a completion");
	check(each_step(complete_received),
	      "state: only complete messages are completed");
	check(each_step(answer_leaves),
	      "state: an answer is sent, or its message is cut");
	check(each_step(cut_is_final),
	      "state: a cut message waits for no frame");
}
