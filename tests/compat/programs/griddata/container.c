// SPDX-License-Identifier: MIT
/* Containers of data: handles of parts, and containers in place of arrays. */
#include <grpc.h>

#define N 30000

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			printf("line %d: %s: %s\n", __LINE__, #what,           \
			       skep_grpc_error_text());                        \
			exit(1);                                               \
		}                                                              \
	} while (0)

static double x[N], few[5], z[2 * N];
static const size_t dims[] = {N, 0};
static const char *from_x[] = {"memory://localhost/x", NULL};
static const char *to_z[] = {"memory://localhost/z", NULL};
static const grpc_data_mode_t sticky[] = {GRPC_STICKY, GRPC_END_LIST};
static grpc_function_handle_t sum, fill, add, nap, twice, die;

static void init_container(grpc_data_t *c, size_t ranks)
{
	size_t room[] = {ranks, 0};

	CHECK(!grpc_data_init(c, NULL, NULL, GRPC_CONTAINER_OF_GRPC_DATA,
			      ranks ? room : NULL, NULL));
}

static void init_data(grpc_data_t *d, const char **in, const char **out,
		      const grpc_data_mode_t *modes)
{
	CHECK(!grpc_data_init(d, in, out, GRPC_DOUBLE, dims, modes));
}

static long number_of(const grpc_data_t *d, grpc_data_info_type_t what)
{
	char *info = NULL;
	long n;

	CHECK(!grpc_data_getinfo(d, what, NULL, &info));
	n = atol(info);
	free(info);
	return n;
}

/* Parts go to the worker in the order of their ranks, not of their setting. */
static void test_arguments(const grpc_data_mode_t *modes)
{
	grpc_data_t c, a, b, out;
	char back[6] = "";
	double y = 0;
	int count = 0, i;

	init_container(&c, 0);
	init_data(&a, from_x, NULL, modes);
	CHECK(!grpc_data_container_set(&c, 7, &a));
	CHECK(!grpc_call(&sum, N, &c, &y) && y == N / 2 * (N - 1.0));
	init_data(&b, NULL, modes ? NULL : to_z, modes);
	if (modes)
		CHECK(!grpc_call(&fill, N, 1.0, &b));
	else
		CHECK(!grpc_data_free(&b, NULL));
	if (!modes)
		init_data(&b, from_x, NULL, modes);
	CHECK(!grpc_data_container_set(&c, 2, &b));
	CHECK(number_of(&c, GRPC_DATA_PARTS_NP) == 2);
	CHECK(!grpc_data_init(&out, NULL, to_z, GRPC_DOUBLE,
			      (const size_t[]){2 * N, 0}, NULL));
	CHECK(!grpc_call(&add, 2 * N, &c, "abcde", &c, &out, back, &count));
	CHECK(count == 2 * N && !strcmp(back, "edcba"));
	for (i = 0; i < N; i++)
		CHECK(z[i] == 2.0 * i + (modes ? 2 : 0) && z[N + i] == 2.0 * i);
	CHECK(!grpc_data_free(&c, NULL));
	CHECK(!grpc_call(&sum, N, &a, &y) && y == N / 2 * (N - 1.0));
	CHECK(!grpc_data_free(&a, NULL) && !grpc_data_free(&b, NULL) &&
	      !grpc_data_free(&out, NULL));
}

/* Parts of a result, in the order of their ranks. */
static void test_results(const grpc_data_mode_t *modes)
{
	static const char *to_few[] = {"memory://localhost/few", NULL};
	static const size_t five[] = {5, 0};
	const grpc_data_t *list[2] = {NULL, NULL};
	grpc_data_t c, a, b;
	grpc_sessionid_t id;
	double total = 0;

	init_container(&c, 0);
	init_data(&a, NULL, to_z, modes);
	CHECK(!grpc_data_init(&b, NULL, to_few, GRPC_DOUBLE, five, modes));
	CHECK(!grpc_data_container_set(&c, 9, &a) &&
	      !grpc_data_container_set(&c, 4, &b));
	CHECK(!grpc_call(&fill, N + 5, 1.0, &c));
	CHECK(few[0] == 1 && few[4] == 5 && z[0] == 6 && z[N - 1] == N + 5);
	list[0] = &c;
	CHECK(!grpc_call_async(&fill, &id, N + 5, 2.0, &c));
	CHECK(!grpc_data_wait(list, GRPC_WAIT_ALL, NULL) && !grpc_wait(id));
	CHECK(few[0] == 2 && few[4] == 6 && z[0] == 7 && z[N - 1] == N + 6);
	CHECK(grpc_call(&fill, N + 4, 1.0, &c) == GRPC_RPC_REFUSED);
	CHECK(grpc_call(&fill, N + 6, 1.0, &c) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "parts of its container"));
	if (!modes) /* nothing has stayed */
		CHECK(grpc_call(&twice, N + 5, &c) == GRPC_OTHER_ERROR_CODE);
	else
		CHECK(!grpc_call(&twice, N + 5, &c) && few[4] == 12 &&
		      z[N - 1] == 2 * N + 12 &&
		      grpc_call(&die, N + 5, &c) == GRPC_SESSION_FAILED &&
		      !grpc_call(&sum, 5, &b, &total) && total == 40 &&
		      !grpc_call(&sum, N + 5, &c, &total) &&
		      total == (N + 5) * (N + 8.0));
	CHECK(!grpc_data_free(&b, NULL) && !grpc_data_free(&c, NULL) &&
	      !grpc_data_free(&a, NULL));
}

