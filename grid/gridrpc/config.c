// SPDX-License-Identifier: MIT
/* Reads the configuration file of grpc_initialize. No state. */
#include "gridrpc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE " \t\r\n"

/* "hub PATH"; the path, which may have spaces, ends the line. */
static grpc_error_t read_line(char *line, const char *file, u32 number,
			      char **hub)
{
	char *word = line + strspn(line, SPACE);
	size_t len = strlen(word);
	char *value;

	while (len && strchr(SPACE, word[len - 1]))
		word[--len] = 0;
	if (!*word || *word == '#')
		return GRPC_NO_ERROR;
	value = word + strcspn(word, SPACE);
	len = (size_t)(value - word);
	value += strspn(value, SPACE);
	if (len != 3 || memcmp(word, "hub", 3) || !*value || *hub)
		return gridrpc_error_set(GRPC_CONFIGFILE_ERROR,
					 "%s:%u: \"%.60s\": the file may have "
					 "one line \"hub PATH\", with the "
					 "hub's socket, and comments after #",
					 file, number, word);
	*hub = strdup(value);
	return *hub ? GRPC_NO_ERROR : gridrpc_error_memory();
}

static grpc_error_t read_lines(FILE *f, const char *file, char **hub)
{
	grpc_error_t error = GRPC_NO_ERROR;
	char *line = NULL;
	size_t room = 0;
	ssize_t len = 0;
	u32 number = 0;

	while (!error && (errno = 0, len = getline(&line, &room, f)) >= 0) {
		number++;
		error = strlen(line) == (size_t)len
				? read_line(line, file, number, hub)
				: gridrpc_error_set(GRPC_CONFIGFILE_ERROR,
						    "%s:%u: a byte is 0", file,
						    number);
	}
	if (!error && errno)
		error = gridrpc_error_set(GRPC_CONFIGFILE_ERROR,
					  "%s cannot be read: %s", file,
					  strerror(errno));
	free(line);
	return error;
}

grpc_error_t gridrpc_config_read(const char *file, char **hub)
{
	FILE *f = fopen(file, "re");
	grpc_error_t error;

	*hub = NULL;
	if (!f)
		return gridrpc_error_set(errno == ENOENT
						 ? GRPC_CONFIGFILE_NOT_FOUND
						 : GRPC_CONFIGFILE_ERROR,
					 "the configuration file %s cannot be "
					 "opened: %s",
					 file, strerror(errno));
	error = read_lines(f, file, hub);
	fclose(f);
	if (!error)
		return GRPC_NO_ERROR;
	free(*hub);
	*hub = NULL;
	return error;
}
