/* SPDX-License-Identifier: MIT */
/* Remote memory access: keys, rights, modes, data, counters. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_rma.h>

#include "pair.h"

#define LONG (3u << 20)
#define KEY 7
#define BOTH (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CAPS (FI_MSG | FI_TAGGED | FI_RMA)

static uint8_t *window, *mine;

static struct fid_mr *register_window(struct pair *p, uint64_t access,
				      uint64_t key)
{
	struct fid_mr *mr = NULL;

	CHECK(!fi_mr_reg(p->domain, window, LONG, access, 0, key, 0, &mr,
			 NULL));
	memset(window, 0xee, LONG);
	return mr;
}

static bool access_done(struct pair *p, uint64_t flags, void *context)
{
	struct fi_cq_tagged_entry e;

	return next_entry(p, &p->a, &e) == 1 && e.flags == flags &&
	       e.op_context == context;
}

/* There and back; `base`: how the peer names the first byte. */
static bool round_trip(struct pair *p, uint64_t base, uint64_t key,
		       size_t length)
{
	bool ok;

	fill_buffer(mine, length, 3);
	CHECK(!fi_write(p->a.ep, mine, length, NULL, p->a.other, base + 5, key,
			&ok));
	ok = access_done(p, FI_RMA | FI_WRITE, &ok) &&
	     buffer_filled(window + 5, length, 3);
	memset(mine, 0, length);
	CHECK(!fi_read(p->a.ep, mine, length, NULL, p->a.other, base + 5, key,
		       window));
	return ok && access_done(p, FI_RMA | FI_READ, window) &&
	       buffer_filled(mine, length, 3);
}

static void test_trips(void)
{
	static const size_t length[] = {0, 1, 4096, 200000, LONG - 5};
	struct setup setup = {.caps = CAPS};
	struct fid_mr *mr;
	struct pair p;

	pair_open(&p, &setup);
	mr = register_window(&p, BOTH, KEY);
	/* It is good from the start on: there is nothing more to do. */
	CHECK(!fi_mr_enable(mr) && !fi_control(&mr->fid, FI_REFRESH, NULL));
	CHECK(fi_control(&mr->fid, FI_GETWAIT, NULL) == -FI_ENOSYS);
	for (int i = 0; i < 5; i++)
		CHECK(round_trip(&p, 0, KEY, length[i]));
	CHECK(fi_close(&p.domain->fid) == -FI_EBUSY);
	CHECK(!fi_close(&mr->fid));
	pair_close(&p);
}

static bool access_fails(struct pair *p, uint64_t place, uint64_t key,
			 int error)
{
	struct fi_cq_err_entry e;

	CHECK(!fi_write(p->a.ep, mine, 10, NULL, p->a.other, place, key, NULL));
	return next_error(p, &p->a, &e) == 1 && e.err == error &&
	       e.flags == (FI_RMA | FI_WRITE);
}

static bool read_fails(struct pair *p, uint64_t key, int error)
{
	struct fi_cq_err_entry e;

	CHECK(!fi_read(p->a.ep, mine, 10, NULL, p->a.other, 0, key, NULL));
	return next_error(p, &p->a, &e) == 1 && e.err == error &&
	       e.flags == (FI_RMA | FI_READ);
}

static void test_keys(void)
{
	struct setup setup = {.caps = CAPS};
	struct fid_mr *mr, *other = NULL;
	struct pair p;

	pair_open(&p, &setup);
	mr = register_window(&p, FI_REMOTE_READ, KEY);
	CHECK(fi_mr_reg(p.domain, mine, 1, BOTH, 0, KEY, 0, &other, NULL) ==
	      -FI_ENOKEY);
	CHECK(access_fails(&p, 0, KEY, FI_EACCES));
	CHECK(access_fails(&p, 0, KEY + 1, FI_EKEYREJECTED));
	CHECK(!fi_close(&mr->fid));
	mr = register_window(&p, FI_REMOTE_WRITE, KEY);
	CHECK(access_fails(&p, LONG - 9, KEY, ERANGE));
	CHECK(read_fails(&p, KEY, FI_EACCES));
	CHECK(!fi_close(&mr->fid));
	CHECK(access_fails(&p, 0, KEY, FI_EKEYREJECTED));
	CHECK(read_fails(&p, KEY, FI_EKEYREJECTED));
	CHECK(window[0] == 0xee && window[LONG - 1] == 0xee);
	pair_close(&p);
}

