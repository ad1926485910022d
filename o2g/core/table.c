/* SPDX-License-Identifier: MIT */
/* The table of queues; see table.h. Guarded by the engine's lock. */
#include "table.h"
#include "base/errno.h"

#define FIRST_BUCKETS 64u
#define BUCKETS_MAX 0x1000000u
#define MOVED_MAX 8 /* buckets moved when a node is added */

int o2g_table_make(struct o2g_table *table, const struct o2g_host *host,
		   const u8 secret[16])
{
	table->host = host;
	table->secret.word[0] = 0;
	table->secret.word[1] = 0;
	for (int i = 0; i < 16; i++)
		table->secret.word[i / 8] |= (u64)secret[i] << (i % 8 * 8);
	for (u64 i = 0; i < O2G_LIGHT_WORDS; i++)
		table->light.word[i] =
			o2g_hash_words(&table->secret, &i, 1, 2, 4);
	table->buckets = FIRST_BUCKETS;
	table->bucket = host->alloc(host->ctx, FIRST_BUCKETS * sizeof(void *));
	return table->bucket ? 0 : -LINUX_ENOMEM;
}

static void array_free(struct o2g_table *table, struct o2g_knot **array,
		       u32 buckets)
{
	const struct o2g_host *host = table->host;

	if (array)
		host->free(host->ctx, array, (u64)buckets * sizeof(void *));
}

void o2g_table_free(struct o2g_table *table)
{
	array_free(table, table->bucket, table->buckets);
	array_free(table, table->old, table->old_buckets);
	table->bucket = 0;
	table->old = 0;
}

static u64 hash_key(const struct o2g_table *table, const struct o2g_key *key)
{
	const u64 pair = (u64)key->context << 32 | key->source;

	return table->is_light ? o2g_hash_light(&table->light, key->tag, pair,
						key->kind)
			       : o2g_hash_short(&table->secret, key->tag, pair,
						key->kind);
}

static int keys_equal(const struct o2g_key *a, const struct o2g_key *b)
{
	return a->tag == b->tag && a->source == b->source &&
	       a->context == b->context && a->kind == b->kind;
}

static struct o2g_knot **bucket_of(const struct o2g_table *table, u64 value)
{
	const u64 before = value & (table->old_buckets - 1);

	if (table->old && before >= table->moved)
		return &table->old[before];
	return &table->bucket[value & (table->buckets - 1)];
}

static struct o2g_knot *find_knot(struct o2g_table *table,
				  const struct o2g_key *key, u64 value)
{
	struct o2g_knot *knot = *bucket_of(table, value);

	for (; knot; knot = knot->chain) {
		table->compared++;
		if (knot->hash == value && keys_equal(&knot->key, key))
			return knot;
	}
	return 0;
}

struct o2g_knot *o2g_table_find(struct o2g_table *table,
				const struct o2g_key *key)
{
	return find_knot(table, key, hash_key(table, key));
}

static void link_knot(struct o2g_knot **at, struct o2g_knot *knot)
{
	knot->chain = *at;
	knot->chained_at = at;
	if (*at)
		(*at)->chained_at = &knot->chain;
	*at = knot;
}

/* Doubles the array. Without memory the chains get longer. */
static void grow_buckets(struct o2g_table *table)
{
	const struct o2g_host *host = table->host;
	const u32 buckets = table->buckets * 2;
	struct o2g_knot **bucket;

	if (table->old || table->buckets >= BUCKETS_MAX)
		return;
	bucket = host->alloc(host->ctx, (u64)buckets * sizeof(void *));
	if (!bucket)
		return;
	table->old = table->bucket;
	table->old_buckets = table->buckets;
	table->moved = 0;
	table->bucket = bucket;
	table->buckets = buckets;
}

static void move_bucket(struct o2g_table *table)
{
	struct o2g_knot *knot = table->old[table->moved++];

	while (knot) {
		struct o2g_knot *after = knot->chain;

		link_knot(bucket_of(table, knot->hash), knot);
		knot = after;
		table->rehashed++;
	}
}

/* Moves a few buckets at a time, so that a table of any size grows without a
 * long pause. The move is complete before the table must grow again. */
static void move_some(struct o2g_table *table)
{
	for (int n = 0; table->old && n < MOVED_MAX; n++) {
		move_bucket(table);
		if (table->moved < table->old_buckets)
			continue;
		array_free(table, table->old, table->old_buckets);
		table->old = 0;
	}
}

void o2g_table_add(struct o2g_table *table, struct o2g_knot *knot,
		   const struct o2g_key *key)
{
	const u64 value = hash_key(table, key);
	struct o2g_knot *first;

	move_some(table);
	first = find_knot(table, key, value);
	knot->hash = value;
	knot->key = *key;
	if (first) {
		knot->next = first;
		knot->prev = first->prev;
		first->prev->next = knot;
		first->prev = knot;
		return;
	}
	if (table->keys >= table->buckets)
		grow_buckets(table);
	knot->next = knot;
	knot->prev = knot;
	link_knot(bucket_of(table, value), knot);
	table->keys++;
}

static void unlink_knot(struct o2g_knot *knot)
{
	*knot->chained_at = knot->chain;
	if (knot->chain)
		knot->chain->chained_at = knot->chained_at;
}

void o2g_table_remove(struct o2g_table *table, struct o2g_knot *knot)
{
	struct o2g_knot *second = knot->next;

	if (!second)
		return;
	if (knot->chained_at) {
		struct o2g_knot **at = knot->chained_at;

		unlink_knot(knot);
		if (second == knot)
			table->keys--;
		else
			link_knot(at, second);
	}
	knot->next->prev = knot->prev;
	knot->prev->next = knot->next;
	knot->next = 0;
	knot->prev = 0;
	knot->chain = 0;
	knot->chained_at = 0;
}
