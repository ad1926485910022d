// SPDX-License-Identifier: MIT
/*
 * Makes pointers and files of texts before a function runs, and texts of them
 * afterwards. Each parameter's `user` is followed by what open made for it, so
 * that a function may put other pointers in their place.
 */
#define _GNU_SOURCE
#include "texts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART 0x10000

/* What is ours of one element; the function's pointer starts as the same. */
struct made {
	char *name; /* of a file that is removed */
	FILE *file;
};

static const struct skep_param *param_of(const struct grid_call *c, u32 i)
{
	return &c->module->param[c->function->first + i];
}

static struct made *made_of(const struct grid_call *c, u32 i)
{
	return (struct made *)((void **)c->value[i].user + c->value[i].count);
}

static int write_file(int fd, const struct grid_text *text)
{
	u64 done = 0;
	ssize_t n;

	while (text->at && done < text->len) {
		n = write(fd, text->at + done, text->len - done);
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (u64)n : 0;
	}
	return 0;
}

/* In the worker's own directory, which goes with it, or where all may write. */
static int make_file(const struct grid_text *text, char **name)
{
	char here[0x1000], path[0x1100];
	int fd = -1, err;

	if (getcwd(here, sizeof(here))) {
		snprintf(path, sizeof(path), "%s/skep-file-XXXXXX", here);
		fd = mkstemp(path);
	}
	if (fd < 0) {
		snprintf(path, sizeof(path), "/tmp/skep-file-XXXXXX");
		fd = mkstemp(path);
	}
	if (fd < 0)
		return -errno;
	err = write_file(fd, text);
	close(fd);
	*name = err ? NULL : strdup(path);
	if (*name)
		return 0;
	unlink(path);
	return err ? err : -ENOMEM;
}

static int open_element(const struct skep_param *p, const struct grid_text *t,
			void **user, struct made *made)
{
	int err;

	if (p->type == SKEP_STRING) {
		*user = t->at;
		return 0;
	}
	if (p->mode == SKEP_IN && !t->at)
		return 0; /* a null pointer there is one here */
	err = make_file(t, &made->name);
	*user = made->name;
	if (err || p->type == SKEP_FILENAME)
		return err;
	made->file = fopen(made->name, "r+");
	*user = made->file;
	return made->file ? 0 : -errno;
}

static int open_param(struct grid_call *c, u32 i)
{
	struct grid_value *v = &c->value[i];
	const struct grid_text *text = v->at;
	u64 k, size = sizeof(void *) + sizeof(struct made);
	int err = 0;

	v->user = calloc(v->count + 1, size);
	if (!v->user)
		return -ENOMEM;
	for (k = 0; k < v->count && !err; k++)
		err = open_element(param_of(c, i), &text[k],
				   (void **)v->user + k, made_of(c, i) + k);
	return err;
}

int texts_open(struct grid_call *c, const char **why)
{
	u32 i;
	int err = 0;

	for (i = 0; i < c->function->params && !err; i++) {
		if (grid_param_texts(param_of(c, i)))
			err = open_param(c, i);
	}
	*why = "a file that came with the call cannot be made on this node";
	return err;
}

/* Reads all of a file; a text owns what it holds. */
static int read_text(struct grid_call *c, FILE *file, struct grid_text *text)
{
	u64 room = 0, more;
	size_t n;
	u8 *at;

	for (text->len = 0;; text->len += n) {
		if (room - text->len < PART) {
			more = room ? room : PART;
			at = c->memory->alloc(c->memory, room + more);
			if (!at)
				return -ENOMEM;
			memcpy(at, text->own ? text->own : at, text->len);
			if (text->own)
				c->memory->free(c->memory, text->own, room);
			room += more;
			text->own = text->at = at;
			text->room = room;
		}
		n = fread(text->own + text->len, 1, room - text->len, file);
		if (!n)
			return ferror(file) ? -EIO : 0;
	}
}

static int collect_file(struct grid_call *c, const struct skep_param *p,
			void *user, struct grid_text *text)
{
	FILE *file = user;
	int err;

	if (p->type == SKEP_FILENAME)
		file = fopen(user, "r");
	else if (fflush(file))
		return -errno;
	else
		rewind(file);
	if (!file)
		return -errno;
	err = read_text(c, file, text);
	if (p->type == SKEP_FILENAME)
		fclose(file);
	return err;
}

static int collect_param(struct grid_call *c, u32 i)
{
	const struct skep_param *p = param_of(c, i);
	struct grid_text *text = c->value[i].at;
	const struct made *made = made_of(c, i);
	void **user = c->value[i].user;
	u64 k;
	int err = 0;

	if (p->type != SKEP_STRING)
		grid_call_drop_texts(c, i);
	for (k = 0; k < c->value[i].count && !err; k++) {
		text[k].at = user[k];
		if (!user[k])
			continue;
		if (p->type == SKEP_STRING)
			text[k].len = strlen(user[k]);
		else
			err = collect_file(c, p, user[k], &text[k]);
		if (p->type == SKEP_FILEPOINTER && user[k] != made[k].file)
			fclose(user[k]);
	}
	return err;
}

int texts_collect(struct grid_call *c, const char **why)
{
	const struct skep_param *p;
	u32 i;
	int err = 0;

	for (i = 0; i < c->function->params && !err; i++) {
		p = param_of(c, i);
		if (grid_param_texts(p) && p->mode & SKEP_OUT)
			err = collect_param(c, i);
	}
	*why = "a file that the function returned cannot be read";
	return err;
}

void texts_close(struct grid_call *c)
{
	struct made *made;
	u32 i;
	u64 k;

	for (i = 0; i < c->function->params; i++) {
		if (!c->value[i].user)
			continue;
		made = made_of(c, i);
		for (k = 0; k < c->value[i].count; k++) {
			if (made[k].file)
				fclose(made[k].file);
			if (made[k].name)
				unlink(made[k].name);
			free(made[k].name);
		}
		free(c->value[i].user);
		c->value[i].user = NULL;
	}
}
