// SPDX-License-Identifier: MIT
/* GridRPC's data management: modes, memory, files, what is refused. */
#include <grpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 40000 /* 320 kB: more than a message holds */

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			printf("line %d: %s: %s\n", __LINE__, #what,           \
			       skep_grpc_error_text());                        \
			exit(1);                                               \
		}                                                              \
	} while (0)

static double x[N], z[N];
static const size_t dims[] = {N, 0};
static const char *from_x[] = {"memory://localhost/x", NULL};
static const char *to_z[] = {"memory://localhost/z", NULL};
static const char *to_hub[] = {"skep://hub", NULL};
static const grpc_data_mode_t sticky[] = {GRPC_STICKY, GRPC_END_LIST};
static const grpc_data_mode_t kept[] = {GRPC_PERSISTENT, GRPC_END_LIST};
static const grpc_data_mode_t unique[] = {GRPC_UNIQUE_STICKY, GRPC_END_LIST};
static grpc_function_handle_t sum, fill, twice, add, bytes, both, nap, die;

static void open_handle(grpc_function_handle_t *h, const char *name)
{
	CHECK(!grpc_function_handle_default(h, (char *)name));
}

static char *info_of(const grpc_data_t *d, grpc_data_info_type_t what)
{
	static char text[256];
	char *info = NULL;

	CHECK(!grpc_data_getinfo(d, what, NULL, &info));
	snprintf(text, sizeof(text), "%s", info);
	free(info);
	return text;
}

static void init_data(grpc_data_t *d, const char **in, const char **out,
		      const grpc_data_mode_t *modes)
{
	CHECK(!grpc_data_init(d, in, out, GRPC_DOUBLE, dims, modes));
}

static double sum_array(const double *v)
{
	double t = 0;
	int i;

	for (i = 0; i < N; i++)
		t += v[i];
	return t;
}

/* What is volatile is read at each call; what is sticky once. */
static void test_inputs(const grpc_data_mode_t *modes, int stays)
{
	grpc_data_t d;
	double y = 0, before = sum_array(x);

	init_data(&d, from_x, NULL, modes);
	CHECK(!grpc_call(&sum, N, &d, &y) && y == before);
	CHECK((strlen(info_of(&d, GRPC_DATA_DIGEST_NP)) == 64) == stays);
	x[0] += 1;
	CHECK(!grpc_call(&sum, N, &d, &y));
	CHECK(y == (stays ? before : before + 1));
	CHECK(!grpc_data_transfer(&d, from_x, NULL, NULL));
	CHECK(!grpc_call(&sum, N, &d, &y) && y == before + 1);
	CHECK(!grpc_data_free(&d, NULL));
	CHECK(grpc_data_free(&d, NULL) == GRPC_OTHER_ERROR_CODE);
}

/* Results that stay in the grid, and are arguments of later calls. */
static void test_results(const grpc_data_mode_t *modes)
{
	grpc_data_t a, b, c;
	char back[6] = "";
	double y = 0;
	int count = 0;

	init_data(&a, NULL, to_hub, modes);
	init_data(&b, NULL, NULL, modes);
	init_data(&c, NULL, to_z, modes);
	CHECK(!grpc_call(&fill, N, 1.0, &a) && !grpc_call(&fill, N, 2.0, &b));
	CHECK(!grpc_call(&twice, N, &a));
	memset(z, 0, sizeof(z));
	CHECK(!grpc_call(&add, N, &a, "abcde", &b, &c, back, &count));
	CHECK(!strcmp(back, "edcba") && count == N);
	CHECK(z[0] == 4 && z[N - 1] == 3 * (N - 1) + 4);
	CHECK(!grpc_call(&sum, N, &c, &y) && y == sum_array(z));
	CHECK(!grpc_call(&add, N, &a, "abcde", &a, &a, back, &count));
	CHECK(!grpc_data_transfer(&a, NULL, to_z, NULL));
	CHECK(z[0] == 4 && z[1] == 8 && z[N - 1] == 4.0 * N);
	CHECK(!strcmp(info_of(&a, GRPC_DATA_BYTES_NP), "320000"));
	CHECK(!grpc_data_free(&a, to_hub) && !grpc_data_free(&b, NULL) &&
	      !grpc_data_free(&c, NULL));
}

