/* SPDX-License-Identifier: MIT */
/*
 * Opens a library and uses it. usage: open LIBRARY [change]
 * change: overwrites the file meanwhile; the library must not notice.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void *library;

static unsigned long call_part(const char *name)
{
	unsigned long (*f)(void) =
		(unsigned long (*)(void))dlsym(library, name);

	return f ? f() : 0;
}

/* Every byte of the file in place, so that mappings of it see them. */
static int overwrite_file(const char *path)
{
	static char junk[4096];
	struct stat st;
	long at;
	int fd = open(path, O_WRONLY);

	memset(junk, 0xf4, sizeof(junk)); /* hlt */
	if (fd < 0 || fstat(fd, &st))
		return 0;
	for (at = 0; at < st.st_size; at += sizeof(junk))
		if (pwrite(fd, junk, sizeof(junk), at) != sizeof(junk))
			return 0;
	return !close(fd);
}

int main(int argc, char **argv)
{
	unsigned long (*answer)(void), (*pid)(void);

	library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!library) {
		printf("%s\n", strstr(dlerror(), ": ") ? "not opened" : "none");
		return 3;
	}
	answer = (unsigned long (*)(void))dlsym(library, "part_answer");
	pid = (unsigned long (*)(void))dlsym(library, "part_pid");
	if (argc > 2) {
		printf("%d\n", overwrite_file(argv[1]));
		printf("%d %d\n", (int)answer() == 42,
		       pid() == (unsigned long)getpid());
		return 0;
	}
	printf("%d %d %d\n", (int)call_part("part_answer") == 42,
	       call_part("part_pid") == (unsigned long)getpid(),
	       call_part("part_self") == (unsigned long)pthread_self());
	call_part("part_leaf");
	return dlclose(library);
}
