/* SPDX-License-Identifier: MIT */
/*
 * What names lead to. usage: reach VERB PATH [VERB PATH ...], a line for each:
 * read (the first line of a file), make (creates or cuts it), size, type (not
 * of what a link points to), text (of a link), enter (a folder), dir (makes
 * one), gone (removes a name), drop (removes a folder), here (the name of where
 * the process is, without PATH, which must be its beginning), move
 * (to /moved), mode (makes it 0600), cut (to nothing), may (be read),
 * mask (its octal value).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char out[512];

static int read_file(const char *path)
{
	FILE *f = fopen(path, "r");

	if (!f || !fgets(out, sizeof(out), f))
		return -1;
	out[strcspn(out, "\n")] = 0;
	return fclose(f);
}

static int make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	return fd < 0 || write(fd, "made\n", 5) != 5 ? -1 : close(fd);
}

static int say_size(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return -1;
	snprintf(out, sizeof(out), "%ld", (long)st.st_size);
	return 0;
}

static int say_type(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return -1;
	strcpy(out, S_ISLNK(st.st_mode)	  ? "link"
		    : S_ISDIR(st.st_mode) ? "folder"
					  : "file");
	return 0;
}

static int say_here(const char *above)
{
	char here[sizeof(out)];
	size_t n = strcmp(above, "/") ? strlen(above) : 0;

	if (!getcwd(here, sizeof(here)) || strncmp(here, above, n))
		return -1;
	strcpy(out, here[n] ? here + n : "/");
	return 0;
}

static int run_verb(const char *verb, const char *path)
{
	strcpy(out, "done");
	if (!strcmp(verb, "read"))
		return read_file(path);
	if (!strcmp(verb, "make"))
		return make_file(path);
	if (!strcmp(verb, "size"))
		return say_size(path);
	if (!strcmp(verb, "type"))
		return say_type(path);
	if (!strcmp(verb, "text"))
		return readlink(path, memset(out, 0, sizeof(out)), 500) < 0;
	if (!strcmp(verb, "enter"))
		return chdir(path);
	if (!strcmp(verb, "dir"))
		return mkdir(path, 0777);
	if (!strcmp(verb, "gone"))
		return unlink(path);
	if (!strcmp(verb, "drop"))
		return rmdir(path);
	if (!strcmp(verb, "here"))
		return say_here(path);
	if (!strcmp(verb, "move"))
		return rename(path, "/moved");
	if (!strcmp(verb, "mode"))
		return chmod(path, 0600);
	if (!strcmp(verb, "cut"))
		return truncate(path, 0);
	if (!strcmp(verb, "may"))
		return access(path, R_OK);
	if (!strcmp(verb, "mask"))
		return (umask((mode_t)strtol(path, NULL, 8)), 0);
	errno = EINVAL;
	return -1;
}

int main(int argc, char **argv)
{
	int i;

	for (i = 1; i + 1 < argc; i += 2)
		printf("%s %s: %s\n", argv[i], argv[i + 1],
		       run_verb(argv[i], argv[i + 1]) ? strerror(errno) : out);
	return 0;
}
