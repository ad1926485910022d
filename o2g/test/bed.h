/* SPDX-License-Identifier: MIT */
/* What the tests of libo2g share: endpoints of one job over loopback. */
#ifndef O2G_TEST_BED_H
#define O2G_TEST_BED_H

#include <o2g/lib/o2g.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BED_SECRET                                                             \
	"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define BED_WAIT 60000 /* ms; a hang fails, slowness does not */

__attribute__((unused)) static void bed_die(const char *what)
{
	printf("Bail out! %s: %s\n", what, o2g_error());
	fflush(stdout);
	_exit(1);
}

/* The processor time of this process so far. */
__attribute__((unused)) static double bed_cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

__attribute__((unused)) static struct o2g_options bed_options(void)
{
	return (struct o2g_options){.size = sizeof(struct o2g_options),
				    .interface = "lo",
				    .secret = BED_SECRET};
}

__attribute__((unused)) static struct o2g *bed_open(void)
{
	struct o2g_options options = bed_options();
	struct o2g *o2g;

	if (o2g_open(&o2g, &options))
		bed_die("o2g_open");
	return o2g;
}

/* The number that `to` has at `at`. */
__attribute__((unused)) static uint32_t bed_peer(struct o2g *at, struct o2g *to)
{
	uint8_t name[O2G_NAME_SIZE];
	uint32_t peer = 0;

	if (o2g_name(to, name) || o2g_peer(at, name, &peer))
		bed_die("o2g_peer");
	return peer;
}

__attribute__((unused)) static struct o2g_match bed_match(uint32_t peer,
							  uint64_t tag)
{
	return (struct o2g_match){.peer = peer, .context = 1, .tag = tag};
}

__attribute__((unused)) static void bed_send(struct o2g *o2g, uint32_t peer,
					     uint64_t tag, const void *buffer,
					     size_t length)
{
	struct o2g_match to = bed_match(peer, tag);

	if (o2g_send(o2g, &to, buffer, length, 0, 0, (void *)buffer))
		bed_die("o2g_send");
}

__attribute__((unused)) static void bed_recv(struct o2g *o2g, uint32_t peer,
					     uint64_t tag, void *buffer,
					     size_t length)
{
	struct o2g_match from = bed_match(peer, tag);

	if (o2g_recv(o2g, &from, buffer, length, 0, 0, buffer))
		bed_die("o2g_recv");
}

/* The next event. */
__attribute__((unused)) static struct o2g_event bed_event(struct o2g *o2g)
{
	struct o2g_event event = {0};

	if (o2g_wait(o2g, &event, 1, BED_WAIT) != 1)
		bed_die("no event came");
	return event;
}

/* One message from a to b, and both events. */
__attribute__((unused)) static int bed_transfer(struct o2g *a, struct o2g *b)
{
	char in[5] = "";

	bed_recv(b, O2G_ANY, 1, in, sizeof(in));
	bed_send(a, bed_peer(a, b), 1, "abcd", 5);
	return bed_event(a).status == 0 && bed_event(b).status == 0 &&
	       strcmp(in, "abcd") == 0;
}

__attribute__((unused)) static int bed_count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

__attribute__((unused)) static int bed_count_descriptors(void)
{
	return bed_count_entries("/proc/self/fd");
}

/* Bytes that depend on their place and on a seed. */
__attribute__((unused)) static void bed_fill(uint8_t *buffer, size_t length,
					     unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		buffer[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + seed);
}

/* Looks at a buffer that an engine may be writing; a witness, not a user. */
__attribute__((unused, noinline, no_sanitize("thread"))) static int
bed_look(const volatile uint8_t *at)
{
	return *at;
}

__attribute__((unused, noinline, no_sanitize("thread"))) static int
bed_check(const uint8_t *buffer, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (buffer[i] != (uint8_t)(i * 31 + (i >> 8) * 7 + seed))
			return 0;
	return 1;
}

#endif