static void test_volatile_results(void)
{
	static const char *two[] = {"memory://localhost/z",
				    "file://localhost/tmp/no/such/folder/x",
				    NULL};
	grpc_data_t a;

	init_data(&a, from_x, to_z, NULL);
	memset(z, 0, sizeof(z));
	CHECK(!grpc_call(&twice, N, &a) && z[1] == 2 * x[1] && x[1] != z[1]);
	CHECK(!*info_of(&a, GRPC_DATA_DIGEST_NP));
	CHECK(!grpc_data_free(&a, NULL));
	init_data(&a, NULL, to_z, NULL);
	CHECK(!grpc_call(&fill, N, 7.0, &a) && z[1] == 8);
	CHECK(!grpc_data_free(&a, NULL));
	init_data(&a, NULL, two, NULL);
	z[1] = 0;
	CHECK(grpc_call(&fill, N, 7.0, &a) == GRPC_OTHER_ERROR_CODE);
	CHECK(strstr(skep_grpc_error_text(), "no/such/folder") && z[1] == 8);
	CHECK(!grpc_data_free(&a, NULL));
}

static void test_async(void)
{
	const grpc_data_t *list[3];
	grpc_data_t a, b, *ended = NULL;
	grpc_sessionid_t id;
	double y = 0;

	init_data(&a, NULL, to_z, sticky);
	init_data(&b, NULL, NULL, sticky);
	list[0] = &a;
	list[1] = &b;
	list[2] = NULL;
	z[N - 1] = 0;
	CHECK(!grpc_call_async(&nap, &id, N, 300, &a));
	CHECK(grpc_call(&sum, N, &a, &y) == GRPC_RPC_REFUSED);
	CHECK(grpc_data_free(&a, NULL) == GRPC_NOT_COMPLETED);
	CHECK(!grpc_data_wait(list, GRPC_WAIT_ANY, &ended) && ended == &b);
	CHECK(!grpc_data_wait(list, GRPC_WAIT_ALL, NULL) && z[N - 1] == 300);
	CHECK(!grpc_wait(id) && !grpc_call(&sum, N, &a, &y) && y == 300);
	CHECK(grpc_call(&die, N, &a) == GRPC_SESSION_FAILED);
	CHECK(!grpc_call(&sum, N, &a, &y) && y == 300);
	CHECK(!grpc_call_async(&nap, &id, N, 60000, &b) && !grpc_cancel(id));
	CHECK(grpc_wait(id) == GRPC_SESSION_FAILED);
	CHECK(grpc_call(&sum, N, &b, &y) == GRPC_OTHER_ERROR_CODE);
	CHECK(!grpc_data_unbind(&a) && !grpc_data_unbind(&b));
}

static void test_files(void)
{
	static const char *in[] = {"memory://localhost/nothing", "file://",
				   NULL};
	static const char *out[] = {"", NULL};
	char name[] = "griddata.in", uri[2][4200], cwd[4096];
	size_t five[] = {5, 0};
	FILE *f = fopen(name, "w");
	grpc_data_t d, e;
	int y = 0;

	fputs("\1\2\3\4\5", f);
	fclose(f);
	CHECK(getcwd(cwd, sizeof(cwd)));
	snprintf(uri[0], sizeof(uri[0]), "file://localhost%s/%s", cwd, name);
	snprintf(uri[1], sizeof(uri[1]), "file://%s/griddata.out", cwd);
	in[1] = uri[0];
	out[0] = uri[1];
	CHECK(!grpc_data_init(&d, in, NULL, GRPC_FILE, NULL, NULL));
	CHECK(!grpc_call(&bytes, 5, &d, &y) && y == 15);
	CHECK(grpc_call(&bytes, 6, &d, &y) == GRPC_RPC_REFUSED);
	CHECK(!grpc_call(&both, 5, &d, &d, &y) && y == 30);
	CHECK(!grpc_data_init(&e, in, out, GRPC_FILE, five, kept));
	CHECK(!grpc_call(&bytes, 5, &e, &y) && y == 15);
	CHECK(grpc_call(&bytes, 4, &e, &y) == GRPC_RPC_REFUSED);
	CHECK(!grpc_data_transfer(&e, NULL, NULL, NULL));
	f = fopen("griddata.out", "r");
	CHECK(f && fgetc(f) == 1 && fseek(f, 4, SEEK_SET) == 0 &&
	      fgetc(f) == 5 && fgetc(f) == EOF);
	fclose(f);
	CHECK(!grpc_data_free(&d, NULL) && !grpc_data_free(&e, NULL));
}

