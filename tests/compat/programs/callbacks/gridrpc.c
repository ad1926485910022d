/* SPDX-License-Identifier: MIT */
/* Functions of a GridRPC program that workers call, and that make calls of
 * GridRPC with arrays that stay in the grid. */
#include <grpc.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 1000

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			printf("line %d: %s: %s\n", __LINE__, #what,           \
			       skep_grpc_error_text());                        \
			exit(1);                                               \
		}                                                              \
	} while (0)

static grpc_function_handle_t count, walk;
static grpc_data_t input, left, inner_left, inner_input;
static double x[N], inner_x[N];
static grpc_sessionid_t outer, done;
static sem_t known;
static int calls;

static void add_up(int i, int *sum)
{
	*sum += i;
	calls++;
}

static void note_tick(int i, double *sum)
{
	calls++;
	*sum += i;
}

static void test_calls(void)
{
	grpc_sessionid_t id[6];
	grpc_arg_stack_t *stack;
	int sums[6] = {0}, times = 4, i;

	CHECK(!grpc_call(&count, 10, &sums[0], add_up) && sums[0] == 10);
	for (i = 0; i < 6; i++)
		CHECK(!grpc_call_async(&count, &id[i], i + 1, &sums[i],
				       add_up));
	CHECK(!grpc_wait_all());
	for (i = 0; i < 6; i++)
		CHECK(sums[i] == i + 1);
	stack = grpc_arg_stack_new(3);
	CHECK(stack && !grpc_arg_stack_push_arg(stack, &times) &&
	      !grpc_arg_stack_push_arg(stack, &sums[0]) &&
	      !grpc_arg_stack_push_arg(stack, (void *)add_up));
	CHECK(!grpc_call_arg_stack(&count, stack) && sums[0] == 4);
	CHECK(!grpc_arg_stack_destruct(stack));
}

/* A call with stored arrays, from within one: both leave a result. */
static void walk_again(int i, double *sum)
{
	const grpc_data_t *list[] = {&inner_left, NULL};
	grpc_sessionid_t id;
	double total = 0;

	calls++;
	CHECK(!grpc_call_async(&walk, &id, N, &inner_input, &inner_left, &total,
			       note_tick));
	CHECK(!grpc_data_wait(list, GRPC_WAIT_ALL, NULL));
	CHECK(!grpc_wait(id));
	CHECK(!grpc_call(&walk, N, &inner_left, inner_x, &total, note_tick));
	CHECK(inner_x[7] == 28 && total == 17986);
	*sum += i * total;
}

static void make_data(grpc_data_t *data, const char **uri)
{
	static const grpc_data_mode_t modes[] = {GRPC_STICKY, GRPC_END_LIST};
	static const size_t dims[] = {N, 0};

	CHECK(!grpc_data_init(data, uri, NULL, GRPC_DOUBLE, dims, modes));
}

static void test_data(void)
{
	static const char *uri[] = {"memory://localhost/x", NULL};
	double total = 0, again[N];
	int i;

	for (i = 0; i < N; i++)
		x[i] = i % 13;
	CHECK(!grpc_data_memory_mapping_set("x", x));
	make_data(&input, uri);
	make_data(&inner_input, uri);
	make_data(&left, NULL);
	make_data(&inner_left, NULL);
	calls = 0;
	CHECK(!grpc_call(&walk, N, &input, &left, &total, walk_again));
	CHECK(calls == 10 && total == 41966);
	CHECK(!grpc_call(&walk, N, &left, again, &total, note_tick));
	CHECK(again[7] == 28);
}

static void try_outer(int i, double *sum)
{
	const grpc_data_t *list[] = {&left, NULL};
	grpc_sessionid_t id = 0, other;
	int ticks = 0;

	sem_wait(&known);
	CHECK(grpc_wait(outer) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "tick runs for a call"));
	CHECK(grpc_data_wait(list, GRPC_WAIT_ALL, NULL) == GRPC_RPC_REFUSED);
	CHECK(grpc_data_wait(list, GRPC_WAIT_ANY, NULL) == GRPC_RPC_REFUSED);
	CHECK(!grpc_call_async(&count, &other, 3, &ticks, add_up));
	CHECK(grpc_wait_all() == GRPC_RPC_REFUSED);
	CHECK(!grpc_get_failed_sessionid(&id) && id == GRPC_SESSIONID_VOID);
	CHECK(grpc_wait_any(&id) == GRPC_RPC_REFUSED);
	CHECK(grpc_probe(outer) == GRPC_NOT_COMPLETED);
	CHECK(grpc_data_free(&left, NULL) == GRPC_NOT_COMPLETED);
	CHECK(!grpc_wait(other) && ticks == 3);
	if (calls == 3) /* another's, which has ended */
		CHECK(!grpc_wait_and(&done, 1));
	CHECK(grpc_finalize() == GRPC_RPC_REFUSED);
	calls++;
	*sum += i;
	sem_post(&known);
}

static void cancel_outer(int i, double *sum)
{
	(void)i;
	sem_wait(&known);
	calls++;
	CHECK(!grpc_cancel(outer));
	*sum = 0;
}

static void test_refusals(void)
{
	double total = 0;
	int ended = 0;

	sem_init(&known, 0, 0);
	CHECK(!grpc_call_async(&count, &done, 2, &ended, add_up));
	while (grpc_probe(done) == GRPC_NOT_COMPLETED)
		usleep(1000);
	calls = 0;
	CHECK(!grpc_call_async(&walk, &outer, N, &input, &left, &total,
			       try_outer));
	sem_post(&known);
	CHECK(!grpc_wait(outer));
	CHECK(calls == 8 && ended == 2);
	sem_destroy(&known);
	sem_init(&known, 0, 0);
	calls = 0;
	CHECK(!grpc_call_async(&walk, &outer, N, &input, &left, &total,
			       cancel_outer));
	sem_post(&known);
	CHECK(grpc_wait(outer) == GRPC_SESSION_FAILED && calls == 1);
	CHECK(grpc_get_error(outer) == GRPC_CANCELED_NP);
	CHECK(grpc_call(&count, 1, &calls, NULL) == GRPC_RPC_REFUSED);
}

int main(void)
{
	CHECK(!grpc_initialize(NULL));
	CHECK(!grpc_function_handle_default(&count, (char *)"callbacks/count"));
	CHECK(!grpc_function_handle_default(&walk, (char *)"callbacks/walk"));
	test_calls();
	test_data();
	test_refusals();
	CHECK(!grpc_finalize());
	printf("right\n");
	return 0;
}
