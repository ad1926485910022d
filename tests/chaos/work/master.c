// SPDX-License-Identifier: MIT
/*
 * Makes CALLS calls, WINDOW at a time from each of two threads, and checks that
 * each ends exactly once, with the right answer:
 *
 *	master CALLS WINDOW MICROSECONDS LOG
 *
 * Prints the number of each call that has ended, and at last one line with the
 * counts. Exit status 1: a call ended wrongly.
 */
#include "chaos.h"

#include <OmniRpc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 2
#define BASE 1000000
#define LARGE 100000 /* numbers, too many for a message */

struct slot {
	OmniRpcRequest request;
	int number, value[2], *data;
};

/* Every 16th call. */
static int is_large(int number)
{
	return number % 16 == 3;
}

static int calls, window, microseconds, next_call;
static char *log_name;
static int right, wrong, failed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int take_number(void)
{
	int number;

	pthread_mutex_lock(&lock);
	number = next_call < calls ? next_call++ : -1;
	pthread_mutex_unlock(&lock);
	return number;
}

static int begin_call(struct slot *s)
{
	s->number = take_number();
	s->request = NULL;
	if (s->number < 0)
		return 0;
	s->value[0] = BASE;
	s->value[1] = 0;
	if (is_large(s->number)) {
		chaos_number(s->data, LARGE);
		s->request = OmniRpcCallAsync("chaos.add", s->number, LARGE,
					      s->data, log_name);
		return 1;
	}
	s->request = OmniRpcCallAsync("chaos.step", s->number,
				      microseconds * (s->number % 5), s->value,
				      log_name);
	return 1;
}

static int is_right(const struct slot *s)
{
	int at = s->number % CHAOS_TABLE;

	if (is_large(s->number))
		return chaos_is_added(s->data, LARGE, s->number);
	return s->value[0] == BASE + chaos_answer(at) + s->number - at &&
	       s->value[1] == 1;
}

static void end_call(struct slot *s)
{
	int code = s->request ? OmniRpcWait(s->request) : OMRPC_ERROR;

	if (s->request)
		OmniRpcDestroyRequest(s->request);
	pthread_mutex_lock(&lock);
	if (code)
		failed++;
	else if (is_right(s))
		right++;
	else
		wrong++;
	printf("ended %d %s\n", s->number, code ? OmniRpcLastErrorText() : "");
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}

static void *call_all(void *arg)
{
	struct slot *slot = calloc((size_t)window, sizeof(*slot));
	int i, live = 0;

	(void)arg;
	for (i = 0; i < window; i++) {
		slot[i].data = calloc(LARGE, sizeof(*slot[i].data));
		live += begin_call(&slot[i]);
	}
	for (i = 0; live; i = (i + 1) % window) {
		if (slot[i].number < 0)
			continue;
		end_call(&slot[i]);
		live -= !begin_call(&slot[i]);
	}
	for (i = 0; i < window; i++)
		free(slot[i].data);
	free(slot);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];
	int table[CHAOS_TABLE], i;

	OmniRpcInit(&argc, &argv);
	if (argc != 5)
		return 2;
	calls = atoi(argv[1]);
	window = atoi(argv[2]);
	microseconds = atoi(argv[3]);
	log_name = argv[4];
	for (i = 0; i < CHAOS_TABLE; i++)
		table[i] = chaos_answer(i);
	if (OmniRpcModuleInit("chaos", CHAOS_TABLE, table)) {
		printf("failed %s\n", OmniRpcLastErrorText());
		return 1;
	}
	for (i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, call_all, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("%d right, %d wrong, %d failed\n", right, wrong, failed);
	OmniRpcFinalize();
	return wrong || failed || right != calls;
}