/* What cannot be done is refused, with what to do. */
static void test_refused(void)
{
	static const char *http[] = {"http://localhost/x", NULL};
	static const char *far[] = {"file://elsewhere/x", NULL};
	static const grpc_data_mode_t two[] = {GRPC_STICKY, GRPC_VOLATILE,
					       GRPC_END_LIST};
	grpc_data_t d;
	double y = 0;
	int n = 0;
	void *at;

	CHECK(grpc_data_init(&d, http, NULL, GRPC_DOUBLE, dims, NULL) ==
	      GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "write file://localhost/PATH"));
	CHECK(grpc_data_init(&d, NULL, far, GRPC_DOUBLE, dims, NULL) ==
	      GRPC_RPC_REFUSED);
	CHECK(grpc_data_init(&d, NULL, NULL, GRPC_DOUBLE, dims, two) ==
	      GRPC_RPC_REFUSED);
	CHECK(grpc_data_memory_mapping_get("nothing", &at) ==
	      GRPC_OTHER_ERROR_CODE);
	init_data(&d, from_x, NULL, sticky);
	CHECK(grpc_call(&sum, N - 1, &d, &y) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "argument x of griddata.sum"));
	CHECK(grpc_call(&bytes, 8 * N, &d, &n) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "GRPC_DOUBLE"));
	CHECK(grpc_data_free(&d, from_x) == GRPC_RPC_REFUSED);
	CHECK(!grpc_data_free(&d, NULL));
	init_data(&d, NULL, NULL, sticky);
	CHECK(grpc_call(&sum, N, &d, &y) == GRPC_OTHER_ERROR_CODE);
	CHECK(strstr(skep_grpc_error_text(), "has no input"));
	CHECK(!grpc_data_free(&d, NULL));
}

int main(void)
{
	grpc_data_t d;
	int i;

	for (i = 0; i < N; i++)
		x[i] = i;
	CHECK(grpc_data_init(&d, from_x, NULL, GRPC_DOUBLE, dims, NULL) ==
	      GRPC_NOT_INITIALIZED);
	CHECK(!grpc_initialize(NULL));
	CHECK(!grpc_data_memory_mapping_set("x", x) &&
	      !grpc_data_memory_mapping_set("z", z));
	open_handle(&sum, "griddata/sum");
	open_handle(&fill, "griddata/fill");
	open_handle(&twice, "griddata/twice");
	open_handle(&add, "griddata/add");
	open_handle(&bytes, "griddata/bytes");
	open_handle(&both, "griddata/both");
	open_handle(&nap, "griddata/nap");
	open_handle(&die, "griddata/die");
	test_inputs(NULL, 0);
	test_inputs(sticky, 1);
	test_inputs(unique, 1);
	test_inputs(kept, 1);
	test_results(sticky);
	test_results(unique);
	test_results(kept);
	test_volatile_results();
	test_async();
	test_files();
	test_refused();
	CHECK(!grpc_finalize());
	CHECK(grpc_data_free(&d, NULL) == GRPC_NOT_INITIALIZED);
	printf("right\n");
	return 0;
}
