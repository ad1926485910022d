/* SPDX-License-Identifier: MIT */
/* Arguments that are none, and what each object says of itself. */
#include <string.h>

#include "pair.h"

static void test_absent(struct pair *p)
{
	struct fi_wait_attr wait_attr = {.flags = 1};
	struct fi_poll_attr poll_attr = {.flags = 1};
	struct fid_domain *domain;
	struct fid_wait *wait;
	struct fid_poll *set;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;

	CHECK(fi_domain(p->fabric, NULL, &domain, NULL) == -FI_EINVAL);
	CHECK(fi_endpoint(p->domain, NULL, &ep, NULL) == -FI_EINVAL);
	CHECK(fi_cq_open(p->domain, NULL, &cq, NULL) == -FI_EINVAL);
	CHECK(fi_av_open(p->domain, NULL, &av, NULL) == -FI_EINVAL);
	CHECK(fi_wait_open(p->fabric, NULL, &wait) == -FI_EINVAL);
	CHECK(fi_wait_open(p->fabric, &wait_attr, &wait) == -FI_EINVAL);
	CHECK(fi_poll_open(p->domain, &poll_attr, &set) == -FI_EINVAL);
	CHECK(fi_ep_bind(p->a.ep, NULL, 0) == -FI_EINVAL);
	p->info->ep_attr->type = FI_EP_MSG;
	CHECK(fi_endpoint(p->domain, p->info, &ep, NULL) == -FI_EINVAL);
	p->info->ep_attr->type = FI_EP_RDM;
}

static void test_names(struct pair *p)
{
	uint8_t name[NAME_SIZE];
	fi_addr_t address[2] = {0, 999};
	size_t length = 0;

	CHECK(fi_getname(&p->a.ep->fid, name, NULL) == -FI_EINVAL);
	CHECK(fi_getname(&p->a.ep->fid, NULL, &length) == -FI_ETOOSMALL &&
	      length == NAME_SIZE);
	CHECK(fi_getname(&p->a.ep->fid, NULL, &length) == -FI_EINVAL);
	CHECK(fi_av_lookup(p->a.av, 0, name, NULL) == -FI_EINVAL);
	CHECK(fi_av_lookup(p->a.av, 0, NULL, &length) == -FI_EINVAL);
	length = 0;
	CHECK(!fi_av_lookup(p->a.av, 0, NULL, &length) && length == NAME_SIZE);
	end_name(&p->b, name);
	CHECK(fi_av_insert(p->a.av, name, 1, address, FI_SYNC_ERR, NULL) ==
	      -FI_EINVAL);
	CHECK(fi_av_insert(p->a.av, name, 1, address, FI_COMPLETION, NULL) ==
	      -FI_EINVAL);
	CHECK(fi_av_insert(p->a.av, NULL, 0, NULL, 0, NULL) == 0);
	CHECK(fi_av_insert(p->a.av, name, 1, NULL, FI_MORE, NULL) == 1);
	CHECK(fi_av_insert(p->a.av, name, 1, address, 0, NULL) == 1);
	CHECK(fi_av_remove(p->a.av, NULL, 1, 0) == -FI_EINVAL);
	CHECK(fi_av_remove(p->a.av, address, 1, 1) == -FI_EINVAL);
	CHECK(!fi_av_remove(p->a.av, NULL, 0, 0));
	/* One that is none does not keep the others. */
	CHECK(fi_av_remove(p->a.av, address, 2, 0) == -FI_EINVAL);
	length = NAME_SIZE;
	CHECK(fi_av_lookup(p->a.av, address[0], name, &length) == -FI_EINVAL);
}

/* More names than any table has room for at first, of this and of the other
 * kind, and each of them is where it was put. */
