/* SPDX-License-Identifier: MIT */
/* Counters. */
#include "pair.h"

static void test_counts(void)
{
	struct setup setup = {.counters = true,
			      .wait = FI_WAIT_UNSPEC,
			      .selective = FI_SELECTIVE_COMPLETION};
	struct fi_cq_err_entry error;
	struct pair p;
	char in[3];

	pair_open(&p, &setup);
	for (int i = 0; i < 3; i++)
		CHECK(!fi_trecv(p.b.ep, &in[i], 1, NULL, p.b.other, 1, 0,
				NULL));
	CHECK(!fi_tsend(p.a.ep, "1", 1, NULL, p.a.other, 1, NULL));
	CHECK(!fi_tinject(p.a.ep, "2", 1, p.a.other, 1));
	CHECK(!fi_cntr_wait(p.b.received, 2, TIMEOUT_MS));
	CHECK(!fi_cntr_wait(p.a.sent, 2, TIMEOUT_MS));
	CHECK(fi_cntr_read(p.a.sent) == 2 && fi_cntr_read(p.a.received) == 0);
	CHECK(fi_cntr_wait(p.b.received, 3, 20) == -FI_ETIMEDOUT);
	CHECK(!fi_tinject(p.a.ep, "long", 4, p.a.other, 1));
	CHECK(fi_cntr_wait(p.b.received, 3, TIMEOUT_MS) == -FI_EAVAIL);
	CHECK(fi_cntr_read(p.b.received) == 2);
	CHECK(fi_cntr_readerr(p.b.received) == 1);
	CHECK(fi_cq_readerr(p.b.cq, &error, 0) == 1 && error.err == FI_ETRUNC);
	pair_close(&p);
}

static void test_arithmetic(struct pair *p)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_NONE};
	struct fid_cntr *cntr = NULL;

	CHECK(!fi_cntr_open(p->domain, &attr, &cntr, NULL));
	CHECK(!fi_cntr_set(cntr, 10) && !fi_cntr_add(cntr, 5));
	CHECK(fi_cntr_read(cntr) == 15);
	CHECK(!fi_cntr_seterr(cntr, 1) && !fi_cntr_adderr(cntr, 2));
	CHECK(fi_cntr_readerr(cntr) == 3);
	CHECK(fi_cntr_wait(cntr, 16, 5) == -FI_ETIMEDOUT);
	CHECK(!fi_cntr_add(cntr, 1));
	CHECK(!fi_cntr_wait(cntr, 16, -1));
	CHECK(fi_ep_bind(p->a.ep, &cntr->fid, FI_READ) == -FI_EOPBADSTATE);
	CHECK(!fi_close(&cntr->fid));
}

void test_counter(void)
{
	struct pair p;

	test_counts();
	pair_open(&p, NULL);
	test_arithmetic(&p);
	pair_close(&p);
}
