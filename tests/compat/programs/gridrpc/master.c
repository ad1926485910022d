// SPDX-License-Identifier: MIT
/* GridRPC: handles, calls, the waits, probes, cancelling, argument stacks. */
#include <complex.h>
#include <grpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS 8

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			printf("line %d: %s: %s\n", __LINE__, #what,           \
			       skep_grpc_error_text());                        \
			exit(1);                                               \
		}                                                              \
	} while (0)

static grpc_function_handle_t add, nap;

static void test_before(void)
{
	grpc_function_handle_t h;
	grpc_sessionid_t id = 0;

	CHECK(grpc_call(&h, 1) == GRPC_NOT_INITIALIZED);
	CHECK(grpc_wait_all() == GRPC_NOT_INITIALIZED);
	CHECK(grpc_wait_any(&id) == GRPC_NOT_INITIALIZED);
	CHECK(grpc_wait_and(&id, 1) == GRPC_NOT_INITIALIZED);
	CHECK(grpc_wait_or(&id, 1, &id) == GRPC_NOT_INITIALIZED);
	CHECK(grpc_finalize() == GRPC_NOT_INITIALIZED);
	CHECK(grpc_initialize((char *)"none.conf") ==
	      GRPC_CONFIGFILE_NOT_FOUND);
	CHECK(grpc_initialize((char *)"/") == GRPC_CONFIGFILE_ERROR);
}

static void test_config(void)
{
	FILE *f = fopen("wrong.conf", "w");

	fprintf(f, "# a comment\n\n<CLIENT>\n");
	fclose(f);
	CHECK(grpc_initialize((char *)"wrong.conf") == GRPC_CONFIGFILE_ERROR);
	CHECK(strstr(skep_grpc_error_text(), "wrong.conf:3:"));
	f = fopen("wrong.conf", "w");
	fprintf(f, "hub /one\nhub /two\n");
	fclose(f);
	CHECK(grpc_initialize((char *)"wrong.conf") == GRPC_CONFIGFILE_ERROR);
	CHECK(strstr(skep_grpc_error_text(), "wrong.conf:2:"));
	f = fopen("right.conf", "w");
	fprintf(f, "# a comment\n hub\t%s \n", getenv("SKEP_SOCKET"));
	fclose(f);
	unsetenv("SKEP_SOCKET");
	CHECK(grpc_initialize(NULL) == GRPC_COMMUNICATION_FAILED);
	CHECK(!grpc_initialize((char *)"right.conf"));
	CHECK(grpc_initialize(NULL) == GRPC_ALREADY_INITIALIZED);
}

