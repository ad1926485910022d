/* SPDX-License-Identifier: MIT */
/* GridRPC's calls of a worker that is an MPI job: a stack may begin with the
 * number of ranks, which the worker checks. */
#include <grpc.h>

static int call_with(grpc_function_handle_t *handle, int ranks, int *n)
{
	grpc_arg_stack_t *stack = grpc_arg_stack_new(2);
	int error;

	grpc_arg_stack_push_arg(stack, &ranks);
	grpc_arg_stack_push_arg(stack, n);
	error = grpc_call_argstack(handle, stack);
	grpc_arg_stack_destruct(stack);
	return error;
}

/* The same by Ninf-G's attribute, which a stack needs no number for. */
static int call_handle(int ranks, int by_stack)
{
	grpc_arg_stack_t *stack = grpc_arg_stack_new(1);
	grpc_function_handle_t handle;
	grpc_handle_attr_t_np attr;
	int n = -1;

	grpc_handle_attr_initialize_np(&attr);
	grpc_arg_stack_push_arg(stack, &n);
	if (grpc_handle_attr_set_np(&attr, GRPC_HANDLE_ATTR_FUNCNAME,
				    (void *)"marked/size") ||
	    grpc_handle_attr_set_np(&attr, GRPC_HANDLE_ATTR_MPI_NCPUS,
				    &ranks) ||
	    grpc_function_handle_init_with_attr_np(&handle, &attr) ||
	    (by_stack ? grpc_call_argstack(&handle, stack)
		      : grpc_call(&handle, &n)))
		printf("wrong: %s\n", skep_grpc_error_text());
	grpc_arg_stack_destruct(stack);
	grpc_handle_attr_destruct_np(&attr);
	return n;
}

int main(void)
{
	static const int wrong[] = {-5, 1025, 1 << 30};
	grpc_function_handle_t handle;
	int i, n = 0;

	if (grpc_initialize(NULL) ||
	    grpc_function_handle_default(&handle, (char *)"marked/size"))
		return 1;
	if (grpc_call(&handle, &n) || n < 1)
		printf("wrong: one rank for each processor: %d\n", n);
	if (call_with(&handle, 3, &n) || n != 3)
		printf("wrong: three ranks: %d\n", n);
	if (call_handle(2, 0) != 2 || call_handle(3, 1) != 3)
		printf("wrong: ranks of an attribute\n");
	for (i = 0; i < 3; i++) {
		if (call_with(&handle, wrong[i], &n) != GRPC_RPC_REFUSED ||
		    !strstr(skep_grpc_error_text(), "size: a job has 1 to "
						    "1024 ranks"))
			printf("wrong: %d ranks: %s\n", wrong[i],
			       skep_grpc_error_text());
	}
	grpc_finalize();
	puts("right");
	return 0;
}
