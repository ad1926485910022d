// SPDX-License-Identifier: MIT
/*
 * Owns the sessions of GridRPC: calls that were not waited for, by number, and
 * how those ended that were. `lock` guards all of it; it is taken after a
 * client's lock.
 */
#include "gridrpc.h"

#include <limits.h>
#include <signal.h>
#include <skep/assert.h>
#include <stdlib.h>

#define BUCKETS 1024 /* a power of two */
#define PAST_MAX 65536

struct session {
	grpc_sessionid_t id;
	struct skep_request *request;
	struct gridrpc_maker maker;
	u32 users;    /* threads that look at it */
	int over;     /* it was waited for; the last user frees it */
	u64 deadline; /* of grid_clock(); 0: none, or it was late */
	int late;     /* it was cancelled for that */
	struct session *next;
	struct session *earlier, *later; /* by deadline, if there is one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The thread that cancels sessions at their deadlines, from the first one to
 * grpc_finalize. `limits` is signalled when it has something to do. */
static pthread_cond_t limits;
static pthread_t limiter;
static int limiting, stopping;
static struct session *first_due, *last_due;
static struct session *bucket[BUCKETS];
static grpc_sessionid_t next_id;
static size_t live;

/* Of sessions that were waited for; id is one higher, so 0 is none. */
static struct {
	u32 id;
	grpc_error_t error;
	struct gridrpc_maker maker;
} past[PAST_MAX];

static grpc_sessionid_t failed[PAST_MAX];
static u32 failed_first, failed_end;

static struct session **session_link(grpc_sessionid_t id)
{
	struct session **link = &bucket[(u32)id % BUCKETS];

	while (*link && (*link)->id != id)
		link = &(*link)->next;
	return link;
}

grpc_error_t gridrpc_session_add(struct skep_request *r,
				 struct gridrpc_maker maker,
				 grpc_sessionid_t *id)
{
	struct session *s = calloc(1, sizeof(*s));
	struct session **link;

	if (!s)
		return GRPC_OTHER_ERROR_CODE;
	s->request = r;
	s->maker = maker;
	pthread_mutex_lock(&lock);
	do {
		s->id = next_id;
		next_id = next_id == INT_MAX ? 0 : next_id + 1;
		link = session_link(s->id);
	} while (*link);
	*link = s;
	live++;
	*id = s->id;
	pthread_mutex_unlock(&lock);
	return GRPC_NO_ERROR;
}

void gridrpc_session_clear(void)
{
	struct session *s;
	u32 i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < BUCKETS; i++) {
		while ((s = bucket[i])) {
			bucket[i] = s->next;
			free(s);
		}
	}
	first_due = last_due = NULL;
	for (i = 0; i < PAST_MAX; i++)
		past[i].id = 0;
	failed_first = failed_end = 0;
	live = 0;
	pthread_mutex_unlock(&lock);
}

static struct session *session_get(grpc_sessionid_t id)
{
	struct session *s;

	pthread_mutex_lock(&lock);
	s = *session_link(id);
	if (s)
		s->users++;
	pthread_mutex_unlock(&lock);
	if (!s)
		gridrpc_error_set(GRPC_INVALID_SESSION_ID,
				  "there is no session %d: it was never made, "
				  "or it was waited for already",
				  id);
	return s;
}

static void session_put(struct grid_client *c, struct session *s)
{
	int last;

	pthread_mutex_lock(&lock);
	last = !--s->users && s->over;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	grid_request_free(c, s->request);
	free(s);
}

/* Deadlines grow with the time of their calls, mostly: the place is near the
 * end. lock is held. */
static void deadline_set(struct session *s, u64 deadline)
{
	struct session *before = last_due;

	skep_assert(pthread_mutex_trylock(&lock));
	while (before && before->deadline > deadline)
		before = before->earlier;
	s->deadline = deadline;
	s->earlier = before;
	s->later = before ? before->later : first_due;
	*(before ? &before->later : &first_due) = s;
	*(s->later ? &s->later->earlier : &last_due) = s;
}

