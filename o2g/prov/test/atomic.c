/* SPDX-License-Identifier: MIT */
/* Atomic access: each call, what there is of it, completions and counters. */
#include <string.h>

#include <rdma/fi_atomic.h>

#include "pair.h"

#define KEY 7
#define CAPS (FI_MSG | FI_TAGGED | FI_ATOMIC)
#define CHANGED (FI_ATOMIC | FI_WRITE)
#define FETCHED (FI_ATOMIC | FI_READ)
#define BYTES 4096

static uint64_t window[BYTES / 8];

static struct fid_mr *open_window(struct pair *p, const struct setup *setup)
{
	struct fid_mr *mr = NULL;

	pair_open(p, setup);
	CHECK(!fi_mr_reg(p->domain, window, sizeof(window),
			 FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
			 NULL));
	memset(window, 0, sizeof(window));
	return mr;
}

static bool was_done(struct pair *p, uint64_t flags, void *context)
{
	struct fi_cq_tagged_entry e;

	return next_entry(p, &p->a, &e) == 1 && e.flags == flags &&
	       e.op_context == context;
}

static void test_calls(void)
{
	const struct setup setup = {.caps = CAPS};
	uint64_t operand = 5, compare = 12, before = 99;
	struct fi_ioc iov = {&operand, 1}, with = {&compare, 1},
		      back = {&before, 1};
	void *desc = NULL;
	struct fid_mr *mr;
	struct pair p;

	mr = open_window(&p, &setup);
	CHECK(!fi_atomic(p.a.ep, &operand, 1, NULL, p.a.other, 8, KEY,
			 FI_UINT64, FI_SUM, &mr));
	CHECK(was_done(&p, CHANGED, &mr) && window[1] == 5 && !window[0]);
	CHECK(!fi_atomicv(p.a.ep, &iov, &desc, 1, p.a.other, 8, KEY, FI_UINT64,
			  FI_SUM, &iov));
	CHECK(was_done(&p, CHANGED, &iov) && window[1] == 10);
	CHECK(!fi_fetch_atomic(p.a.ep, &operand, 1, NULL, &before, NULL,
			       p.a.other, 8, KEY, FI_UINT64, FI_BOR, &back));
	CHECK(was_done(&p, FETCHED, &back) && window[1] == 15 && before == 10);
	CHECK(!fi_fetch_atomicv(p.a.ep, NULL, NULL, 0, &back, &desc, 1,
				p.a.other, 8, KEY, FI_UINT64, FI_ATOMIC_READ,
				&back));
	CHECK(was_done(&p, FETCHED, &back) && window[1] == 15 && before == 15);
	CHECK(!fi_compare_atomic(p.a.ep, &operand, 1, NULL, &compare, NULL,
				 &before, NULL, p.a.other, 8, KEY, FI_UINT64,
				 FI_CSWAP, &with));
	CHECK(was_done(&p, FETCHED, &with) && window[1] == 15 && before == 15);
	CHECK(!fi_compare_atomicv(p.a.ep, &iov, &desc, 1, &with, &desc, 1,
				  &back, &desc, 1, p.a.other, 8, KEY, FI_UINT64,
				  FI_CSWAP_LT, &with));
	CHECK(was_done(&p, FETCHED, &with) && window[1] == 5 && before == 15);
	CHECK(!fi_inject_atomic(p.a.ep, &operand, 1, p.a.other, 8, KEY,
				FI_UINT64, FI_PROD));
	CHECK(!fi_fetch_atomic(p.a.ep, NULL, 1, NULL, &before, NULL, p.a.other,
			       8, KEY, FI_UINT64, FI_ATOMIC_READ, NULL));
	CHECK(was_done(&p, FETCHED, NULL) && before == 25);
	CHECK(pair_quiet(&p, &p.a) && pair_quiet(&p, &p.b));
	CHECK(!fi_close(&mr->fid));
	pair_close(&p);
}

