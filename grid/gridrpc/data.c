// SPDX-License-Identifier: MIT
/*
 * Data management (GFD-R-P.186): handles to data that the hub stores. Owns all
 * data of the program and the list of its handles; `lock` guards both lists and
 * the counts in them. Each data is used by one thread at a time. They go with
 * the session.
 */
#include "data.h"

#include <grid/lib/memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No array begins with one of these by chance. */
#define DATA_MARK 0x9e37b1d4c2f86a51ul
#define FREED_MARK 0xd1a94c7be0653f8dul

const struct gridrpc_type gridrpc_types[] = {
	[GRPC_BOOL] = {"GRPC_BOOL", SKEP_CHAR, 1},
	[GRPC_INT] = {"GRPC_INT", SKEP_INT, 4},
	[GRPC_DOUBLE] = {"GRPC_DOUBLE", SKEP_DOUBLE, 8},
	[GRPC_COMPLEX] = {"GRPC_COMPLEX", SKEP_DCOMPLEX, 16},
	[GRPC_STRING] = {"GRPC_STRING", SKEP_CHAR, 1},
	[GRPC_FILE] = {"GRPC_FILE", 0, 1},
	[GRPC_CONTAINER_OF_GRPC_DATA] = {"GRPC_CONTAINER_OF_GRPC_DATA", 0, 0},
};
const char *const gridrpc_mode_names[GRIDRPC_MODES] = {
	[GRPC_VOLATILE] = "GRPC_VOLATILE",
	[GRPC_STRICTLY_VOLATILE] = "GRPC_STRICTLY_VOLATILE",
	[GRPC_STICKY] = "GRPC_STICKY",
	[GRPC_UNIQUE_STICKY] = "GRPC_UNIQUE_STICKY",
	[GRPC_PERSISTENT] = "GRPC_PERSISTENT",
};

/* One of the program's variables, and the data that it stands for. */
struct handle {
	const grpc_data_t *home;
	struct gridrpc_data *data;
	struct handle *next;
};

static struct gridrpc_data *all;
static struct handle *handles;
static u64 serial;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int gridrpc_data_volatile(const struct gridrpc_data *d)
{
	return d->mode == GRPC_VOLATILE || d->mode == GRPC_STRICTLY_VOLATILE;
}

/* Handles ------------------------------------------------------------------ */

struct gridrpc_data *gridrpc_data_find(const grpc_data_t *handle)
{
	struct gridrpc_data *d = NULL;

	if (handle && handle->mark == DATA_MARK) {
		pthread_mutex_lock(&lock);
		for (d = all; d && d != handle->data;)
			d = d->next;
		pthread_mutex_unlock(&lock);
	}
	if (!d)
		gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
				  "the data was not initialised by "
				  "grpc_data_init, or it was freed");
	return d;
}

struct gridrpc_data *gridrpc_data_numbered(u64 number)
{
	struct gridrpc_data *d;

	pthread_mutex_lock(&lock);
	for (d = all; d && d->number != number;)
		d = d->next;
	pthread_mutex_unlock(&lock);
	return d;
}

/* The address may be that of any array, however short, or of nothing. Copies
 * of a handle stand for the data too. */
int gridrpc_data_at(const void *at, struct gridrpc_data **d)
{
	grpc_data_t handle;

	*d = NULL;
	if (grid_memory_peek(&handle, at, sizeof(handle)))
		return 0; /* sending it will say so */
	if (handle.mark != DATA_MARK && handle.mark != FREED_MARK)
		return 0;
	*d = gridrpc_data_find(&handle);
	return *d ? 0 : -1;
}