/* lock is held. */
static void deadline_drop(struct session *s)
{
	skep_assert(pthread_mutex_trylock(&lock));
	if (!s->deadline)
		return;
	*(s->earlier ? &s->earlier->later : &first_due) = s->later;
	*(s->later ? &s->later->earlier : &last_due) = s->earlier;
	s->deadline = 0;
}

/* lock is held. */
static void session_retire(struct session *s, grpc_error_t error)
{
	skep_assert(pthread_mutex_trylock(&lock));
	if (s->over)
		return; /* another thread waited for it as well */
	s->over = 1;
	deadline_drop(s);
	*session_link(s->id) = s->next;
	live--;
	past[s->id % PAST_MAX].id = (u32)s->id + 1;
	past[s->id % PAST_MAX].error = error;
	past[s->id % PAST_MAX].maker = s->maker;
}

/* As Ninf-G: waits return GRPC_SESSION_FAILED for a cancelled call, and only
 * grpc_get_error says that it was cancelled. */
static grpc_error_t error_of_ended(const struct session *s, int code)
{
	if (code == OMRPC_E_CANCELLED)
		return s->late ? GRPC_TIMEOUT_NP : GRPC_CANCELED_NP;
	return gridrpc_error_of(code);
}

/* Waits for a session that the caller holds, which it then does not. */
static grpc_error_t session_finish(struct grid_client *c, struct session *s)
{
	int code = grid_request_wait(c, s->request);

	if (grid_request_ended(c,
			       s->request)) { /* or a callback waits for it */
		pthread_mutex_lock(&lock);
		if (code == OMRPC_E_CANCELLED && s->late)
			grid_error_set(code,
				       "the call had not ended within its "
				       "GRPC_SESSION_ATTR_SESSION_TIMEOUT");
		session_retire(s, error_of_ended(s, code));
		pthread_mutex_unlock(&lock);
	}
	session_put(c, s);
	return gridrpc_error_of(code);
}

/* Deadlines -----------------------------------------------------------------
 */

/* lock is held, and is not for a moment. */
static void cancel_late(struct grid_client *c, struct session *s)
{
	skep_assert(pthread_mutex_trylock(&lock));
	s->users++;
	deadline_drop(s);
	s->late = 1;
	pthread_mutex_unlock(&lock);
	if (!grid_request_ended(c, s->request))
		grid_request_cancel(c, s->request);
	session_put(c, s);
	pthread_mutex_lock(&lock);
}

static void *keep_deadlines(void *client)
{
	struct timespec until;
	struct session *s;

	pthread_mutex_lock(&lock);
	while (!stopping) {
		s = first_due;
		if (!s) {
			pthread_cond_wait(&limits, &lock);
		} else if (s->deadline <= grid_clock()) {
			cancel_late(client, s);
		} else {
			until.tv_sec = (time_t)(s->deadline / 1000000000);
			until.tv_nsec = (long)(s->deadline % 1000000000);
			pthread_cond_timedwait(&limits, &lock, &until);
		}
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* lock is held. 0, or an error of pthread_create. The thread blocks all
 * signals: the program's handlers do not run in it. */
static int start_limiter(struct grid_client *c)
{
	pthread_condattr_t monotonic;
	sigset_t all, before;
	int err;

	skep_assert(pthread_mutex_trylock(&lock));
	if (limiting)
		return 0;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&limits, &monotonic);
	pthread_condattr_destroy(&monotonic);
	stopping = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&limiter, NULL, keep_deadlines, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	limiting = !err;
	return err;
}

grpc_error_t gridrpc_session_limit(grpc_sessionid_t id, u64 deadline)
{
	struct session *s;
	int err;

	pthread_mutex_lock(&lock);
	err = start_limiter(gridrpc_client());
	s = *session_link(id);
	if (!err && s) {
		deadline_set(s, deadline);
		if (s == first_due)
			pthread_cond_signal(&limits);
	}
	pthread_mutex_unlock(&lock);
	return err ? gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
				       "no thread can watch the time of a call")
		   : GRPC_NO_ERROR;
}

