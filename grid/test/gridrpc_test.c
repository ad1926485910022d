// SPDX-License-Identifier: MIT
/* libgridrpc against a hub of the test's own: threads, and hubs that fail. */
#define _GNU_SOURCE
#include <grid/include/grpc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tests/tap.h>
#include <unistd.h>

#include "hub.h"

#define THREADS 4
#define ROUNDS 50

static struct hub hub;
static grpc_function_handle_t sum;
static double ones[3] = {1, 1, 1};

/* Threads wait for one session together, and for whatever there is. */
static grpc_sessionid_t shared;
static double shared_total;

static void *wait_shared(void *arg)
{
	grpc_error_t error = grpc_wait(shared);

	*(int *)arg = (!error && shared_total == 3) ||
		      error == GRPC_INVALID_SESSION_ID;
	return NULL;
}

static void *run_calls(void *arg)
{
	grpc_sessionid_t id, some;
	double total;
	int i;

	*(int *)arg = 1;
	for (i = 0; i < ROUNDS; i++) {
		total = 0;
		if (grpc_call_async(&sum, &id, 3l, ones, &total))
			*(int *)arg = 0;
		if (grpc_probe_or(&id, 1, &some) > GRPC_NONE_COMPLETED)
			*(int *)arg = 0;
		if (grpc_wait(id) || total != 3 || grpc_get_error(id))
			*(int *)arg = 0;
	}
	return NULL;
}

static int run_threads(void *(*run)(void *))
{
	pthread_t thread[THREADS];
	int i, good[THREADS], all = 1;

	for (i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, run, &good[i]);
	for (i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		all &= good[i];
	}
	return all;
}

static void test_threads(void)
{
	grpc_sessionid_t one;
	int i, all = 1;

	for (i = 0; i < ROUNDS; i++) {
		shared_total = 0;
		all &= !grpc_call_async(&sum, &shared, 3l, ones, &shared_total);
		all &= run_threads(wait_shared);
	}
	tap_ok(all, "threads wait for one session together");
	tap_ok(run_threads(run_calls), "threads call at the same time");
	tap_ok(!grpc_wait_any(&one) && one == GRPC_SESSIONID_VOID,
	       "no session is left");
}

/* More sessions than are remembered: the oldest is forgotten. */
static void test_past(void)
{
	grpc_sessionid_t first, id = 0;
	double total;
	int i, all = 1;

	all &= !grpc_call_async(&sum, &first, 3l, ones, &total);
	all &= !grpc_wait(first) && !grpc_get_error(first);
	for (i = 0; i < 65536; i++)
		all &= !grpc_call_async(&sum, &id, 3l, ones, &total) &&
		       !grpc_wait(id);
	tap_ok(all && id == first + 65536 && !grpc_get_error(first + 1) &&
		       grpc_get_error(first) == GRPC_INVALID_SESSION_ID,
	       "the ends of the last 65536 sessions are kept");
}

#define LONG 10000 /* doubles: a result of many frames */

/* One call of a session in which the hub misbehaves, and one after it. */
static grpc_error_t call_once(enum hub_manner manner, int *sent)
{
	double *x = calloc(LONG, sizeof(*x));
	grpc_function_handle_t scale;
	grpc_sessionid_t id = 0;
	grpc_error_t error;

	hub_start(&hub, manner);
	setenv("SKEP_SOCKET", hub.path, 1);
	error = grpc_initialize(NULL);
	if (!error)
		error = grpc_function_handle_default(&scale,
						     (char *)"demo/scale");
	if (!error) {
		error = grpc_call(&scale, LONG, 2.0, x);
		*sent = !grpc_call_async(&scale, &id, LONG, 2.0, x) ||
			id != GRPC_SESSIONID_VOID;
	}
	grpc_finalize();
	hub_stop(&hub);
	free(x);
	return error;
}

