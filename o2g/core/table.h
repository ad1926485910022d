/* SPDX-License-Identifier: MIT */
/*
 * A table of queues: members with the same key are in the order in which they
 * were added. Chained, with a keyed hash, so that chosen tags cannot make it
 * slow. Nodes are embedded in the members; the table allocates only its array.
 */
#ifndef O2G_CORE_TABLE_H
#define O2G_CORE_TABLE_H

#include "core.h"
#include "hash.h"

/* Kinds of keys; classes of receives follow. */
enum {
	O2G_KEY_ID,	    /* a message in flight: connection and id */
	O2G_KEY_COOKIE,	    /* a posted receive */
	O2G_KEY_REGION,	    /* a memory region */
	O2G_KEY_UNEXPECTED, /* an unmatched message */
	O2G_KEY_MASKED,	    /* an unmatched message, with its tag masked */
	O2G_KEY_CLASS	    /* + class: a posted receive */
};

struct o2g_key {
	u32 kind;
	u32 context;
	u32 source;
	u64 tag;
};

struct o2g_knot {
	struct o2g_knot *chain, **chained_at; /* only in the first of a queue */
	/* circular; 0 outside of a table */
	struct o2g_knot *next, *prev;
	u64 hash;
	struct o2g_key key;
};

struct o2g_table {
	const struct o2g_host *host;
	struct o2g_hash_key secret;
	struct o2g_light_key light;
	int is_light; /* uses the light hash; set while the table is empty */
	struct o2g_knot **bucket;
	u32 buckets; /* a power of two */
	/* The earlier array while the table grows. Its buckets are moved in
	 * order, a few with each node that is added. */
	struct o2g_knot **old;
	u32 old_buckets, moved;
	u32 keys;
	u64 compared, rehashed; /* numbers of nodes, for tests of the cost */
};

int o2g_table_make(struct o2g_table *table, const struct o2g_host *host,
		   const u8 secret[16]);
void o2g_table_free(struct o2g_table *table);
/* The first member with this key, or 0. */
struct o2g_knot *o2g_table_find(struct o2g_table *table,
				const struct o2g_key *key);
void o2g_table_add(struct o2g_table *table, struct o2g_knot *knot,
		   const struct o2g_key *key);
/* Does nothing to a node that is in no table. */
void o2g_table_remove(struct o2g_table *table, struct o2g_knot *knot);

#endif
