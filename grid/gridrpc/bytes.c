// SPDX-License-Identifier: MIT
/*
 * The bytes of data: from its inputs to the hub or to a call, and from there to
 * its outputs. Owns nothing.
 */
#include "data.h"

#include <stdlib.h>
#include <string.h>

grpc_error_t gridrpc_data_load(struct gridrpc_data *d, void **at, u64 *len)
{
	enum gridrpc_place place = GRIDRPC_HUB;
	grpc_error_t error = gridrpc_error_set(
		GRPC_OTHER_ERROR_CODE,
		"the data has no input: give grpc_data_init one, or let a call "
		"write it");
	const char *name;
	u32 i;

	free(d->loaded);
	d->loaded = NULL;
	for (i = 0; d->input && d->input[i] && error; i++) {
		gridrpc_uri_parse(d->input[i], &place, &name);
		*len = d->bytes;
		if (place == GRIDRPC_MEMORY)
			error = grpc_data_memory_mapping_get(name, at);
		if (place == GRIDRPC_FILE) {
			error = gridrpc_file_read(name, &d->loaded, len);
			*at = d->loaded;
			if (!error && !*len)
				error = gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
							  "%s is empty", name);
		}
	}
	if (error)
		return error;
	if (place == GRIDRPC_MEMORY && !d->bytes)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "the size of data in memory is not "
					 "known without dimensions");
	if (d->bytes && *len != d->bytes)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "the file has %llu bytes and its "
					 "dimensions say %llu",
					 (unsigned long long)*len,
					 (unsigned long long)d->bytes);
	return GRPC_NO_ERROR;
}

/* Stores the data in the hub, unless it is there. */
grpc_error_t gridrpc_data_keep(struct grid_client *c, struct gridrpc_data *d)
{
	grpc_error_t error;
	void *at = NULL;
	u64 len = 0;

	if (d->datum.kept)
		return GRPC_NO_ERROR;
	error = gridrpc_data_load(d, &at, &len);
	if (error)
		return error;
	d->datum.length = len;
	return gridrpc_error_of(grid_data_keep(c, &d->datum, at));
}

/* Writes bytes, or without them what the hub stores, to an output. */
static grpc_error_t write_output(struct grid_client *c, struct gridrpc_data *d,
				 const char *uri, const void *bytes, u64 len)
{
	enum gridrpc_place place;
	grpc_error_t error;
	void *room = NULL;
	const char *name;
	void *to = NULL;

	error = gridrpc_uri_parse(uri, &place, &name);
	if (error || place == GRIDRPC_HUB)
		return error ? error : gridrpc_data_keep(c, d);
	if (place == GRIDRPC_MEMORY) {
		error = grpc_data_memory_mapping_get(name, &to);
		if (!error && d->bytes && len > d->bytes)
			error = gridrpc_error_set(
				GRPC_OTHER_ERROR_CODE,
				"%s has room for %llu bytes by the data's "
				"dimensions, and the data has %llu",
				uri, (unsigned long long)d->bytes,
				(unsigned long long)len);
		if (!error && bytes)
			memmove(to, bytes, len);
		if (error || bytes)
			return error;
		return gridrpc_error_of(grid_data_read(c, &d->datum, to));
	}
	if (!bytes) {
		bytes = room = malloc(len + 1);
		if (!room)
			return gridrpc_error_memory();
		error = gridrpc_error_of(grid_data_read(c, &d->datum, room));
	}
	if (!error)
		error = gridrpc_file_write(name, bytes, len);
	free(room);
	return error;
}

grpc_error_t gridrpc_data_write(struct grid_client *c, struct gridrpc_data *d,
				char *const *uris)
{
	grpc_error_t error = GRPC_NO_ERROR;
	void *at = NULL;
	u64 len = d->datum.length;
	u32 i;

	if (!d->datum.kept)
		error = gridrpc_data_load(d, &at, &len);
	for (i = 0; uris && uris[i] && !error; i++)
		error = write_output(c, d, uris[i], d->datum.kept ? NULL : at,
				     len);
	return error;
}

grpc_error_t gridrpc_data_deliver_one(struct grid_client *c,
				      struct gridrpc_data *d)
{
	grpc_error_t error;

	if (grid_data_busy(&d->datum) || d->delivered == d->datum.version)
		return GRPC_NO_ERROR;
	d->delivered = d->datum.version;
	error = gridrpc_data_write(c, d, d->output);
	if (!error && gridrpc_data_volatile(d))
		error = gridrpc_error_of(grid_data_drop(c, &d->datum));
	return error;
}

/* Calls -------------------------------------------------------------------- */

int gridrpc_data_check_type(const struct gridrpc_data *d,
			    const struct skep_param *p)
{
	if (!gridrpc_types[d->type].type ||
	    (p->type & ~SKEP_TYPE_UNSIGNED) == gridrpc_types[d->type].type)
		return OMRPC_OK;
	return grid_error_set(OMRPC_E_ARGUMENTS,
			      "argument %s is of another type than its data, "
			      "which is %s",
			      p->name, gridrpc_types[d->type].name);
}

/* The memory into which a call can write as it would without a handle, or NULL:
 * then the result goes through the hub. */
static void *plain_memory(struct gridrpc_data *d, u8 mode, u64 *len)
{
	char **uris = d->output;
	enum gridrpc_place place;
	const char *name;
	void *at = NULL;

	if (!uris[0] || uris[1] ||
	    (mode == SKEP_INOUT &&
	     (!d->input[0] || strcmp(d->input[0], d->output[0]))) ||
	    gridrpc_uri_parse(uris[0], &place, &name) ||
	    place != GRIDRPC_MEMORY)
		return NULL;
	*len = d->bytes;
	return grpc_data_memory_mapping_get(name, &at) ? NULL : at;
}

int gridrpc_data_resolve(struct grid_client *c, const struct skep_param *p,
			 struct grid_value *v)
{
	struct gridrpc_data *d;
	void *at = NULL;
	u64 len = 0;
	int code;

	if (gridrpc_data_at(v->at, &d))
		return grid_error_set(OMRPC_E_ARGUMENTS,
				      "argument %s: its data was freed, or is "
				      "of a session that was finalized",
				      p->name);
	if (!d)
		return OMRPC_OK;
	if (d->type != GRPC_CONTAINER_OF_GRPC_DATA) {
		code = gridrpc_data_check_type(d, p);
		if (code)
			return code;
	}
	if (gridrpc_data_check_idle(d))
		return grid_error_set(OMRPC_E_REFUSED,
				      "argument %s: a call that writes to its "
				      "data has not ended: call grpc_data_wait "
				      "first",
				      p->name);
	if (d->type == GRPC_CONTAINER_OF_GRPC_DATA)
		return gridrpc_container_resolve(c, d, p, v);
	if (gridrpc_data_volatile(d) && p->mode == SKEP_IN) {
		if (gridrpc_data_load(d, &at, &len))
			return grid_error_code();
		/* Another argument of the call may be the same data. */
		v->own = d->loaded;
		d->loaded = NULL;
	} else if (gridrpc_data_volatile(d)) {
		at = plain_memory(d, p->mode, &len);
	}
	if (at) {
		v->at = at;
		v->room = len;
		return OMRPC_OK;
	}
	if (p->mode & SKEP_IN && gridrpc_data_keep(c, d))
		return grid_error_code();
	d->writer = pthread_self();
	v->data = &d->datum;
	return OMRPC_OK;
}
