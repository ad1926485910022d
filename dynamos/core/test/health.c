// SPDX-License-Identifier: MIT
/* When the newer of two versions is the worse one. */
#include <string.h>

#include "../health.h"
#include "tests/tap.h"

static struct dynamos_health limits;
static struct dynamos_sum newer, older;
static struct dynamos_verdict verdict;

static void begin_sums(void)
{
	memset(&limits, 0, sizeof(limits));
	memset(&newer, 0, sizeof(newer));
	memset(&older, 0, sizeof(older));
	limits.least = 100;
	limits.errors = 10;
	limits.latency = 150;
	newer.calls = older.calls = 1000;
	newer.latency[10] = older.latency[10] = 100;
}

static u32 judge_sums(void)
{
	dynamos_health_judge(&limits, &newer, &older, &verdict);
	return verdict.cause;
}

static void test_checks(void)
{
	begin_sums();
	TAP(!dynamos_health_check(&limits));
	limits.zero = 1;
	TAP(strstr(dynamos_health_check(&limits), "reserved"));
	begin_sums();
	limits.errors = 1001;
	TAP(strstr(dynamos_health_check(&limits), "errors"));
	begin_sums();
	limits.latency = 100;
	TAP(strstr(dynamos_health_check(&limits), "latency"));
	begin_sums();
	limits.least = 0;
	TAP(strstr(dynamos_health_check(&limits), "least"));
	memset(&limits, 0, sizeof(limits));
	TAP(!dynamos_health_check(&limits));
}

static void test_buckets(void)
{
	TAP(dynamos_health_bucket(0) == 0 && dynamos_health_bucket(1) == 0);
	TAP(dynamos_health_bucket(2) == 1 && dynamos_health_bucket(3) == 1);
	TAP(dynamos_health_bucket(1023) == 9);
	TAP(dynamos_health_bucket(1024) == 10);
	TAP(dynamos_health_bucket(1ull << DYNAMOS_BUCKETS) ==
	    DYNAMOS_BUCKETS - 1);
	TAP(dynamos_health_bucket(~0ull) == DYNAMOS_BUCKETS - 1);
}

static void test_quantiles(void)
{
	u64 h[DYNAMOS_BUCKETS] = {0};

	TAP(dynamos_health_quantile(h, 500) == 0);
	h[0] = 1;
	TAP(dynamos_health_quantile(h, 990) < 2);
	h[0] = 4;
	TAP(dynamos_health_quantile(h, 0) == 0);
	TAP(dynamos_health_quantile(h, 500) == 1);
	h[0] = 0;
	h[10] = 100;
	TAP(dynamos_health_quantile(h, 0) == 1024);
	TAP(dynamos_health_quantile(h, 500) == 1536);
	TAP(dynamos_health_quantile(h, 1000) < 2048);
	h[10] = 3;
	TAP(dynamos_health_quantile(h, 700) == 1024 + 681);
	h[10] = 100;
	h[20] = 2;
	TAP(dynamos_health_quantile(h, 500) < 2048);
	TAP(dynamos_health_quantile(h, 990) >= 1 << 20);
	h[10] = h[20] = 0;
	h[DYNAMOS_BUCKETS - 1] = 1;
	TAP(dynamos_health_quantile(h, 500) == 1ull << 39);
	h[DYNAMOS_BUCKETS - 1] = 1ull << 62;
	TAP(dynamos_health_quantile(h, 999) < 1ull << 40);
}

static void test_errors(void)
{
	begin_sums();
	TAP(judge_sums() == 0);
	older.errors = 20;
	newer.errors = 30;
	TAP(judge_sums() == 0);
	newer.errors = 31;
	TAP(judge_sums() == DYNAMOS_ERRORS);
	TAP(verdict.newer == 31 && verdict.older == 20);
	newer.errors = newer.calls;
	TAP(judge_sums() == DYNAMOS_ERRORS);
	TAP(verdict.newer == 1000 && verdict.older == 20);
	older.calls = 40000;
	older.errors = 19995;
	TAP(judge_sums() == DYNAMOS_ERRORS);
	TAP(verdict.newer == 1000 && verdict.older == 499);
	older.errors = 20;
	newer.calls = older.calls = limits.least;
	TAP(judge_sums() == DYNAMOS_ERRORS);
	older.calls = 1000;
	newer.calls = 99;
	TAP(judge_sums() == 0);
	TAP(!verdict.newer && !verdict.older);
	newer.calls = 1000;
	older.calls = 99;
	TAP(judge_sums() == 0);
	older.calls = 1000;
	limits.errors = 0;
	TAP(judge_sums() == 0);
}

static void test_latency(void)
{
	begin_sums();
	newer.latency[10] = 0;
	newer.latency[11] = 100;
	TAP(judge_sums() == DYNAMOS_SLOW);
	TAP(verdict.newer == 3072 && verdict.older == 1536);
	limits.latency = 200;
	TAP(judge_sums() == 0);
	limits.latency = 120;
	newer.latency[11] = DYNAMOS_SAMPLES - 1;
	TAP(judge_sums() == 0);
	newer.latency[11] = DYNAMOS_SAMPLES;
	TAP(judge_sums() == DYNAMOS_SLOW);
	older.latency[10] = DYNAMOS_SAMPLES;
	TAP(judge_sums() == DYNAMOS_SLOW);
	older.latency[10] = DYNAMOS_SAMPLES - 1;
	TAP(judge_sums() == 0);
	limits.latency = 0;
	older.latency[10] = 100;
	TAP(judge_sums() == 0);
}

/* Of 1000 samples the median is the first of the upper half. */
static void test_median(void)
{
	begin_sums();
	limits.latency = 120;
	newer.latency[10] = newer.latency[12] = 500;
	older.latency[10] = older.latency[11] = 500;
	TAP(judge_sums() == DYNAMOS_SLOW);
	TAP(verdict.newer == 4096 && verdict.older == 2048);
	memset(older.latency, 0, sizeof(older.latency));
	older.latency[0] = 100;
	TAP(judge_sums() == DYNAMOS_SLOW);
}

static void test_since(void)
{
	begin_sums();
	older.calls = 400;
	older.errors = 1;
	older.latency[10] = 30;
	newer.errors = 0;
	dynamos_health_since(&newer, &older);
	TAP(newer.calls == 600 && newer.errors == 0 && newer.latency[10] == 70);
	begin_sums();
	older.calls = 400;
	older.errors = 35;
	newer.errors = 40;
	dynamos_health_since(&newer, &older);
	TAP(newer.calls == 600 && newer.errors == 5);
	begin_sums();
	newer.latency[0] = newer.latency[DYNAMOS_BUCKETS - 1] = 100;
	older.latency[0] = older.latency[DYNAMOS_BUCKETS - 1] = 30;
	dynamos_health_since(&newer, &older);
	TAP(newer.latency[0] == 70);
	TAP(newer.latency[DYNAMOS_BUCKETS - 1] == 70);
}

/* Errors from before the comparison count for nobody. */
static void test_begun(void)
{
	struct dynamos_sum start;

	begin_sums();
	newer.errors = 500;
	start = newer;
	newer.calls += 1000;
	newer.errors += 10;
	dynamos_health_since(&newer, &start);
	TAP(judge_sums() == 0);
	newer.errors += 1;
	TAP(judge_sums() == DYNAMOS_ERRORS);
	TAP(verdict.newer == 11);
}

int main(void)
{
	test_checks();
	test_buckets();
	test_quantiles();
	test_errors();
	test_latency();
	test_median();
	test_since();
	test_begun();
	return tap_done();
}
