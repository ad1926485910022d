// SPDX-License-Identifier: MIT
/*
 * Strings and files of a call on the master's side. Files are read when the
 * call is made, and written when its complete result was received. Owns
 * nothing.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART 0x10000

static void *plain_alloc(struct grid_memory *memory, u64 len)
{
	(void)memory;
	return calloc(1, len);
}

/* A received string belongs to the program. */
static void plain_free(struct grid_memory *memory, void *at, u64 len)
{
	(void)memory;
	(void)len;
	free(at);
}

static struct grid_memory plain_memory = {plain_alloc, plain_free, 0};

static const struct skep_param *param_of(const struct grid_args *a, u32 i)
{
	return &a->call.module->param[a->call.function->first + i];
}

static int read_all(FILE *file, struct grid_text *text)
{
	u64 room = 0;
	size_t n;
	u8 *at;

	for (text->len = 0;; text->len += n) {
		if (room - text->len < PART) {
			room = room ? 2 * room : PART;
			at = realloc(text->own, room);
			if (!at)
				return -ENOMEM;
			text->own = text->at = at;
			text->room = room;
		}
		n = fread(text->own + text->len, 1, room - text->len, file);
		if (!n)
			return ferror(file) ? -EIO : 0;
	}
}

static int load_file(u8 type, void *user, struct grid_text *text)
{
	FILE *file = user;
	int err;

	/* A name without characters is that of an empty file. */
	if (type == SKEP_FILENAME && !*(const char *)user) {
		text->own = text->at = calloc(1, 1);
		text->room = 1;
		return text->own ? 0 : -ENOMEM;
	}
	if (type == SKEP_FILENAME)
		file = fopen(user, "r");
	else if (fflush(file))
		return -errno;
	else
		rewind(file);
	if (!file)
		return -errno;
	err = read_all(file, text);
	if (type == SKEP_FILENAME)
		fclose(file);
	return err;
}

static int fail_file(const struct grid_args *a, u32 i, int err)
{
	return grid_error_set(OMRPC_E_ARGUMENTS,
			      "argument %s of %s.%s: its file cannot be "
			      "read: %s",
			      param_of(a, i)->name, a->handle->name,
			      a->call.function->name, strerror(-err));
}

static int load_param(struct grid_args *a, u32 i)
{
	const struct skep_param *p = param_of(a, i);
	struct grid_value *v = &a->call.value[i];
	struct grid_text *text = v->at;
	void **user = v->user;
	u64 k;
	int err = 0;

	if (!(p->mode & SKEP_IN))
		return 0;
	for (k = 0; k < v->count && !err; k++) {
		if (!user[k])
			continue;
		if (p->type != SKEP_STRING) {
			err = load_file(p->type, user[k], &text[k]);
			continue;
		}
		text[k].at = user[k];
		text[k].len = strlen(user[k]);
	}
	return err ? fail_file(a, i, err) : 0;
}

/* The argument is the name or FILE * itself. */
static int prepare_param(struct grid_args *a, u32 i)
{
	const struct skep_param *p = param_of(a, i);
	struct grid_value *v = &a->call.value[i];
	u64 count;

	/* The worker must know a null pointer, so only IN can be one. */
	if (!p->dims && p->type != SKEP_STRING) {
		v->bits = (u64)(uintptr_t)v->user;
		v->user = v->user || p->mode == SKEP_IN ? &v->bits : NULL;
	}
	if (grid_call_count(&a->call, i, &count))
		return 0; /* grid_call_measure() reports it */
	if (count && !v->user)
		return grid_error_set(OMRPC_E_ARGUMENTS,
				      "argument %s of %s.%s: it is a null "
				      "pointer",
				      p->name, a->handle->name,
				      a->call.function->name);
	v->at = calloc(count + 1, sizeof(struct grid_text));
	if (!v->at)
		return grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
	v->count = count;
	return load_param(a, i);
}

int grid_texts_prepare(struct grid_args *a)
{
	u32 i;
	int err = 0;

	a->call.memory = &plain_memory;
	a->call.text_room = GRID_TEXT_ROOM;
	/* Sets all before any step can fail, because what `at` has is freed
	 * with the call. */
	for (i = 0; i < a->call.function->params; i++) {
		if (!grid_param_texts(param_of(a, i)))
			continue;
		a->call.value[i].user = a->call.value[i].at;
		a->call.value[i].at = NULL;
	}
	a->texts = 1;
	for (i = 0; i < a->call.function->params && !err; i++) {
		if (grid_param_texts(param_of(a, i)))
			err = prepare_param(a, i);
	}
	return err;
}

static int store_file(FILE *file, const struct grid_text *text)
{
	if (fwrite(text->at, 1, text->len, file) != text->len || fflush(file))
		return -errno;
	return 0;
}

/* If the program gave no file name, it gets the name of a new file. */
static int deliver_name(char **user, const struct grid_text *text)
{
	char made[] = "/tmp/skep-file-XXXXXX";
	FILE *file;
	int err, fd;

	if (*user && !**user && !text->len)
		return 0;
	if (*user) {
		file = fopen(*user, "w");
	} else {
		fd = mkstemp(made);
		file = fd < 0 ? NULL : fdopen(fd, "w");
		*user = strdup(made);
	}
	if (!file)
		return -errno;
	err = store_file(file, text);
	return fclose(file) && !err ? -errno : err;
}

static int deliver_pointer(FILE **user, const struct grid_text *text)
{
	int err;

	if (!*user)
		*user = tmpfile();
	if (!*user)
		return -errno;
	err = store_file(*user, text);
	rewind(*user);
	return err;
}

static int deliver_text(const struct skep_param *p, void **user,
			struct grid_text *text)
{
	if (p->type == SKEP_STRING) {
		*user = text->own;
		text->own = NULL;
		return 0;
	}
	if (!text->at)
		return 0;
	return p->type == SKEP_FILENAME ? deliver_name((char **)user, text)
					: deliver_pointer((FILE **)user, text);
}

int grid_texts_deliver(struct grid_args *a, const char **name)
{
	const struct skep_param *p;
	struct grid_value *v;
	u32 i;
	u64 k;
	int err = 0;

	for (i = 0; i < a->call.function->params && !err; i++) {
		p = param_of(a, i);
		v = &a->call.value[i];
		if (!grid_param_texts(p) || !(p->mode & SKEP_OUT))
			continue;
		*name = p->name;
		for (k = 0; k < v->count && !err; k++)
			err = deliver_text(p, (void **)v->user + k,
					   (struct grid_text *)v->at + k);
	}
	return err;
}

void grid_args_free(struct grid_args *a)
{
	u32 i;

	if (a) {
		grid_data_settle(a);
		free(a->result);
		free(a->head);
	}
	for (i = 0; a && i < a->call.function->params; i++)
		free(a->call.value[i].own);
	for (i = 0; a && a->texts && i < a->call.function->params; i++) {
		if (!grid_param_texts(param_of(a, i)))
			continue;
		grid_call_drop_texts(&a->call, i);
		free(a->call.value[i].at);
	}
	free(a);
}
