// SPDX-License-Identifier: MIT
/*
 * A program that was started without `skep run` starts one, and keeps it as
 * long as it needs the hub: `skep run` ends when its standard input is closed.
 * Owns that process.
 */
#define _GNU_SOURCE /* pipe2 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The program of `skep run`: prints the hub's socket, and waits. */
#define HOLDER_SCRIPT "printf '%s\\n' \"$SKEP_SOCKET\"; exec cat >/dev/null"

static pid_t holder = -1;
static int holder_stdin = -1;

/* The folder of this program, which also has its worker programs. */
static void find_folder(char *folder, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", folder, size - 1);
	char *slash;

	folder[n < 0 ? 0 : n] = 0;
	slash = strrchr(folder, '/');
	if (slash > folder)
		*slash = 0;
}

static int spawn_holder(const char *hostfile, int in, int out)
{
	char folder[PATH_MAX];
	const char *skep = getenv("SKEP_PROGRAM");
	const char *argv[12] = {skep && *skep ? skep : "skep", "run"};
	posix_spawn_file_actions_t actions;
	int n = 2, err;

	find_folder(folder, sizeof(folder));
	if (hostfile) {
		argv[n++] = "--hostfile";
		argv[n++] = hostfile;
	}
	if (*folder) {
		argv[n++] = "--modules";
		argv[n++] = folder;
	}
	argv[n++] = "--";
	argv[n++] = "sh";
	argv[n++] = "-c";
	argv[n] = HOLDER_SCRIPT;
	err = posix_spawn_file_actions_init(&actions);
	if (err)
		return err;
	err = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (!err)
		err = posix_spawn_file_actions_adddup2(&actions, out,
						       STDOUT_FILENO);
	if (!err)
		err = posix_spawnp(&holder, argv[0], &actions, NULL,
				   (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

/* -EPIPE: end of file before a complete line. */
static int read_line(int fd, char *line, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size - 1) {
		n = read(fd, line + len, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		if (line[len] == '\n')
			break;
		len++;
	}
	line[len] = 0;
	return 0;
}

/* No end may be descriptor 0 or 1 here, because the child dups them there. */
static int open_pipe(int end[2])
{
	int i, fd;

	if (pipe2(end, O_CLOEXEC))
		return errno;
	for (i = 0; i < 2; i++) {
		if (end[i] > STDERR_FILENO)
			continue;
		fd = fcntl(end[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (fd < 0)
			return errno;
		close(end[i]);
		end[i] = fd;
	}
	return 0;
}

int grid_holder_start(const char *hostfile, char *socket, size_t size)
{
	int in[2], out[2], err;

	err = open_pipe(in);
	if (!err) {
		err = open_pipe(out);
		if (!err)
			err = spawn_holder(hostfile, in[0], out[1]);
		else
			out[0] = out[1] = -1;
		close(in[0]);
		close(out[1]);
	}
	if (err)
		return grid_error_set(
			OMRPC_E_NO_HUB,
			"SKEP_SOCKET is not set, and skep cannot "
			"be started (%s): start this program with "
			"`skep run -- PROGRAM`, or have skep in "
			"the PATH or name it in SKEP_PROGRAM",
			strerror(err));
	holder_stdin = in[1];
	err = read_line(out[0], socket, size);
	close(out[0]);
	if (!err)
		return 0;
	grid_holder_end();
	return grid_error_set(OMRPC_E_NO_HUB,
			      "`skep run` has ended, and said why above");
}

void grid_holder_end(void)
{
	int status;

	if (holder < 0)
		return;
	close(holder_stdin);
	while (waitpid(holder, &status, 0) < 0 && errno == EINTR)
		;
	holder = -1;
	holder_stdin = -1;
}