static void many_names(struct pair *p)
{
	enum { COUNT = 300 };
	fi_addr_t address[COUNT];
	uint8_t name[NAME_SIZE], found[NAME_SIZE];
	struct fi_cq_tagged_entry e;
	size_t length = NAME_SIZE;
	char in = 0;
	int bad = 0;

	end_name(&p->b, name);
	for (int i = 0; i < COUNT; i++)
		bad |= fi_av_insert(p->a.av, name, 1, &address[i], 0, NULL) !=
		       1;
	for (int i = 1; i < COUNT; i++)
		bad |= address[i] != address[i - 1] + 1;
	CHECK(!bad);
	CHECK(!fi_av_lookup(p->a.av, address[COUNT - 1], found, &length) &&
	      !memcmp(found, name, NAME_SIZE));
	CHECK(!fi_trecv(p->b.ep, &in, 1, NULL, p->b.other, 1, 0, &in));
	CHECK(!fi_tinject(p->a.ep, "m", 1, address[COUNT - 1], 1));
	CHECK(next_entry(p, &p->b, &e) == 1 && in == 'm');
	CHECK(!fi_av_remove(p->a.av, address, COUNT, 0));
	CHECK(fi_tinject(p->a.ep, "m", 1, address[COUNT - 1], 1) == -FI_EINVAL);
}

/* An event queue, to which nothing ever comes. */
static void test_events(struct pair *p)
{
	struct fi_eq_err_entry error;
	struct fi_eq_attr attr = {0};
	struct fid_ep *ep = NULL;
	struct fid_eq *eq = NULL;
	char text[8] = "old";

	CHECK(!fi_eq_open(p->fabric, &attr, &eq, NULL));
	CHECK(fi_eq_readerr(eq, &error, 0) == -FI_EAGAIN);
	CHECK(fi_eq_write(eq, 0, text, 1, 0) == -FI_ENOSYS);
	CHECK(!*fi_eq_strerror(eq, 1, NULL, text, sizeof(text)) && !*text);
	CHECK(!*fi_eq_strerror(eq, 1, NULL, NULL, 0));
	CHECK(fi_control(&eq->fid, FI_GETWAIT, text) == -FI_ENOSYS);
	CHECK(!fi_endpoint(p->domain, p->info, &ep, NULL));
	CHECK(!fi_ep_bind(ep, &eq->fid, 0));
	CHECK(fi_ep_bind(ep, &eq->fid, 0) == -FI_EINVAL);
	CHECK(fi_close(&eq->fid) == -FI_EBUSY);
	CHECK(!fi_close(&ep->fid));
	CHECK(!fi_av_bind(p->a.av, &eq->fid, 0));
	CHECK(fi_av_bind(p->a.av, &p->a.cq->fid, 0) == -FI_EINVAL);
	CHECK(fi_av_bind(p->a.av, NULL, 0) == -FI_EINVAL);
	CHECK(!fi_close(&eq->fid));
}

static struct fid_cntr *open_counter(struct pair *p)
{
	struct fid_cntr *cntr = NULL;

	CHECK(!fi_cntr_open(p->domain, NULL, &cntr, NULL));
	return cntr;
}

/* An endpoint may count instead of completing; each event at most once. */
static void test_counters(struct pair *p)
{
	struct fid_cntr *one = open_counter(p), *other = open_counter(p);
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP + 1};
	struct fid_cntr *none;
	struct fid_ep *ep = NULL;

	CHECK(fi_cntr_open(p->domain, &attr, &none, NULL) == -FI_ENOSYS);
	CHECK(!fi_endpoint(p->domain, p->info, &ep, NULL));
	CHECK(fi_ep_bind(ep, &one->fid, 0) == -FI_EINVAL);
	CHECK(fi_ep_bind(ep, &one->fid, FI_SEND | FI_COMPLETION) == -FI_EINVAL);
	CHECK(!fi_ep_bind(ep, &one->fid, FI_SEND));
	CHECK(fi_ep_bind(ep, &other->fid, FI_SEND | FI_READ) == -FI_EINVAL);
	CHECK(!fi_ep_bind(ep, &p->a.av->fid, 0));
	CHECK(fi_enable(ep) == -FI_ENOCQ);
	CHECK(!fi_ep_bind(ep, &other->fid, FI_RECV | FI_READ));
	CHECK(!fi_enable(ep));
	CHECK(fi_close(&one->fid) == -FI_EBUSY);
	CHECK(fi_close(&other->fid) == -FI_EBUSY);
	CHECK(!fi_close(&ep->fid));
	CHECK(!fi_close(&one->fid) && !fi_close(&other->fid));
}

