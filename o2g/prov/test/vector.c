/* SPDX-License-Identifier: MIT */
/* Names and address vectors. */
#include <string.h>

#include "pair.h"

static void test_names(struct pair *p)
{
	uint8_t name[NAME_SIZE + 8], again[NAME_SIZE];
	size_t length = 8;

	memset(name, 0xee, sizeof(name));
	CHECK(fi_getname(&p->a.ep->fid, name, &length) == -FI_ETOOSMALL);
	CHECK(length == NAME_SIZE && name[8] == 0xee);
	length = sizeof(name);
	CHECK(!fi_getname(&p->a.ep->fid, name, &length));
	CHECK(length == NAME_SIZE && name[NAME_SIZE] == 0xee);
	end_name(&p->a, again);
	CHECK(!memcmp(name, again, NAME_SIZE));
	end_name(&p->b, again);
	CHECK(memcmp(name, again, NAME_SIZE));
}

static void test_lookups(struct pair *p)
{
	uint8_t b[NAME_SIZE], found[NAME_SIZE + 1] = {0};
	size_t length = sizeof(found);
	char text[200];

	end_name(&p->b, b);
	CHECK(!fi_av_lookup(p->a.av, p->a.other, found, &length));
	CHECK(length == NAME_SIZE && !memcmp(found, b, NAME_SIZE));
	memset(found, 0, sizeof(found));
	length = 4;
	CHECK(!fi_av_lookup(p->a.av, p->a.other, found, &length));
	CHECK(length == NAME_SIZE && !memcmp(found, b, 4) && !found[4]);
	CHECK(fi_av_lookup(p->a.av, 12345, found, &length) == -FI_EINVAL);
	length = sizeof(text);
	CHECK(fi_av_straddr(p->a.av, b, text, &length) == text);
	CHECK(!strncmp(text, "fi_addr_o2g://", 14) &&
	      length == strlen(text) + 1);
	length = 5;
	CHECK(fi_av_straddr(p->a.av, b, text, &length) && strlen(text) == 4);
}

static void test_many(struct pair *p)
{
	uint8_t name[3][NAME_SIZE];
	fi_addr_t address[3] = {0};
	int error[3] = {1, 1, 1};

	for (int i = 0; i < 3; i++)
		end_name(i & 1 ? &p->b : &p->a, name[i]);
	CHECK(fi_av_insert(p->a.av, name, 3, address, FI_SYNC_ERR, error) == 3);
	CHECK(!error[0] && !error[1] && !error[2]);
	CHECK(address[0] == 2 && address[1] == 3 && address[2] == 4);
	CHECK(!fi_av_remove(p->a.av, &address[1], 1, 0));
	CHECK(fi_av_remove(p->a.av, &address[1], 1, 0) == -FI_EINVAL);
	CHECK(fi_inject(p->a.ep, name, 1, address[1]) == -FI_EINVAL);
	/* Tables fill the lowest gap. */
	CHECK(fi_av_insert(p->a.av, name, 1, &address[1], 0, NULL) == 1);
	CHECK(address[1] == 3);
	CHECK(!fi_av_remove(p->a.av, address, 3, 0));
	CHECK(fi_av_insert(p->a.av, NULL, 1, address, 0, NULL) == -FI_EINVAL);
}

static void test_refusals(struct pair *p)
{
	struct fi_av_attr attr = {.type = FI_AV_MAP};
	struct fid_av *av;
	fi_addr_t address;

	attr.name = "shared";
	CHECK(fi_av_open(p->domain, &attr, &av, NULL) == -FI_ENOSYS);
	attr.name = NULL;
	attr.flags = FI_EVENT;
	CHECK(fi_av_open(p->domain, &attr, &av, NULL) == -FI_ENOSYS);
	attr.flags = 0;
	attr.rx_ctx_bits = 4;
	CHECK(fi_av_open(p->domain, &attr, &av, NULL) == -FI_EINVAL);
	CHECK(fi_av_insertsym(p->a.av, "localhost", 2, "7", 2, &address, 0,
			      NULL) == -FI_ENOSYS);
}

