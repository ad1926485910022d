/* SPDX-License-Identifier: MIT */
/* One check for each thing the core promises. */
#include <tests/tap.h>

#include "bed.h"

static const struct bed_options plain = {
	.sq = 64, .cq = 64, .postings = 256, .peers = 8, .unexpected = 1 << 20};

struct pair {
	struct bed bed[2];
	struct bed_end end[2];
	struct o2g_cqe cqe;
};

static void pair_open(struct pair *pair, const struct bed_options *options,
		      u32 credit)
{
	for (int i = 0; i < 2; i++) {
		bed_open(&pair->bed[i], options);
		o2g_core_peer(pair->bed[i].core, 0, i == 0);
		o2g_core_peer(pair->bed[i].core, 1, i == 1);
	}
	bed_join(&pair->bed[0], 1, credit, &pair->bed[1], 0, credit, pair->end);
}

static void pair_close(struct pair *pair)
{
	bed_part(pair->end);
	TAP(bed_close(&pair->bed[0]) + bed_close(&pair->bed[1]) == 0);
}

static int take(struct pair *pair, int who, u64 cookie)
{
	memset(&pair->cqe, 0, sizeof(pair->cqe));
	return bed_take(&pair->bed[who], &pair->cqe) &&
	       pair->cqe.cookie == cookie;
}

static void expected(void)
{
	struct pair p;
	char out[] = "hello", in[16] = "";

	pair_open(&p, &plain, 0x10000);
	bed_recv(&p.bed[1], 0, 7, 0, in, sizeof(in), 11);
	bed_send(&p.bed[0], 1, 7, out, 6, 22);
	TAP(bed_run(p.end) == 0);
	TAP(take(&p, 0, 22) && p.cqe.status == 0);
	TAP(take(&p, 1, 11) && p.cqe.length == 6 && p.cqe.peer == 0);
	TAP(!strcmp(in, "hello"));
	pair_close(&p);
}

static void unexpected(void)
{
	struct pair p;
	char out[] = "hello", in[16] = "";

	pair_open(&p, &plain, 0x10000);
	bed_send(&p.bed[0], 1, 7, out, 6, 22);
	TAP(bed_run(p.end) == 0);
	bed_recv(&p.bed[1], O2G_ANY_PEER, 3, ~0ull, in, sizeof(in), 11);
	TAP(take(&p, 1, 11) && p.cqe.tag == 7 && !strcmp(in, "hello"));
	pair_close(&p);
}

static void rendezvous(void)
{
	static u8 out[1 << 20], in[1 << 20];
	struct pair p;

	for (u32 i = 0; i < sizeof(out); i++)
		out[i] = (u8)(i * 7 + i / 251);
	pair_open(&p, &plain, 0x10000);
	bed_send(&p.bed[0], 1, 1, out, sizeof(out), 1);
	bed_send(&p.bed[0], 1, 2, "b", 1, 2);
	TAP(bed_run(p.end) == 0);
	bed_recv(&p.bed[1], 0, 2, 0, in, 1, 12);
	TAP(take(&p, 1, 12) && in[0] == 'b');
	bed_recv(&p.bed[1], 0, 1, 0, in, sizeof(in), 11);
	TAP(bed_run(p.end) == 0);
	TAP(take(&p, 1, 11) && p.cqe.length == sizeof(in));
	TAP(!memcmp(in, out, sizeof(in)));
	pair_close(&p);
}

int main(void)
{
	expected();
	unexpected();
	rendezvous();
	return tap_done();
}
