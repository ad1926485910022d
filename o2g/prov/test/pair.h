/* SPDX-License-Identifier: MIT */
/*
 * Two endpoints of one domain, and the checks that the tests of the provider
 * are made of. The provider is loaded by the installed libfabric.
 */
#ifndef O2G_PROV_TEST_PAIR_H
#define O2G_PROV_TEST_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define NAME_SIZE 40
#define TIMEOUT_MS 20000

struct setup {
	uint64_t caps;
	enum fi_threading threading;
	enum fi_av_type vector;
	enum fi_cq_format format;
	enum fi_wait_obj wait;
	uint64_t selective; /* FI_SELECTIVE_COMPLETION */
	bool counters;
};

struct end {
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *sent, *received;
	fi_addr_t self, other;
};

struct pair {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct end a, b;
};

/* An absent setup: tagged and untagged, FI_CQ_FORMAT_TAGGED. Failing to open
 * ends the program: there is nothing to test. */
void pair_open(struct pair *pair, const struct setup *setup);
void pair_close(struct pair *pair);
/* The end `a` alone, with what fi_getinfo() says of a node and a service. */
void half_open(struct pair *pair, const char *node, const char *service,
	       uint64_t flags);
/* What the pair consists of, one by one. */
struct fi_info *hints_alloc(void);
void end_open(struct pair *pair, struct end *end, const struct setup *setup);
void end_close(struct end *end);
void end_name(struct end *end, uint8_t name[NAME_SIZE]);
fi_addr_t end_insert(struct end *end, const uint8_t name[NAME_SIZE]);

/* The next completion of an end, moving both: 1, or the error of fi_cq_read.
 * Nothing within TIMEOUT_MS is a failed check and -FI_ETIMEDOUT. */
int next_entry(struct pair *pair, struct end *end,
	       struct fi_cq_tagged_entry *entry);
int next_error(struct pair *pair, struct end *end,
	       struct fi_cq_err_entry *entry);
/* Nothing is there, nor comes while both ends move. */
bool pair_quiet(struct pair *pair, struct end *end);
int64_t now_ms(void);

void fill_buffer(void *buffer, size_t length, unsigned seed);
bool buffer_filled(const void *buffer, size_t length, unsigned seed);

void check_condition(bool ok, const char *function, int line, const char *text);
#define CHECK(condition)                                                       \
	check_condition(!!(condition), __func__, __LINE__, #condition)

void test_info(void);
void test_limits(void);
void test_arguments(void);
void test_kept(void);
void test_objects(void);
void test_vector(void);
void test_tagged(void);
void test_msg(void);
void test_queue(void);
void test_peek(void);
void test_multi(void);
void test_counter(void);
void test_access(void);
void test_atomic(void);
void test_located(void);
void test_sets(void);
void test_wait(void);
void test_threads(void);
void test_processes(const char *program);
int process_child(int argc, char **argv);

#endif
