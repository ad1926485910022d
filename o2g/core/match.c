/* SPDX-License-Identifier: MIT */
/*
 * Decides which receive gets which message, in MPI's order: of several receives
 * the one posted first, of several messages the one that arrived first.
 *
 * Posted receives with the same ignore mask form a class. Within a class
 * receives are indexed by (context, source or any, tag without the masked
 * bits), so an arriving message is looked up in two queues of each class, and
 * the receive with the lowest sequence number gets it. Programs use two or
 * three masks. Receives with masks beyond the first O2G_CLASSES are in one list
 * of bounded length.
 *
 * Unmatched messages are indexed by (context, source, tag) and by (context,
 * tag); for receives with a mask the list in order of arrival is searched. When
 * such searches have cost more than an index would, the messages are indexed
 * under that mask as well. This index is kept up to date until searches under
 * another mask have cost as much.
 */
#include "base/errno.h"
#include "match.h"
#include "peer.h"

#define MASK_WORTH 64 /* comparisons below which no index is built */

static int mask_class(struct o2g_core *core, u64 ignore)
{
	int unused = -1;

	for (int i = 0; i < (int)core->classes; i++) {
		struct o2g_class *class = &core->class[i];

		if (class->ignore == ignore)
			return i;
		if (unused < 0 && !class->directed && !class->any)
			unused = i;
	}
	if (unused < 0 && core->classes < O2G_CLASSES)
		unused = (int)core->classes++;
	if (unused >= 0)
		core->class[unused].ignore = ignore;
	return unused;
}

static void count_receive(struct o2g_core *core, const struct o2g_op_entry *op,
			  int by)
{
	struct o2g_class *class = &core->class[op->class];

	if (op->peer == O2G_ANY_PEER)
		class->any += by;
	else
		class->directed += by;
}

static void index_cookie(struct o2g_core *core, struct o2g_op_entry *op)
{
	const struct o2g_key key = {.kind = O2G_KEY_COOKIE, .tag = op->cookie};

	o2g_table_add(&core->table, &op->cookie_key, &key);
}

/* Most programs never cancel, so the index is built at the first cancellation.
 * That takes long if many operations are in flight, so an engine with bounded
 * batches has the index from the start. */
void o2g_match_index_cookies(struct o2g_core *core)
{
	if (core->cookies)
		return;
	core->cookies = 1;
	for (u32 i = 0; i < core->ops.made; i++) {
		struct o2g_op_entry *op = o2g_pool_at(&core->ops, i);

		if (op && op->state == O2G_RECV_POSTED)
			index_cookie(core, op);
	}
}

int o2g_match_post(struct o2g_core *core, struct o2g_op_entry *op)
{
	const int class = mask_class(core, op->ignore);

	if (class < 0 && core->odds >= O2G_ODD_MAX)
		return -LINUX_ENOMEM;
	op->state = O2G_RECV_POSTED;
	op->sequence = core->sequence++;
	if (class >= 0) {
		const struct o2g_key key = {O2G_KEY_CLASS + class, op->context,
					    op->peer, op->tag & ~op->ignore};

		op->class = class;
		count_receive(core, op, 1);
		o2g_table_add(&core->table, &op->key, &key);
	} else {
		op->class = O2G_CLASSES;
		core->odds++;
		list_append(&core->odd, &op->link);
	}
	if (core->cookies)
		index_cookie(core, op);
	if (op->peer != O2G_ANY_PEER)
		list_append(&core->peers[op->peer].directed, &op->turn);
	core->counts.posted++;
	return 0;
}

void o2g_match_unpost(struct o2g_core *core, struct o2g_op_entry *op)
{
	if (op->class < O2G_CLASSES) {
		count_receive(core, op, -1);
		o2g_table_remove(&core->table, &op->key);
	} else {
		core->odds--;
		list_unlink(&op->link);
	}
	o2g_table_remove(&core->table, &op->cookie_key);
	list_unlink(&op->turn);
	op->state = O2G_RECV_MATCHED;
	core->counts.posted--;
}

static struct o2g_op_entry *pick_earlier(struct o2g_op_entry *best,
					 struct o2g_knot *knot)
{
	struct o2g_op_entry *op;

	if (!knot)
		return best;
	op = list_entry(knot, struct o2g_op_entry, key);
	return best && best->sequence < op->sequence ? best : op;
}

static int message_fits(u32 peer, u32 context, u64 tag, u64 ignore,
			const struct o2g_envelope *envelope)
{
	return (peer == O2G_ANY_PEER || peer == envelope->source) &&
	       context == envelope->context &&
	       !((tag ^ envelope->tag) & ~ignore);
}

static struct o2g_op_entry *odd_receive(struct o2g_core *core,
					const struct o2g_envelope *envelope,
					int any, struct o2g_op_entry *best)
{
	struct list *node, *after;

	list_each(node, after, &core->odd)
	{
		struct o2g_op_entry *op =
			list_entry(node, struct o2g_op_entry, link);

		core->scanned++;
		if (best && best->sequence < op->sequence)
			return best;
		if ((any || op->peer != O2G_ANY_PEER) &&
		    message_fits(op->peer, op->context, op->tag, op->ignore,
				 envelope))
			return op;
	}
	return best;
}