/* Each failure is a code; none is printed. */
static void test_bad_hubs(void)
{
	static const struct {
		enum hub_manner manner;
		grpc_error_t error;
		const char *name;
	} cases[] = {
		{HUB_OLD, GRPC_COMMUNICATION_FAILED, "another revision"},
		{HUB_NONSENSE, GRPC_COMMUNICATION_FAILED, "no hub at all"},
		{HUB_LONG, GRPC_COMMUNICATION_FAILED, "a result too long"},
		{HUB_BREAKS, GRPC_COMMUNICATION_FAILED, "a hub that goes away"},
		{HUB_ENDS, GRPC_RPC_REFUSED, "a hub that ends the session"},
		{HUB_WRONG, GRPC_COMMUNICATION_FAILED, "a result for no call"},
	};
	int kept = dup(STDERR_FILENO), seen = memfd_create("stderr", 0);
	grpc_error_t error;
	int sent;
	u32 i;

	dup2(seen, STDERR_FILENO);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		sent = 0;
		error = call_once(cases[i].manner, &sent);
		/* Of a result that is too long the program hears first. */
		sent &= cases[i].manner != HUB_LONG;
		tap_ok(error == cases[i].error && !sent, "%s: code %d: %s",
		       cases[i].name, error, skep_grpc_error_text());
	}
	dup2(kept, STDERR_FILENO);
	tap_ok(lseek(seen, 0, SEEK_END) == 0, "nothing is printed");
	close(seen);
	close(kept);
}

static grpc_error_t call_sum(long n, void *x, int by_stack)
{
	grpc_arg_stack_t *stack = grpc_arg_stack_new(3);
	double total = 0;
	grpc_error_t error;

	grpc_arg_stack_push_arg(stack, &n);
	grpc_arg_stack_push_arg(stack, x);
	grpc_arg_stack_push_arg(stack, &total);
	error = by_stack ? grpc_call_argstack(&sum, stack)
			 : grpc_call(&sum, n, x, &total);
	grpc_arg_stack_destruct(stack);
	return !error && total != (double)n ? GRPC_OTHER_ERROR_CODE : error;
}

static int text_has(const char *words)
{
	return !!strstr(skep_grpc_error_text(), words);
}

static void test_null(void)
{
	int s;

	for (s = 0; s < 2; s++) {
		tap_ok(!call_sum(0, NULL, s) && !call_sum(0, ones, s),
		       "an array without elements may be null");
		tap_ok(call_sum(3, NULL, s) && text_has("argument x") &&
			       text_has("null pointer"),
		       "one with elements may not, and is named");
	}
}

static grpc_data_t old; /* of a session that was finalized */

static void init_ones(grpc_data_t *d)
{
	static const char *from[] = {"memory://localhost/ones", NULL};
	static const size_t dims[] = {3, 0};

	grpc_data_memory_mapping_set("ones", ones);
	tap_ok(!grpc_data_init(d, from, NULL, GRPC_DOUBLE, dims, NULL),
	       "data is described");
}

/* A handle that is none any more is not taken for an array. */
static void test_handles(void)
{
	char *end = mmap(NULL, 0x2000, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double *last = (double *)(end + 0x1000 - sizeof(*last));
	grpc_data_t d, copy;

	init_ones(&d);
	tap_ok(!call_sum(3, &d, 0) && !call_sum(3, &d, 1),
	       "data is given in place of an array");
	copy = d;
	tap_ok(!call_sum(3, &copy, 0), "a copy of the handle too");
	tap_ok(!grpc_data_free(&d, NULL) && call_sum(3, &d, 0) &&
		       text_has("argument x") && text_has("was freed"),
	       "a handle that was freed is refused");
	tap_ok(call_sum(3, &copy, 1) && text_has("was freed"),
	       "and so is its copy");
	tap_ok(call_sum(3, &old, 0) && text_has("was finalized"),
	       "a handle of an earlier session is refused");
	init_ones(&d);
	tap_ok(!grpc_data_unbind(&d) && call_sum(3, &d, 0) &&
		       text_has("was freed"),
	       "a handle that was unbound is refused");
	*last = 1;
	mprotect(end + 0x1000, 0x1000, PROT_NONE);
	tap_ok(!call_sum(1, last, 0), "nothing beyond an array is read");
	munmap(end, 0x2000);
}

int main(void)
{
	hub_start(&hub, HUB_GOOD);
	grpc_initialize(NULL);
	init_ones(&old);
	grpc_finalize();
	hub_stop(&hub);
	hub_start(&hub, HUB_GOOD);
	setenv("SKEP_SOCKET", hub.path, 1);
	tap_ok(!grpc_initialize(NULL) &&
		       !grpc_function_handle_default(&sum, (char *)"demo/sum"),
	       "a session is opened");
	test_threads();
	test_past();
	test_null();
	test_handles();
	grpc_finalize();
	hub_stop(&hub);
	test_bad_hubs();
	unsetenv("SKEP_SOCKET");
	tap_ok(grpc_initialize(NULL) == GRPC_COMMUNICATION_FAILED,
	       "without a hub there is no session");
	return tap_done();
}
