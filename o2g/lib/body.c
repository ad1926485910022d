// SPDX-License-Identifier: MIT
/*
 * Bodies that the engine left in the slab. They are copied to their receives
 * when the completion is taken, and then released by RELEASE. `take` guards
 * them.
 */
#include "endpoint.h"

#include <o2g/core/ring.h>

#include <stdlib.h>
#include <string.h>

/* Whether one more release can be recorded. Without memory the completion stays
 * in its ring until the recorded releases fit into the submission ring. */
int o2g_body_room(struct o2g *o2g)
{
	struct o2g_bodies *bodies = &o2g->bodies;
	u32 room = bodies->room ? 2 * bodies->room : 64;
	u64 *offset;

	if (bodies->count < bodies->room)
		return 1;
	offset = realloc(bodies->offset, room * sizeof(*offset));
	if (!offset)
		return 0;
	bodies->offset = offset;
	bodies->room = room;
	return 1;
}

void o2g_body_copy(struct o2g *o2g, const struct o2g_cqe *cqe)
{
	struct o2g_bodies *bodies = &o2g->bodies;

	memcpy((void *)(size_t)cqe->total, (u8 *)o2g->area + cqe->where,
	       cqe->length);
	bodies->offset[bodies->count++] = cqe->where;
}

int o2g_body_release(struct o2g *o2g)
{
	struct o2g_bodies *bodies = &o2g->bodies;
	int kicks;

	if (!bodies->count)
		return 0;
	pthread_mutex_lock(&o2g->submit);
	while (bodies->count) {
		struct o2g_sqe sqe = {
			.op = O2G_OP_RELEASE,
			.data = bodies->offset[bodies->count - 1]};

		if (!o2g_ring_submit(o2g->area, &sqe))
			break;
		bodies->count--;
	}
	kicks = bodies->count || o2g_ring_releases(o2g->area);
	pthread_mutex_unlock(&o2g->submit);
	return kicks;
}
