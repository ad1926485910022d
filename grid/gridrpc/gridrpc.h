/* SPDX-License-Identifier: MIT */
/* What the files of libgridrpc share. */
#ifndef GRID_GRIDRPC_H
#define GRID_GRIDRPC_H

#include <grid/include/grpc.h>
#include <grid/lib/client.h>

/* Sets the sentence of this thread's last error; answers the code. */
__attribute__((format(printf, 2, 3))) grpc_error_t
gridrpc_error_set(grpc_error_t error, const char *format, ...);
/* The GridRPC code of one of the library's, OMRPC_E_*. */
grpc_error_t gridrpc_error_of(int code);

/* NULL with the error set before grpc_initialize. */
struct grid_client *gridrpc_client(void);
/* The socket's path in the configuration file, which the caller frees. */
grpc_error_t gridrpc_config_read(const char *file, char **hub);

/* The handle's module, or NULL with the error set. */
struct skep_handle *gridrpc_handle_module(struct grid_client *c,
					  const grpc_function_handle_t *handle);

/* The values that a stack holds, `count` of them. */
void *const *gridrpc_stack_values(const grpc_arg_stack_t *stack, u32 *count);

/* Owns the request from now on, unless memory is out. */
grpc_error_t gridrpc_session_add(struct skep_request *r,
				 grpc_function_handle_t *handle,
				 grpc_sessionid_t *id);
/* Forgets all; their requests end with the client. */
void gridrpc_session_clear(void);

#endif
