/* SPDX-License-Identifier: MIT */
/* What Ninf-G's header of this name gives to functions that workers run. */
#ifndef GRPC_EXECUTABLE_H
#define GRPC_EXECUTABLE_H

#include <grpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Whether the program has cancelled the call that asks: 1 or 0, and
 * GRPC_NO_ERROR in *error, which may be NULL. It is 0 always: the worker of a
 * cancelled call is killed, so a function that asks runs for somebody.
 */
static inline int grpc_is_canceled_np(grpc_error_t *error)
{
	if (error)
		*error = GRPC_NO_ERROR;
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif
