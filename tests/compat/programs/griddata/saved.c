// SPDX-License-Identifier: MIT
/* Descriptions of data, which are saved and loaded; damaged ones too. */
#include <grpc.h>

#define N 1000

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			printf("line %d: %s: %s\n", __LINE__, #what,           \
			       skep_grpc_error_text());                        \
			exit(1);                                               \
		}                                                              \
	} while (0)

static double x[N];
static const size_t dims[] = {N, 0};
static const char *from_x[] = {"memory://localhost/x", NULL};
static const grpc_data_mode_t sticky[] = {GRPC_STICKY, GRPC_END_LIST};
static grpc_function_handle_t sum, fill;
static char file[4200]; /* the URI of a file */
static char text[1 << 20];

static void open_session(void)
{
	CHECK(!grpc_initialize(NULL));
	CHECK(!grpc_data_memory_mapping_set("x", x) &&
	      !grpc_data_memory_mapping_set("text", text));
	CHECK(!grpc_function_handle_default(&sum, "griddata/sum") &&
	      !grpc_function_handle_default(&fill, "griddata/fill"));
}

static const char *info_of(const grpc_data_t *d, grpc_data_info_type_t what)
{
	static char info_text[4300];
	char *info = NULL;

	CHECK(!grpc_data_getinfo(d, what, NULL, &info));
	snprintf(info_text, sizeof(info_text), "%s", info);
	free(info);
	return info_text;
}

/* The saved description, in `text`. */
static void read_text(void)
{
	FILE *f = fopen(strchr(file + 7, '/'), "r");

	CHECK(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
}

/* In the program that saved it, it is the data itself. */
static void test_same(void)
{
	grpc_data_t a, b;
	double y = 0;

	CHECK(!grpc_data_init(&a, NULL, NULL, GRPC_DOUBLE, dims, sticky));
	CHECK(!grpc_call(&fill, N, 1.0, &a));
	CHECK(!grpc_data_save(&a, file) && !grpc_data_load(&b, file));
	CHECK(!grpc_data_free(&a, NULL));
	CHECK(!grpc_call(&sum, N, &b, &y) && y == N / 2 * (N + 1.0));
	CHECK(!grpc_call(&fill, N, 0.0, &b));
	CHECK(!grpc_data_load(&a, file)); /* its present bytes */
	CHECK(!grpc_call(&sum, N, &a, &y) && y == N / 2 * (N - 1.0));
	CHECK(!grpc_data_free(&a, NULL) && !grpc_data_free(&b, NULL));
	CHECK(grpc_data_load(&a, file) == GRPC_RPC_REFUSED);
	CHECK(strstr(skep_grpc_error_text(), "were in the grid only"));
}

/* After another start the same inputs are read. */
static void test_later(void)
{
	grpc_data_t a, b, c;
	double y = 0;

	CHECK(!grpc_data_init(&a, from_x, NULL, GRPC_DOUBLE, dims, sticky));
	CHECK(!grpc_data_init(&c, NULL, NULL, GRPC_CONTAINER_OF_GRPC_DATA, NULL,
			      NULL));
	CHECK(!grpc_data_container_set(&c, 1, &a) &&
	      !grpc_data_container_set(&c, 9, &a));
	CHECK(!grpc_call(&sum, N, &a, &y) && y == N / 2 * (N - 1.0));
	CHECK(!grpc_data_save(&c, file) && !grpc_finalize());
	open_session();
	CHECK(grpc_data_free(&a, NULL) == GRPC_OTHER_ERROR_CODE);
	CHECK(!grpc_data_load(&c, file));
	CHECK(!grpc_data_container_get(&c, 9, &b));
	CHECK(grpc_data_container_get(&c, 2, &a) == GRPC_OTHER_ERROR_CODE);
	CHECK(!strcmp(info_of(&b, GRPC_DATA_MODE_NP), "GRPC_STICKY"));
	CHECK(!strcmp(info_of(&b, GRPC_DATA_TYPE_NP), "GRPC_DOUBLE"));
	CHECK(!strcmp(info_of(&b, GRPC_DATA_BYTES_NP), "8000"));
	CHECK(!strcmp(info_of(&b, GRPC_DATA_INPUT_NP),
		      "memory://localhost/x\n"));
	x[0] = 5;
	CHECK(!grpc_call(&sum, 2 * N, &c, &y) && y == N * (N - 1.0) + 10);
	x[0] = 0;
	CHECK(!grpc_data_free(&b, NULL) && !grpc_data_free(&c, NULL));
}

/* Each beginning of a description, and each with another byte, is refused or is
 * a description too. */
static void test_damaged(void)
{
	static char whole[1 << 16];
	const char *uri = "memory://localhost/text";
	size_t i, len, loaded = 0;
	grpc_data_t d;

	read_text();
	len = strlen(text);
	memcpy(whole, text, len + 1);
	for (i = 0; i < len; i++) {
		text[i] = 0;
		CHECK(grpc_data_load(&d, uri) != GRPC_NO_ERROR);
		text[i] = (char)(whole[i] ^ 1);
		if (!grpc_data_load(&d, uri)) {
			loaded++;
			CHECK(!grpc_data_free(&d, NULL));
		}
		text[i] = whole[i];
	}
	CHECK(loaded > 0 && loaded < len / 2);
	strcat(text, "end\n");
	CHECK(grpc_data_load(&d, uri) == GRPC_OTHER_ERROR_CODE);
	CHECK(strstr(skep_grpc_error_text(), "something follows its end"));
	text[len] = 0;
	*strstr(text, "input") = 'I';
	CHECK(grpc_data_load(&d, uri) == GRPC_OTHER_ERROR_CODE);
	CHECK(strstr(skep_grpc_error_text(), "text, line 11:"));
}

static void test_refused(void)
{
	grpc_data_t a;

	CHECK(!grpc_data_init(&a, from_x, NULL, GRPC_DOUBLE, dims, NULL));
	CHECK(grpc_data_save(&a, "memory://localhost/x") == GRPC_RPC_REFUSED);
	CHECK(grpc_data_save(&a, "skep://hub") == GRPC_RPC_REFUSED);
	CHECK(grpc_data_save(&a, "http://a/b") == GRPC_RPC_REFUSED);
	CHECK(grpc_data_save(&a, "file://localhost/tmp/no/such/folder/x") ==
	      GRPC_OTHER_ERROR_CODE);
	CHECK(!grpc_data_free(&a, NULL));
	CHECK(grpc_data_save(&a, file) == GRPC_OTHER_ERROR_CODE);
	CHECK(grpc_data_load(&a, "skep://hub") == GRPC_RPC_REFUSED);
	CHECK(grpc_data_load(&a, "memory://localhost/nothing") ==
	      GRPC_OTHER_ERROR_CODE);
	CHECK(grpc_data_load(&a, "file://localhost/nothing") ==
	      GRPC_OTHER_ERROR_CODE);
}

int main(void)
{
	char cwd[4096];
	int i;

	for (i = 0; i < N; i++)
		x[i] = i;
	CHECK(getcwd(cwd, sizeof(cwd)));
	snprintf(file, sizeof(file), "file://localhost%s/griddata.saved", cwd);
	open_session();
	test_same();
	test_later();
	test_damaged();
	test_refused();
	CHECK(!grpc_finalize());
	printf("right\n");
	return 0;
}
