// SPDX-License-Identifier: MIT
/* Remote objects: state, order, losses, and what is refused. */
#include <grpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			printf("line %d: %s: %s\n", __LINE__, #what,           \
			       skep_grpc_error_text());                        \
			exit(1);                                               \
		}                                                              \
	} while (0)
#define SAYS(words) CHECK(strstr(skep_grpc_error_text(), words))
#define LARGE 400000 /* more bytes than a frame has */

static char sum[] = "objects/sum", text[] = "objects/text";
static char plain[] = "objects/plain";

static double total_of(grpc_object_handle_t_np *o, int times)
{
	double x = -1;
	int n = -1;

	CHECK(!grpc_invoke_np(o, (char *)"get", &x, &n));
	CHECK(n == times);
	return x;
}

static void test_state(void)
{
	grpc_object_handle_t_np a, b, t;
	char *all;

	CHECK(!grpc_object_handle_default_np(&a, sum));
	CHECK(!grpc_object_handle_init_np(&b, NULL, sum));
	CHECK(!grpc_object_handle_default_np(&t, text));
	CHECK(!grpc_invoke_np(&a, (char *)"add", 1.5));
	CHECK(!grpc_invoke_np(&b, (char *)"add", 10.0));
	CHECK(!grpc_invoke_np(&t, (char *)"add", "one "));
	CHECK(!grpc_invoke_np(&a, (char *)"add", 2.5));
	CHECK(!grpc_invoke_np(&t, (char *)"add", "two"));
	CHECK(total_of(&a, 2) == 4 && total_of(&b, 1) == 10);
	CHECK(!grpc_invoke_np(&t, (char *)"get", &all));
	CHECK(!strcmp(all, "one two"));
	free(all);
	CHECK(!grpc_object_handle_destruct_np(&a));
	CHECK(grpc_invoke_np(&a, (char *)"add", 1.0) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(grpc_object_handle_destruct_np(&a) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(!grpc_object_handle_default_np(&a, sum));
	CHECK(total_of(&a, 0) == 0 && total_of(&b, 1) == 10);
	CHECK(!grpc_object_handle_destruct_np(&a));
	CHECK(!grpc_object_handle_destruct_np(&b));
	CHECK(!grpc_object_handle_destruct_np(&t));
}

/* Calls that are not waited for run in their order, and before the end. */
static void test_order(void)
{
	grpc_object_handle_t_np o[3], *of;
	grpc_function_handle_t *function;
	grpc_sessionid_t id[3][9], got;
	double x[3];
	int i, k, n[3];

	CHECK(!grpc_object_handle_array_default_np(o, 3, sum));
	for (k = 0; k < 9; k++) {
		for (i = 0; i < 3; i++)
			CHECK(!grpc_invoke_async_np(&o[i], (char *)"digits",
						    &id[i][k], k + 1));
	}
	for (i = 0; i < 3; i++)
		CHECK(!grpc_invoke_async_np(&o[i], (char *)"get", &got, &x[i],
					    &n[i]));
	CHECK(!grpc_object_handle_get_from_session_np(&of, got) && of == &o[2]);
	CHECK(grpc_get_handle(&function, got) == GRPC_INVALID_SESSION_ID);
	CHECK(!grpc_object_handle_array_destruct_np(o, 3));
	CHECK(!grpc_wait_all());
	CHECK(!grpc_object_handle_get_from_session_np(&of, got) && of == &o[2]);
	for (i = 0; i < 3; i++)
		CHECK(x[i] == 123456789);
}

static void test_stack(void)
{
	grpc_arg_stack_t *args = grpc_arg_stack_new(2);
	grpc_object_handle_t_np o;
	grpc_sessionid_t id;
	double x = 3;
	int n;

	CHECK(!grpc_object_handle_default_np(&o, sum));
	grpc_arg_stack_push_arg(args, &x);
	CHECK(!grpc_invoke_arg_stack_np(&o, (char *)"add", args));
	CHECK(!grpc_invoke_arg_stack_async_np(&o, (char *)"add", args));
	CHECK(!grpc_wait_any(&id));
	grpc_arg_stack_push_arg(args, &n);
	CHECK(!grpc_invoke_arg_stack_np(&o, (char *)"get", args));
	CHECK(x == 6 && n == 2);
	CHECK(grpc_invoke_arg_stack_np(&o, (char *)"add", args) == -1);
	grpc_arg_stack_destruct(args);
	CHECK(!grpc_object_handle_destruct_np(&o));
}

static void give_next(int i, double *x)
{
	*x = i + 1;
}

/* Large arrays, stored data, functions of the master. */
static void test_arguments(void)
{
	const char *input[] = {"memory://localhost/x", NULL};
	const grpc_data_mode_t modes[] = {GRPC_STICKY, GRPC_END_LIST};
	const size_t size[] = {LARGE, 0};
	static double x[LARGE];
	grpc_object_handle_t_np o;
	grpc_data_t data;
	double before;
	int i;

	for (i = 0; i < LARGE; i++)
		x[i] = 1;
	CHECK(!grpc_object_handle_default_np(&o, sum));
	CHECK(!grpc_data_memory_mapping_set("x", x));
	CHECK(!grpc_data_init(&data, input, NULL, GRPC_DOUBLE, size, modes));
	CHECK(!grpc_invoke_np(&o, (char *)"keep", LARGE, x, &before));
	CHECK(!before);
	CHECK(!grpc_invoke_np(&o, (char *)"keep", LARGE, &data, &before));
	CHECK(before == LARGE);
	CHECK(!grpc_invoke_np(&o, (char *)"each", 3, give_next));
	CHECK(total_of(&o, 0) == 2 * LARGE + 6);
	CHECK(!grpc_data_free(&data, NULL));
	CHECK(!grpc_object_handle_destruct_np(&o));
}

/* The end of its process is the end of an object, and nobody else's. */
static void test_losses(void)
{
	grpc_object_handle_t_np o, other;
	grpc_sessionid_t id[3];
	double x;
	int i, n;

	CHECK(!grpc_object_handle_default_np(&o, sum));
	CHECK(!grpc_object_handle_default_np(&other, sum));
	CHECK(!grpc_invoke_np(&other, (char *)"add", 1.0));
	CHECK(!grpc_invoke_np(&o, (char *)"add", 1.0));
	CHECK(!grpc_invoke_async_np(&o, (char *)"die", &id[0], 3));
	CHECK(!grpc_invoke_async_np(&o, (char *)"add", &id[1], 1.0));
	CHECK(!grpc_invoke_async_np(&o, (char *)"get", &id[2], &x, &n));
	for (i = 0; i < 3; i++) {
		CHECK(grpc_wait(id[i]) == GRPC_SESSION_FAILED);
		SAYS("the object of the class sum on the node");
		SAYS("is lost");
		SAYS("status 3");
	}
	CHECK(grpc_invoke_np(&o, (char *)"get", &x, &n) == GRPC_SESSION_FAILED);
	SAYS("is lost");
	CHECK(total_of(&other, 1) == 1);
	CHECK(!grpc_object_handle_destruct_np(&o));
	CHECK(!grpc_object_handle_destruct_np(&other));
}

/* The methods of a class without state are functions, too. */
static void test_plain(void)
{
	grpc_object_handle_t_np o;
	grpc_function_handle_t f;
	int n = 0, i;

	CHECK(!grpc_object_handle_default_np(&o, plain));
	for (i = 1; i < 4; i++)
		CHECK(!grpc_invoke_np(&o, (char *)"next", &n) && n == i);
	CHECK(!grpc_function_handle_default(&f, (char *)"objects/next"));
	CHECK(!grpc_call(&f, &n) && n >= 1);
	CHECK(!grpc_invoke_np(&o, (char *)"next", &n) && n == 4);
	CHECK(!grpc_object_handle_destruct_np(&o));
}

static void test_refusals(void)
{
	grpc_object_handle_t_np o = {0};
	grpc_function_handle_t f;

	CHECK(grpc_invoke_np(&o, (char *)"add", 1.0) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(grpc_object_handle_default_np(&o, (char *)"objects/none") ==
	      GRPC_FUNCTION_NOT_FOUND);
	SAYS("module objects has no class none");
	CHECK(grpc_object_handle_default_np(&o, (char *)"objects/add"));
	CHECK(grpc_object_handle_default_np(&o, (char *)"objects") ==
	      GRPC_FUNCTION_NOT_FOUND);
	SAYS("a class is named by its module and its name");
	CHECK(grpc_object_handle_default_np(&o, (char *)"/sum"));
	SAYS("a class is named by its module and its name");
	CHECK(grpc_object_handle_default_np(&o, (char *)"objects/"));
	SAYS("a class is named by its module and its name");
	CHECK(grpc_object_handle_default_np(&o, (char *)"objects/x"));
	SAYS("module objects has no class x");
	CHECK(grpc_object_handle_default_np(&o, NULL) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(grpc_object_handle_default_np(NULL, sum) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(!grpc_object_handle_default_np(&o, sum));
	CHECK(grpc_invoke_np(&o, (char *)"next") == GRPC_FUNCTION_NOT_FOUND);
	SAYS("the class sum of module objects has no method next");
	CHECK(!grpc_object_handle_destruct_np(&o));
	CHECK(grpc_function_handle_default(&f, (char *)"objects/digits") ==
	      GRPC_RPC_REFUSED);
	SAYS("objects.digits is a method of the class sum, which has state");
	CHECK(grpc_function_handle_default(&f, (char *)"objects/sum") ==
	      GRPC_FUNCTION_NOT_FOUND);
}

/* Attributes say which object, or which function, and where. */
static void test_attributes(void)
{
	grpc_argument_transfer_t_np copy = GRPC_ARGUMENT_TRANSFER_COPY, *was;
	grpc_object_handle_t_np o[2];
	grpc_function_handle_t f;
	grpc_handle_attr_t_np a;
	int n = 0, *ranks;
	char *name;

	CHECK(!grpc_handle_attr_initialize_np(&a));
	CHECK(!grpc_handle_attr_get_np(&a, GRPC_HANDLE_ATTR_FUNCNAME,
				       (void **)&name) &&
	      !name);
	CHECK(!grpc_handle_attr_set_np(&a, GRPC_HANDLE_ATTR_HOSTNAME,
				       (void *)"")); /* the hub's choice */
	CHECK(!grpc_handle_attr_get_np(&a, GRPC_HANDLE_ATTR_HOSTNAME,
				       (void **)&name) &&
	      !strcmp(name, ""));
	CHECK(!grpc_handle_attr_release_np(name));
	CHECK(!grpc_handle_attr_set_np(&a, GRPC_HANDLE_ATTR_FUNCNAME, text));
	CHECK(!grpc_handle_attr_set_np(&a, GRPC_HANDLE_ATTR_FUNCNAME, sum));
	CHECK(!grpc_handle_attr_set_np(&a, GRPC_HANDLE_ATTR_WAIT_ARG_TRANSFER,
				       &copy));
	CHECK(!grpc_handle_attr_get_np(&a, GRPC_HANDLE_ATTR_WAIT_ARG_TRANSFER,
				       (void **)&was) &&
	      *was == copy);
	CHECK(!grpc_handle_attr_release_np(was));
	CHECK(grpc_handle_attr_set_np(&a, GRPC_HANDLE_ATTR_PORT, &n) ==
	      GRPC_RPC_REFUSED);
	SAYS("GRPC_HANDLE_ATTR_PORT has no meaning here");
	CHECK(grpc_handle_attr_set_np(&a, GRPC_HANDLE_ATTR_MPI_NCPUS, &n) ==
	      GRPC_RPC_REFUSED);
	SAYS("1 to 1024 ranks, not 0");
	CHECK(!grpc_object_handle_array_init_with_attr_np(o, 2, &a));
	CHECK(!grpc_invoke_np(&o[1], (char *)"add", 2.0));
	CHECK(total_of(&o[1], 1) == 2 && total_of(&o[0], 0) == 0);
	CHECK(!grpc_object_handle_array_destruct_np(o, 2));
	n = 2;
	CHECK(!grpc_handle_attr_set_np(&a, GRPC_HANDLE_ATTR_MPI_NCPUS, &n));
	CHECK(!grpc_handle_attr_get_np(&a, GRPC_HANDLE_ATTR_MPI_NCPUS,
				       (void **)&ranks) &&
	      *ranks == 2);
	CHECK(!grpc_handle_attr_release_np(ranks));
	CHECK(grpc_object_handle_init_with_attr_np(&o[0], &a) ==
	      GRPC_RPC_REFUSED);
	SAYS("an object is one process");
	CHECK(!grpc_handle_attr_set_np(&a, GRPC_HANDLE_ATTR_FUNCNAME,
				       (void *)"objects/next"));
	CHECK(!grpc_function_handle_init_with_attr_np(&f, &a));
	CHECK(grpc_call(&f, &n) == GRPC_RPC_REFUSED);
	SAYS("no MPI job runs it");
	CHECK(!grpc_handle_attr_destruct_np(&a));
}

int main(void)
{
	grpc_object_handle_t_np o = {0};

	CHECK(grpc_object_handle_default_np(&o, sum) == GRPC_NOT_INITIALIZED);
	CHECK(grpc_invoke_np(&o, (char *)"add", 1.0) == GRPC_NOT_INITIALIZED);
	CHECK(!grpc_initialize(NULL));
	test_state();
	test_order();
	test_stack();
	test_arguments();
	test_losses();
	test_plain();
	test_refusals();
	test_attributes();
	CHECK(!grpc_object_handle_default_np(&o, sum));
	CHECK(!grpc_finalize());
	CHECK(!grpc_initialize(NULL));
	CHECK(grpc_invoke_np(&o, (char *)"add", 1.0) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(!grpc_finalize());
	printf("right\n");
	return 0;
}
