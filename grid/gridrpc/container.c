// SPDX-License-Identifier: MIT
/*
 * Containers of data: each holds its parts, which may be containers too. None
 * is a part of itself.
 */
#include "data.h"

#include <stdlib.h>
#include <string.h>

u64 gridrpc_data_bytes(const struct gridrpc_data *d)
{
	u64 bytes = d->datum.kept ? d->datum.length : d->bytes;
	u32 i;

	for (i = 0; i < d->parts; i++)
		bytes += gridrpc_data_bytes(d->part[i].data);
	return bytes;
}

/* Whether `d` is `other`, or has it as a part. */
static int data_contains(const struct gridrpc_data *d,
			 const struct gridrpc_data *other)
{
	u32 i;

	if (d == other)
		return 1;
	for (i = 0; i < d->parts; i++) {
		if (data_contains(d->part[i].data, other))
			return 1;
	}
	return 0;
}

static u32 data_depth(const struct gridrpc_data *d)
{
	u32 i, depth, most = 0;

	if (d->type != GRPC_CONTAINER_OF_GRPC_DATA)
		return 0;
	for (i = 0; i < d->parts; i++) {
		depth = data_depth(d->part[i].data);
		most = depth > most ? depth : most;
	}
	return most + 1;
}

/* Index of the part with this rank or, if there is none, of the next one. */
static u32 find_place(const struct gridrpc_data *d, u32 rank)
{
	u32 i = 0;

	while (i < d->parts && d->part[i].rank < rank)
		i++;
	return i;
}

grpc_error_t gridrpc_container_put(struct gridrpc_data *d, u32 rank,
				   struct gridrpc_data *part)
{
	u32 i = find_place(d, rank);
	struct gridrpc_data *old = NULL;
	struct gridrpc_part *more;

	if (i < d->parts && d->part[i].rank == rank) {
		old = d->part[i].data;
	} else {
		more = realloc(d->part, (d->parts + 1ul) * sizeof(*more));
		if (!more)
			return gridrpc_error_memory();
		d->part = more;
		memmove(&more[i + 1], &more[i], (d->parts - i) * sizeof(*more));
		d->parts++;
	}
	gridrpc_data_hold(part);
	free(d->view);
	d->view = NULL;
	d->part[i] = (struct gridrpc_part){rank, part};
	if (old)
		gridrpc_data_release(gridrpc_client(), old);
	return GRPC_NO_ERROR;
}

/* NULL with the error set. */
static struct gridrpc_data *find_container(const grpc_data_t *handle)
{
	struct gridrpc_data *d = gridrpc_data_find(handle);

	if (!d || d->type == GRPC_CONTAINER_OF_GRPC_DATA)
		return d;
	gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
			  "the data has the type %s and is not a container: "
			  "give grpc_data_init GRPC_CONTAINER_OF_GRPC_DATA",
			  gridrpc_types[d->type].name);
	return NULL;
}

static grpc_error_t check_rank(const struct gridrpc_data *d, int rank)
{
	if (rank >= 0 && (u32)rank < d->room)
		return GRPC_NO_ERROR;
	return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
				 "the container has the ranks 0 to %u, and not "
				 "%d",
				 d->room - 1, rank);
}

grpc_error_t grpc_data_container_set(grpc_data_t *container, int rank,
				     const grpc_data_t *data)
{
	struct gridrpc_data *d, *part;
	grpc_error_t error;
	u32 i;

	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	d = find_container(container);
	part = d ? gridrpc_data_find(data) : NULL;
	if (!part)
		return GRPC_OTHER_ERROR_CODE;
	error = check_rank(d, rank);
	if (error)
		return error;
	if (data_contains(part, d))
		return gridrpc_data_refuse("a container cannot be a part of "
					   "itself");
	if (data_depth(part) >= GRIDRPC_DEPTH)
		return gridrpc_data_refuse("containers are nested at most %d "
					   "deep",
					   GRIDRPC_DEPTH);
	i = find_place(d, (u32)rank);
	if (i < d->parts && d->part[i].rank == (u32)rank)
		error = gridrpc_data_check_idle(d->part[i].data);
	return error ? error : gridrpc_container_put(d, (u32)rank, part);
}

grpc_error_t grpc_data_container_get(const grpc_data_t *container, int rank,
				     grpc_data_t *data)
{
	struct gridrpc_data *d;
	grpc_error_t error;
	u32 i;

	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	d = find_container(container);
	if (!d)
		return GRPC_OTHER_ERROR_CODE;
	error = check_rank(d, rank);
	if (error)
		return error;
	i = find_place(d, (u32)rank);
	if (i == d->parts || d->part[i].rank != (u32)rank)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "the container has no part of rank "
					 "%d: it has %u parts",
					 rank, d->parts);
	if (!data)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "there is no place for the handle");
	return gridrpc_data_bind(data, d->part[i].data);
}

