/* SPDX-License-Identifier: MIT */
/*
 * Memory regions of a domain with three endpoints, of which each registration
 * fails in turn: either all endpoints serve a region, or none.
 */
#include <stdlib.h>
#include <string.h>

#include "o2g/prov/prov.h"
#include "tests/tap.h"

#define ENDPOINTS 3
#define KEY 7

static struct endpoint endpoint[ENDPOINTS];
static struct domain domain;
static struct counter counter;
static unsigned rights[ENDPOINTS]; /* of the region there, plus 1; 0: none */
static int calls, fails;	   /* the call that fails, from 1; 0: none */
static int counts, mistakes;
unsigned prov_forks;

static int endpoint_number(const struct o2g *o2g)
{
	return (int)((uintptr_t)o2g - 1);
}

/* The one in the middle offers no accesses. */
int o2g_accesses(const struct o2g *o2g)
{
	return endpoint_number(o2g) != 1;
}

int o2g_register_memory(struct o2g *o2g, const struct o2g_memory *memory)
{
	int i = endpoint_number(o2g);

	if (++calls == fails)
		return -ENOMEM;
	if (memory->key != KEY)
		return 0;
	mistakes += i == 1 || rights[i];
	rights[i] = memory->rights + 1;
	return 0;
}

int o2g_unregister_memory(struct o2g *o2g, uint64_t key)
{
	int i = endpoint_number(o2g);

	if (key != KEY)
		return 0;
	mistakes += i == 1 || !rights[i];
	rights[i] = 0;
	return 0;
}

int prov_domain_watch(struct domain *d, struct counter *c)
{
	mistakes += d != &domain || c != &counter;
	return 0;
}

void prov_counter_count(struct counter *c, bool error)
{
	mistakes += c != &counter || error;
	counts++;
}

long prov_refused(void)
{
	return -FI_ENOSYS;
}

static void reset_all(void)
{
	memset(&domain, 0, sizeof(domain));
	memset(&counter, 0, sizeof(counter));
	memset(rights, 0, sizeof(rights));
	pthread_mutex_init(&domain.lock, NULL);
	domain.fid.fid.fclass = FI_CLASS_DOMAIN;
	counter.fid.fid.fclass = FI_CLASS_CNTR;
	counter.domain = &domain;
	for (int i = 0; i < ENDPOINTS; i++) {
		endpoint[i].o2g = (struct o2g *)(uintptr_t)(i + 1);
		endpoint[i].sibling =
			i + 1 < ENDPOINTS ? &endpoint[i + 1] : NULL;
	}
	domain.endpoints = endpoint;
	calls = fails = counts = mistakes = 0;
}

static struct fid_mr *region_new_with(uint64_t key)
{
	static char memory[64];
	struct fid_mr *mr = NULL;

	return prov_mr_ops.reg(&domain.fid.fid, memory, sizeof(memory),
			       FI_REMOTE_READ, 0, key, 0, &mr, NULL)
		       ? NULL
		       : mr;
}

static struct fid_mr *region_new(void)
{
	return region_new_with(KEY);
}

static bool served_with(unsigned each)
{
	return rights[0] == each && !rights[1] && rights[2] == each &&
	       !mistakes;
}

static bool region_ended(struct fid_mr *mr)
{
	return !mr->fid.ops->close(&mr->fid) && served_with(0) && !domain.users;
}

static void test_registered(void)
{
	struct fid_mr *mr;

	for (int i = 1; i <= 2; i++) {
		reset_all();
		fails = i;
		tap_ok(!region_new() && served_with(0) && !domain.users,
		       "registered: none, where endpoint %d fails", i);
		mr = region_new();
		tap_ok(mr && served_with(O2G_MAY_READ + 1) && domain.users == 1,
		       "registered: its key is free afterwards");
		tap_ok(!region_new() && served_with(O2G_MAY_READ + 1),
		       "registered: a key that is used is refused");
		tap_ok(region_ended(mr), "registered: all end together");
	}
}

