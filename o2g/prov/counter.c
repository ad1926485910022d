/* SPDX-License-Identifier: MIT */
/* Counters of completed operations. */
#include <stdlib.h>

#include "prov.h"

void prov_counter_count(struct counter *counter, bool error)
{
	atomic_fetch_add(error ? &counter->errors : &counter->value, 1);
	prov_source_fire(&counter->source);
}

int prov_counter_total(struct counter *counter, uint64_t *total)
{
	int error = prov_source_progress(&counter->source, false);

	*total = atomic_load(&counter->value) + atomic_load(&counter->errors) +
		 atomic_load(&counter->offset);
	return error;
}

static uint64_t counter_read(struct fid_cntr *fid)
{
	struct counter *counter = (struct counter *)fid;

	/* A dead endpoint is ignored; its operations report the error. */
	uint64_t total;

	(void)prov_counter_total(counter, &total);
	atomic_store(&counter->seen, total);
	return atomic_load(&counter->value);
}

static uint64_t counter_readerr(struct fid_cntr *fid)
{
	struct counter *counter = (struct counter *)fid;

	(void)prov_source_progress(&counter->source, false);
	return atomic_load(&counter->errors);
}

static int counter_add(struct fid_cntr *fid, uint64_t value)
{
	struct counter *counter = (struct counter *)fid;

	atomic_fetch_add(&counter->value, value);
	prov_source_fire(&counter->source);
	return 0;
}

/* Replaces one of a counter's numbers. The total grows by 1, so that those who
 * wait for changes see one, also if the other number changes by as much. */
static int counter_replace(struct counter *counter,
			   atomic_uint_least64_t *number, uint64_t value)
{
	uint64_t old = atomic_exchange(number, value);

	if (old != value)
		atomic_fetch_add(&counter->offset, old - value + 1);
	prov_source_fire(&counter->source);
	return 0;
}

static int counter_set(struct fid_cntr *fid, uint64_t value)
{
	struct counter *counter = (struct counter *)fid;

	return counter_replace(counter, &counter->value, value);
}

static int counter_adderr(struct fid_cntr *fid, uint64_t value)
{
	struct counter *counter = (struct counter *)fid;

	atomic_fetch_add(&counter->errors, value);
	prov_source_fire(&counter->source);
	return 0;
}

static int counter_seterr(struct fid_cntr *fid, uint64_t value)
{
	struct counter *counter = (struct counter *)fid;

	return counter_replace(counter, &counter->errors, value);
}

/* 0: reached; -FI_EAVAIL: an error came meanwhile; 1: neither. */
static int counter_state(struct counter *counter, uint64_t threshold,
			 uint64_t errors)
{
	int error = prov_source_progress(&counter->source, false);

	if (error)
		return error;
	if (atomic_load(&counter->value) >= threshold)
		return 0;
	return atomic_load(&counter->errors) != errors ? -FI_EAVAIL : 1;
}

static int counter_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct counter *counter = (struct counter *)fid;
	uint64_t errors = atomic_load(&counter->errors);
	int64_t deadline = prov_deadline(timeout);
	int result;

	for (;;) {
		prov_source_arm(&counter->source);
		result = counter_state(counter, threshold, errors);
		if (result <= 0)
			return result;
		result = prov_source_sleep(&counter->source, deadline);
		if (result)
			return result == -FI_EAGAIN ? -FI_ETIMEDOUT : result;
	}
}

bool prov_counter_try_sleep(struct counter *counter)
{
	uint64_t total;

	if (!counter->source.waits)
		return false;
	prov_source_arm(&counter->source);
	return !prov_counter_total(counter, &total) &&
	       atomic_exchange(&counter->seen, total) == total;
}

static int counter_control(struct fid *fid, int command, void *arg)
{
	return prov_source_control(&((struct counter *)fid)->source, command,
				   arg);
}

static int counter_close(struct fid *fid)
{
	struct counter *counter = (struct counter *)fid;

	if (atomic_load(&counter->users))
		return -FI_EBUSY;
	prov_domain_unwatch(counter->domain, counter);
	atomic_fetch_sub(&counter->domain->users, 1);
	prov_source_free(&counter->source);
	free(counter);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = counter_close,
	.bind = prov_bind_refused,
	.control = counter_control,
	.ops_open = PROV_REFUSED,
};

static struct fi_ops_cntr ops = {
	.size = sizeof(ops),
	.read = counter_read,
	.readerr = counter_readerr,
	.add = counter_add,
	.set = counter_set,
	.wait = counter_wait,
	.adderr = counter_adderr,
	.seterr = counter_seterr,
};

static int counter_alloc(struct counter **out, struct domain *domain,
			 const struct fi_cntr_attr *attr)
{
	struct counter *counter = calloc(1, sizeof(*counter));
	int error;

	if (!counter)
		return -FI_ENOMEM;
	error = prov_source_init(&counter->source, domain,
				 attr ? attr->wait_obj : FI_WAIT_UNSPEC);
	if (error) {
		free(counter);
		return error;
	}
	*out = counter;
	if (!attr || attr->wait_obj != FI_WAIT_SET)
		return 0;
	counter->fid.fid.fclass = FI_CLASS_CNTR;
	counter->domain = domain;
	error = prov_source_enlist(&counter->source, attr->wait_set,
				   &counter->fid.fid);
	if (error) {
		prov_source_free(&counter->source);
		free(counter);
	}
	return error;
}

int prov_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
		      struct fid_cntr **out, void *context)
{
	struct counter *counter;
	int error;

	if (attr && attr->events != FI_CNTR_EVENTS_COMP)
		return -FI_ENOSYS;
	error = counter_alloc(&counter, (struct domain *)domain, attr);
	if (error)
		return error;
	counter->domain = (struct domain *)domain;
	atomic_fetch_add(&counter->domain->users, 1);
	counter->fid.fid.fclass = FI_CLASS_CNTR;
	counter->fid.fid.context = context;
	counter->fid.fid.ops = &fid_ops;
	counter->fid.ops = &ops;
	*out = &counter->fid;
	return 0;
}
