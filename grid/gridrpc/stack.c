// SPDX-License-Identifier: MIT
/* Argument stacks of GridRPC. A stack is its caller's, one thread at a time. */
#include "gridrpc.h"

#include <stdlib.h>

struct grpc_arg_stack {
	u32 count, max;
	void *value[];
};

grpc_arg_stack_t *grpc_arg_stack_new(int max)
{
	grpc_arg_stack_t *stack;

	if (max < 0)
		return NULL;
	stack = malloc(sizeof(*stack) + (size_t)max * sizeof(stack->value[0]));
	if (!stack)
		return NULL;
	stack->count = 0;
	stack->max = (u32)max;
	return stack;
}

int grpc_arg_stack_destruct(grpc_arg_stack_t *stack)
{
	free(stack);
	return GRPC_NO_ERROR;
}

int grpc_arg_stack_push_arg(grpc_arg_stack_t *stack, void *argument)
{
	if (!stack || stack->count == stack->max)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "the argument stack is full: it was "
					 "made for %u arguments",
					 stack ? stack->max : 0);
	stack->value[stack->count++] = argument;
	return GRPC_NO_ERROR;
}

void *grpc_arg_stack_pop_arg(grpc_arg_stack_t *stack)
{
	return stack && stack->count ? stack->value[--stack->count] : NULL;
}

void *const *gridrpc_stack_values(const grpc_arg_stack_t *stack, u32 *count)
{
	*count = stack->count;
	return stack->value;
}
