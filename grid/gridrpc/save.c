// SPDX-License-Identifier: MIT
/*
 * Descriptions of data as text, one item a line:
 *
 *	skep data 1
 *	data PROGRAM NUMBER
 *	type NAME
 *	mode NAME
 *	bytes NUMBER		of a container the number of its ranks
 *	input URI, output URI	any number of them
 *	stored			the grid has or had the bytes
 *	part RANK		and the lines from "data" to "end" of that part
 *	end
 *
 * Owns the name of the program in them, which `lock` guards.
 */
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_LINE "skep data 1"
#define TEXT_MAX 0x1000000 /* bytes of a description */

static char program[33];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* 32 digits that no other program has; numbers of data are its own. */
static const char *program_name(void)
{
	u8 random[16];
	u32 i;

	pthread_mutex_lock(&lock);
	if (!*program &&
	    getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random)) {
		for (i = 0; i < sizeof(random); i++)
			sprintf(program + 2 * i, "%02x", random[i]);
	}
	pthread_mutex_unlock(&lock);
	return program;
}

/* Saving ------------------------------------------------------------------- */

static grpc_error_t save_uris(FILE *to, const char *what, char *const *uris)
{
	u32 i;

	for (i = 0; uris && uris[i]; i++) {
		if (strchr(uris[i], '\n'))
			return gridrpc_data_refuse(
				"data whose URI has a line break cannot be "
				"saved: %s",
				uris[i]);
		fprintf(to, "%s %s\n", what, uris[i]);
	}
	return GRPC_NO_ERROR;
}

static grpc_error_t save_one(FILE *to, const struct gridrpc_data *d)
{
	int container = d->type == GRPC_CONTAINER_OF_GRPC_DATA;
	grpc_error_t error;
	u32 i;

	fprintf(to, "data %s %llu\ntype %s\nmode %s\nbytes %llu\n",
		program_name(), (unsigned long long)d->number,
		gridrpc_types[d->type].name, gridrpc_mode_names[d->mode],
		(unsigned long long)(container ? d->room : d->bytes));
	error = save_uris(to, "input", d->input);
	if (!error)
		error = save_uris(to, "output", d->output);
	if (d->datum.kept)
		fprintf(to, "stored\n");
	for (i = 0; i < d->parts && !error; i++) {
		fprintf(to, "part %u\n", d->part[i].rank);
		error = save_one(to, d->part[i].data);
	}
	fprintf(to, "end\n");
	return error;
}

grpc_error_t grpc_data_save(const grpc_data_t *data, const char *output_uri)
{
	enum gridrpc_place place;
	struct gridrpc_data *d;
	grpc_error_t error;
	char *text = NULL;
	const char *name;
	size_t len = 0;
	FILE *to;

	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	d = gridrpc_data_find(data);
	if (!d)
		return GRPC_OTHER_ERROR_CODE;
	if (!output_uri)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "there is no URI to save to");
	error = gridrpc_uri_parse(output_uri, &place, &name);
	if (!error && place != GRIDRPC_FILE)
		error = gridrpc_data_refuse(
			"a description cannot be saved to %.200s: write "
			"file://localhost/PATH",
			output_uri);
	if (!error)
		error = gridrpc_data_check_idle(d);
	if (error)
		return error;
	to = open_memstream(&text, &len);
	if (!to || !*program_name())
		error = gridrpc_error_memory();
	if (!error)
		fprintf(to, FIRST_LINE "\n");
	if (!error)
		error = save_one(to, d);
	if (to && fclose(to) && !error)
		error = gridrpc_error_memory();
	if (!error)
		error = gridrpc_file_write(name, text, len);
	free(text);
	return error;
}

/* Loading ------------------------------------------------------------------ */

/* A description that is read; its lines are cut in place. */
struct reading {
	const char *from; /* its URI */
	char *next, *end;
	u32 line;
};