static void test_flags(struct pair *p)
{
	struct fid *ep = &p->a.ep->fid;
	uint64_t value = FI_RECV | FI_COMPLETION;
	size_t least = 5, length = sizeof(least) - 1;

	CHECK(!fi_control(ep, FI_SETOPSFLAG, &value));
	value = FI_RECV;
	CHECK(!fi_control(ep, FI_GETOPSFLAG, &value) && value == FI_COMPLETION);
	value = FI_TRANSMIT;
	CHECK(!fi_control(ep, FI_GETOPSFLAG, &value) && !value);
	CHECK(fi_control(ep, FI_GETOPSFLAG, &value) == -FI_EINVAL);
	value = FI_TRANSMIT | FI_RECV;
	CHECK(fi_control(ep, FI_GETOPSFLAG, &value) == -FI_EINVAL);
	CHECK(fi_control(ep, FI_GETOPSFLAG, NULL) == -FI_EINVAL);
	CHECK(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			&length) == -FI_ETOOSMALL);
	CHECK(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			NULL) == -FI_ETOOSMALL);
	length = 100;
	CHECK(fi_getopt(ep, FI_OPT_ENDPOINT + 1, FI_OPT_MIN_MULTI_RECV, &least,
			&length) == -FI_ENOPROTOOPT);
	CHECK(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &least,
			&length) == -FI_ENOPROTOOPT);
	CHECK(!fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			 &length) &&
	      length == sizeof(least) && least == 64);
	CHECK(fi_setopt(ep, FI_OPT_ENDPOINT + 1, FI_OPT_MIN_MULTI_RECV, &least,
			sizeof(least)) == -FI_ENOPROTOOPT);
	CHECK(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, NULL,
			sizeof(least)) == -FI_EINVAL);
}

static void test_regions(struct pair *p)
{
	static char byte[8];
	struct iovec iov[2] = {{byte, 4}, {byte + 4, 4}};
	struct fi_mr_attr attr = {.mr_iov = iov,
				  .iov_count = 1,
				  .access = FI_REMOTE_READ,
				  .requested_key = 5,
				  .context = byte};
	struct fid_cntr *cntr = open_counter(p);
	struct fid_mr *mr = NULL, *other;

	CHECK(fi_mr_reg(p->domain, byte, 8, 0, 0, 1, FI_COMPLETION, &mr,
			NULL) == -FI_EINVAL);
	CHECK(fi_mr_regv(p->domain, iov, 2, 0, 0, 1, 0, &mr, NULL) ==
	      -FI_EINVAL);
	CHECK(fi_mr_regv(p->domain, NULL, 1, 0, 0, 1, 0, &mr, NULL) ==
	      -FI_EINVAL);
	CHECK(fi_mr_regattr(p->domain, NULL, 0, &mr) == -FI_EINVAL);
	attr.iface = FI_HMEM_CUDA;
	CHECK(fi_mr_regattr(p->domain, &attr, 0, &mr) == -FI_EINVAL);
	attr.iface = FI_HMEM_SYSTEM;
	CHECK(!fi_mr_regattr(p->domain, &attr, FI_RMA_EVENT, &mr));
	CHECK(mr->fid.context == byte && fi_mr_key(mr) == 5);
	CHECK(fi_mr_reg(p->domain, byte, 8, 0, 0, 5, 0, &other, NULL) ==
	      -FI_ENOKEY);
	CHECK(fi_mr_bind(mr, NULL, 0) == -FI_EINVAL);
	CHECK(fi_mr_bind(mr, &p->a.cq->fid, 0) == -FI_EINVAL);
	CHECK(fi_mr_bind(mr, &cntr->fid, 0) == -FI_EINVAL);
	CHECK(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_READ | FI_SEND) ==
	      -FI_EINVAL);
	CHECK(!fi_mr_bind(mr, &cntr->fid, FI_REMOTE_READ));
	CHECK(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE) == -FI_EINVAL);
	CHECK(!fi_mr_enable(mr) && !fi_control(&mr->fid, FI_REFRESH, NULL));
	CHECK(fi_control(&mr->fid, FI_GETWAIT, byte) == -FI_ENOSYS);
	CHECK(fi_close(&cntr->fid) == -FI_EBUSY);
	CHECK(!fi_close(&mr->fid) && !fi_close(&cntr->fid));
}

