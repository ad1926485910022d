/* SPDX-License-Identifier: MIT */
/*
 * What one message costs a machine with one processor, sender and receiver
 * together, on the interface of libfabric: two endpoints in this process, so
 * that whoever does the work does it on the processor that is counted.
 *
 *   message PROVIDER MESSAGES
 *
 * Two intervals (skep/mark.h) for each question: 2q is the call that sends,
 * 2q + 1 all that follows until both ends have their completions. Prints how
 * often it gave the processor away, since the counter counts that as a call.
 */
#define _GNU_SOURCE
#include <sched.h>
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

#include <skep/mark.h>

#define SIZE_MOST (1u << 20)
#define NAME_SIZE 128
#define PATIENCE 120 /* seconds for one message */

struct end {
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t other;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct end from, to;
static uint8_t *out, *in;
static uint64_t yields;

static void die(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fprintf(stderr, "message: ");
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	exit(1);
}

static void must(long result, const char *what)
{
	if (result < 0)
		die("%s: %s", what, fi_strerror((int)-result));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void open_domain(const char *provider)
{
	struct fi_info *hints = fi_allocinfo();
	bool own = !strcmp(provider, "o2g"); /* it knows no host names */

	if (!hints)
		die("out of memory");
	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->threading = FI_THREAD_DOMAIN; /* as MPICH asks */
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->fabric_attr->prov_name = strdup(provider);
	must(fi_getinfo(FI_VERSION(1, 17), own ? NULL : "127.0.0.1", NULL,
			own ? 0 : FI_SOURCE, hints, &info),
	     provider);
	must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	fi_freeinfo(hints);
}

static void open_end(struct end *end, uint8_t name[NAME_SIZE])
{
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 1};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED,
				.wait_obj = FI_WAIT_NONE};
	size_t length = NAME_SIZE;

	must(fi_endpoint(domain, info, &end->ep, NULL), "fi_endpoint");
	must(fi_av_open(domain, &av, &end->av, NULL), "fi_av_open");
	must(fi_cq_open(domain, &cq, &end->cq, NULL), "fi_cq_open");
	must(fi_ep_bind(end->ep, &end->av->fid, 0), "binding a vector");
	must(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV),
	     "binding a queue");
	must(fi_enable(end->ep), "fi_enable");
	must(fi_getname(&end->ep->fid, name, &length), "fi_getname");
}

static void name_other(struct end *end, const uint8_t name[NAME_SIZE])
{
	if (fi_av_insert(end->av, name, 1, &end->other, 0, NULL) != 1)
		die("an address was refused");
}

static int look(struct end *end)
{
	struct fi_cq_tagged_entry entry;
	ssize_t n = fi_cq_read(end->cq, &entry, 1);
	struct fi_cq_err_entry error = {0};

	if (n == -FI_EAGAIN)
		return 0;
	if (n == -FI_EAVAIL && fi_cq_readerr(end->cq, &error, 0) == 1)
		die("a message failed: %s", fi_strerror(error.err));
	must(n, "fi_cq_read");
	return (int)n;
}

static struct fi_context2 context[2];

static void post(size_t length)
{
	ssize_t r;

	do {
		r = fi_trecv(to.ep, in, length, NULL, to.other, 1, 0,
			     &context[1]);
	} while (r == -FI_EAGAIN);
	must(r, "fi_trecv");
}

static void send_one(size_t length)
{
	ssize_t r;

	do {
		r = fi_tsend(from.ep, out, length, NULL, from.other, 1,
			     &context[0]);
		if (r == -FI_EAGAIN) { /* not connected yet */
			look(&from);
			look(&to);
			sched_yield();
		}
	} while (r == -FI_EAGAIN);
	must(r, "fi_tsend");
}

/* Both ends; whoever else has work gets the processor in between. */
static void complete(void)
{
	int sent = 0, received = 0;

	for (;;) {
		if (!received)
			received = look(&to);
		if (!sent)
			sent = look(&from);
		if (sent && received)
			return;
		sched_yield();
		yields++;
	}
}

static void check(size_t length, int number)
{
	for (size_t i = 0; i < length; i += 4000)
		if (in[i] != (uint8_t)number)
			die("wrong bytes");
	if (in[length - 1] != (uint8_t)number)
		die("wrong bytes");
}

/* A question; marks want constants. */
#define POSTED(question, length)                                               \
	static void posted_##question(int number)                              \
	{                                                                      \
		memset(out, number, length);                                   \
		post(length);                                                  \
		SKEP_MARK_BEGIN(2 * (question));                               \
		send_one(length);                                              \
		SKEP_MARK_END(2 * (question));                                 \
		SKEP_MARK_BEGIN(2 * (question) + 1);                           \
		complete();                                                    \
		SKEP_MARK_END(2 * (question) + 1);                             \
		check(length, number);                                         \
	}

POSTED(0, 8)
POSTED(1, 8192)
POSTED(2, 65536)
POSTED(3, SIZE_MOST)

/* Comes before its receive: the interval of completion has the posting too. */
static void unexpected_4(int number)
{
	memset(out, number, 8);
	SKEP_MARK_BEGIN(8);
	send_one(8);
	SKEP_MARK_END(8);
	SKEP_MARK_BEGIN(9);
	look(&to); /* as an MPI library does, called for something else */
	post(8);
	complete();
	SKEP_MARK_END(9);
	check(8, number);
}

/* What a look costs that finds nothing. */
static void nothing_5(int number)
{
	(void)number;
	SKEP_MARK_BEGIN(10);
	look(&to);
	SKEP_MARK_END(10);
}

int main(int argc, char **argv)
{
	static void (*const question[])(int) = {posted_0,     posted_1,
						posted_2,     posted_3,
						unexpected_4, nothing_5};
	uint8_t name[2][NAME_SIZE];
	int messages;

	if (argc != 3)
		return 2;
	messages = atoi(argv[2]);
	out = malloc(SIZE_MOST);
	in = malloc(SIZE_MOST);
	if (!out || !in)
		die("out of memory");
	memset(in, 0, SIZE_MOST);
	open_domain(argv[1]);
	open_end(&from, name[0]);
	open_end(&to, name[1]);
	name_other(&from, name[1]);
	name_other(&to, name[0]);
	post(8); /* they are connected then, both ways */
	send_one(8);
	complete();
	for (size_t q = 0; q < sizeof(question) / sizeof(*question); q++) {
		double end = now() + PATIENCE;

		yields = 0;
		for (int i = 1; i <= messages; i++) {
			question[q](i);
			if (now() > end)
				die("question %zu takes too long", q);
		}
		printf("yields %zu %llu\n", q, (unsigned long long)yields);
	}
	return 0;
}