/* Each write in flight ends with the context that it began with. */
static void test_contexts(void)
{
	enum { COUNT = 4 };
	struct setup setup = {.caps = CAPS};
	char context[COUNT];
	struct fid_mr *mr;
	struct pair p;

	pair_open(&p, &setup);
	mr = register_window(&p, BOTH, KEY);
	fill_buffer(mine, COUNT, 5);
	for (int i = 0; i < COUNT; i++)
		CHECK(!fi_write(p.a.ep, mine + i, 1, NULL, p.a.other,
				(uint64_t)i, KEY, &context[i]));
	for (int i = 0; i < COUNT; i++)
		CHECK(access_done(&p, FI_RMA | FI_WRITE, &context[i]));
	CHECK(buffer_filled(window, COUNT, 5) && pair_quiet(&p, &p.a));
	CHECK(!fi_close(&mr->fid));
	pair_close(&p);
}

/* A domain of this mode instead of the pair's own, which is returned: it is to
 * be closed with the pair. */
static struct fid_domain *change_mode(struct pair *p, int mode)
{
	struct fi_info *hints = hints_alloc(), *info = NULL;
	struct fid_domain *was = p->domain;

	hints->domain_attr->mr_mode = mode;
	CHECK(!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	CHECK(info->domain_attr->mr_mode == mode);
	end_close(&p->a);
	end_close(&p->b);
	p->a = p->b = (struct end){0};
	CHECK(!fi_domain(p->fabric, info, &p->domain, NULL));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return was;
}

/* FI_MR_BASIC: addresses, and keys that the provider chooses. FI_MR_SCALABLE:
 * offsets, and the program's keys. Regions are older than the endpoints. */
static void in_mode(int mode)
{
	const bool basic = mode == FI_MR_BASIC;
	struct setup setup = {.caps = CAPS};
	struct fid_mr *mr, *again = NULL;
	struct fid_domain *was;
	uint8_t name[NAME_SIZE];
	struct pair p;

	pair_open(&p, &setup);
	was = change_mode(&p, mode);
	mr = register_window(&p, BOTH, KEY);
	CHECK(fi_mr_reg(p.domain, mine, 1, BOTH, 0, KEY, 0, &again, NULL) ==
	      (basic ? 0 : -FI_ENOKEY));
	CHECK(basic ? fi_mr_key(mr) != fi_mr_key(again) : fi_mr_key(mr) == KEY);
	end_open(&p, &p.a, &setup);
	end_open(&p, &p.b, &setup);
	end_name(&p.b, name);
	p.a.other = end_insert(&p.a, name);
	CHECK(round_trip(&p, basic ? (uintptr_t)window : 0, fi_mr_key(mr),
			 1000));
	/* The other mode's name of the same byte is out of bounds. */
	CHECK(access_fails(&p, basic ? 0 : (uintptr_t)window, fi_mr_key(mr),
			   ERANGE));
	CHECK(!fi_close(&mr->fid) && (!again || !fi_close(&again->fid)));
	CHECK(!fi_close(&was->fid));
	pair_close(&p);
}

static void test_data(void)
{
	struct setup setup = {.caps = CAPS | FI_RMA_EVENT,
			      .selective = FI_SELECTIVE_COMPLETION};
	struct fi_cq_tagged_entry e;
	struct fid_mr *mr;
	struct pair p;

	pair_open(&p, &setup);
	mr = register_window(&p, BOTH, KEY);
	CHECK(!fi_inject_writedata(p.a.ep, "abc", 3, 0x1122334455667788,
				   p.a.other, 9, KEY));
	CHECK(next_entry(&p, &p.b, &e) == 1);
	CHECK(e.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
	CHECK(e.data == 0x1122334455667788 && e.len == 3);
	CHECK(!memcmp(window + 9, "abc", 3) && pair_quiet(&p, &p.a));
	CHECK(!fi_writedata(p.a.ep, "de", 2, NULL, 5, p.a.other, 12, KEY, &p));
	CHECK(next_entry(&p, &p.b, &e) == 1 && e.data == 5);
	CHECK(!fi_inject_write(p.a.ep, "f", 1, p.a.other, 14, KEY));
	CHECK(fi_inject_write(p.a.ep, mine, 20000, p.a.other, 14, KEY) ==
	      -FI_EINVAL);
	CHECK(!fi_close(&mr->fid));
	pair_close(&p);
}

/* One piece, and what FI_DELIVERY_COMPLETE asks for. */
static void test_pieces(void)
{
	struct iovec iov[2] = {{mine, 8}, {mine, 8}};
	struct fi_rma_iov there = {.addr = 1, .len = 8, .key = KEY};
	struct fi_msg_rma msg = {.msg_iov = iov,
				 .iov_count = 1,
				 .rma_iov = &there,
				 .rma_iov_count = 1,
				 .context = iov};
	struct setup setup = {.caps = CAPS,
			      .selective = FI_SELECTIVE_COMPLETION};
	struct fid_mr *mr;
	struct pair p;

	pair_open(&p, &setup);
	mr = register_window(&p, BOTH, KEY);
	fill_buffer(mine, 8, 1);
	msg.addr = p.a.other;
	CHECK(!fi_writemsg(p.a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	CHECK(access_done(&p, FI_RMA | FI_WRITE, iov) &&
	      buffer_filled(window + 1, 8, 1));
	memset(mine, 0, 8);
	CHECK(!fi_readmsg(p.a.ep, &msg, FI_COMPLETION));
	CHECK(access_done(&p, FI_RMA | FI_READ, iov) &&
	      buffer_filled(mine, 8, 1));
	CHECK(!fi_writev(p.a.ep, iov, NULL, 1, p.a.other, 1, KEY, NULL));
	CHECK(!fi_readv(p.a.ep, iov, NULL, 1, p.a.other, 1, KEY, NULL));
	there.len = 9;
	CHECK(fi_writemsg(p.a.ep, &msg, 0) == -FI_EINVAL);
	there.len = 8;
	msg.iov_count = 2;
	CHECK(fi_writemsg(p.a.ep, &msg, 0) == -FI_EINVAL);
	msg.iov_count = 1;
	CHECK(fi_writemsg(p.a.ep, &msg, FI_FENCE) == -FI_EINVAL);
	CHECK(fi_write(p.a.ep, mine, 1, NULL, 99, 0, KEY, NULL) == -FI_EINVAL);
	CHECK(!fi_close(&mr->fid));
	pair_close(&p);
}

static void test_counters(void)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *out = NULL, *in = NULL;
	struct setup setup = {.caps = CAPS};
	struct fid_mr *mr;
	struct end more = {0};
	struct pair p;

	pair_open(&p, &setup);
	CHECK(!fi_cntr_open(p.domain, &attr, &out, NULL));
	CHECK(!fi_cntr_open(p.domain, &attr, &in, NULL));
	mr = register_window(&p, BOTH, KEY);
	CHECK(fi_mr_bind(mr, &in->fid, FI_SEND) == -FI_EINVAL);
	CHECK(!fi_mr_bind(mr, &in->fid, FI_REMOTE_WRITE));
	CHECK(!fi_mr_enable(mr));
	CHECK(fi_close(&in->fid) == -FI_EBUSY);
	CHECK(round_trip(&p, 0, KEY, 100) && round_trip(&p, 0, KEY, 100));
	for (int64_t end = now_ms() + TIMEOUT_MS;
	     fi_cntr_read(in) < 2 && now_ms() < end;)
		CHECK(pair_quiet(&p, &p.b));
	CHECK(fi_cntr_read(in) == 2);
	CHECK(!fi_endpoint(p.domain, p.info, &more.ep, NULL));
	CHECK(!fi_ep_bind(more.ep, &out->fid, FI_READ | FI_WRITE));
	CHECK(fi_ep_bind(more.ep, &in->fid, FI_WRITE) == -FI_EINVAL);
	CHECK(!fi_ep_bind(more.ep, &p.a.av->fid, 0));
	CHECK(!fi_ep_bind(more.ep, &p.a.cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(!fi_enable(more.ep));
	/* Each kind of access counts, also where nothing else reports it. */
	CHECK(!fi_write(more.ep, mine, 8, NULL, p.a.other, 0, KEY, &more));
	CHECK(access_done(&p, FI_RMA | FI_WRITE, &more) &&
	      fi_cntr_read(out) == 1);
	CHECK(!fi_read(more.ep, mine, 8, NULL, p.a.other, 0, KEY, &more));
	CHECK(access_done(&p, FI_RMA | FI_READ, &more) &&
	      fi_cntr_read(out) == 2);
	CHECK(!fi_inject_write(more.ep, mine, 8, p.a.other, 0, KEY));
	for (int64_t end = now_ms() + TIMEOUT_MS;
	     fi_cntr_read(out) < 3 && now_ms() < end;)
		CHECK(pair_quiet(&p, &p.b));
	CHECK(fi_cntr_read(out) == 3);
	CHECK(!fi_close(&more.ep->fid));
	CHECK(!fi_close(&mr->fid));
	CHECK(!fi_close(&out->fid) && !fi_close(&in->fid));
	pair_close(&p);
}

/* Nothing but the counter of a region is looked at on the side that is written
 * to: it moves the endpoints that serve the region. */
static void counters_alone(enum fi_wait_obj wait)
{
	struct fi_cntr_attr attr = {.wait_obj = wait};
	struct fid_cntr *in = NULL, *late = NULL;
	struct setup setup = {.caps = CAPS};
	struct fid_mr *mr, *second;
	uint8_t name[NAME_SIZE];
	struct end more = {0};
	struct pair p;

	pair_open(&p, &setup);
	CHECK(!fi_cntr_open(p.domain, &attr, &in, NULL));
	CHECK(!fi_cntr_open(p.domain, &attr, &late, NULL));
	mr = register_window(&p, BOTH, KEY);
	second = register_window(&p, BOTH, KEY + 1);
	CHECK(!fi_mr_bind(mr, &in->fid, FI_REMOTE_WRITE));
	CHECK(!fi_mr_bind(second, &late->fid, FI_REMOTE_READ));
	CHECK(!fi_write(p.a.ep, mine, 100, NULL, p.a.other, 0, KEY, NULL));
	CHECK(!fi_cntr_wait(in, 1, TIMEOUT_MS));
	CHECK(access_done(&p, FI_RMA | FI_WRITE, NULL));
	end_open(&p, &more, &setup);
	end_name(&more, name);
	CHECK(!fi_write(p.a.ep, mine, 100, NULL, end_insert(&p.a, name), 0, KEY,
			NULL));
	CHECK(!fi_cntr_wait(in, 2, TIMEOUT_MS));
	CHECK(access_done(&p, FI_RMA | FI_WRITE, NULL));
	end_close(&more);
	CHECK(!fi_close(&mr->fid));
	CHECK(!fi_close(&in->fid));
	CHECK(!fi_read(p.a.ep, mine, 100, NULL, p.a.other, 0, KEY + 1, NULL));
	CHECK(!fi_cntr_wait(late, 1, TIMEOUT_MS));
	CHECK(access_done(&p, FI_RMA | FI_READ, NULL));
	CHECK(!fi_close(&second->fid));
	CHECK(!fi_close(&late->fid));
	pair_close(&p);
}

/* Of processes that must agree, and of an engine that has none. */
static void not_offered(const char *name, const char *value)
{
	struct fi_info *hints = hints_alloc(), *info = NULL;

	setenv(name, value, 1);
	CHECK(!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	CHECK(info && !(info->caps & (FI_RMA | FI_WRITE | FI_REMOTE_READ)));
	CHECK(info && !info->tx_attr->rma_iov_limit);
	fi_freeinfo(info);
	info = NULL;
	hints->caps = FI_RMA;
	CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) ==
	      -FI_ENODATA);
	fi_freeinfo(hints);
	unsetenv(name);
}

void test_access(void)
{
	window = malloc(LONG);
	mine = malloc(LONG);
	test_trips();
	test_keys();
	test_contexts();
	in_mode(FI_MR_BASIC);
	in_mode(FI_MR_SCALABLE);
	test_data();
	test_pieces();
	test_counters();
	counters_alone(FI_WAIT_UNSPEC);
	counters_alone(FI_WAIT_NONE);
	not_offered("FI_O2G_RMA", "no");
	free(window);
	free(mine);
}
