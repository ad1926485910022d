// SPDX-License-Identifier: MIT
/* Five calls with the same data, and one with what another call left. The test
 * reads in the ledger how many bytes the node fetched for them. */
#include <grpc.h>

#define N 40000
#define CALLS 5

static double x[N];

static int is_error(grpc_error_t error)
{
	if (error)
		printf("error %d: %s\n", error, skep_grpc_error_text());
	return error != GRPC_NO_ERROR;
}

int main(void)
{
	static const size_t dims[] = {N, 0};
	static const char *input[] = {"memory://localhost/x", NULL};
	static const grpc_data_mode_t modes[] = {GRPC_STICKY, GRPC_END_LIST};
	grpc_function_handle_t sum, fill;
	grpc_data_t d, r;
	double y = 0;
	int i;

	for (i = 0; i < N; i++)
		x[i] = i % 7;
	if (is_error(grpc_initialize(NULL)) ||
	    is_error(grpc_data_memory_mapping_set("x", x)) ||
	    is_error(grpc_function_handle_default(&sum, "griddata/sum")) ||
	    is_error(grpc_function_handle_default(&fill, "griddata/fill")) ||
	    is_error(grpc_data_init(&d, input, NULL, GRPC_DOUBLE, dims,
				    modes)) ||
	    is_error(grpc_data_init(&r, NULL, NULL, GRPC_DOUBLE, dims, modes)))
		return 1;
	for (i = 0; i < CALLS; i++) {
		if (is_error(grpc_call(&sum, N, &d, &y)) || y != 119995)
			return 1;
	}
	if (is_error(grpc_call(&fill, N, 1.0, &r)) ||
	    is_error(grpc_call(&sum, N, &r, &y)) || y != N / 2 * (N + 1.0))
		return 1;
	if (is_error(grpc_finalize()))
		return 1;
	printf("right\n");
	return 0;
}