static void test_messages(void)
{
	const struct setup setup = {.caps = CAPS,
				    .selective = FI_SELECTIVE_COMPLETION};
	uint32_t operand[2] = {5, 6}, compare[2] = {0, 1}, before[2] = {9, 9};
	struct fi_ioc iov = {operand, 2}, with = {compare, 2},
		      back = {before, 2};
	struct fi_rma_ioc there = {.addr = 4, .count = 2, .key = KEY};
	struct fi_msg_atomic msg = {.msg_iov = &iov,
				    .iov_count = 1,
				    .rma_iov = &there,
				    .rma_iov_count = 1,
				    .datatype = FI_UINT32,
				    .op = FI_ATOMIC_WRITE,
				    .context = &msg};
	uint32_t *number = (uint32_t *)window;
	struct fid_mr *mr;
	struct pair p;

	mr = open_window(&p, &setup);
	msg.addr = p.a.other;
	CHECK(!fi_atomicmsg(p.a.ep, &msg, FI_COMPLETION | FI_INJECT));
	CHECK(was_done(&p, CHANGED, &msg));
	CHECK(!number[0] && number[1] == 5 && number[2] == 6 && !number[3]);
	CHECK(!fi_fetch_atomicmsg(p.a.ep, &msg, &back, NULL, 1,
				  FI_COMPLETION | FI_DELIVERY_COMPLETE));
	CHECK(was_done(&p, FETCHED, &msg) && before[0] == 5 && before[1] == 6);
	msg.op = FI_MSWAP;
	CHECK(!fi_compare_atomicmsg(p.a.ep, &msg, &with, NULL, 1, &back, NULL,
				    1, FI_COMPLETION));
	CHECK(was_done(&p, FETCHED, &msg) && number[1] == 5 && number[2] == 6);
	msg.op = FI_SUM;
	CHECK(!fi_atomicmsg(p.a.ep, &msg, 0)); /* reports nothing */
	there.count = 1;
	CHECK(fi_atomicmsg(p.a.ep, &msg, 0) == -FI_EINVAL);
	there.count = 2;
	msg.iov_count = 2;
	CHECK(fi_atomicmsg(p.a.ep, &msg, 0) == -FI_EINVAL);
	msg.iov_count = 1;
	CHECK(fi_atomicmsg(p.a.ep, &msg, FI_FENCE) == -FI_EINVAL);
	CHECK(fi_atomicmsg(p.a.ep, &msg, FI_REMOTE_CQ_DATA) == -FI_EINVAL);
	CHECK(fi_atomicmsg(p.a.ep, NULL, 0) == -FI_EINVAL);
	back.count = 1;
	CHECK(fi_fetch_atomicmsg(p.a.ep, &msg, &back, NULL, 1, 0) ==
	      -FI_EINVAL);
	CHECK(fi_fetch_atomicmsg(p.a.ep, &msg, NULL, NULL, 0, 0) == -FI_EINVAL);
	CHECK(fi_compare_atomicmsg(p.a.ep, &msg, &with, NULL, 1, &back, NULL, 1,
				   0) == -FI_EINVAL);
	CHECK(pair_quiet(&p, &p.a));
	CHECK(!fi_close(&mr->fid));
	pair_close(&p);
}