static void free_list(char **list)
{
	u32 i;

	for (i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

static void free_data(struct gridrpc_data *d)
{
	free_list(d->input);
	free_list(d->output);
	free(d->loaded);
	free(d->part);
	free(d->view);
	free(d);
}

struct gridrpc_data *gridrpc_data_new(void)
{
	struct gridrpc_data *d = calloc(1, sizeof(*d));

	if (!d) {
		gridrpc_error_memory();
		return NULL;
	}
	d->holders = 1;
	pthread_mutex_lock(&lock);
	d->number = ++serial;
	d->next = all;
	all = d;
	grid_data_resolve = gridrpc_data_resolve;
	pthread_mutex_unlock(&lock);
	return d;
}

void gridrpc_data_hold(struct gridrpc_data *d)
{
	pthread_mutex_lock(&lock);
	d->holders++;
	pthread_mutex_unlock(&lock);
}

void gridrpc_data_release(struct grid_client *c, struct gridrpc_data *d)
{
	struct gridrpc_data **link;
	u32 i, left;

	pthread_mutex_lock(&lock);
	left = --d->holders;
	for (link = &all; !left && *link != d;)
		link = &(*link)->next;
	if (!left)
		*link = d->next;
	pthread_mutex_unlock(&lock);
	if (left)
		return;
	for (i = 0; i < d->parts; i++)
		gridrpc_data_release(c, d->part[i].data);
	if (c)
		grid_data_drop(c, &d->datum);
	free_data(d);
}

grpc_error_t gridrpc_data_bind(grpc_data_t *home, struct gridrpc_data *d)
{
	struct handle *h = malloc(sizeof(*h));

	if (!h)
		return gridrpc_error_memory();
	gridrpc_data_hold(d);
	*home = (grpc_data_t){DATA_MARK, d};
	pthread_mutex_lock(&lock);
	*h = (struct handle){home, d, handles};
	handles = h;
	pthread_mutex_unlock(&lock);
	return GRPC_NO_ERROR;
}

/* Of a copy of a handle, whose home is elsewhere, any handle of the data goes.
 */
static void remove_handle(grpc_data_t *home, struct gridrpc_data *d)
{
	struct handle **link, **at = NULL, *h;

	pthread_mutex_lock(&lock);
	for (link = &handles; (h = *link); link = &h->next) {
		if (h->data != d)
			continue;
		at = link;
		if (h->home == home)
			break;
	}
	h = at ? *at : NULL;
	if (h)
		*at = h->next;
	pthread_mutex_unlock(&lock);
	free(h);
	home->mark = FREED_MARK;
}

grpc_error_t gridrpc_data_copy_uris(char ***to, const char **from)
{
	enum gridrpc_place place;
	grpc_error_t error = GRPC_NO_ERROR;
	const char *name;
	u32 n = 0, i;

	while (from && from[n])
		n++;
	*to = calloc(n + 1, sizeof(**to));
	for (i = 0; *to && i < n && !error; i++) {
		error = gridrpc_uri_parse(from[i], &place, &name);
		if (error)
			break;
		(*to)[i] = strdup(from[i]);
		if (!(*to)[i])
			break;
	}
	if (*to && i == n)
		return GRPC_NO_ERROR;
	free_list(*to);
	*to = NULL;
	return error ? error : gridrpc_error_memory();
}

static grpc_error_t set_mode(struct gridrpc_data *d,
			     const grpc_data_mode_t *modes)
{
	u32 i;

	if (!modes || modes[0] == GRPC_END_LIST)
		return GRPC_NO_ERROR;
	for (i = 0; modes[i] != GRPC_END_LIST; i++) {
		if (modes[i] >= GRIDRPC_MODES)
			return gridrpc_error_set(
				GRPC_OTHER_ERROR_CODE,
				"%d is not a mode of data: lists of modes end "
				"with GRPC_END_LIST",
				(int)modes[i]);
		if (modes[i] != modes[0])
			return gridrpc_data_refuse(
				"data has one mode for all its outputs: give "
				"%s or %s once",
				gridrpc_mode_names[modes[0]],
				gridrpc_mode_names[modes[i]]);
	}
	d->mode = modes[0];
	d->datum.one_node = d->mode == GRPC_UNIQUE_STICKY;
	return GRPC_NO_ERROR;
}

static grpc_error_t set_size(struct gridrpc_data *d, const size_t *dimensions)
{
	u64 bytes = gridrpc_types[d->type].bytes;
	u32 i;

	for (i = 0; dimensions && dimensions[i]; i++) {
		if (__builtin_mul_overflow(bytes, dimensions[i], &bytes))
			return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
						 "the data is too large");
	}
	d->bytes = i ? bytes : 0;
	return GRPC_NO_ERROR;
}

/* Parts of a container are described by themselves. */
static grpc_error_t fill_container(struct gridrpc_data *d, const char **input,
				   const char **output,
				   const size_t *dimensions,
				   const grpc_data_mode_t *modes)
{
	if ((input && input[0]) || (output && output[0]))
		return gridrpc_data_refuse("a container has no inputs and "
					   "outputs: give them to its parts");
	if (modes && modes[0] != GRPC_END_LIST && modes[0] != GRPC_VOLATILE)
		return gridrpc_data_refuse("a container has no mode: give one "
					   "to each of its parts");
	if (dimensions && dimensions[0] && dimensions[1])
		return gridrpc_data_refuse(
			"a container has one dimension, the number of parts "
			"for which it has room");
	if (dimensions && dimensions[0] > GRIDRPC_PARTS)
		return gridrpc_data_refuse("a container has at most %d parts",
					   GRIDRPC_PARTS);
	d->room = dimensions && dimensions[0] ? (u32)dimensions[0]
					      : GRIDRPC_PARTS;
	return GRPC_NO_ERROR;
}

static grpc_error_t fill_data(struct gridrpc_data *d, const char **input,
			      const char **output, const size_t *dimensions,
			      const grpc_data_mode_t *modes)
{
	grpc_error_t error;

	if (d->type == GRPC_CONTAINER_OF_GRPC_DATA)
		return fill_container(d, input, output, dimensions, modes);
	error = set_size(d, dimensions);
	if (!error)
		error = set_mode(d, modes);
	if (!error)
		error = gridrpc_data_copy_uris(&d->input, input);
	return error ? error : gridrpc_data_copy_uris(&d->output, output);
}

grpc_error_t grpc_data_init(grpc_data_t *data, const char **input_uris,
			    const char **output_uris, grpc_data_type_t type,
			    const size_t *dimensions,
			    const grpc_data_mode_t *modes)
{
	grpc_error_t error;
	struct gridrpc_data *d;

	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	if (!data)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "the data is NULL");
	if (type > GRPC_CONTAINER_OF_GRPC_DATA)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "%d is not a type of data", (int)type);
	d = gridrpc_data_new();
	if (!d)
		return GRPC_OTHER_ERROR_CODE;
	d->type = type;
	error = fill_data(d, input_uris, output_uris, dimensions, modes);
	if (!error)
		error = gridrpc_data_bind(data, d);
	gridrpc_data_release(NULL, d);
	return error;
}

