/* SPDX-License-Identifier: MIT */
/* Objects: the order in which they close, what may be bound, what is absent. */
#include <stdlib.h>
#include <string.h>

#include "pair.h"

static void test_busy(void)
{
	struct pair p;

	pair_open(&p, NULL);
	CHECK(fi_close(&p.fabric->fid) == -FI_EBUSY);
	CHECK(fi_close(&p.domain->fid) == -FI_EBUSY);
	CHECK(fi_close(&p.a.cq->fid) == -FI_EBUSY);
	CHECK(fi_close(&p.a.av->fid) == -FI_EBUSY);
	pair_close(&p);
}

/* Endpoints listen on the ports that the environment gives. */
static void test_ports(void)
{
	uint8_t name[NAME_SIZE];
	struct pair p;
	int port;

	CHECK(!setenv("FI_O2G_PORTS", "25000-25999", 1));
	pair_open(&p, NULL);
	CHECK(!unsetenv("FI_O2G_PORTS"));
	end_name(&p.a, name);
	port = name[2] | name[3] << 8;
	CHECK(port >= 25000 && port <= 25999);
	pair_close(&p);
}

static void test_bindings(struct pair *p)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_ep *ep = NULL;
	struct fid_cq *cq;
	struct fid_av *av;
	char byte = 0;

	CHECK(!fi_endpoint(p->domain, p->info, &ep, NULL));
	CHECK(!fi_cq_open(p->domain, &cq_attr, &cq, NULL));
	CHECK(!fi_av_open(p->domain, &av_attr, &av, NULL));
	CHECK(fi_enable(ep) == -FI_ENOAV);
	CHECK(!fi_ep_bind(ep, &av->fid, 0));
	CHECK(fi_ep_bind(ep, &av->fid, 0) == -FI_EINVAL);
	CHECK(fi_enable(ep) == -FI_ENOCQ);
	CHECK(fi_ep_bind(ep, &cq->fid, 0) == -FI_EINVAL);
	CHECK(fi_ep_bind(ep, &cq->fid, FI_READ) == -FI_EINVAL);
	CHECK(!fi_ep_bind(ep, &cq->fid, FI_TRANSMIT));
	CHECK(fi_enable(ep) == -FI_ENOCQ);
	CHECK(!fi_ep_bind(ep, &cq->fid, FI_RECV));
	CHECK(fi_ep_bind(ep, &cq->fid, FI_RECV) == -FI_EINVAL);
	CHECK(fi_ep_bind(ep, &p->domain->fid, 0) == -FI_EINVAL);
	CHECK(fi_trecv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 0, 0, NULL) ==
	      -FI_EOPBADSTATE);
	CHECK(fi_inject(ep, &byte, 1, 0) == -FI_EOPBADSTATE);
	CHECK(!fi_enable(ep));
	CHECK(fi_ep_bind(ep, &cq->fid, FI_RECV) == -FI_EOPBADSTATE);
	CHECK(!fi_close(&ep->fid));
	CHECK(!fi_close(&cq->fid));
	CHECK(!fi_close(&av->fid));
}

static void test_absent(struct pair *p)
{
	struct fid_pep *pep;
	struct fid_ep *ep;
	char byte = 0;

	CHECK(fi_scalable_ep(p->domain, p->info, &ep, NULL) == -FI_ENOSYS);
	CHECK(fi_srx_context(p->domain, NULL, &ep, NULL) == -FI_ENOSYS);
	CHECK(fi_passive_ep(p->fabric, p->info, &pep, NULL) == -FI_ENOSYS);
	CHECK(fi_tx_context(p->a.ep, 0, NULL, &ep, NULL) == -FI_ENOSYS);
	CHECK(fi_shutdown(p->a.ep, 0) == -FI_ENOSYS);
	CHECK(fi_getpeer(p->a.ep, &byte, NULL) == -FI_ENOSYS);
}

static void test_options(struct pair *p)
{
	uint64_t flags = FI_TRANSMIT;
	size_t value = 0, length = sizeof(value);
	struct fid *ep = &p->a.ep->fid;

	CHECK(!fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value,
			 &length));
	CHECK(value == 64);
	value = 1000;
	CHECK(!fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value,
			 sizeof(value)));
	value = 0;
	CHECK(!fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value,
			 &length));
	CHECK(value == 1000);
	CHECK(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value,
			1) == -FI_EINVAL);
	CHECK(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_BUFFERED_MIN, &value,
			sizeof(value)) == -FI_ENOPROTOOPT);
	CHECK(!fi_control(ep, FI_GETOPSFLAG, &flags) && !flags);
	flags = FI_TRANSMIT | FI_COMPLETION;
	CHECK(!fi_control(ep, FI_SETOPSFLAG, &flags));
	flags = FI_TRANSMIT;
	CHECK(!fi_control(ep, FI_GETOPSFLAG, &flags) && flags == FI_COMPLETION);
	CHECK(fi_control(ep, FI_BACKLOG, &flags) == -FI_ENOSYS);
}

static void test_memory(struct pair *p)
{
	struct fid_mr *mr = NULL;
	char byte[64];

	CHECK(!fi_mr_reg(p->domain, byte, sizeof(byte), FI_SEND | FI_RECV, 0,
			 77, 0, &mr, NULL));
	CHECK(fi_mr_key(mr) == 77);
	CHECK(!fi_mr_bind(mr, &p->a.ep->fid, 0));
	CHECK(!fi_mr_enable(mr));
	CHECK(fi_close(&p->domain->fid) == -FI_EBUSY);
	CHECK(!fi_close(&mr->fid));
}

static void test_events(struct pair *p)
{
	struct fi_eq_attr attr = {0};
	struct fid_eq *eq = NULL;
	struct fi_eq_entry entry;
	uint32_t event;

	CHECK(!fi_eq_open(p->fabric, &attr, &eq, NULL));
	CHECK(fi_eq_read(eq, &event, &entry, sizeof(entry), 0) == -FI_EAGAIN);
	CHECK(fi_eq_sread(eq, &event, &entry, sizeof(entry), 10, 0) ==
	      -FI_EAGAIN);
	CHECK(!fi_close(&eq->fid));
}

void test_objects(void)
{
	struct pair p;

	test_busy();
	test_ports();
	pair_open(&p, NULL);
	test_bindings(&p);
	test_absent(&p);
	test_options(&p);
	test_memory(&p);
	test_events(&p);
	pair_close(&p);
}