/* A query answers as a call does. */
static void test_queries(void)
{
	const struct setup setup = {.caps = CAPS};
	struct fi_atomic_attr attr = {0};
	struct fid_mr *mr;
	size_t count = 9;
	struct pair p;

	mr = open_window(&p, &setup);
	CHECK(!fi_atomicvalid(p.a.ep, FI_INT8, FI_MIN, &count) &&
	      count == BYTES);
	CHECK(!fi_fetch_atomicvalid(p.a.ep, FI_DOUBLE, FI_ATOMIC_READ,
				    &count) &&
	      count == BYTES / 8);
	CHECK(!fi_compare_atomicvalid(p.a.ep, FI_FLOAT, FI_CSWAP_GT, &count) &&
	      count == BYTES / 4);
	CHECK(fi_atomicvalid(p.a.ep, FI_UINT64, FI_ATOMIC_READ, &count) ==
		      -FI_EOPNOTSUPP &&
	      !count);
	CHECK(fi_atomicvalid(p.a.ep, FI_UINT64, FI_CSWAP, &count) ==
	      -FI_EOPNOTSUPP);
	CHECK(fi_fetch_atomicvalid(p.a.ep, FI_UINT64, FI_CSWAP, &count) ==
	      -FI_EOPNOTSUPP);
	CHECK(fi_compare_atomicvalid(p.a.ep, FI_UINT64, FI_SUM, &count) ==
	      -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(p.a.ep, FI_DOUBLE, FI_BOR, &count) ==
	      -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(p.a.ep, FI_LONG_DOUBLE, FI_SUM, &count) ==
	      -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(p.a.ep, FI_FLOAT_COMPLEX, FI_SUM, &count) ==
	      -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(p.a.ep, FI_UINT64, (enum fi_op)200, &count) ==
	      -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(p.a.ep, FI_UINT64, FI_SUM, NULL) == -FI_EINVAL);
	CHECK(!fi_query_atomic(p.domain, FI_INT16, FI_SUM, &attr, 0) &&
	      attr.size == 2 && attr.count == BYTES / 2);
	CHECK(!fi_query_atomic(p.domain, FI_INT32, FI_ATOMIC_READ, &attr,
			       FI_FETCH_ATOMIC));
	CHECK(!fi_query_atomic(p.domain, FI_INT32, FI_MSWAP, &attr,
			       FI_COMPARE_ATOMIC) &&
	      attr.size == 4);
	CHECK(fi_query_atomic(p.domain, FI_INT32, FI_MSWAP, &attr,
			      FI_FETCH_ATOMIC) == -FI_EOPNOTSUPP);
	CHECK(fi_query_atomic(p.domain, FI_INT32, FI_SUM, &attr, FI_TAGGED) ==
	      -FI_EOPNOTSUPP);
	CHECK(fi_query_atomic(p.domain, FI_INT32, FI_SUM, NULL, 0) ==
	      -FI_EINVAL);
	CHECK(fi_atomic(p.a.ep, window, 1, NULL, p.a.other, 0, KEY, FI_UINT64,
			FI_CSWAP, NULL) == -FI_EOPNOTSUPP);
	CHECK(fi_atomic(p.a.ep, window, BYTES / 8 + 1, NULL, p.a.other, 0, KEY,
			FI_UINT64, FI_SUM, NULL) == -FI_EINVAL);
	CHECK(fi_atomic(p.a.ep, NULL, 1, NULL, p.a.other, 0, KEY, FI_UINT64,
			FI_SUM, NULL) == -FI_EINVAL);
	CHECK(fi_atomic(p.a.ep, window, 1, NULL, 99, 0, KEY, FI_UINT64, FI_SUM,
			NULL) == -FI_EINVAL);
	CHECK(!fi_close(&mr->fid));
	pair_close(&p);
}

static bool access_fails(struct pair *p, uint64_t place, uint64_t key,
			 int error)
{
	struct fi_cq_err_entry e;
	uint32_t one = 1;

	CHECK(!fi_inject_atomic(p->a.ep, &one, 1, p->a.other, place, key,
				FI_UINT32, FI_SUM));
	return next_error(p, &p->a, &e) == 1 && e.err == error &&
	       e.flags == CHANGED;
}

static void test_failures(void)
{
	const struct setup setup = {.caps = CAPS};
	struct fid_mr *mr;
	struct pair p;

	mr = open_window(&p, &setup);
	CHECK(access_fails(&p, 0, KEY + 1, FI_EKEYREJECTED));
	CHECK(access_fails(&p, 2, KEY, FI_EINVAL)); /* not aligned */
	CHECK(access_fails(&p, BYTES, KEY, 34));    /* ERANGE */
	CHECK(!fi_close(&mr->fid));
	pair_close(&p);
}

