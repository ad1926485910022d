/* SPDX-License-Identifier: MIT */
/* What the files of libgridrpc share. */
#ifndef GRID_GRIDRPC_H
#define GRID_GRIDRPC_H

#include <grid/include/grpc.h>
#include <grid/lib/back.h>
#include <grid/lib/client.h>

/* Sets the sentence of this thread's last error; answers the code. */
__attribute__((format(printf, 2, 3))) grpc_error_t
gridrpc_error_set(grpc_error_t error, const char *format, ...);
/* The same for memory that there is not. */
grpc_error_t gridrpc_error_memory(void);
/* The GridRPC code of one of the library's, OMRPC_E_*; it becomes this
 * thread's last one if it is an error's. */
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

/* What a session was made with: one of them. */
struct gridrpc_maker {
	grpc_function_handle_t *function;
	grpc_object_handle_t_np *object;
};

/* Owns the request from now on, unless memory is out. */
grpc_error_t gridrpc_session_add(struct skep_request *r,
				 struct gridrpc_maker maker,
				 grpc_sessionid_t *id);
/*
 * Of a call that was started, unless r is NULL: waits for it, or makes a
 * session of it. They return how the call or the start ended.
 */
grpc_error_t gridrpc_call_finish(struct skep_request *r);
grpc_error_t gridrpc_call_keep(struct skep_request *r,
			       struct gridrpc_maker maker,
			       grpc_sessionid_t *id);
/* Starts a call with the values of `stack`, or else of `args`, as a session. */
grpc_error_t gridrpc_call_async(grpc_function_handle_t *handle,
				grpc_sessionid_t *id,
				const grpc_arg_stack_t *stack, va_list *args);
/* The same of an object's method. */
grpc_error_t gridrpc_invoke_async(grpc_object_handle_t_np *handle,
				  const char *method, grpc_sessionid_t *id,
				  const grpc_arg_stack_t *stack, va_list *args);
/* A handle's object: 0, or a code with the error set. */
grpc_error_t gridrpc_object_get(const grpc_object_handle_t_np *handle,
				struct grid_object *o);
/* Cancels a session at a time of grid_clock(), if it has not ended; then
 * grpc_get_error returns GRPC_TIMEOUT_NP. */
grpc_error_t gridrpc_session_limit(grpc_sessionid_t id, u64 deadline);
/* Forgets the objects of all handles: the session is over. */
void gridrpc_object_clear(void);
/* How a session ended that was waited for. Leaves the error's sentence. */
grpc_error_t gridrpc_session_past(grpc_sessionid_t id);
/* Nothing is cancelled for its deadline any more. */
void gridrpc_session_stop(void);
/* Forgets all; their requests end with the client. */
void gridrpc_session_clear(void);

/* Where a URI leads. */
enum gridrpc_place { GRIDRPC_MEMORY, GRIDRPC_FILE, GRIDRPC_HUB };

/* Sets the error, and prints it: GRPC_RPC_REFUSED. */
__attribute__((format(printf, 1, 2))) grpc_error_t
gridrpc_data_refuse(const char *format, ...);
/* *name: the key of memory, or the file's path; part of `uri`. */
grpc_error_t gridrpc_uri_parse(const char *uri, enum gridrpc_place *place,
			       const char **name);
/* *bytes is the caller's, to be freed. */
grpc_error_t gridrpc_file_read(const char *path, void **bytes, u64 *len);
grpc_error_t gridrpc_file_write(const char *path, const void *bytes, u64 len);

/* Writes the results of calls that have ended to the outputs of their data. */
grpc_error_t gridrpc_data_deliver(struct grid_client *c);
/* Frees all handles: the session is over. */
void gridrpc_data_clear(void);

#endif
