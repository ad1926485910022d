/* SPDX-License-Identifier: MIT */
/*
 * The operations of an endpoint, guarded by its lock. Chunks are never moved,
 * since libo2g holds the addresses as cookies, and reused before new ones are
 * made, so their number is the largest number that was ever in flight.
 */
#include <stdlib.h>

#include "prov.h"

#define CHUNK 256

static int add_chunk(struct operations *operations)
{
	struct operation **chunk;
	struct operation *fresh;

	chunk = realloc(operations->chunk,
			(operations->chunks + 1) * sizeof(*chunk));
	if (!chunk)
		return -FI_ENOMEM;
	operations->chunk = chunk;
	fresh = calloc(CHUNK, sizeof(*fresh));
	if (!fresh)
		return -FI_ENOMEM;
	chunk[operations->chunks++] = fresh;
	for (int i = CHUNK - 1; i >= 0; i--) {
		fresh[i].next = operations->spare;
		operations->spare = &fresh[i];
	}
	return 0;
}

struct operation *prov_operation_take(struct operations *operations)
{
	struct operation *op;

	if (!operations->spare && add_chunk(operations))
		return NULL;
	op = operations->spare;
	operations->spare = op->next;
	atomic_fetch_add(&operations->busy, 1);
	*op = (struct operation){.busy = true};
	return op;
}

void prov_operation_give(struct operations *operations, struct operation *op)
{
	free(op->copy);
	op->copy = NULL;
	op->busy = false;
	atomic_fetch_sub(&operations->busy, 1);
	op->next = operations->spare;
	operations->spare = op;
}

struct operation *prov_operation_find(struct operations *operations,
				      void *context)
{
	for (size_t i = 0; i < operations->chunks; i++) {
		struct operation *op = operations->chunk[i];

		for (int j = 0; j < CHUNK; j++)
			if (op[j].busy && op[j].receive &&
			    op[j].context == context)
				return &op[j];
	}
	return NULL;
}

void prov_operations_free(struct operations *operations)
{
	for (size_t i = 0; i < operations->chunks; i++) {
		struct operation *op = operations->chunk[i];

		for (int j = 0; j < CHUNK; j++)
			free(op[j].copy);
		free(op);
	}
	free(operations->chunk);
}
