/* SPDX-License-Identifier: MIT */
/* The pair; see pair.h. */
#include "pair.h"

const struct bed_options pair_plain = {.sq = 64,
				       .cq = 64,
				       .postings = 256,
				       .peers = 8,
				       .outbox = 4096,
				       .unexpected = 1 << 20};
const struct bed_options pair_slab = {.sq = 64,
				      .cq = 64,
				      .postings = 256,
				      .peers = 8,
				      .slab_message = 1024,
				      .slab = 1 << 18,
				      .outbox = 4096,
				      .unexpected = 1 << 20};

void pair_open(struct pair *pair, const struct bed_options *options, u32 credit)
{
	memset(pair, 0, sizeof(*pair));
	for (int i = 0; i < 2; i++) {
		bed_open(&pair->bed[i], options);
		if (o2g_core_peer(pair->bed[i].core, 0, i == 0) ||
		    o2g_core_peer(pair->bed[i].core, 1, i == 1))
			abort();
	}
	bed_join(&pair->bed[0], 1, credit, &pair->bed[1], 0, credit, pair->end);
}

void pair_open_unnamed(struct pair *pair)
{
	memset(pair, 0, sizeof(*pair));
	bed_open(&pair->bed[0], &pair_plain);
	bed_open(&pair->bed[1], &pair_plain);
	o2g_core_peer(pair->bed[0].core, 1, 0);
	o2g_core_peer(pair->bed[1].core, 0, 0);
	bed_join(&pair->bed[0], 1, 0x10000, &pair->bed[1], O2G_NO_PEER, 0x10000,
		 pair->end);
}

int pair_close(struct pair *pair)
{
	bed_part(pair->end);
	return bed_close(&pair->bed[0]) + bed_close(&pair->bed[1]) == 0;
}

int pair_took(struct pair *pair, int who, u64 cookie, int status)
{
	memset(&pair->cqe, 0, sizeof(pair->cqe));
	return bed_take(&pair->bed[who], &pair->cqe) &&
	       pair->cqe.cookie == cookie && pair->cqe.status == status;
}

int pair_none(struct pair *pair, int who)
{
	return !bed_take(&pair->bed[who], &pair->cqe);
}

int pair_run(struct pair *pair)
{
	return bed_run(pair->end);
}
