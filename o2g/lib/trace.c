// SPDX-License-Identifier: MIT
/*
 * Recording when operations were submitted and when their completions were
 * taken, as JSON trace events. Times are those of the wall clock, so that the
 * files of several hosts can be put together. `lock` guards everything; it is
 * locked under `submit` or `take`, or by a process that exits, so it is free
 * during fork().
 */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "trace.h"
#include "endpoint.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHAINS 1024
#define BUFFER 0x10000
#define LINE_MAX_BYTES 1024 /* of one record */

/* An operation without its completion. */
struct span {
	struct span *next;
	struct o2g_sqe sqe;
	u64 began; /* ns of the wall clock */
	u64 id;
};

struct o2g_trace {
	pthread_mutex_t lock;
	int file; /* -1 after an error */
	u64 ids;
	struct span *chain[CHAINS]; /* the oldest first */
	struct span *spare;
	size_t used;
	char buffer[BUFFER];
};

static u64 wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}

static void write_out(struct o2g_trace *t)
{
	size_t done = 0;

	while (t->file >= 0 && done < t->used) {
		ssize_t n = write(t->file, t->buffer + done, t->used - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		o2g_error_log("SKEP_O2G_TRACE: %s: the trace ends here",
			      strerror(n < 0 ? errno : EIO));
		close(t->file);
		t->file = -1;
	}
	t->used = 0;
}

__attribute__((format(printf, 2, 3))) static void
add_text(struct o2g_trace *t, const char *format, ...)
{
	va_list ap;

	if (t->used + LINE_MAX_BYTES > BUFFER)
		write_out(t);
	va_start(ap, format);
	t->used += (size_t)vsnprintf(t->buffer + t->used, LINE_MAX_BYTES,
				     format, ap);
	va_end(ap);
}

/* ---- the file ---- */

/* A program's name, which may have any bytes, as text of JSON. */
static const char *plain_name(char out[64])
{
	const char *in = program_invocation_short_name;
	size_t n = 0;

	for (; in[n] && n < 63; n++)
		out[n] = in[n] < ' ' || in[n] > '~' || strchr("\"\\", in[n])
				 ? '?'
				 : in[n];
	out[n] = 0;
	return out;
}

static int create_file(const struct o2g *o2g, const char *folder)
{
	const u8 *id = o2g->identity.id.byte;
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/%d-%02x%02x%02x%02x.json", folder,
		     (int)getpid(), id[0], id[1], id[2],
		     id[3]) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
}

int o2g_trace_open(struct o2g *o2g)
{
	const char *folder = getenv("SKEP_O2G_TRACE");
	char host[65] = "", name[64];
	struct o2g_trace *t;

	if (!folder || !*folder)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return o2g_error_set(-ENOMEM, "no memory for a trace");
	t->file = create_file(o2g, folder);
	if (t->file < 0) {
		const int r = t->file == -1 ? -errno : t->file;

		free(t);
		return o2g_error_set(r,
				     "can't create a file in '%s' "
				     "(SKEP_O2G_TRACE): %s; it must be a "
				     "folder that this user can write to",
				     folder, strerror(-r));
	}
	pthread_mutex_init(&t->lock, 0);
	gethostname(host, sizeof(host) - 1);
	add_text(t,
		 "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,"
		 "\"tid\":0,\"args\":{\"name\":\"%s on %s (O2G)\"}}",
		 (int)getpid(), plain_name(name), host);
	o2g->trace = t;
	return 0;
}

static void free_spans(struct span *span)
{
	while (span) {
		struct span *next = span->next;

		free(span);
		span = next;
	}
}

void o2g_trace_close(struct o2g *o2g)
{
	struct o2g_trace *t = o2g->trace;

	if (!t)
		return;
	add_text(t, "\n]\n");
	write_out(t);
	if (t->file >= 0)
		close(t->file);
	for (int i = 0; i < CHAINS; i++)
		free_spans(t->chain[i]);
	free_spans(t->spare);
	pthread_mutex_destroy(&t->lock);
	free(t);
	o2g->trace = 0;
}

void o2g_trace_flush(struct o2g *o2g)
{
	if (!o2g->trace)
		return;
	pthread_mutex_lock(&o2g->trace->lock);
	write_out(o2g->trace);
	pthread_mutex_unlock(&o2g->trace->lock);
}

