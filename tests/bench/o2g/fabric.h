/* SPDX-License-Identifier: MIT */
/*
 * Endpoints of a provider of libfabric, opened as MPICH opens them; for one
 * file of a program that measures providers.
 */
#ifndef TESTS_BENCH_O2G_FABRIC_H
#define TESTS_BENCH_O2G_FABRIC_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define NAME_SIZE 128

struct name {
	size_t length;
	uint8_t bytes[NAME_SIZE];
};

struct end {
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t other; /* whom it sends to */
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static const char *role; /* who says what went wrong */

static void exit_message(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fprintf(stderr, "%s: ", role);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	exit(1);
}

static void expect_success(long result, const char *what)
{
	if (result < 0)
		exit_message("%s: %s", what, fi_strerror((int)-result));
}

static double clock_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void open_domain(const char *provider)
{
	struct fi_info *hints = fi_allocinfo();
	bool own = !strcmp(provider, "o2g"); /* it knows no host names */
	int r;

	if (!hints)
		exit_message("out of memory");
	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	/* As MPICH asks. */
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->fabric_attr->prov_name = strdup(provider);
	r = fi_getinfo(FI_VERSION(1, 17), own ? NULL : "127.0.0.1", NULL,
		       own ? 0 : FI_SOURCE, hints, &info);
	expect_success(r, provider);
	expect_success(fi_fabric(info->fabric_attr, &fabric, NULL),
		       "fi_fabric");
	expect_success(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	fi_freeinfo(hints);
}

static void open_end(struct end *end, struct name *name)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 1};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED,
				.wait_obj = FI_WAIT_NONE};

	expect_success(fi_endpoint(domain, info, &end->ep, NULL),
		       "fi_endpoint");
	expect_success(fi_av_open(domain, &av, &end->av, NULL), "fi_av_open");
	expect_success(fi_cq_open(domain, &cq, &end->cq, NULL), "fi_cq_open");
	expect_success(fi_ep_bind(end->ep, &end->av->fid, 0),
		       "binding a vector");
	expect_success(
		fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV),
		"binding a queue");
	expect_success(fi_enable(end->ep), "fi_enable");
	name->length = NAME_SIZE;
	expect_success(fi_getname(&end->ep->fid, name->bytes, &name->length),
		       "fi_getname");
}

static fi_addr_t insert_name(struct end *end, const struct name *name)
{
	fi_addr_t address = FI_ADDR_NOTAVAIL;

	if (fi_av_insert(end->av, name->bytes, 1, &address, 0, NULL) != 1)
		exit_message("an address was refused");
	return address;
}

/* Completions, up to `most`; never an error. */
static int read_queue(struct end *end, struct fi_cq_tagged_entry *entry,
		      int most)
{
	ssize_t n = fi_cq_read(end->cq, entry, (size_t)most);
	struct fi_cq_err_entry error = {0};

	if (n == -FI_EAGAIN)
		return 0;
	if (n == -FI_EAVAIL && fi_cq_readerr(end->cq, &error, 0) == 1)
		exit_message("a message failed: %s", fi_strerror(error.err));
	expect_success(n, "fi_cq_read");
	return (int)n;
}

#endif