void gridrpc_data_clear(void)
{
	struct gridrpc_data *d;
	struct handle *h;

	pthread_mutex_lock(&lock);
	while ((h = handles)) {
		handles = h->next;
		free(h);
	}
	while ((d = all)) {
		all = d->next;
		free_data(d);
	}
	pthread_mutex_unlock(&lock);
}

grpc_error_t gridrpc_data_check_idle(const struct gridrpc_data *d)
{
	grpc_error_t error = GRPC_NO_ERROR;
	u32 i;

	for (i = 0; i < d->parts && !error; i++)
		error = gridrpc_data_check_idle(d->part[i].data);
	if (error || !grid_data_busy(&d->datum))
		return error;
	return gridrpc_error_set(
		GRPC_NOT_COMPLETED,
		"a call that writes to the data has not ended: "
		"call grpc_data_wait first");
}

/* Data with a result of this thread's calls that did not go to the outputs yet.
 * Other threads may be using theirs. */
static struct gridrpc_data *find_undelivered(void)
{
	struct gridrpc_data *d;

	pthread_mutex_lock(&lock);
	for (d = all; d; d = d->next) {
		if (pthread_equal(d->writer, pthread_self()) &&
		    !grid_data_busy(&d->datum) &&
		    d->delivered != d->datum.version)
			break;
	}
	pthread_mutex_unlock(&lock);
	return d;
}

