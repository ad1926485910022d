// SPDX-License-Identifier: MIT
/*
 * Data of Python programs that stays in the grid. Owns a list of all of it,
 * which `lock` guards; calls are given its address in place of an array's.
 */
#include "python.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct skep_python_data {
	struct grid_datum datum;
	struct skep_python_data *next, **link;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct skep_python_data *first;

static struct skep_python_data *find_data(const void *at)
{
	struct skep_python_data *d;

	pthread_mutex_lock(&lock);
	for (d = first; d && d != at; d = d->next)
		;
	pthread_mutex_unlock(&lock);
	return d;
}

int python_data_is(const void *at)
{
	return find_data(at) != NULL;
}

static int resolve_data(struct grid_client *c, const struct skep_param *p,
			struct grid_value *v)
{
	struct skep_python_data *d = find_data(v->at);

	(void)c;
	if (!d)
		return 0;
	if (grid_data_busy(&d->datum))
		return grid_error_set(OMRPC_E_REFUSED,
				      "argument %s: a call whose result the "
				      "data is has not ended",
				      p->name);
	if (p->mode & SKEP_IN && !d->datum.kept)
		return grid_error_set(OMRPC_E_ARGUMENTS,
				      "argument %s: the data has no bytes yet, "
				      "or it was closed",
				      p->name);
	v->data = &d->datum;
	return 0;
}

struct skep_python_data *skep_python_data_new(struct grid_client *c,
					      const void *bytes, u64 length)
{
	struct skep_python_data *d = calloc(1, sizeof(*d));

	if (!d) {
		grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
		return NULL;
	}
	d->datum.length = length;
	if (bytes && grid_data_keep(c, &d->datum, bytes)) {
		free(d);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	grid_data_resolve = resolve_data;
	d->next = first;
	d->link = &first;
	if (first)
		first->link = &d->next;
	first = d;
	pthread_mutex_unlock(&lock);
	return d;
}

s32 skep_python_data_read(struct grid_client *c, struct skep_python_data *d,
			  void *to)
{
	return grid_data_read(c, &d->datum, to);
}

s32 skep_python_data_about(const struct skep_python_data *d, u64 *length,
			   u8 digest[32])
{
	if (grid_data_busy(&d->datum))
		return grid_error_set(OMRPC_E_REFUSED,
				      "a call whose result the data is has not "
				      "ended");
	if (!d->datum.kept)
		return grid_error_set(OMRPC_E_ARGUMENTS,
				      "the data has no bytes yet, or it was "
				      "closed");
	*length = d->datum.length;
	memcpy(digest, d->datum.digest, sizeof(d->datum.digest));
	return OMRPC_OK;
}

s32 skep_python_data_drop(struct grid_client *c, struct skep_python_data *d)
{
	if (grid_data_busy(&d->datum))
		return grid_error_set(OMRPC_E_REFUSED,
				      "a call whose result the data is has not "
				      "ended");
	return grid_data_drop(c, &d->datum);
}

void skep_python_data_free(struct skep_python_data *d)
{
	pthread_mutex_lock(&lock);
	*d->link = d->next;
	if (d->next)
		d->next->link = d->link;
	pthread_mutex_unlock(&lock);
	free(d);
}