void gridrpc_session_stop(void)
{
	int had;

	pthread_mutex_lock(&lock);
	had = limiting;
	stopping = 1;
	limiting = 0;
	if (had)
		pthread_cond_signal(&limits);
	pthread_mutex_unlock(&lock);
	if (!had)
		return;
	pthread_join(limiter, NULL);
	pthread_cond_destroy(&limits);
}

/* Failures of waits for several -------------------------------------------- */

static void failures_clear(void)
{
	pthread_mutex_lock(&lock);
	failed_first = failed_end = 0;
	pthread_mutex_unlock(&lock);
}

/* The result of such a wait: the oldest of too many failures is forgotten. */
static grpc_error_t failure_add(grpc_sessionid_t id, grpc_error_t error)
{
	if (!error)
		return GRPC_NO_ERROR;
	pthread_mutex_lock(&lock);
	failed[failed_end++ % PAST_MAX] = id;
	if (failed_end - failed_first > PAST_MAX)
		failed_first++;
	pthread_mutex_unlock(&lock);
	return GRPC_SESSION_FAILED;
}

grpc_error_t grpc_get_failed_sessionid(grpc_sessionid_t *id)
{
	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	*id = failed_first == failed_end ? GRPC_SESSIONID_VOID
					 : failed[failed_first++ % PAST_MAX];
	pthread_mutex_unlock(&lock);
	return GRPC_NO_ERROR;
}

/* Lists of sessions -------------------------------------------------------- */

static grpc_error_t check_all(const grpc_sessionid_t *ids, size_t count)
{
	struct grid_client *c = gridrpc_client();
	struct session *s;
	size_t i;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	for (i = 0; i < count; i++) {
		s = session_get(ids[i]);
		if (!s)
			return GRPC_INVALID_SESSION_ID;
		session_put(c, s);
	}
	return GRPC_NO_ERROR;
}

/* The sessions that are there, in a list that the caller frees. */
static grpc_error_t list_all(grpc_sessionid_t **list, size_t *count)
{
	grpc_sessionid_t *ids;
	struct session *s;
	size_t n = 0;
	u32 i;

	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	ids = malloc((live + 1) * sizeof(*ids));
	for (i = 0; ids && i < BUCKETS; i++) {
		for (s = bucket[i]; s; s = s->next)
			ids[n++] = s->id;
	}
	pthread_mutex_unlock(&lock);
	*list = ids;
	*count = n;
	return ids ? GRPC_NO_ERROR : gridrpc_error_memory();
}

/*
 * c->lock and `lock` are held. One of `ids` that has ended, with the caller as
 * a user; *there: one was found at all.
 */
static struct session *find_finished(struct grid_client *c,
				     const grpc_sessionid_t *ids, size_t count,
				     int *there)
{
	struct session *s;
	size_t i;

	skep_assert(pthread_mutex_trylock(&c->lock));
	skep_assert(pthread_mutex_trylock(&lock));
	*there = 0;
	for (i = 0; i < count; i++) {
		s = *session_link(ids[i]);
		if (!s)
			continue;
		*there = 1;
		if (!s->request->ended)
			continue;
		s->users++;
		return s;
	}
	return NULL;
}