/* What an error entry says, and its text in as much room as there is. */
static void test_errors(struct pair *p)
{
	const char *full = fi_strerror(FI_ETRUNC);
	char in[4], text[5];
	struct fi_cq_err_entry error = {
		.err_data_size = 7, .err_data = text, .buf = text};

	CHECK(!fi_trecv(p->b.ep, in, 4, NULL, p->b.other, 9, 0, in));
	CHECK(!fi_tinjectdata(p->a.ep, "too long", 8, 77, p->a.other, 9));
	CHECK(next_error(p, &p->b, &error) == 1);
	CHECK(error.err == FI_ETRUNC && error.prov_errno == FI_ETRUNC);
	CHECK(error.op_context == in && error.len == 4 && error.olen == 4);
	CHECK(error.tag == 9 && error.data == 77 && !error.buf);
	CHECK(error.flags == (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA));
	CHECK(!error.err_data && !error.err_data_size);
	CHECK(fi_cq_readerr(p->b.cq, &error, 0) == -FI_EAGAIN);
	CHECK(fi_cq_readerr(p->b.cq, &error, 1) == -FI_EINVAL);
	CHECK(!strcmp(fi_cq_strerror(p->b.cq, FI_ETRUNC, NULL, text, 5), full));
	CHECK(!strncmp(text, full, 4) && !text[4]);
	CHECK(!strcmp(fi_cq_strerror(p->b.cq, FI_ETRUNC, NULL, NULL, 5), full));
	CHECK(fi_cq_read(p->b.cq, NULL, 1) == -FI_EAGAIN);
	CHECK(fi_cancel(&p->b.ep->fid, in) == -FI_ENOENT);
}

/* How an object wakes a sleeper. */
static void wait_objects(struct pair *p)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD};
	enum fi_wait_obj object = FI_WAIT_MUTEX_COND;
	struct fid_cntr *cntr = open_counter(p);
	struct fid *cq = &p->a.cq->fid;
	struct fid_wait *wait = NULL;
	int fd = -1;

	CHECK(!fi_control(cq, FI_GETWAITOBJ, &object) &&
	      object == FI_WAIT_NONE);
	CHECK(fi_control(cq, FI_GETWAITOBJ, NULL) == -FI_EINVAL);
	CHECK(fi_control(cq, FI_BACKLOG, &fd) == -FI_ENOSYS);
	CHECK(!fi_control(&cntr->fid, FI_GETWAITOBJ, &object) &&
	      object == FI_WAIT_FD);
	CHECK(!fi_control(&cntr->fid, FI_GETWAIT, &fd) && fd >= 0);
	CHECK(!fi_wait_open(p->fabric, &attr, &wait));
	CHECK(!fi_control(&wait->fid, FI_GETWAITOBJ, &object) &&
	      object == FI_WAIT_FD);
	CHECK(fi_control(&wait->fid, FI_GETWAIT, NULL) == -FI_EINVAL);
	CHECK(fi_control(&wait->fid, FI_BACKLOG, &fd) == -FI_ENOSYS);
	CHECK(!fi_close(&wait->fid));
	CHECK(!fi_close(&cntr->fid));
}