grpc_error_t gridrpc_data_deliver(struct grid_client *c)
{
	grpc_error_t one, error = GRPC_NO_ERROR;
	struct gridrpc_data *d;

	while ((d = find_undelivered())) {
		one = gridrpc_data_deliver_one(c, d);
		error = error ? error : one;
	}
	return error;
}

/* Functions of the standard ------------------------------------------------ */

grpc_error_t grpc_data_transfer(grpc_data_t *data, const char **input_uris,
				const char **output_uris,
				const grpc_data_mode_t *modes)
{
	struct grid_client *c = gridrpc_client();
	char **input = NULL, **output = NULL;
	struct gridrpc_data *d;
	grpc_error_t error;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	d = gridrpc_data_find(data);
	if (!d)
		return GRPC_OTHER_ERROR_CODE;
	if (d->type == GRPC_CONTAINER_OF_GRPC_DATA)
		return gridrpc_data_refuse("a container is not moved: give "
					   "grpc_data_transfer each of its "
					   "parts");
	error = gridrpc_data_check_idle(d);
	if (!error)
		error = gridrpc_data_copy_uris(&input, input_uris);
	if (!error)
		error = gridrpc_data_copy_uris(&output, output_uris);
	if (!error)
		error = set_mode(d, modes);
	if (!error && input[0]) {
		grid_data_drop(c, &d->datum);
		free_list(d->input);
		d->input = input;
		input = NULL;
	}
	if (!error && !gridrpc_data_volatile(d))
		error = gridrpc_data_keep(c, d);
	if (!error)
		error = gridrpc_data_write(c, d,
					   output_uris ? output : d->output);
	free_list(input);
	free_list(output);
	return error;
}

/* Adds the data that calls can write to: of a container its parts. */
static grpc_error_t add_written(struct gridrpc_data *d,
				struct gridrpc_data ***list, u32 *n)
{
	grpc_error_t error = GRPC_NO_ERROR;
	struct gridrpc_data **more;
	u32 i;

	for (i = 0; i < d->parts && !error; i++)
		error = add_written(d->part[i].data, list, n);
	if (error || d->type == GRPC_CONTAINER_OF_GRPC_DATA)
		return error;
	more = realloc(*list, (*n + 1ul) * sizeof(**list));
	if (!more)
		return gridrpc_error_memory();
	*list = more;
	more[(*n)++] = d;
	return GRPC_NO_ERROR;
}

static grpc_error_t list_written(const grpc_data_t **list,
				 grpc_completion_mode_t mode,
				 struct gridrpc_data ***written, u32 *n)
{
	grpc_error_t error = GRPC_NO_ERROR;
	struct gridrpc_data *d;
	u32 i;

	for (i = 0; list && list[i] && !error; i++) {
		d = gridrpc_data_find(list[i]);
		if (!d)
			return GRPC_OTHER_ERROR_CODE;
		if (mode == GRPC_WAIT_ANY &&
		    d->type == GRPC_CONTAINER_OF_GRPC_DATA)
			return gridrpc_data_refuse(
				"GRPC_WAIT_ANY does not wait for containers: "
				"give grpc_data_wait their parts");
		error = add_written(d, written, n);
	}
	return error;
}