/* Arguments ---------------------------------------------------------------- */

static int refuse_part(const struct skep_param *p, u32 rank, const char *why)
{
	return grid_error_set(OMRPC_E_REFUSED,
			      "argument %s: part %u of its container %s",
			      p->name, rank, why);
}

/* A part of a result: which bytes of that are its own must be known. */
static int check_result(struct gridrpc_data *d, const struct skep_param *p,
			u32 i)
{
	struct gridrpc_data *part = d->part[i].data;
	u32 k;

	for (k = 0; k < i; k++) {
		if (d->part[k].data == part)
			return refuse_part(p, d->part[i].rank,
					   "is there twice, and can have only "
					   "one result: set other data there");
	}
	part->datum.size =
		part->datum.kept && (p->mode & SKEP_IN || !part->bytes)
			? part->datum.length
			: part->bytes;
	if (!part->datum.size)
		return refuse_part(p, d->part[i].rank,
				   "has no size yet: give grpc_data_init its "
				   "dimensions");
	return OMRPC_OK;
}

static int check_part(struct gridrpc_data *d, const struct skep_param *p, u32 i)
{
	const struct gridrpc_data *part = d->part[i].data;

	if (part->type == GRPC_CONTAINER_OF_GRPC_DATA)
		return refuse_part(p, d->part[i].rank,
				   "is a container: give the call that one");
	if (p->mode == SKEP_IN &&
	    gridrpc_data_volatile(part) !=
		    gridrpc_data_volatile(d->part[0].data))
		return grid_error_set(
			OMRPC_E_REFUSED,
			"argument %s: some parts of its container are volatile "
			"and others are not: give all of them GRPC_STICKY",
			p->name);
	return gridrpc_data_check_type(part, p);
}

static int check_parts(struct gridrpc_data *d, const struct skep_param *p)
{
	u32 i;
	int code = OMRPC_OK;

	if (!d->parts)
		return grid_error_set(OMRPC_E_REFUSED,
				      "argument %s: its container has no parts",
				      p->name);
	for (i = 0; i < d->parts && !code; i++)
		code = check_part(d, p, i);
	return code;
}

/* Volatile parts are sent with the call, as one array. */
static int join_parts(struct gridrpc_data *d, struct grid_value *v)
{
	u64 len, all = 0;
	u8 *more;
	void *at;
	u32 i;

	for (i = 0; i < d->parts; i++) {
		if (gridrpc_data_load(d->part[i].data, &at, &len))
			return grid_error_code();
		more = len > ~all ? NULL : realloc(v->own, all + len);
		if (!more)
			return grid_error_set(OMRPC_E_NO_MEMORY,
					      "out of memory");
		v->own = more;
		memcpy(more + all, at, len);
		all += len;
	}
	v->at = v->own;
	v->room = all;
	return OMRPC_OK;
}

/* What a call that is started is given. A result needs it until the call has
 * ended, and the container may get other parts meanwhile. */
static struct grid_datum **list_parts(struct gridrpc_data *d,
				      struct grid_value *v, u8 mode)
{
	size_t size = d->parts * sizeof(struct grid_datum *);

	if (mode & SKEP_OUT) {
		v->own = malloc(size);
		return v->own;
	}
	/* Another argument of the call may have it already. */
	if (!d->view)
		d->view = malloc(size);
	return d->view;
}

int gridrpc_container_resolve(struct grid_client *c, struct gridrpc_data *d,
			      const struct skep_param *p, struct grid_value *v)
{
	struct grid_datum **list;
	u32 i;
	int code = check_parts(d, p);

	if (code)
		return code;
	if (gridrpc_data_volatile(d->part[0].data) && p->mode == SKEP_IN)
		return join_parts(d, v);
	list = list_parts(d, v, p->mode);
	if (!list)
		return grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
	for (i = 0; i < d->parts; i++) {
		if (p->mode & SKEP_IN && gridrpc_data_keep(c, d->part[i].data))
			return grid_error_code();
		if (p->mode & SKEP_OUT && check_result(d, p, i))
			return grid_error_code();
		if (p->mode & SKEP_OUT)
			d->part[i].data->writer = pthread_self();
		list[i] = &d->part[i].data->datum;
	}
	v->part = list;
	v->parts = d->parts;
	return OMRPC_OK;
}