static void test_counted(void)
{
	struct fid_mr *mr;
	int error;

	reset_all();
	mr = region_new();
	if (!mr)
		exit(1);
	error = mr->fid.ops->bind(&mr->fid, &counter.fid.fid, FI_REMOTE_READ);
	tap_ok(!error && served_with((O2G_MAY_READ | O2G_TELL) + 1) &&
		       counter.users == 1,
	       "counted: each endpoint reports accesses");
	prov_region_count(&domain, KEY, FI_REMOTE_READ);
	prov_region_count(&domain, KEY, FI_REMOTE_WRITE);
	prov_region_count(&domain, KEY + 1, FI_REMOTE_READ);
	tap_ok(counts == 1 && !mistakes,
	       "counted: what was asked for, of this region");
	tap_ok(region_ended(mr) && !counter.users, "counted: to its end");
	reset_all();
	domain.tells = true;
	mr = region_new();
	calls = 0;
	tap_ok(mr &&
		       !mr->fid.ops->bind(&mr->fid, &counter.fid.fid,
					  FI_REMOTE_READ) &&
		       !calls && served_with((O2G_MAY_READ | O2G_TELL) + 1),
	       "counted: one that is reported already stays in place");
	tap_ok(mr && region_ended(mr), "counted: and ends");
	for (int i = 3; i <= 4; i++) {
		reset_all();
		mr = region_new();
		if (!mr)
			exit(1);
		fails = i;
		error = mr->fid.ops->bind(&mr->fid, &counter.fid.fid,
					  FI_REMOTE_READ);
		prov_region_count(&domain, KEY, FI_REMOTE_READ);
		tap_ok(error == -ENOMEM && served_with(O2G_MAY_READ + 1) &&
			       !counter.users && !counts,
		       "counted: call %d fails, and all is as before", i);
		error = mr->fid.ops->bind(&mr->fid, &counter.fid.fid,
					  FI_REMOTE_READ);
		tap_ok(!error && served_with((O2G_MAY_READ | O2G_TELL) + 1) &&
			       counter.users == 1,
		       "counted: a later try can succeed");
		tap_ok(region_ended(mr), "counted: and it ends");
	}
}

/* An endpoint that comes later. */
static void test_shown(void)
{
	struct fid_mr *mr;

	reset_all();
	endpoint[1].sibling = NULL;
	mr = region_new();
	tap_ok(mr && !rights[2] && !prov_regions_show(&domain, &endpoint[2]) &&
		       served_with(O2G_MAY_READ + 1),
	       "shown: it serves the regions that are there");
	rights[2] = 0;
	fails = calls + 1;
	tap_ok(prov_regions_show(&domain, &endpoint[2]) == -ENOMEM,
	       "shown: an error is reported");
	tap_ok(!prov_regions_show(&domain, &endpoint[1]) && !mistakes,
	       "shown: not to one that offers no accesses");
	endpoint[1].sibling = &endpoint[2];
	rights[2] = O2G_MAY_READ + 1;
	tap_ok(mr && region_ended(mr), "shown: it ends there as well");
}

/* Regions of one bucket and of others: an error ends it. */
static void test_several(void)
{
	struct fid_mr *mr[300];
	int had = 0;

	reset_all();
	endpoint[1].sibling = NULL;
	for (int i = 0; i < 300; i++)
		had += !!(mr[i] = region_new_with(1000 + (uint64_t)i));
	calls = 0;
	tap_ok(had == 300 && !prov_regions_show(&domain, &endpoint[2]) &&
		       calls == 300,
	       "several: an endpoint serves each");
	for (int i = 1; i <= 300; i++) {
		calls = 0;
		fails = i;
		had -= prov_regions_show(&domain, &endpoint[2]) == -ENOMEM &&
		       calls == i;
	}
	tap_ok(!had, "several: the first error ends it, whichever region's");
	for (int i = 0; i < 300; i++)
		if (mr[i])
			mr[i]->fid.ops->close(&mr[i]->fid);
	tap_ok(!domain.users, "several: all are gone");
}

int main(void)
{
	test_registered();
	test_counted();
	test_shown();
	test_several();
	return tap_done();
}
