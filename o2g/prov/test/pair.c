/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pair.h"

static void expect_success(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, fi_strerror(-result));
	exit(1);
}

struct fi_info *hints_alloc(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		exit(1);
	hints->fabric_attr->prov_name = strdup("o2g");
	return hints;
}

static void open_queue(struct pair *pair, struct end *end,
		       const struct setup *setup)
{
	struct fi_cq_attr attr = {.format = setup->format,
				  .wait_obj = setup->wait};

	if (!attr.format)
		attr.format = FI_CQ_FORMAT_TAGGED;
	expect_success(fi_cq_open(pair->domain, &attr, &end->cq, end),
		       "fi_cq_open");
	expect_success(fi_ep_bind(end->ep, &end->cq->fid,
				  FI_TRANSMIT | FI_RECV | setup->selective),
		       "binding a queue");
}

static void open_counters(struct pair *pair, struct end *end,
			  const struct setup *setup)
{
	struct fi_cntr_attr attr = {.wait_obj = setup->wait};

	expect_success(fi_cntr_open(pair->domain, &attr, &end->sent, end),
		       "a counter");
	expect_success(fi_cntr_open(pair->domain, &attr, &end->received, end),
		       "a counter");
	expect_success(fi_ep_bind(end->ep, &end->sent->fid, FI_SEND),
		       "FI_SEND");
	expect_success(fi_ep_bind(end->ep, &end->received->fid, FI_RECV),
		       "FI_RECV");
}

void end_open(struct pair *pair, struct end *end, const struct setup *setup)
{
	struct fi_av_attr attr = {.type = setup->vector};

	expect_success(fi_endpoint(pair->domain, pair->info, &end->ep, end),
		       "fi_endpoint");
	expect_success(fi_av_open(pair->domain, &attr, &end->av, end),
		       "fi_av_open");
	expect_success(fi_ep_bind(end->ep, &end->av->fid, 0),
		       "binding a vector");
	open_queue(pair, end, setup);
	if (setup->counters)
		open_counters(pair, end, setup);
	expect_success(fi_enable(end->ep), "fi_enable");
}

void end_name(struct end *end, uint8_t name[NAME_SIZE])
{
	size_t length = NAME_SIZE;

	expect_success(fi_getname(&end->ep->fid, name, &length), "fi_getname");
}

fi_addr_t end_insert(struct end *end, const uint8_t name[NAME_SIZE])
{
	fi_addr_t address = FI_ADDR_NOTAVAIL;

	expect_success(fi_av_insert(end->av, name, 1, &address, 0, NULL) - 1,
		       "fi_av_insert");
	return address;
}

static void open_domain(struct pair *pair, const struct setup *setup,
			const char *node, const char *service, uint64_t flags)
{
	struct fi_info *hints = hints_alloc();

	memset(pair, 0, sizeof(*pair));
	hints->caps = setup->caps;
	hints->domain_attr->threading = setup->threading;
	expect_success(fi_getinfo(FI_VERSION(1, 17), node, service, flags,
				  hints, &pair->info),
		       "fi_getinfo");
	fi_freeinfo(hints);
	expect_success(fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL),
		       "fi_fabric");
	expect_success(fi_domain(pair->fabric, pair->info, &pair->domain, NULL),
		       "fi_domain");
}

static const struct setup plain;

void half_open(struct pair *pair, const char *node, const char *service,
	       uint64_t flags)
{
	open_domain(pair, &plain, node, service, flags);
	end_open(pair, &pair->a, &plain);
}

void pair_open(struct pair *pair, const struct setup *setup)
{
	uint8_t a[NAME_SIZE], b[NAME_SIZE];

	setup = setup ? setup : &plain;
	open_domain(pair, setup, NULL, NULL, 0);
	end_open(pair, &pair->a, setup);
	end_open(pair, &pair->b, setup);
	end_name(&pair->a, a);
	end_name(&pair->b, b);
	pair->a.self = end_insert(&pair->a, a);
	pair->a.other = end_insert(&pair->a, b);
	pair->b.other = end_insert(&pair->b, a);
	pair->b.self = end_insert(&pair->b, b);
}

void end_close(struct end *end)
{
	expect_success(fi_close(&end->ep->fid), "closing an endpoint");
	expect_success(fi_close(&end->cq->fid), "closing a queue");
	expect_success(fi_close(&end->av->fid), "closing a vector");
	if (end->sent)
		expect_success(fi_close(&end->sent->fid), "closing a counter");
	if (end->received)
		expect_success(fi_close(&end->received->fid),
			       "closing a counter");
}

void pair_close(struct pair *pair)
{
	if (pair->a.ep)
		end_close(&pair->a);
	if (pair->b.ep)
		end_close(&pair->b);
	expect_success(fi_close(&pair->domain->fid), "closing a domain");
	expect_success(fi_close(&pair->fabric->fid), "closing a fabric");
	fi_freeinfo(pair->info);
}

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void read_queue(struct end *end)
{
	if (end->cq)
		(void)fi_cq_read(end->cq, NULL, 0);
}

int next_entry(struct pair *pair, struct end *end,
	       struct fi_cq_tagged_entry *entry)
{
	int64_t deadline = now_ms() + TIMEOUT_MS;
	ssize_t n;

	memset(entry, 0, sizeof(*entry));
	do {
		read_queue(&pair->a);
		read_queue(&pair->b);
		n = fi_cq_read(end->cq, entry, 1);
	} while (n == -FI_EAGAIN && now_ms() < deadline);
	if (n != -FI_EAGAIN)
		return (int)n;
	check_condition(false, __func__, __LINE__, "a completion came in time");
	return -FI_ETIMEDOUT;
}

int next_error(struct pair *pair, struct end *end,
	       struct fi_cq_err_entry *entry)
{
	struct fi_cq_tagged_entry none;
	int n = next_entry(pair, end, &none);

	memset(entry, 0, sizeof(*entry));
	if (n != -FI_EAVAIL) {
		check_condition(false, __func__, __LINE__, "an error came");
		return n;
	}
	return (int)fi_cq_readerr(end->cq, entry, 0);
}

bool pair_quiet(struct pair *pair, struct end *end)
{
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 200; i++) {
		read_queue(&pair->a);
		read_queue(&pair->b);
		if (fi_cq_read(end->cq, &entry, 1) != -FI_EAGAIN)
			return false;
	}
	return true;
}

void fill_buffer(void *buffer, size_t length, unsigned seed)
{
	uint8_t *byte = buffer;

	for (size_t i = 0; i < length; i++)
		byte[i] = (uint8_t)(i * 31 + i / 251 + seed);
}

bool buffer_filled(const void *buffer, size_t length, unsigned seed)
{
	const uint8_t *byte = buffer;

	for (size_t i = 0; i < length; i++)
		if (byte[i] != (uint8_t)(i * 31 + i / 251 + seed))
			return false;
	return true;
}