void o2g_trace_fork(struct o2g *o2g)
{
	if (o2g->trace && o2g->trace->file >= 0)
		close(o2g->trace->file);
	o2g->trace = 0;
}

/* ---- operations ---- */

static const char *operation_name(u8 op)
{
	switch (op) {
	case O2G_OP_RECV:
		return "receive";
	case O2G_OP_SEND:
		return "send";
	case O2G_OP_WRITE:
		return "put";
	case O2G_OP_READ:
		return "get";
	case O2G_OP_ATOMIC:
		return "atomic";
	}
	return 0;
}

static struct span **chain_of(struct o2g_trace *t, u64 cookie)
{
	return &t->chain[(cookie * 0x9e3779b97f4a7c15ull >> 32) % CHAINS];
}

void o2g_trace_begin(struct o2g *o2g, const struct o2g_sqe *sqe)
{
	struct o2g_trace *t = o2g->trace;
	struct span *span, **at;

	if (!t || !operation_name(sqe->op))
		return;
	pthread_mutex_lock(&t->lock);
	t->ids++;
	span = t->spare;
	if (span)
		t->spare = span->next;
	else
		span = malloc(sizeof(*span));
	if (span) { /* without memory its completion is not traced */
		*span = (struct span){
			.sqe = *sqe, .began = wall_ns(), .id = t->ids};
		at = chain_of(t, sqe->cookie);
		while (*at)
			at = &(*at)->next;
		*at = span;
	}
	pthread_mutex_unlock(&t->lock);
}

/* Programs may use a cookie for several operations at a time; of those of one
 * kind, the oldest ends first. */
static struct span **find_span(struct o2g_trace *t, u8 op, u64 cookie)
{
	struct span **at = chain_of(t, cookie);

	while (*at && ((*at)->sqe.op != op || (*at)->sqe.cookie != cookie))
		at = &(*at)->next;
	return at;
}

static void drop_span(struct o2g_trace *t, struct span **at)
{
	struct span *span = *at;

	*at = span->next;
	span->next = t->spare;
	t->spare = span;
}

void o2g_trace_undo(struct o2g *o2g, const struct o2g_sqe *sqe)
{
	struct o2g_trace *t = o2g->trace;
	struct span **at;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	at = chain_of(t, sqe->cookie);
	while (*at && (*at)->id != t->ids) /* the one that began last */
		at = &(*at)->next;
	if (*at)
		drop_span(t, at);
	pthread_mutex_unlock(&t->lock);
}

/* A beginning and an end, or one of several messages of a receive. */
static void add_event(struct o2g_trace *t, const struct span *span,
		      const struct o2g_cqe *cqe, char phase, u64 ns)
{
	add_text(t,
		 ",\n{\"name\":\"%s\",\"cat\":\"o2g\",\"ph\":\"%c\","
		 "\"id\":%llu,\"pid\":%d,\"tid\":%d,\"ts\":%llu.%03llu",
		 operation_name(span->sqe.op), phase, span->id, (int)getpid(),
		 span->sqe.op, ns / 1000, ns % 1000);
	if (phase == 'e') {
		add_text(t, "}");
		return;
	}
	add_text(t,
		 ",\"args\":{\"peer\":%lld,\"context\":%u,\"tag\":\"%#llx\","
		 "\"bytes\":%llu,\"status\":%d}}",
		 cqe->peer >= O2G_NO_PEER ? -1ll : (long long)cqe->peer,
		 cqe->context, cqe->tag,
		 span->sqe.op == O2G_OP_RECV ? cqe->length : span->sqe.length,
		 cqe->status);
}

void o2g_trace_end(struct o2g *o2g, const struct o2g_cqe *cqe)
{
	struct o2g_trace *t = o2g->trace;
	struct span **at;
	u64 now;

	if (!t || !operation_name(cqe->op))
		return;
	now = wall_ns();
	pthread_mutex_lock(&t->lock);
	at = find_span(t, cqe->op, cqe->cookie);
	if (*at && cqe->flags & O2G_CQE_MORE) {
		add_event(t, *at, cqe, 'n', now);
	} else if (*at) {
		add_event(t, *at, cqe, 'b', (*at)->began);
		add_event(t, *at, cqe, 'e', now);
		drop_span(t, at);
	}
	pthread_mutex_unlock(&t->lock);
}