static grpc_error_t line_error(const struct reading *r, const char *what)
{
	return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
				 "%.200s, line %u: it is not a description of "
				 "data that grpc_data_save has written: %s",
				 r->from, r->line, what);
}

/* What is behind a word at the beginning of the next line, or NULL; only then
 * is the line still the next one. */
static char *take_line(struct reading *r, const char *word)
{
	char *line = r->next, *stop;
	size_t len = strlen(word);

	stop = memchr(line, '\n', (size_t)(r->end - line));
	if (!stop || (size_t)(stop - line) < len || memcmp(line, word, len) ||
	    memchr(line, 0, (size_t)(stop - line)))
		return NULL;
	if (stop - line > (ssize_t)len && line[len] != ' ')
		return NULL;
	*stop = 0;
	r->next = stop + 1;
	r->line++;
	return line + len + (line + len < stop);
}

/* Whether the next line is this word, which is then taken. */
static int take_word(struct reading *r, const char *word)
{
	char *text = r->next;
	size_t len = strlen(word);

	return (size_t)(r->end - text) > len && text[len] == '\n' &&
	       take_line(r, word);
}

static int parse_number(const char *text, u64 *number)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -1;
	*number = strtoull(text, &end, 10);
	return *end || strlen(text) > 19 ? -1 : 0;
}

static grpc_error_t load_uris(struct reading *r, const char *word, char ***uris)
{
	const char *list[256] = {NULL};
	char *uri;
	u32 n = 0;

	while ((uri = take_line(r, word))) {
		if (n == sizeof(list) / sizeof(list[0]) - 1)
			return line_error(r, "it has too many URIs");
		list[n++] = uri;
	}
	return gridrpc_data_copy_uris(uris, list);
}

/* The lines that all data has. *old: the data itself, if this program has it
 * still. */
static grpc_error_t load_head(struct reading *r, struct gridrpc_data *d,
			      struct gridrpc_data **old)
{
	char *text = take_line(r, "data");
	u64 number = 0;
	u32 i;

	*old = NULL;
	if (!text || strlen(text) < 34 || text[32] != ' ' ||
	    parse_number(text + 33, &number))
		return line_error(r, "the line \"data\" is missing");
	if (!strncmp(text, program_name(), 32))
		*old = gridrpc_data_numbered(number);
	text = take_line(r, "type");
	for (i = 0; text && i <= GRPC_CONTAINER_OF_GRPC_DATA; i++) {
		if (!strcmp(text, gridrpc_types[i].name))
			break;
	}
	if (!text || i > GRPC_CONTAINER_OF_GRPC_DATA)
		return line_error(r, "it has no type that is known");
	d->type = i;
	text = take_line(r, "mode");
	for (i = 0; text && i < GRIDRPC_MODES; i++) {
		if (!strcmp(text, gridrpc_mode_names[i]))
			break;
	}
	if (!text || i == GRIDRPC_MODES)
		return line_error(r, "it has no mode that is known");
	d->mode = i;
	d->datum.one_node = i == GRPC_UNIQUE_STICKY;
	text = take_line(r, "bytes");
	if (!text || parse_number(text, &d->bytes))
		return line_error(r, "its number of bytes is missing");
	return GRPC_NO_ERROR;
}

static grpc_error_t load_one(struct reading *r, u32 depth,
			     struct gridrpc_data **loaded);

static grpc_error_t load_parts(struct reading *r, u32 depth,
			       struct gridrpc_data *d)
{
	grpc_error_t error = GRPC_NO_ERROR;
	u64 rank, least = 0;
	struct gridrpc_data *part;
	char *text;