grpc_error_t grpc_data_wait(const grpc_data_t **list,
			    grpc_completion_mode_t mode, grpc_data_t **returned)
{
	struct grid_client *c = gridrpc_client();
	struct gridrpc_data **data = NULL;
	struct grid_datum **datum; /* the first member of data */
	grpc_error_t error;
	u32 n = 0, i;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	error = list_written(list, mode, &data, &n);
	datum = (struct grid_datum **)data;
	for (i = 0; i < n && !error; i++)
		error = gridrpc_error_of(grid_data_refuse_wait(datum[i]));
	for (i = 0; i < n && !error && mode == GRPC_WAIT_ALL; i++)
		grid_data_wait_any(c, &datum[i], 1);
	i = error ? n : grid_data_wait_any(c, datum, n);
	if (!error && list && list[0] && returned)
		*returned = (grpc_data_t *)list[i < n && mode ? i : 0];
	for (i = 0; i < n && !error; i++)
		error = gridrpc_data_deliver_one(c, data[i]);
	free(data);
	return error;
}

/* 0, with the handle's data, if no call writes to it. */
static grpc_error_t open_idle(grpc_data_t *data, struct gridrpc_data **d)
{
	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	*d = gridrpc_data_find(data);
	return *d ? gridrpc_data_check_idle(*d) : GRPC_OTHER_ERROR_CODE;
}

grpc_error_t grpc_data_unbind(grpc_data_t *data)
{
	struct gridrpc_data *d;
	grpc_error_t error = open_idle(data, &d);

	if (error)
		return error;
	remove_handle(data, d);
	gridrpc_data_release(NULL, d);
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_data_free(grpc_data_t *data, const char **uris)
{
	enum gridrpc_place place;
	struct gridrpc_data *d;
	grpc_error_t error = open_idle(data, &d);
	const char *name;
	u32 i;

	for (i = 0; !error && uris && uris[i]; i++) {
		error = gridrpc_uri_parse(uris[i], &place, &name);
		if (!error && place != GRIDRPC_HUB)
			error = gridrpc_data_refuse(
				"%s is not freed: memory and files are the "
				"program's; give grpc_data_free NULL or "
				"skep://hub",
				uris[i]);
	}
	if (error)
		return error;
	remove_handle(data, d);
	gridrpc_data_release(gridrpc_client(), d);
	return GRPC_NO_ERROR;
}

/* Information -------------------------------------------------------------- */

static char *join_uris(char *const *uris)
{
	size_t len = 1;
	char *text;
	u32 i;

	for (i = 0; uris && uris[i]; i++)
		len += strlen(uris[i]) + 1;
	text = calloc(1, len);
	for (i = 0; text && uris && uris[i]; i++) {
		strcat(text, uris[i]);
		strcat(text, "\n");
	}
	return text;
}

static char *digest_text(const struct grid_datum *datum)
{
	char *text = calloc(1, 2 * sizeof(datum->digest) + 1);
	u32 i;

	for (i = 0; text && datum->kept && i < sizeof(datum->digest); i++)
		sprintf(text + 2 * i, "%02x", datum->digest[i]);
	return text;
}

grpc_error_t grpc_data_getinfo(const grpc_data_t *data,
			       grpc_data_info_type_t what, const char *uri,
			       char **info)
{
	struct gridrpc_data *d;
	char number[24];

	(void)uri;
	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	d = gridrpc_data_find(data);
	if (!d || !info)
		return GRPC_OTHER_ERROR_CODE;
	snprintf(number, sizeof(number), "%llu",
		 (unsigned long long)(what == GRPC_DATA_PARTS_NP
					      ? d->parts
					      : gridrpc_data_bytes(d)));
	*info = what == GRPC_DATA_TYPE_NP ? strdup(gridrpc_types[d->type].name)
		: what == GRPC_DATA_MODE_NP
			? strdup(gridrpc_mode_names[d->mode])
		: what == GRPC_DATA_BYTES_NP  ? strdup(number)
		: what == GRPC_DATA_PARTS_NP  ? strdup(number)
		: what == GRPC_DATA_DIGEST_NP ? digest_text(&d->datum)
		: what == GRPC_DATA_INPUT_NP  ? join_uris(d->input)
		: what == GRPC_DATA_OUTPUT_NP ? join_uris(d->output)
					      : NULL;
	return *info ? GRPC_NO_ERROR
		     : gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "there is no such information, or no "
					 "memory for it");
}
