/* SPDX-License-Identifier: MIT */
/* A second process is made, or refused with an error; never anything else. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

int main(void)
{
	int status = -1, clean;
	pid_t pid;
	FILE *f;

	pid = fork();
	if (pid == 0)
		_exit(3);
	if (pid > 0)
		clean = waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
			WEXITSTATUS(status) == 3;
	else
		clean = errno == ENOSYS || errno == EAGAIN || errno == EPERM;
	CHECK(clean);
	errno = 0;
	f = popen("true", "r");
	CHECK(f ? pclose(f) != -2 : errno != 0);
	CHECK(FAILS(wait(&status), ECHILD) || errno == ENOSYS);
	return say_done();
}
