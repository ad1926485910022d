/* SPDX-License-Identifier: MIT */
/* The table of queues; see table.h. Guarded by the engine's lock. */
#include "table.h"
#include "error.h"

#define FIRST_BUCKETS 64u
#define MOST_BUCKETS 0x1000000u

int o2g_table_make(struct o2g_table *table, const struct o2g_host *host,
		   const u8 secret[16])
{
	table->host = host;
	table->secret.word[0] = 0;
	table->secret.word[1] = 0;
	for (int i = 0; i < 16; i++)
		table->secret.word[i / 8] |= (u64)secret[i] << (i % 8 * 8);
	table->buckets = FIRST_BUCKETS;
	table->bucket = host->alloc(host->ctx, FIRST_BUCKETS * sizeof(void *));
	return table->bucket ? 0 : -O2G_ENOMEM;
}

void o2g_table_free(struct o2g_table *table)
{
	const struct o2g_host *host = table->host;

	if (table->bucket)
		host->free(host->ctx, table->bucket,
			   (u64)table->buckets * sizeof(void *));
	table->bucket = 0;
}

static u64 hash(const struct o2g_table *table, const struct o2g_key *key)
{
	return o2g_hash_short(&table->secret, key->tag,
			      (u64)key->context << 32 | key->source, key->kind);
}

static int same(const struct o2g_key *a, const struct o2g_key *b)
{
	return a->tag == b->tag && a->source == b->source &&
	       a->context == b->context && a->kind == b->kind;
}

static struct o2g_knot *find(struct o2g_table *table, const struct o2g_key *key,
			     u64 value)
{
	struct o2g_knot *knot = table->bucket[value & (table->buckets - 1)];

	for (; knot; knot = knot->chain) {
		table->compared++;
		if (knot->hash == value && same(&knot->key, key))
			return knot;
	}
	return 0;
}

struct o2g_knot *o2g_table_find(struct o2g_table *table,
				const struct o2g_key *key)
{
	return find(table, key, hash(table, key));
}

static void chain(struct o2g_knot **at, struct o2g_knot *knot)
{
	knot->chain = *at;
	knot->chained_at = at;
	if (*at)
		(*at)->chained_at = &knot->chain;
	*at = knot;
}

/* Twice the array; without memory the chains just get longer. */
static void grow(struct o2g_table *table)
{
	const struct o2g_host *host = table->host;
	const u32 buckets = table->buckets * 2;
	struct o2g_knot **bucket;

	if (table->buckets >= MOST_BUCKETS)
		return;
	bucket = host->alloc(host->ctx, (u64)buckets * sizeof(void *));
	if (!bucket)
		return;
	for (u32 i = 0; i < table->buckets; i++) {
		struct o2g_knot *knot = table->bucket[i];

		while (knot) {
			struct o2g_knot *after = knot->chain;

			chain(&bucket[knot->hash & (buckets - 1)], knot);
			knot = after;
		}
	}
	o2g_table_free(table);
	table->bucket = bucket;
	table->buckets = buckets;
}

void o2g_table_add(struct o2g_table *table, struct o2g_knot *knot,
		   const struct o2g_key *key)
{
	const u64 value = hash(table, key);
	struct o2g_knot *first = find(table, key, value);

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
		grow(table);
	knot->next = knot;
	knot->prev = knot;
	chain(&table->bucket[value & (table->buckets - 1)], knot);
	table->keys++;
}

static void unchain(struct o2g_knot *knot)
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

		unchain(knot);
		if (second == knot)
			table->keys--;
		else
			chain(at, second);
	}
	knot->next->prev = knot->prev;
	knot->prev->next = knot->next;
	knot->next = 0;
	knot->prev = 0;
	knot->chain = 0;
	knot->chained_at = 0;
}
