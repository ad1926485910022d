/* SPDX-License-Identifier: MIT */
/*
 * fork where bee.exe has been replaced in the meantime. usage: denied FOLDER
 * While the first fork waits for its child (FOLDER/trying exists), another
 * thread uses descriptors and memory, then lets the child fail (FOLDER/go).
 * After FOLDER/restored the second fork works.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *folder;

static char *name_of(const char *what)
{
	static __thread char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, what);
	return path;
}

static void await_file(const char *what)
{
	struct timespec look = {0, 10000000};

	while (access(name_of(what), F_OK))
		nanosleep(&look, NULL);
}

static void make_file(const char *what)
{
	close(open(name_of(what), O_CREAT | O_WRONLY, 0600));
}

static void *use_more(void *arg)
{
	int i, end[2], bad = 0;

	await_file("trying");
	for (i = 0; i < 20; i++) {
		void *at = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		bad += at == MAP_FAILED || pipe(end) || close(end[0]) ||
		       close(end[1]) || munmap(at, 65536);
	}
	bad += close(*(int *)arg); /* the parent's, while it is passed on */
	printf("another thread works while a child starts: %d\n", bad);
	fflush(stdout);
	make_file("go");
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;
	int status = 0, fd;
	pid_t pid;

	if (argc < 2)
		return 2;
	folder = argv[1];
	fd = open(argv[0], O_RDONLY);
	pthread_create(&other, NULL, use_more, &fd);
	make_file("started");
	await_file("replaced");
	pid = fork();
	printf("fork: %d, %s\n", pid, pid < 0 ? strerror(errno) : "");
	pthread_join(other, NULL);
	make_file("denied");
	await_file("restored");
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(7);
	waitpid(pid, &status, 0);
	printf("fork: the child ends with %d\n", WEXITSTATUS(status));
	return 0;
}
