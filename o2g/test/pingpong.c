// SPDX-License-Identifier: MIT
/*
 * Two processes, one message there and back: half the round trip per size.
 *   pingpong [REPEATS [SIZE...]]
 * Prints one line per size: bytes, microseconds, MB/s.
 */
#include <o2g/lib/o2g.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void exit_errno(const char *what)
{
	fprintf(stderr, "pingpong: %s: %s\n", what, o2g_error());
	exit(1);
}

static double clock_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void await_events(struct o2g *o2g, int events)
{
	while (events > 0) {
		struct o2g_event event;
		int n = o2g_poll(o2g, &event, 1);

		if (n < 0 || (n == 1 && event.status))
			exit_errno("poll");
		events -= n;
		if (n == 0)
			o2g_nap(o2g);
	}
}

static void move_message(struct o2g *o2g, struct o2g_match *match, char *buffer,
			 size_t size, int send)
{
	int r = send ? o2g_send(o2g, match, buffer, size, 0, 0, 0)
		     : o2g_recv(o2g, match, buffer, size, 0, 0, 0);

	if (r)
		exit_errno(send ? "send" : "recv");
	await_events(o2g, 1);
}

static void run_pingpong(int channel, int first, int repeats, int argc,
			 char **argv)
{
	struct o2g_match match = {.context = 1, .tag = 7};
	uint8_t name[O2G_NAME_SIZE];
	struct o2g *o2g;

	if (o2g_open(&o2g, 0) || o2g_name(o2g, name) ||
	    write(channel, name, sizeof(name)) != sizeof(name) ||
	    read(channel, name, sizeof(name)) != sizeof(name) ||
	    o2g_peer(o2g, name, &match.peer))
		exit_errno("open");
	for (int i = 0; i < argc; i++) {
		size_t size = strtoul(argv[i], 0, 10);
		int times = size > 65536 ? repeats / 20 + 1 : repeats;
		char *buffer = calloc(1, size + 1);
		double start = 0;

		for (int j = -10; j < times; j++) {
			if (j == 0)
				start = clock_seconds();
			move_message(o2g, &match, buffer, size, first);
			move_message(o2g, &match, buffer, size, !first);
		}
		start = (clock_seconds() - start) / times / 2;
		if (first)
			printf("%9zu %10.2f us %9.1f MB/s\n", size, start,
			       (double)size / start);
		free(buffer);
	}
	if (o2g_close(o2g, 5000))
		exit_errno("close");
}

int main(int argc, char **argv)
{
	static char *sizes[] = {"0", "8", "1024", "65536", "1048576"};
	int repeats = argc > 1 ? atoi(argv[1]) : 20000;
	int pair[2], status;
	pid_t child;

	if (argc <= 2) {
		argv = sizes;
		argc = sizeof(sizes) / sizeof(sizes[0]);
	} else {
		argv += 2;
		argc -= 2;
	}
	setenv("SKEP_O2G_IFACE", "lo", 0);
	setenv("SKEP_O2G_SECRET",
	       "000102030405060708090a0b0c0d0e0f"
	       "101112131415161718191a1b1c1d1e1f",
	       0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	child = fork();
	run_pingpong(pair[child != 0], child != 0, repeats, argc, argv);
	return child && (waitpid(child, &status, 0) < 0 || status);
}
