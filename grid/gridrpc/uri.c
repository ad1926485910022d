// SPDX-License-Identifier: MIT
/*
 * Where data comes from and goes to: URIs, and the table of memory that they
 * name, which `lock` guards.
 */
#include "gridrpc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct mapping {
	struct mapping *next;
	void *memory;
	char key[];
};

static struct mapping *mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

grpc_error_t gridrpc_data_refuse(const char *format, ...)
{
	char text[GRID_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "skep: %s\n", text);
	return gridrpc_error_set(GRPC_RPC_REFUSED, "%s", text);
}

/* The part after the host, which must be this computer; NULL if it is not. */
static const char *local_part(const char *rest)
{
	const char *slash = strchr(rest, '/');
	char here[HOST_NAME_MAX + 1] = "";
	size_t len = slash ? (size_t)(slash - rest) : 0;

	if (!slash)
		return NULL;
	gethostname(here, sizeof(here) - 1);
	if (!len || (len == 9 && !strncmp(rest, "localhost", len)) ||
	    (len == strlen(here) && !strncmp(rest, here, len)))
		return slash;
	return NULL;
}

grpc_error_t gridrpc_uri_parse(const char *uri, enum gridrpc_place *place,
			       const char **name)
{
	const char *rest = strstr(uri, "://");
	size_t len = rest ? (size_t)(rest - uri) : 0;

	*name = rest ? rest + 3 : "";
	if (len == 4 && !strncmp(uri, "skep", len) && !strcmp(*name, "hub")) {
		*place = GRIDRPC_HUB;
		return GRPC_NO_ERROR;
	}
	if (len == 6 && !strncmp(uri, "memory", len))
		*place = GRIDRPC_MEMORY;
	else if (len == 4 && !strncmp(uri, "file", len))
		*place = GRIDRPC_FILE;
	else
		return gridrpc_data_refuse(
			"data cannot be at %.200s: bring it into a file or "
			"into memory of this program, and write "
			"file://localhost/PATH, memory://localhost/KEY, or "
			"skep://hub for what stays in the grid",
			uri);
	*name = local_part(*name);
	if (!*name)
		return gridrpc_data_refuse(
			"%.200s names another computer: programs reach files "
			"and memory of their own only; the host in it must be "
			"localhost",
			uri);
	if (*place == GRIDRPC_MEMORY)
		++*name;
	return GRPC_NO_ERROR;
}

/* Memory ------------------------------------------------------------------- */

/* The caller holds lock. */
static struct mapping **find_mapping(const char *key)
{
	struct mapping **m = &mappings;

	while (*m && strcmp((*m)->key, key))
		m = &(*m)->next;
	return m;
}

grpc_error_t grpc_data_memory_mapping_set(const char *key, void *memory)
{
	struct mapping **at, *m, *old;

	if (!key || !*key)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "a key has at least one character");
	m = malloc(sizeof(*m) + strlen(key) + 1);
	if (!m)
		return gridrpc_error_memory();
	strcpy(m->key, key);
	m->memory = memory;
	pthread_mutex_lock(&lock);
	at = find_mapping(key);
	old = *at;
	m->next = old ? old->next : NULL;
	*at = memory ? m : m->next;
	pthread_mutex_unlock(&lock);
	free(old);
	if (!memory)
		free(m);
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_data_memory_mapping_get(const char *key, void **memory)
{
	struct mapping *m;
	void *found;

	if (!key || !memory)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "there is no key, or no place for "
					 "what it means");
	pthread_mutex_lock(&lock);
	m = *find_mapping(key);
	found = m ? m->memory : NULL;
	pthread_mutex_unlock(&lock);
	*memory = found;
	return found ? GRPC_NO_ERROR
		     : gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "memory://localhost/%s is not known: "
					 "call grpc_data_memory_mapping_set",
					 key);
}

/* Files -------------------------------------------------------------------- */

static grpc_error_t file_error(const char *what, const char *path, int err)
{
	return gridrpc_error_set(GRPC_OTHER_ERROR_CODE, "%s cannot be %s: %s",
				 path, what, strerror(err));
}

static int read_all(int fd, u8 *to, u64 len)
{
	ssize_t n;

	while (len) {
		n = read(fd, to, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -EIO; /* it was cut meanwhile */
		to += n;
		len -= (u64)n;
	}
	return 0;
}

grpc_error_t gridrpc_file_read(const char *path, void **bytes, u64 *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;

	*bytes = NULL;
	if (fd < 0)
		return file_error("read", path, errno);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		err = -EINVAL;
	if (!err) {
		*len = (u64)st.st_size;
		*bytes = malloc(*len + 1);
		err = *bytes ? read_all(fd, *bytes, *len) : -ENOMEM;
	}
	close(fd);
	if (!err)
		return GRPC_NO_ERROR;
	free(*bytes);
	*bytes = NULL;
	return file_error("read", path, -err);
}

static int write_all(int fd, const u8 *from, u64 len)
{
	ssize_t n;

	while (len) {
		n = write(fd, from, len);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			from += n;
			len -= (u64)n;
		}
	}
	return 0;
}

grpc_error_t gridrpc_file_write(const char *path, const void *bytes, u64 len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	int err;

	if (fd < 0)
		return file_error("written", path, errno);
	err = write_all(fd, bytes, len);
	if (close(fd) && !err)
		err = -errno;
	return err ? file_error("written", path, -err) : GRPC_NO_ERROR;
}