static void test_handles(void)
{
	grpc_function_handle_t h;
	int y = 0;

	CHECK(grpc_function_handle_default(&h, (char *)"gridrpc/none") ==
	      GRPC_FUNCTION_NOT_FOUND);
	CHECK(grpc_function_handle_default(&h, (char *)"nothing/none") ==
	      GRPC_FUNCTION_NOT_FOUND);
	CHECK(grpc_function_handle_default(&h, NULL) ==
	      GRPC_FUNCTION_NOT_FOUND);
	CHECK(grpc_function_handle_init(&h, (char *)"no-such-node",
					(char *)"add") ==
	      GRPC_SERVER_NOT_FOUND);
	CHECK(grpc_call(&h, 1, &y) == GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(!grpc_function_handle_init(&h, (char *)"localhost",
					 (char *)"gridrpc.add"));
	CHECK(!grpc_call(&h, 41, &y) && y == 42);
	CHECK(!grpc_function_handle_destruct(&h));
	CHECK(grpc_function_handle_destruct(&h) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(grpc_call(&h, 41, &y) == GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(!grpc_function_handle_default(&add, (char *)"gridrpc/add"));
	CHECK(!grpc_function_handle_default(&nap, (char *)"nap"));
	CHECK(!grpc_call(&add, -3, &y) && y == -2);
}

static void test_arrays(void)
{
	grpc_function_handle_t h[3];
	int y = 0, i;

	CHECK(grpc_function_handle_array_default_np(h, 0,
						    (char *)"gridrpc/add") ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(grpc_function_handle_array_default_np(NULL, 3,
						    (char *)"gridrpc/add") ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(grpc_function_handle_array_default_np(
		      h, 3, (char *)"gridrpc/none") == GRPC_FUNCTION_NOT_FOUND);
	for (i = 0; i < 2; i++) {
		CHECK(!(i ? grpc_function_handle_array_init_np(
				    h, 3, (char *)"localhost", (char *)"add")
			  : grpc_function_handle_array_default_np(
				    h, 3, (char *)"gridrpc/add")));
		CHECK(!grpc_call(&h[2], 10 + i, &y) && y == 11 + i);
		CHECK(!grpc_function_handle_destruct(&h[1]));
		CHECK(grpc_function_handle_array_destruct_np(h, 3) ==
		      GRPC_INVALID_FUNCTION_HANDLE);
		CHECK(grpc_call(&h[2], 1, &y) == GRPC_INVALID_FUNCTION_HANDLE);
	}
	CHECK(grpc_function_handle_array_destruct_np(NULL, 0) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(!strcmp(grpc_error_string(GRPC_CANCELED_NP),
		      "the call was cancelled"));
}

static void test_waits(void)
{
	grpc_sessionid_t id[CALLS], one;
	int y[CALLS] = {0}, i, k;

	for (i = 0; i < CALLS; i++)
		CHECK(!grpc_call_async(&add, &id[i], i, &y[i]));
	CHECK(!grpc_wait(id[0]) && y[0] == 1);
	CHECK(grpc_wait(id[0]) == GRPC_INVALID_SESSION_ID);
	CHECK(grpc_wait_and(id, CALLS) == GRPC_INVALID_SESSION_ID);
	CHECK(!grpc_get_error(id[0]));
	CHECK(!grpc_wait_and(id + 1, 3) && y[1] == 2 && y[3] == 4);
	for (i = CALLS; i > 4; i--) {
		CHECK(!grpc_wait_or(id + 4, (size_t)(i - 4), &one));
		for (k = 4; id[k] != one; k++)
			CHECK(k < i);
		id[k] = id[i - 1];
	}
	for (i = 4; i < CALLS; i++)
		CHECK(y[i] == i + 1);
	one = id[0];
	CHECK(!grpc_wait_any(&one) && one == GRPC_SESSIONID_VOID);
	CHECK(!grpc_wait_all());
	for (i = 0; i < CALLS; i++)
		CHECK(!grpc_call_async(&add, &id[i], i, &y[i]));
	CHECK(!grpc_wait_any(&one) && !grpc_get_error(one));
	CHECK(!grpc_wait_all() && y[CALLS - 1] == CALLS);
	CHECK(grpc_wait(id[CALLS - 1]) == GRPC_INVALID_SESSION_ID);
}

static void test_probes(void)
{
	grpc_function_handle_t *h = NULL;
	grpc_sessionid_t id[2], one;
	int done[2] = {0};

	CHECK(!grpc_call_async(&nap, &id[0], 600000, &done[0]));
	CHECK(grpc_probe(id[0]) == GRPC_NOT_COMPLETED);
	CHECK(grpc_probe_or(id, 1, &one) == GRPC_NONE_COMPLETED &&
	      one == GRPC_SESSIONID_VOID);
	CHECK(grpc_get_error(id[0]) == GRPC_NOT_COMPLETED);
	CHECK(!grpc_get_handle(&h, id[0]) && h == &nap);
	h = NULL;
	CHECK(!grpc_function_handle_get_from_session_np(&h, id[0]) &&
	      h == &nap);
	CHECK(!grpc_call_async(&add, &id[1], 1, &done[1]));
	CHECK(!grpc_wait_or(id, 2, &one) && one == id[1] && done[1] == 2);
	CHECK(grpc_probe(id[1]) == GRPC_INVALID_SESSION_ID);
	CHECK(!grpc_cancel(id[0]));
	CHECK(grpc_wait(id[0]) == GRPC_SESSION_FAILED && !done[0]);
	CHECK(grpc_get_error(id[0]) == GRPC_CANCELED_NP);
	h = NULL;
	CHECK(grpc_get_handle(&h, id[0]) == GRPC_INVALID_SESSION_ID && !h);
	CHECK(!grpc_function_handle_get_from_session_np(&h, id[0]) &&
	      h == &nap);
	CHECK(grpc_function_handle_get_from_session_np(&h, -1) ==
		      GRPC_INVALID_SESSION_ID &&
	      grpc_function_handle_get_from_session_np(&h, id[1] + 1) ==
		      GRPC_INVALID_SESSION_ID);
	CHECK(grpc_cancel(id[0]) == GRPC_INVALID_SESSION_ID);
	CHECK(!grpc_call_async(&add, &id[0], 5, &done[0]));
	while (grpc_probe(id[0]) == GRPC_NOT_COMPLETED)
		usleep(1000);
	CHECK(!grpc_probe_or(id, 1, &one) && one == id[0]);
	CHECK(!grpc_cancel(id[0]) && !grpc_wait(id[0]) && done[0] == 6);
	CHECK(!grpc_call_async(&nap, &id[0], 600000, &done[0]));
	CHECK(!grpc_call_async(&nap, &id[1], 600000, &done[1]));
	CHECK(!grpc_cancel_all());
	while (grpc_probe(id[1]) == GRPC_NOT_COMPLETED)
		usleep(1000);
	CHECK(grpc_get_error(id[1]) == GRPC_CANCELED_NP);
	CHECK(grpc_wait_all() == GRPC_SESSION_FAILED);
	CHECK(grpc_get_error(id[0]) == GRPC_CANCELED_NP);
}

static void test_failures(void)
{
	grpc_sessionid_t id[3], one, two;
	grpc_function_handle_t die, bad;
	int y = 0;

	CHECK(!grpc_function_handle_default(&die, (char *)"gridrpc/die"));
	CHECK(!grpc_function_handle_default(&bad, (char *)"gridrpc/bad"));
	CHECK(grpc_call(&bad, -1, NULL) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "gridrpc.bad"));
	CHECK(grpc_call_async(&bad, &one, -1, NULL) == GRPC_RPC_REFUSED &&
	      one == GRPC_SESSIONID_VOID);
	CHECK(!grpc_call_async(&die, &id[0], 3));
	CHECK(!grpc_call_async(&add, &id[1], 1, &y));
	CHECK(!grpc_call_async(&die, &id[2], 4));
	CHECK(grpc_wait_and(id, 3) == GRPC_SESSION_FAILED && y == 2);
	CHECK(!grpc_get_failed_sessionid(&one) &&
	      !grpc_get_failed_sessionid(&two));
	CHECK(one == id[0] && two == id[2]);
	CHECK(!grpc_get_failed_sessionid(&one) && one == GRPC_SESSIONID_VOID);
	CHECK(grpc_get_error(id[0]) == GRPC_SESSION_FAILED);
	CHECK(!strcmp(grpc_error_string(GRPC_NO_ERROR), "no error"));
	CHECK(grpc_error_string(-5) == grpc_error_string(1000));
}

/* Functions that ask whether they were cancelled, as Ninf-G's have to. */
static void test_asking(void)
{
	grpc_function_handle_t h;
	grpc_sessionid_t id;
	int n = 1;

	CHECK(!grpc_function_handle_default(&h, (char *)"gridrpc/asks"));
	CHECK(!grpc_call(&h, &n) && n == 0);
	CHECK(!grpc_function_handle_default(&h, (char *)"gridrpc/endless"));
	CHECK(!grpc_call_async(&h, &id) && !grpc_cancel(id));
	CHECK(grpc_wait(id) == GRPC_SESSION_FAILED);
	CHECK(grpc_get_error(id) == GRPC_CANCELED_NP);
}

/* A size below 0 is refused, however it is given. */
static void test_sizes(void)
{
	static const char *const name[] = {"gridrpc/sized",
					   "gridrpc/short_sized"};
	short n = -1;
	double x[1] = {0};
	grpc_arg_stack_t *stack = grpc_arg_stack_new(2);
	grpc_function_handle_t h;
	int i;

	grpc_arg_stack_push_arg(stack, &n);
	grpc_arg_stack_push_arg(stack, x);
	for (i = 0; i < 2; i++) {
		CHECK(!grpc_function_handle_default(&h, (char *)name[i]));
		CHECK(grpc_call_argstack(&h, stack) == GRPC_RPC_REFUSED);
		CHECK((i ? grpc_call(&h, -1, x) : grpc_call(&h, &n, x)) ==
		      GRPC_RPC_REFUSED);
		CHECK(strstr(skep_grpc_error_text(), "argument x of"));
	}
	n = 1;
	CHECK(!grpc_call_argstack(&h, stack));
	CHECK(!grpc_arg_stack_destruct(stack));
}

static void test_stacks(void)
{
	char c = -1, text[] = "four";
	short s = -2;
	unsigned short u = 65535;
	int n = 2, io = 21, y = 0, k;
	long l = -(1l << 40);
	float f = 0.5f;
	double _Complex z = 1 + 2 * I;
	double x[2] = {7, 8}, sum = 0;
	void *all[] = {&c, &s, &u, &n, &l, &f, &z, x, &io, text, &sum};
	grpc_arg_stack_t *stack = grpc_arg_stack_new(11);
	grpc_function_handle_t mix;
	grpc_sessionid_t id;

	CHECK(!grpc_function_handle_default(&mix, (char *)"gridrpc/mix"));
	for (k = 0; k < 11; k++)
		CHECK(!grpc_arg_stack_push_arg(stack, all[k]));
	CHECK(grpc_arg_stack_push_arg(stack, &y));
	CHECK(!grpc_call_arg_stack(&mix, stack));
	CHECK(io == 42 &&
	      sum == -1 - 2 + 65535 + 2 - (double)(1l << 40) + 0.5 + 3 + 8 + 4);
	CHECK(grpc_arg_stack_pop_arg(stack) == &sum);
	CHECK(grpc_call_argstack(&mix, stack) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "argument sum of gridrpc.mix"));
	CHECK(!grpc_arg_stack_push_arg(stack, NULL));
	CHECK(grpc_call_argstack(&mix, stack) == GRPC_RPC_REFUSED);
	CHECK(grpc_call_argstack(&add, stack) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "9 arguments"));
	CHECK(grpc_call_argstack(&add, NULL) == GRPC_OTHER_ERROR_CODE);
	while (grpc_arg_stack_pop_arg(stack) != &c)
		;
	CHECK(!grpc_arg_stack_pop_arg(stack));
	grpc_arg_stack_push_arg(stack, &n);
	grpc_arg_stack_push_arg(stack, &y);
	CHECK(!grpc_call_argstack_async(&add, &id, stack) && !grpc_wait(id));
	CHECK(y == 3);
	y = 0;
	CHECK(!grpc_call_arg_stack_async(&add, stack));
	CHECK(!grpc_wait_any(&id) && y == 3);
	CHECK(grpc_arg_stack_pop_arg(stack) == &y);
	CHECK(grpc_call_arg_stack_async(&add, stack) == -1);
	CHECK(grpc_call_arg_stack(&add, stack) == -1);
	CHECK(!grpc_arg_stack_destruct(stack));
	CHECK(!grpc_arg_stack_new(-1));
}

int main(void)
{
	grpc_sessionid_t id;
	int y = 0;

	test_before();
	test_config();
	test_handles();
	test_arrays();
	test_waits();
	test_probes();
	test_failures();
	test_sizes();
	test_asking();
	test_stacks();
	CHECK(!grpc_call_async(&nap, &id, 600000, &y));
	CHECK(!grpc_finalize());
	CHECK(grpc_wait(id) == GRPC_NOT_INITIALIZED);
	CHECK(!grpc_initialize((char *)"right.conf"));
	CHECK(grpc_wait(id) == GRPC_INVALID_SESSION_ID);
	CHECK(!grpc_function_handle_default(&nap, (char *)"gridrpc/nap"));
	CHECK(grpc_call(&add, 1, &y) == GRPC_INVALID_FUNCTION_HANDLE);
	add.module = nap.module; /* a new module at the address of an old one */
	CHECK(grpc_call(&add, 1, &y) == GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(!grpc_finalize());
	printf("right\n");
	return 0;
}
