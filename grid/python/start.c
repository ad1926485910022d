// SPDX-License-Identifier: MIT
/*
 * The worker program of Python functions: it becomes the node's Python, which
 * then serves the session in its place (boot.py, worker.c). Where no Python of
 * the wanted version is, or under bee, it stays and refuses each call with the
 * reason, so that the caller reads what to do.
 *
 * The Python package writes the configuration into a copy of this program:
 * strings that end with a zero, the last one empty. The first letter says what
 * a string is: V the version, P a Python to try, E a variable of the
 * environment. Others are boot.py's.
 */
#define _GNU_SOURCE
#include "grid/include/skep/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NR_BEE 0xBEE
#define CONFIG_BYTES 0x4000
#define REFUSAL "skep-refused:"

struct config {
	char mark[32];
	char text[CONFIG_BYTES];
};

/* Volatile: what the compiler sees here is not what the program has. */
static volatile struct config config = {"skep python configuration here\n", ""};

extern const char boot_start[], boot_end[], library_start[], library_end[];

static char refusal[CONFIG_BYTES + 0x400] = REFUSAL;

void python_ignore(long n, const char *data);
void python_refuse(long n, const char *data, char **result);

void python_ignore(long n, const char *data)
{
	(void)n;
	(void)data;
}

void python_refuse(long n, const char *data, char **result)
{
	(void)n;
	(void)data;
	*result = refusal;
}

__attribute__((format(printf, 1, 2))) static void add_refusal(const char *form,
							      ...)
{
	size_t len = strlen(refusal);
	va_list args;

	va_start(args, form);
	vsnprintf(refusal + len, sizeof(refusal) - len, form, args);
	va_end(args);
}

static int write_file(const char *name, const void *bytes, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	while (len && n >= 0) {
		n = write(fd, bytes, len);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n < 0)
			break;
		bytes = (const char *)bytes + n;
		len -= (size_t)n;
	}
	close(fd);
	return n < 0 ? -EIO : 0;
}

/* In the worker's own directory, where it is started. */
static int write_files(const char *text, size_t len)
{
	int err;

	err = write_file("skep-boot.py", boot_start,
			 (size_t)(boot_end - boot_start));
	if (!err)
		err = write_file("skep-worker.so", library_start,
				 (size_t)(library_end - library_start));
	return err ? err : write_file("skep-config", text, len);
}

static void try_python(const char *path)
{
	char *argv[] = {(char *)path, "-I", "-B", "skep-boot.py", NULL};

	execv(path, argv);
	add_refusal(" %s: %s;", path, strerror(errno));
}

static void become_python(char *text)
{
	char *at = text, *version = "";
	int err;

	while (*at) {
		if (*at == 'V')
			version = at + 1;
		if (*at == 'E')
			putenv(at + 1);
		at += strlen(at) + 1;
	}
	err = write_files(text, (size_t)(at - text) + 1);
	if (err) {
		add_refusal(" the worker cannot write its files: %s",
			    strerror(-err));
		return;
	}
	add_refusal(" there is no Python %s that a worker may run here:",
		    version);
	for (at = text; *at; at += strlen(at) + 1) {
		if (*at == 'P')
			try_python(at + 1);
	}
	add_refusal(" install Python %s on the node, or start its agent with "
		    "--allow for the folder of another one",
		    version);
}

int main(void)
{
	static char text[CONFIG_BYTES];
	size_t i;

	for (i = 0; i < sizeof(text) - 2; i++)
		text[i] = config.text[i];
	if (syscall(NR_BEE, 0L) == NR_BEE)
		add_refusal(" the node runs programs under bee, which cannot "
			    "run Python functions: let them run on a Linux "
			    "node that joined without bee");
	else if (!text[0])
		add_refusal(" this worker program was not configured: the "
			    "package skep makes copies of it");
	else if (getenv("SKEP_STREAM"))
		become_python(text);
	return skep_worker_main(&skep_worker);
}