struct o2g_op_entry *o2g_match_receive(struct o2g_core *core,
				       const struct o2g_envelope *envelope,
				       int any)
{
	struct o2g_op_entry *best = 0;

	for (u32 i = 0; i < core->classes; i++) {
		const struct o2g_class *class = &core->class[i];
		struct o2g_key key;

		if (!class->directed && !class->any)
			continue;
		key = (struct o2g_key){O2G_KEY_CLASS + i, envelope->context,
				       envelope->source,
				       envelope->tag & ~class->ignore};
		if (class->directed && envelope->source != O2G_NO_PEER)
			best = pick_earlier(best,
					    o2g_table_find(&core->table, &key));
		key.source = O2G_ANY_PEER;
		if (class->any && any)
			best = pick_earlier(best,
					    o2g_table_find(&core->table, &key));
	}
	return core->odds ? odd_receive(core, envelope, any, best) : best;
}

/* Adds a message to the queues of its sender and of any source. */
static void index_message(struct o2g_core *core, struct o2g_envelope *envelope,
			  u32 source)
{
	const int any = source == O2G_ANY_PEER;
	struct o2g_key key = {O2G_KEY_UNEXPECTED, envelope->context, source,
			      envelope->tag};

	if (source == O2G_NO_PEER)
		return;
	o2g_table_add(&core->table,
		      any ? &envelope->by_any : &envelope->by_source, &key);
	if (!core->masked)
		return;
	key.kind = O2G_KEY_MASKED;
	key.tag &= ~core->mask;
	o2g_table_add(&core->table,
		      any ? &envelope->masked_any : &envelope->masked_source,
		      &key);
}

static void unindex_message(struct o2g_core *core,
			    struct o2g_envelope *envelope)
{
	o2g_table_remove(&core->table, &envelope->by_source);
	o2g_table_remove(&core->table, &envelope->by_any);
	o2g_table_remove(&core->table, &envelope->masked_source);
	o2g_table_remove(&core->table, &envelope->masked_any);
}

void o2g_match_name(struct o2g_core *core, struct o2g_envelope *envelope)
{
	index_message(core, envelope, envelope->source);
}

void o2g_match_queue(struct o2g_core *core, struct o2g_envelope *envelope)
{
	index_message(core, envelope, envelope->source);
	index_message(core, envelope, O2G_ANY_PEER);
	list_append(&core->arrival, &envelope->arrival);
	core->counts.unmatched++;
}

void o2g_match_unqueue(struct o2g_core *core, struct o2g_envelope *envelope)
{
	unindex_message(core, envelope);
	list_unlink(&envelope->arrival);
	core->counts.unmatched--;
}

/* In order of arrival, so that each queue has that order too. */
static void use_mask(struct o2g_core *core, u64 ignore)
{
	struct list *node, *after;

	core->mask = ignore;
	core->masked = 1;
	core->mask_cost = 0;
	list_each(node, after, &core->arrival)
	{
		struct o2g_envelope *envelope =
			list_entry(node, struct o2g_envelope, arrival);

		unindex_message(core, envelope);
		index_message(core, envelope, envelope->source);
		index_message(core, envelope, O2G_ANY_PEER);
		core->scanned++;
	}
}

static struct o2g_envelope *search_arrivals(struct o2g_core *core, u32 peer,
					    u32 context, u64 tag, u64 ignore)
{
	struct list *node, *after;

	list_each(node, after, &core->arrival)
	{
		struct o2g_envelope *envelope =
			list_entry(node, struct o2g_envelope, arrival);

		core->scanned++;
		core->mask_cost++;
		if (message_fits(peer, context, tag, ignore, envelope))
			return envelope;
	}
	return 0;
}

/* Whether there is an index for this mask; builds it if that is worth its
 * cost. */
static int has_mask(struct o2g_core *core, u64 ignore)
{
	if (core->masked && core->mask == ignore)
		return 1;
	if (core->mask_tried != ignore) {
		core->mask_tried = ignore;
		core->mask_cost = 0;
	}
	if (core->mask_cost < MASK_WORTH + 4 * core->counts.unmatched)
		return 0;
	use_mask(core, ignore);
	return 1;
}

struct o2g_envelope *o2g_match_message(struct o2g_core *core, u32 peer,
				       u32 context, u64 tag, u64 ignore)
{
	const struct o2g_key key = {ignore ? O2G_KEY_MASKED
					   : O2G_KEY_UNEXPECTED,
				    context, peer, tag & ~ignore};
	const int any = peer == O2G_ANY_PEER;
	struct o2g_knot *knot;

	if (!core->counts.unmatched)
		return 0;
	if (ignore && !has_mask(core, ignore))
		return search_arrivals(core, peer, context, tag, ignore);
	knot = o2g_table_find(&core->table, &key);
	if (!knot)
		return 0;
	if (ignore)
		return any ? list_entry(knot, struct o2g_envelope, masked_any)
			   : list_entry(knot, struct o2g_envelope,
					masked_source);
	return any ? list_entry(knot, struct o2g_envelope, by_any)
		   : list_entry(knot, struct o2g_envelope, by_source);
}