/* One of `ids` that has ended; without `wait`, or if none is there, NULL. */
static struct session *get_finished(struct grid_client *c,
				    const grpc_sessionid_t *ids, size_t count,
				    int wait)
{
	struct session *s;
	int there;

	pthread_mutex_lock(&c->lock);
	for (;;) {
		pthread_mutex_lock(&lock);
		s = find_finished(c, ids, count, &there);
		pthread_mutex_unlock(&lock);
		if (s || !there || !wait)
			break;
		pthread_cond_wait(&c->ended, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return s;
}

/* In a function that a call runs: one of the sessions is not its own, and has
 * not ended. */
static int is_refused(struct grid_client *c, const grpc_sessionid_t *ids,
		      size_t count)
{
	struct session *s;
	size_t i;
	int refused = 0;

	pthread_mutex_lock(&c->lock);
	pthread_mutex_lock(&lock);
	for (i = 0; i < count && !refused; i++) {
		s = *session_link(ids[i]);
		refused = s && !s->request->ended &&
			  grid_back_refuse_wait(s->request);
	}
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&c->lock);
	return refused;
}

static grpc_error_t wait_one_of(const grpc_sessionid_t *ids, size_t count,
				grpc_sessionid_t *id, grpc_error_t none)
{
	struct grid_client *c = gridrpc_client();
	struct session *s;

	failures_clear();
	if (is_refused(c, ids, count))
		return gridrpc_error_of(OMRPC_E_REFUSED);
	s = get_finished(c, ids, count, 1);
	*id = s ? s->id : GRPC_SESSIONID_VOID;
	if (!s)
		return gridrpc_error_set(none, "no session is left to wait "
					       "for");
	return failure_add(*id, session_finish(c, s));
}

/* The API ------------------------------------------------------------------ */

grpc_error_t grpc_wait(grpc_sessionid_t id)
{
	struct grid_client *c = gridrpc_client();
	struct session *s;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	s = session_get(id);
	return s ? session_finish(c, s) : GRPC_INVALID_SESSION_ID;
}

grpc_error_t grpc_wait_and(grpc_sessionid_t *ids, size_t count)
{
	grpc_error_t error = check_all(ids, count);
	struct grid_client *c = gridrpc_client();
	struct session *s;
	size_t i;

	if (error)
		return error;
	failures_clear();
	if (is_refused(c, ids, count)) /* those did not fail */
		return gridrpc_error_of(OMRPC_E_REFUSED);
	for (i = 0; i < count; i++) {
		s = session_get(ids[i]); /* none: the list has it twice */
		if (s && failure_add(ids[i], session_finish(c, s)))
			error = GRPC_SESSION_FAILED;
	}
	return error;
}

grpc_error_t grpc_wait_or(grpc_sessionid_t *ids, size_t count,
			  grpc_sessionid_t *id)
{
	grpc_error_t error = check_all(ids, count);

	return error ? error
		     : wait_one_of(ids, count, id, GRPC_INVALID_SESSION_ID);
}

grpc_error_t grpc_wait_all(void)
{
	grpc_sessionid_t *ids;
	size_t count;
	grpc_error_t error = list_all(&ids, &count);

	if (error)
		return error;
	error = grpc_wait_and(ids, count);
	free(ids);
	return error;
}

grpc_error_t grpc_wait_any(grpc_sessionid_t *id)
{
	grpc_sessionid_t *ids;
	size_t count;
	grpc_error_t error = list_all(&ids, &count);

	if (error)
		return error;
	error = wait_one_of(ids, count, id, GRPC_NO_ERROR);
	free(ids);
	return error;
}

grpc_error_t grpc_probe(grpc_sessionid_t id)
{
	struct grid_client *c = gridrpc_client();
	struct session *s;
	int ended;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	s = session_get(id);
	if (!s)
		return GRPC_INVALID_SESSION_ID;
	ended = grid_request_ended(c, s->request);
	session_put(c, s);
	return ended ? GRPC_NO_ERROR : GRPC_NOT_COMPLETED;
}

grpc_error_t grpc_probe_or(grpc_sessionid_t *ids, size_t count,
			   grpc_sessionid_t *id)
{
	grpc_error_t error = check_all(ids, count);
	struct grid_client *c = gridrpc_client();
	struct session *s;

	if (error)
		return error;
	s = get_finished(c, ids, count, 0);
	*id = s ? s->id : GRPC_SESSIONID_VOID;
	if (!s)
		return GRPC_NONE_COMPLETED;
	session_put(c, s);
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_cancel(grpc_sessionid_t id)
{
	struct grid_client *c = gridrpc_client();
	struct session *s;
	int code = OMRPC_OK;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	s = session_get(id);
	if (!s)
		return GRPC_INVALID_SESSION_ID;
	if (!grid_request_ended(c, s->request))
		code = grid_request_cancel(c, s->request);
	session_put(c, s);
	return gridrpc_error_of(code);
}

grpc_error_t grpc_cancel_all(void)
{
	grpc_sessionid_t *ids;
	size_t i, count;
	grpc_error_t error = list_all(&ids, &count);

	if (error)
		return error;
	for (i = 0; i < count && error != GRPC_COMMUNICATION_FAILED; i++)
		error = grpc_cancel(ids[i]);
	free(ids);
	/* One that is gone was waited for meanwhile. */
	return error == GRPC_INVALID_SESSION_ID ? GRPC_NO_ERROR : error;
}

grpc_error_t gridrpc_session_past(grpc_sessionid_t id)
{
	grpc_error_t error = GRPC_INVALID_SESSION_ID;

	pthread_mutex_lock(&lock);
	if (id >= 0 && past[id % PAST_MAX].id == (u32)id + 1)
		error = past[id % PAST_MAX].error;
	pthread_mutex_unlock(&lock);
	return error;
}

grpc_error_t grpc_get_error(grpc_sessionid_t id)
{
	struct grid_client *c = gridrpc_client();
	grpc_error_t error = GRPC_NOT_COMPLETED;
	struct session *s;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	s = session_get(id);
	if (!s)
		return gridrpc_session_past(id);
	if (grid_request_ended(c, s->request))
		error = error_of_ended(s, grid_request_wait(c, s->request));
	session_put(c, s);
	return error;
}

/* The session may have been waited for if `ended` says so. */
static grpc_error_t find_maker(grpc_sessionid_t id, int ended,
			       struct gridrpc_maker *maker)
{
	const struct session *s;
	int found = 1;

	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	s = *session_link(id);
	if (s)
		*maker = s->maker;
	else if (ended && id >= 0 && past[id % PAST_MAX].id == (u32)id + 1)
		*maker = past[id % PAST_MAX].maker;
	else
		found = 0;
	pthread_mutex_unlock(&lock);
	return found ? GRPC_NO_ERROR
		     : gridrpc_error_set(GRPC_INVALID_SESSION_ID,
					 "there is no session %d: it was never "
					 "made, or it was waited for already",
					 id);
}

static grpc_error_t find_function(grpc_sessionid_t id, int ended,
				  grpc_function_handle_t **handle)
{
	struct gridrpc_maker maker;
	grpc_error_t error = find_maker(id, ended, &maker);

	if (error)
		return error;
	*handle = maker.function;
	return *handle ? GRPC_NO_ERROR
		       : gridrpc_error_set(
				 GRPC_INVALID_SESSION_ID,
				 "session %d is a method's, which has "
				 "an object handle",
				 id);
}

grpc_error_t grpc_get_handle(grpc_function_handle_t **handle,
			     grpc_sessionid_t id)
{
	return find_function(id, 0, handle);
}

grpc_error_t
grpc_function_handle_get_from_session_np(grpc_function_handle_t **handle,
					 grpc_sessionid_t id)
{
	return find_function(id, 1, handle);
}

grpc_error_t
grpc_object_handle_get_from_session_np(grpc_object_handle_t_np **handle,
				       grpc_sessionid_t id)
{
	struct gridrpc_maker maker;
	grpc_error_t error = find_maker(id, 1, &maker);

	if (error)
		return error;
	*handle = maker.object;
	return *handle ? GRPC_NO_ERROR
		       : gridrpc_error_set(GRPC_INVALID_SESSION_ID,
					   "session %d is a function's, which "
					   "has no object handle",
					   id);
}