	if (!d->bytes || d->bytes > GRIDRPC_PARTS || d->input[0] ||
	    d->output[0] || d->mode != GRPC_VOLATILE)
		return line_error(r, "a container has no such lines");
	if (depth == GRIDRPC_DEPTH)
		return line_error(r, "containers are nested too deep");
	d->room = (u32)d->bytes;
	d->bytes = 0;
	while (!error && (text = take_line(r, "part"))) {
		if (parse_number(text, &rank) || rank < least ||
		    rank >= d->room)
			return line_error(r, "ranks are in order, and less "
					     "than the container has");
		least = rank + 1;
		error = load_one(r, depth + 1, &part);
		if (error)
			break;
		error = gridrpc_container_put(d, (u32)rank, part);
		gridrpc_data_release(NULL, part);
	}
	return error;
}

static grpc_error_t load_new(struct reading *r, u32 depth,
			     struct gridrpc_data *d, struct gridrpc_data **old)
{
	grpc_error_t error = load_head(r, d, old);
	int stored = 0;

	if (!error)
		error = load_uris(r, "input", &d->input);
	if (!error)
		error = load_uris(r, "output", &d->output);
	if (!error)
		stored = take_word(r, "stored");
	if (!error && d->type == GRPC_CONTAINER_OF_GRPC_DATA)
		error = load_parts(r, depth, d);
	if (!error && !take_word(r, "end"))
		error = line_error(r, "another line was expected");
	if (!error && stored && !d->input[0] && !*old)
		error = gridrpc_data_refuse(
			"%.200s: the bytes of this data were in the grid "
			"only, and are gone with the program that had them or "
			"its last handle: write them to a file with "
			"grpc_data_transfer, and make that the input",
			r->from);
	return error;
}

/* The caller is a holder of *loaded. */
static grpc_error_t load_one(struct reading *r, u32 depth,
			     struct gridrpc_data **loaded)
{
	struct gridrpc_data *d = gridrpc_data_new(), *old;
	grpc_error_t error;

	if (!d)
		return GRPC_OTHER_ERROR_CODE;
	error = load_new(r, depth, d, &old);
	if (!error && old)
		gridrpc_data_hold(old);
	*loaded = error ? NULL : old ? old : d;
	if (error || old)
		gridrpc_data_release(NULL, d);
	return error;
}

/* The text at a URI, which the caller frees. */
static grpc_error_t read_text(const char *uri, char **text, u64 *len)
{
	enum gridrpc_place place;
	grpc_error_t error;
	const char *name;
	void *at = NULL;

	*text = NULL;
	error = gridrpc_uri_parse(uri, &place, &name);
	if (!error && place == GRIDRPC_HUB)
		error = gridrpc_data_refuse("a description is not at %s: write "
					    "file://localhost/PATH",
					    uri);
	if (!error && place == GRIDRPC_FILE)
		error = gridrpc_file_read(name, (void **)text, len);
	if (!error && place == GRIDRPC_MEMORY) {
		error = grpc_data_memory_mapping_get(name, &at);
		*text = error ? NULL : strndup(at, TEXT_MAX);
		*len = *text ? strlen(*text) : 0;
	}
	if (error || *text)
		return error;
	return gridrpc_error_memory();
}

grpc_error_t grpc_data_load(grpc_data_t *data, const char *input_uri)
{
	struct gridrpc_data *d = NULL;
	struct reading r = {input_uri, NULL, NULL, 1};
	grpc_error_t error;
	char *text;
	u64 len;

	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	if (!data || !input_uri)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "there is no handle, or no URI to "
					 "load from");
	error = read_text(input_uri, &text, &len);
	if (error)
		return error;
	r.next = text;
	r.end = text + len;
	if (!take_word(&r, FIRST_LINE))
		error = line_error(&r,
				   "the first line is not \"" FIRST_LINE "\"");
	if (!error)
		error = load_one(&r, 0, &d);
	if (!error && r.next != r.end)
		error = line_error(&r, "something follows its end");
	if (!error)
		error = gridrpc_data_bind(data, d);
	if (d)
		gridrpc_data_release(NULL, d);
	free(text);
	return error;
}