/* Parts that are both arguments and results count twice. */
static void test_many(void)
{
	static const size_t five[] = {5, 0};
	grpc_data_t c, part[65];
	double total = 0;
	int i;

	init_container(&c, 0);
	for (i = 0; i < 65; i++)
		CHECK(!grpc_data_init(&part[i], from_x, NULL, GRPC_DOUBLE, five,
				      sticky) &&
		      !grpc_data_container_set(&c, i, &part[i]));
	CHECK(grpc_call(&twice, 325, &c) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "at most 128 pieces"));
	CHECK(!grpc_call(&fill, 325, 1.0, &c));
	CHECK(!grpc_call(&sum, 325, &c, &total) && total == 325 * 163);
	CHECK(!grpc_data_free(&c, NULL));
	for (i = 0; i < 65; i++)
		CHECK(!grpc_data_free(&part[i], NULL));
}

/* The parts of the container that a call writes to are those of its start. */
static void test_changed(void)
{
	grpc_data_t c, a, b;
	grpc_sessionid_t id;

	init_container(&c, 0);
	init_data(&a, NULL, to_z, sticky);
	init_data(&b, NULL, to_z, sticky);
	CHECK(!grpc_data_container_set(&c, 0, &a));
	CHECK(!grpc_call_async(&nap, &id, N, 300, &c));
	CHECK(grpc_data_free(&a, NULL) == GRPC_NOT_COMPLETED);
	CHECK(!grpc_data_container_set(&c, 1, &b));
	CHECK(grpc_call(&nap, N, 1, &c) == GRPC_RPC_REFUSED);
	CHECK(!grpc_wait(id));
	CHECK(number_of(&a, GRPC_DATA_BYTES_NP) == (long)sizeof(x));
	CHECK(!grpc_data_free(&c, NULL) && !grpc_data_free(&a, NULL) &&
	      !grpc_data_free(&b, NULL));
}

/* Handles of one part, and what goes with the last of them. */
static void test_handles(void)
{
	grpc_data_t c, a, b, again;
	double y = 0;

	init_container(&c, 3);
	init_data(&a, NULL, NULL, sticky);
	CHECK(!grpc_call(&fill, N, 0.0, &a));
	CHECK(!grpc_data_container_set(&c, 0, &a));
	CHECK(!grpc_data_container_get(&c, 0, &b));
	CHECK(!grpc_data_free(&a, NULL));
	CHECK(grpc_data_free(&a, NULL) == GRPC_OTHER_ERROR_CODE);
	CHECK(!grpc_call(&twice, N, &b)); /* also in the container */
	CHECK(!grpc_call(&sum, N, &c, &y) && y == N * (N - 1.0));
	CHECK(!grpc_data_free(&b, NULL));
	CHECK(!grpc_call(&sum, N, &c, &y) && y == N * (N - 1.0));
	CHECK(!grpc_data_container_get(&c, 0, &again));
	CHECK(!grpc_data_free(&c, NULL));
	CHECK(!grpc_call(&sum, N, &again, &y) && y == N * (N - 1.0));
	CHECK(!grpc_data_free(&again, NULL));
	CHECK(grpc_data_free(&again, NULL) == GRPC_OTHER_ERROR_CODE);
}

/* A call that writes to a part writes to the container. */
static void test_busy(void)
{
	grpc_data_t c, a, b;
	const grpc_data_t *list[] = {&c, NULL};
	grpc_sessionid_t id;
	double y = 0;

	init_container(&c, 0);
	init_data(&a, NULL, to_z, sticky);
	init_data(&b, from_x, NULL, sticky);
	CHECK(!grpc_data_container_set(&c, 0, &a));
	z[N - 1] = 0;
	CHECK(!grpc_call_async(&nap, &id, N, 300, &a));
	CHECK(grpc_data_free(&c, NULL) == GRPC_NOT_COMPLETED);
	CHECK(grpc_data_container_set(&c, 0, &b) == GRPC_NOT_COMPLETED);
	CHECK(grpc_call(&sum, N, &c, &y) == GRPC_RPC_REFUSED);
	CHECK(grpc_data_wait(list, GRPC_WAIT_ANY, NULL) == GRPC_RPC_REFUSED);
	CHECK(!grpc_data_wait(list, GRPC_WAIT_ALL, NULL) && z[N - 1] == 300);
	CHECK(!grpc_wait(id) && !grpc_call(&sum, N, &c, &y) && y == 300);
	CHECK(!grpc_data_free(&a, NULL) && !grpc_data_container_set(&c, 0, &b));
	CHECK(!grpc_call(&sum, N, &c, &y) && y == N / 2 * (N - 1.0));
	CHECK(!grpc_data_free(&c, NULL) && !grpc_data_unbind(&b));
}