/* A name that is no name must not get in. */
static void test_garbage(struct pair *p)
{
	uint8_t name[NAME_SIZE];
	fi_addr_t address = 0;

	memset(name, 0xff, sizeof(name));
	CHECK(fi_av_insert(p->a.av, name, 1, &address, 0, NULL) == 0);
	CHECK(address == FI_ADDR_NOTAVAIL);
}

/* Names peers to an endpoint until it has no number left. */
static bool fill_vector(struct fid_av *av, uint8_t name[NAME_SIZE])
{
	fi_addr_t address;

	for (uint32_t i = 0; i < 70000; i++) {
		memcpy(name + NAME_SIZE - 16, &i, sizeof(i));
		if (fi_av_insert(av, name, 1, &address, 0, NULL) != 1)
			return address == FI_ADDR_NOTAVAIL;
		if (fi_av_remove(av, &address, 1, 0))
			return false;
	}
	return false;
}

/* A name that one endpoint of the vector can't take is none of the others'. */
static void test_halves(struct pair *p)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	fi_addr_t address = 0;
	uint8_t name[NAME_SIZE];
	struct fid_ep *full, *ep;
	struct fid_av *av;
	struct fid_cq *cq;

	CHECK(!fi_av_open(p->domain, &attr, &av, NULL));
	CHECK(!fi_cq_open(p->domain, &cq_attr, &cq, NULL));
	CHECK(!fi_endpoint(p->domain, p->info, &full, NULL));
	CHECK(!fi_ep_bind(full, &av->fid, 0));
	end_name(&p->a, name);
	CHECK(fill_vector(av, name));
	CHECK(!fi_endpoint(p->domain, p->info, &ep, NULL));
	CHECK(!fi_ep_bind(ep, &av->fid, 0));
	CHECK(!fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(!fi_enable(ep));
	CHECK(fi_av_insert(av, name, 1, &address, 0, NULL) == 0);
	CHECK(address == FI_ADDR_NOTAVAIL);
	CHECK(fi_inject(ep, name, 1, 0) == -FI_EINVAL);
	CHECK(!fi_close(&ep->fid));
	CHECK(!fi_close(&full->fid));
	CHECK(!fi_close(&cq->fid));
	CHECK(!fi_close(&av->fid));
}

/* Sends from a to whoever at b; the address that b sees. */
static fi_addr_t find_sender(struct pair *p)
{
	struct fi_cq_tagged_entry e = {0};
	int64_t deadline = now_ms() + TIMEOUT_MS;
	fi_addr_t from = 12345;
	char in = 0;

	CHECK(!fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
	CHECK(!fi_tinject(p->a.ep, "s", 1, p->a.other, 1));
	while (fi_cq_readfrom(p->b.cq, &e, 1, &from) == -FI_EAGAIN &&
	       now_ms() < deadline)
		(void)fi_cq_read(p->a.cq, NULL, 0);
	CHECK(e.op_context == &in && in == 's');
	return from;
}

/* A sender that is in no vector has no address; one that is there twice has
 * the first. */
static void unknown_senders(struct pair *p)
{
	uint8_t a[NAME_SIZE];
	fi_addr_t first, second;

	end_name(&p->a, a);
	CHECK(find_sender(p) == p->b.other);
	CHECK(!fi_av_remove(p->b.av, &p->b.other, 1, 0));
	CHECK(find_sender(p) == FI_ADDR_NOTAVAIL);
	first = end_insert(&p->b, a);
	second = end_insert(&p->b, a);
	CHECK(find_sender(p) == first);
	CHECK(!fi_av_remove(p->b.av, &first, 1, 0));
	CHECK(find_sender(p) == second);
}

void test_vector(void)
{
	struct setup setup = {.vector = FI_AV_MAP};
	struct pair p;

	pair_open(&p, NULL);
	test_names(&p);
	test_lookups(&p);
	test_many(&p);
	test_refusals(&p);
	test_garbage(&p);
	test_halves(&p);
	unknown_senders(&p);
	pair_close(&p);
	pair_open(&p, &setup);
	test_lookups(&p);
	pair_close(&p);
}