static void test_counts(void)
{
	const struct setup setup = {.caps = CAPS};
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *out = NULL, *in = NULL;
	uint64_t one = 1, before;
	struct end more = {0};
	struct fid_mr *mr;
	struct pair p;

	mr = open_window(&p, &setup);
	CHECK(!fi_cntr_open(p.domain, &attr, &out, NULL));
	CHECK(!fi_cntr_open(p.domain, &attr, &in, NULL));
	CHECK(!fi_endpoint(p.domain, p.info, &more.ep, NULL));
	CHECK(!fi_ep_bind(more.ep, &out->fid, FI_WRITE));
	CHECK(!fi_ep_bind(more.ep, &in->fid, FI_READ));
	CHECK(!fi_ep_bind(more.ep, &p.a.av->fid, 0));
	CHECK(!fi_ep_bind(more.ep, &p.a.cq->fid,
			  FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	CHECK(!fi_enable(more.ep));
	CHECK(!fi_inject_atomic(more.ep, &one, 1, p.a.other, 0, KEY, FI_UINT64,
				FI_SUM));
	CHECK(!fi_atomic(more.ep, &one, 1, NULL, p.a.other, 0, KEY, FI_UINT64,
			 FI_SUM, NULL));
	CHECK(!fi_cntr_wait(out, 2, TIMEOUT_MS) && window[0] == 2);
	CHECK(!fi_cntr_read(in));
	CHECK(!fi_fetch_atomic(more.ep, &one, 1, NULL, &before, NULL, p.a.other,
			       0, KEY, FI_UINT64, FI_SUM, NULL));
	CHECK(!fi_cntr_wait(in, 1, TIMEOUT_MS) && before == 2);
	CHECK(fi_cntr_read(out) == 2);
	CHECK(!fi_close(&more.ep->fid));
	CHECK(!fi_close(&out->fid) && !fi_close(&in->fid));
	CHECK(!fi_close(&mr->fid));
	pair_close(&p);
}

static void not_asked(void)
{
	const struct setup setup = {.caps = FI_MSG | FI_TAGGED};
	struct pair p;
	char byte = 0;

	pair_open(&p, &setup);
	CHECK(fi_atomic(p.a.ep, &byte, 1, NULL, p.a.other, 0, 0, FI_UINT8,
			FI_SUM, NULL) == -FI_ENOSYS);
	pair_close(&p);
}

/* Hints, and what fi_getinfo() makes of them. */
static void test_offer(void)
{
	struct fi_info *hints = hints_alloc(), *info = NULL;

	hints->caps = FI_ATOMIC;
	hints->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR |
				    FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |
				    FI_ORDER_ATOMIC_WAW;
	hints->ep_attr->max_order_waw_size = BYTES;
	CHECK(!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	CHECK(info && (info->caps & (FI_ATOMIC | FI_RMA)) == FI_ATOMIC &&
	      info->caps & FI_REMOTE_WRITE && info->caps & FI_READ);
	CHECK(info && info->tx_attr->msg_order == hints->tx_attr->msg_order &&
	      info->rx_attr->msg_order == hints->tx_attr->msg_order &&
	      info->ep_attr->max_order_raw_size == BYTES &&
	      info->ep_attr->max_order_war_size == BYTES &&
	      info->tx_attr->rma_iov_limit == 1);
	fi_freeinfo(info);
	hints->ep_attr->max_order_waw_size++;
	CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) ==
	      -FI_ENODATA);
	hints->ep_attr->max_order_waw_size = 0;
	hints->tx_attr->msg_order = FI_ORDER_RAW; /* of FI_RMA too */
	CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) ==
	      -FI_ENODATA);
	fi_freeinfo(hints);
}

void test_atomic(void)
{
	test_calls();
	test_messages();
	test_queries();
	test_failures();
	test_counts();
	not_asked();
	test_offer();
}