static void test_refused_sets(void)
{
	grpc_data_t c, inner, a, b;

	init_container(&c, 2);
	init_container(&inner, 0);
	init_data(&a, from_x, NULL, sticky);
	CHECK(grpc_data_container_set(&c, -1, &a) == GRPC_OTHER_ERROR_CODE);
	CHECK(grpc_data_container_set(&c, 2, &a) == GRPC_OTHER_ERROR_CODE);
	CHECK(strstr(skep_grpc_error_text(), "the ranks 0 to 1, and not 2"));
	CHECK(grpc_data_container_set(&a, 0, &c) == GRPC_OTHER_ERROR_CODE);
	CHECK(strstr(skep_grpc_error_text(), "is not a container"));
	CHECK(grpc_data_container_get(&c, 1, &b) == GRPC_OTHER_ERROR_CODE);
	CHECK(strstr(skep_grpc_error_text(), "no part of rank 1"));
	CHECK(grpc_data_container_set(&c, 0, &c) == GRPC_RPC_REFUSED);
	CHECK(!grpc_data_container_set(&c, 0, &inner));
	CHECK(grpc_data_container_set(&inner, 0, &c) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "part of itself"));
	CHECK(grpc_data_transfer(&c, NULL, to_z, NULL) == GRPC_RPC_REFUSED);
	CHECK(!grpc_data_free(&c, NULL) && !grpc_data_free(&inner, NULL) &&
	      !grpc_data_free(&a, NULL));
	CHECK(grpc_data_init(&c, from_x, NULL, GRPC_CONTAINER_OF_GRPC_DATA,
			     NULL, NULL) == GRPC_RPC_REFUSED);
	CHECK(grpc_data_init(&c, NULL, NULL, GRPC_CONTAINER_OF_GRPC_DATA, NULL,
			     sticky) == GRPC_RPC_REFUSED);
}

static void test_refused_calls(void)
{
	grpc_data_t c, inner, a, b, none;
	double y = 0;
	int i;

	init_container(&c, 0);
	init_container(&inner, 0);
	CHECK(grpc_call(&sum, N, &c, &y) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "has no parts"));
	init_data(&a, from_x, NULL, sticky);
	init_data(&b, from_x, NULL, NULL);
	CHECK(!grpc_data_container_set(&c, 0, &a));
	CHECK(grpc_call(&sum, N - 1, &c, &y) == GRPC_RPC_REFUSED);
	CHECK(grpc_call(&sum, N + 1, &c, &y) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "parts of its container"));
	CHECK(!grpc_data_container_set(&c, 1, &b));
	CHECK(grpc_call(&sum, 2 * N, &c, &y) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "some parts of its container"));
	CHECK(!grpc_data_container_set(&c, 1, &inner));
	CHECK(grpc_call(&sum, N, &c, &y) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "part 1 of its container"));
	CHECK(!grpc_data_container_set(&c, 1, &a));
	CHECK(grpc_call(&fill, 2 * N, 1.0, &c) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "part 1 of its container is there "
					     "twice"));
	CHECK(!grpc_data_init(&none, NULL, NULL, GRPC_DOUBLE, NULL, sticky));
	CHECK(!grpc_data_container_set(&c, 1, &none));
	CHECK(grpc_call(&fill, 2 * N, 1.0, &c) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "part 1 of its container has no "
					     "size"));
	for (i = 1; i < 129; i++)
		CHECK(!grpc_data_container_set(&c, i, &a));
	CHECK(grpc_call(&sum, 129 * N, &c, &y) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "at most 128 pieces"));
	CHECK(!grpc_data_free(&c, NULL) && !grpc_data_free(&inner, NULL) &&
	      !grpc_data_free(&a, NULL) && !grpc_data_free(&b, NULL) &&
	      !grpc_data_free(&none, NULL));
}

int main(void)
{
	grpc_data_t c;
	int i;

	for (i = 0; i < N; i++)
		x[i] = i;
	CHECK(!grpc_initialize(NULL));
	CHECK(!grpc_data_memory_mapping_set("x", x) &&
	      !grpc_data_memory_mapping_set("few", few) &&
	      !grpc_data_memory_mapping_set("z", z));
	CHECK(!grpc_function_handle_default(&sum, "griddata/sum") &&
	      !grpc_function_handle_default(&fill, "griddata/fill") &&
	      !grpc_function_handle_default(&add, "griddata/add") &&
	      !grpc_function_handle_default(&twice, "griddata/twice") &&
	      !grpc_function_handle_default(&die, "griddata/die") &&
	      !grpc_function_handle_default(&nap, "griddata/nap"));
	test_arguments(sticky);
	test_arguments(NULL);
	test_results(sticky);
	test_results(NULL);
	test_changed();
	test_many();
	test_handles();
	test_busy();
	test_refused_sets();
	test_refused_calls();
	init_container(&c, 0);
	CHECK(!grpc_finalize());
	CHECK(grpc_data_container_set(&c, 0, &c) == GRPC_NOT_INITIALIZED);
	printf("right\n");
	return 0;
}
