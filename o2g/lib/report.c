// SPDX-License-Identifier: MIT
/*
 * The report to the launcher when an endpoint is closed, or its process exits;
 * see <skep/o2g_report.h>. If the launcher does not accept it within a second,
 * it is dropped without a message, so that the program can end.
 */
#define _GNU_SOURCE /* pthread_clockjoin_np */
#include "hmac.h"
#include "endpoint.h"
#include "error.h"
#include "spawn.h"
#include "trace.h"

#include <skep/o2g_report.h>

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 1000
#define EXIT_NS 2000000000ll

static void fill_report(const struct o2g *o2g, const struct o2g_counts *counts,
			struct o2g_report *r)
{
	struct o2g_link_counts links = {0};
	struct o2g_hmac hmac;

	if (o2g->ops->links)
		o2g->ops->links(o2g->engine, &links);

	*r = (struct o2g_report){.magic = O2G_REPORT_MAGIC,
				 .revision = O2G_REPORT_REVISION,
				 .pid = (u32)getpid(),
				 .engine = O2G_REPORT_USER,
				 .sent = counts->sent,
				 .sent_bytes = counts->sent_bytes,
				 .received = counts->received,
				 .received_bytes = counts->received_bytes,
				 .expected = counts->expected,
				 .unexpected = counts->unexpected,
				 .requested = counts->requested,
				 .self = counts->self,
				 .waited = counts->waited,
				 .resent = links.resent};
	if (strcmp(o2g->ops->name, "user"))
		r->engine = O2G_REPORT_KERNEL;
	memcpy(r->id, &o2g->identity.id, sizeof(r->id));
	o2g_hmac_init(&hmac, o2g->identity.secret, O2G_SECRET_SIZE);
	o2g_hmac_update(&hmac, "o2g report", 10);
	o2g_hmac_update(&hmac, r, sizeof(*r) - sizeof(r->mac));
	o2g_hmac_final(&hmac, r->mac);
}

/* Parses "HOST:PORT" or "[HOST]:PORT". A numeric address needs no resolver. */
static struct addrinfo *resolve_host(const char *where)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	struct addrinfo *list = 0;
	char text[300], *host = text, *port;

	if (strlen(where) >= sizeof(text))
		return 0;
	strcpy(text, where);
	port = strrchr(text, ':');
	if (!port)
		return 0;
	*port++ = 0;
	if (host[0] == '[' && host[strlen(host) - 1] == ']') {
		host[strlen(host) - 1] = 0;
		host++;
	}
	if (getaddrinfo(host, port, &hints, &list) == 0)
		return list;
	hints.ai_flags = AI_NUMERICSERV;
	return getaddrinfo(host, port, &hints, &list) ? 0 : list;
}

/* Polls again after signals, because the program's timers may interrupt this at
 * any time. */
static int wait_ready(int fd, short events, s64 end)
{
	struct pollfd file = {.fd = fd, .events = events};
	s64 left;
	int n = 0;

	do {
		left = (end - o2g_now_ns()) / 1000000;
		if (left > 0)
			n = poll(&file, 1, (int)left);
	} while (left > 0 && n < 0 && errno == EINTR);
	return left > 0 && n > 0;
}

static int send_report(const struct addrinfo *to, const struct o2g_report *r,
		       s64 end)
{
	int error = 0, ok = 0;
	socklen_t size = sizeof(error);
	int fd = socket(to->ai_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char byte;

	if (fd < 0)
		return 0;
	if ((connect(fd, to->ai_addr, to->ai_addrlen) == 0 ||
	     errno == EINPROGRESS) &&
	    wait_ready(fd, POLLOUT, end) &&
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
	    error == 0)
		ok = send(fd, r, sizeof(*r), MSG_NOSIGNAL) == sizeof(*r);
	shutdown(fd, SHUT_WR);
	/* The launcher closes the stream once it has the record. */
	while (ok && wait_ready(fd, POLLIN, end) && recv(fd, &byte, 1, 0) > 0)
		;
	close(fd);
	return ok;
}

void o2g_report_send(struct o2g *o2g, const struct o2g_counts *counts)
{
	const char *where = getenv("SKEP_O2G_REPORT");
	struct addrinfo *list, *i;
	struct o2g_report report;
	s64 end;

	if (!where || !*where)
		return;
	fill_report(o2g, counts, &report);
	list = resolve_host(where);
	end = o2g_now_ns() + TIMEOUT_MS * 1000000ll;
	for (i = list; i && !send_report(i, &report, end); i = i->ai_next)
		;
	if (!i)
		o2g_error_log_more("can't send the report to %s", where);
	if (list)
		freeaddrinfo(list);
}

/* ---- a process that calls exit() with open endpoints ---- */

/* Its peers see a failed process, because nothing shows that it sent
 * everything; but the launcher gets the report. A thread sends it, and exit()
 * waits for the thread with a timeout: a signal handler may have called exit()
 * during a call of this library. */
static void report_open(struct o2g *o2g)
{
	struct o2g_counts counts;

	o2g->ops->counts(o2g->engine, &counts);
	o2g_report_send(o2g, &counts);
}

static void *leave_all(void *none)
{
	o2g_fork_each(o2g_page_remove); /* takes no endpoint's lock */
	o2g_fork_each(report_open);
	o2g_fork_each(o2g_trace_flush);
	return none;
}

/* Runs after the program's own exit handlers, which may close endpoints. */
__attribute__((destructor)) static void at_exit(void)
{
	s64 end = o2g_now_ns() + EXIT_NS;
	struct timespec limit = {.tv_sec = (time_t)(end / 1000000000),
				 .tv_nsec = (int)(end % 1000000000)};
	pthread_t thread;

	if (o2g_fork_any() && o2g_spawn(&thread, leave_all, 0) == 0)
		pthread_clockjoin_np(thread, 0, CLOCK_MONOTONIC, &limit);
}