/* A poll set gives as many as are asked for, and knows its members. */
static void poll_set(struct pair *p)
{
	struct fid_cntr *one = open_counter(p), *other = open_counter(p);
	struct fid_poll *set = NULL;
	void *context[2] = {p, p};

	CHECK(!fi_poll_open(p->domain, NULL, &set));
	CHECK(fi_poll_add(set, NULL, 0) == -FI_EINVAL);
	CHECK(fi_poll_del(set, NULL, 0) == -FI_EINVAL);
	CHECK(!fi_poll_add(set, &one->fid, 0));
	CHECK(fi_poll_del(set, &one->fid, 1) == -FI_EINVAL);
	CHECK(!fi_poll_add(set, &other->fid, 0));
	CHECK(fi_poll(set, context, -1) == -FI_EINVAL);
	CHECK(fi_poll(set, NULL, 1) == -FI_EINVAL);
	CHECK(fi_poll(set, NULL, 0) == 0 && fi_poll(set, context, 2) == 0);
	CHECK(!fi_cntr_add(one, 1) && !fi_cntr_add(other, 1));
	CHECK(fi_poll(set, context, 1) == 1 && !context[0] && context[1] == p);
	CHECK(fi_poll(set, context, 2) == 1 && fi_poll(set, context, 2) == 0);
	/* Both numbers change by as much, in either direction. */
	CHECK(!fi_cntr_add(one, 1) && !fi_cntr_adderr(one, 1));
	CHECK(fi_poll(set, context, 2) == 1 && fi_poll(set, context, 2) == 0);
	CHECK(!fi_cntr_set(one, 0) && !fi_cntr_adderr(one, 2));
	CHECK(fi_poll(set, context, 2) == 1 && fi_poll(set, context, 2) == 0);
	CHECK(!fi_cntr_seterr(one, 2) && !fi_cntr_add(one, 1));
	CHECK(fi_poll(set, context, 2) == 1 && fi_poll(set, context, 2) == 0);
	CHECK(!fi_cntr_set(one, 1) && !fi_cntr_seterr(one, 2));
	CHECK(fi_poll(set, context, 2) == 0);
	CHECK(!fi_cntr_set(one, 7) && fi_poll(set, context, 2) == 1);
	CHECK(!fi_cntr_seterr(one, 7) && fi_poll(set, context, 2) == 1);
	CHECK(!fi_poll_del(set, &one->fid, 0));
	CHECK(!fi_close(&one->fid));
	CHECK(fi_close(&other->fid) == -FI_EBUSY);
	CHECK(!fi_close(&set->fid));
	CHECK(!fi_close(&other->fid));
}

/* Members of a wait set come and go; those that stay still wake it. */
static void wait_members(struct pair *p)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cntr_attr member = {.wait_obj = FI_WAIT_SET};
	struct fid_cntr *cntr[3];
	struct fid_wait *wait;

	CHECK(!fi_wait_open(p->fabric, &attr, &wait));
	CHECK(fi_close(&p->fabric->fid) == -FI_EBUSY);
	member.wait_set = wait;
	for (int i = 0; i < 3; i++)
		CHECK(!fi_cntr_open(p->domain, &member, &cntr[i], NULL));
	CHECK(fi_wait(wait, 0) == -FI_ETIMEDOUT);
	CHECK(!fi_cntr_add(cntr[0], 1) && !fi_wait(wait, TIMEOUT_MS));
	CHECK(!fi_close(&cntr[0]->fid));
	CHECK(fi_wait(wait, 0) == -FI_ETIMEDOUT);
	CHECK(!fi_cntr_add(cntr[1], 1) && !fi_wait(wait, TIMEOUT_MS));
	CHECK(!fi_cntr_add(cntr[2], 1) && !fi_wait(wait, TIMEOUT_MS));
	CHECK(fi_wait(wait, 0) == -FI_ETIMEDOUT);
	CHECK(!fi_cntr_set(cntr[1], 0) && !fi_cntr_adderr(cntr[1], 1));
	CHECK(!fi_wait(wait, 0) && fi_wait(wait, 0) == -FI_ETIMEDOUT);
	CHECK(fi_close(&wait->fid) == -FI_EBUSY);
	CHECK(!fi_close(&cntr[1]->fid));
	CHECK(!fi_cntr_add(cntr[2], 1) && !fi_wait(wait, TIMEOUT_MS));
	CHECK(!fi_close(&cntr[2]->fid));
	CHECK(!fi_close(&wait->fid));
}

void test_arguments(void)
{
	struct pair p;

	pair_open(&p, NULL);
	test_absent(&p);
	test_names(&p);
	many_names(&p);
	test_events(&p);
	test_counters(&p);
	test_flags(&p);
	test_regions(&p);
	test_errors(&p);
	wait_objects(&p);
	poll_set(&p);
	wait_members(&p);
	pair_close(&p);
}
