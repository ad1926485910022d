/* SPDX-License-Identifier: MIT */
/*
 * GridRPC (GFD-R.052) for master programs in C and C++, as libgridrpc gives it.
 *
 * A master is started with `skep run -- ./master`, or is given the hub's socket
 * in a configuration file. Every function may be called from any thread; each
 * returns a code and neither prints nor ends the program. Numbers of codes
 * differ between implementations of GridRPC: programs use the names.
 *
 * Arguments of a call are given as the interface file has them: IN scalars by
 * value, OUT and INOUT scalars and all arrays as pointers, strings as char *;
 * of a WORK array a pointer that is not used, such as NULL. What is IN is sent
 * from the caller's memory, which is free for other use when the function
 * returns; OUT and INOUT arguments are written until the call was waited for.
 */
#ifndef GRPC_H
#define GRPC_H

/* Ninf-G's header includes these, and its programs count on it. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ninf-G's complex numbers. They are passed as C's own, which do as well. */
typedef struct {
	float r, i;
} scomplex;
typedef struct {
	double r, i;
} dcomplex;

typedef int grpc_error_t;
/* A call under way, from 0. */
typedef int grpc_sessionid_t;

#define GRPC_SESSIONID_VOID -1

#define GRPC_NO_ERROR 0
#define GRPC_NOT_INITIALIZED 1
#define GRPC_CONFIGFILE_NOT_FOUND 2
#define GRPC_CONFIGFILE_ERROR 3
#define GRPC_SERVER_NOT_FOUND 4
#define GRPC_FUNCTION_NOT_FOUND 5
#define GRPC_INVALID_FUNCTION_HANDLE 6
#define GRPC_INVALID_SESSION_ID 7
#define GRPC_RPC_REFUSED 8
#define GRPC_COMMUNICATION_FAILED 9
#define GRPC_SESSION_FAILED 10
#define GRPC_NOT_COMPLETED 11
#define GRPC_NONE_COMPLETED 12
#define GRPC_OTHER_ERROR_CODE 13
#define GRPC_UNKNOWN_ERROR_CODE 14
#define GRPC_ALREADY_INITIALIZED 15
/* Ninf-G's: grpc_get_error returns the first for a call that was later than
 * its GRPC_SESSION_ATTR_SESSION_TIMEOUT, and the second for one that the
 * program cancelled. */
#define GRPC_TIMEOUT_NP 16
#define GRPC_CANCELED_NP 17
#define GRPC_LAST_ERROR_CODE 18

/* A function of a module. The members belong to the library. */
typedef struct {
	uint64_t mark;
	void *module;
	uint32_t function;
	int ranks; /* 0: as many as the node has processors */
} grpc_function_handle_t;

typedef struct grpc_arg_stack grpc_arg_stack_t;

/*
 * Connects to the hub that `skep run` names in SKEP_SOCKET, or whose socket the
 * configuration file names in a line "hub PATH"; lines that begin with # are
 * comments. NULL and "" are no file.
 */
grpc_error_t grpc_initialize(char *config_file);
/*
 * Ends the session: calls that did not end are dropped, all handles and
 * sessions become invalid. No other thread may be in the library.
 */
grpc_error_t grpc_finalize(void);

/*
 * `name` is "module/function", "module.function", or "function" alone. `server`
 * is the name of the node that runs the calls, localhost the one of this
 * computer; NULL and "" let the hub choose for each call.
 */
grpc_error_t grpc_function_handle_default(grpc_function_handle_t *handle,
					  char *name);
grpc_error_t grpc_function_handle_init(grpc_function_handle_t *handle,
				       char *server, char *name);
/* Calls under way go on. */
grpc_error_t grpc_function_handle_destruct(grpc_function_handle_t *handle);
/* The handle that a call was made with; the program's own memory. */
grpc_error_t grpc_get_handle(grpc_function_handle_t **handle,
			     grpc_sessionid_t id);
/* The same, also after the session was waited for, as for grpc_get_error. */
grpc_error_t
grpc_function_handle_get_from_session_np(grpc_function_handle_t **handle,
					 grpc_sessionid_t id);
/*
 * Ninf-G's: the same for `count` handles of one function. If one cannot be
 * made, none is.
 */
grpc_error_t
grpc_function_handle_array_default_np(grpc_function_handle_t *handles,
				      size_t count, char *name);
grpc_error_t grpc_function_handle_array_init_np(grpc_function_handle_t *handles,
						size_t count, char *server,
						char *name);
/* GRPC_INVALID_FUNCTION_HANDLE: one was not valid; the others are gone. */
grpc_error_t
grpc_function_handle_array_destruct_np(grpc_function_handle_t *handles,
				       size_t count);

grpc_error_t grpc_call(grpc_function_handle_t *handle, ...);
grpc_error_t grpc_call_async(grpc_function_handle_t *handle,
			     grpc_sessionid_t *id, ...);

/*
 * Ninf-G's remote objects: an object of a class, "module/class", lives in a
 * process of its own on one node, the one of that name or, with NULL or "", one
 * that the hub chooses. Its methods run there one at a time, in the order in
 * which they were called. If that process ends, or a method that runs is
 * cancelled or loses its node, all later methods fail, and the reason is in
 * skep_grpc_error_text(). The members belong to the library.
 */
typedef struct {
	uint64_t mark;
} grpc_object_handle_t_np;

grpc_error_t grpc_object_handle_default_np(grpc_object_handle_t_np *handle,
					   char *class_name);
grpc_error_t grpc_object_handle_init_np(grpc_object_handle_t_np *handle,
					char *server, char *class_name);
/* The object ends after the methods that were called. */
grpc_error_t grpc_object_handle_destruct_np(grpc_object_handle_t_np *handle);
/* An object for each handle. If one cannot be made, none is. */
grpc_error_t
grpc_object_handle_array_default_np(grpc_object_handle_t_np *handles,
				    size_t count, char *class_name);
grpc_error_t grpc_object_handle_array_init_np(grpc_object_handle_t_np *handles,
					      size_t count, char *server,
					      char *class_name);
grpc_error_t
grpc_object_handle_array_destruct_np(grpc_object_handle_t_np *handles,
				     size_t count);
/* As grpc_function_handle_get_from_session_np. */
grpc_error_t
grpc_object_handle_get_from_session_np(grpc_object_handle_t_np **handle,
				       grpc_sessionid_t id);
/* As the functions for calls, of which the last two have Ninf-G's results. */
grpc_error_t grpc_invoke_np(grpc_object_handle_t_np *handle, char *method, ...);
grpc_error_t grpc_invoke_async_np(grpc_object_handle_t_np *handle, char *method,
				  grpc_sessionid_t *id, ...);
int grpc_invoke_arg_stack_np(grpc_object_handle_t_np *handle, char *method,
			     grpc_arg_stack_t *stack);
int grpc_invoke_arg_stack_async_np(grpc_object_handle_t_np *handle,
				   char *method, grpc_arg_stack_t *stack);

/*
 * Ninf-G's attributes of handles. A name other than those below is refused with
 * GRPC_RPC_REFUSED: agents connect to the hub, so there are no ports and
 * queues.
 */
typedef enum {
	GRPC_HANDLE_ATTR_HOSTNAME, /* char *: as `server` above */
	GRPC_HANDLE_ATTR_PORT,
	GRPC_HANDLE_ATTR_JOBMANAGER,
	GRPC_HANDLE_ATTR_SUBJECT,
	GRPC_HANDLE_ATTR_FUNCNAME, /* char *: the function, or the class */
	GRPC_HANDLE_ATTR_JOBSTARTTIMEOUT,
	GRPC_HANDLE_ATTR_JOBSTOPTIMEOUT,
	/* grpc_argument_transfer_t_np *. The memory of arguments is always free
	 * for other use when a call returns, which is all that they ask. */
	GRPC_HANDLE_ATTR_WAIT_ARG_TRANSFER,
	GRPC_HANDLE_ATTR_QUEUENAME,
	GRPC_HANDLE_ATTR_MPI_NCPUS /* int *: ranks of an MPI job, not for
				      objects */
} grpc_handle_attr_name_t_np;
typedef enum {
	GRPC_ARGUMENT_TRANSFER_WAIT,
	GRPC_ARGUMENT_TRANSFER_NOWAIT,
	GRPC_ARGUMENT_TRANSFER_COPY
} grpc_argument_transfer_t_np;
/* The members belong to the library. */
typedef struct {
	char *host, *name;
	int ranks;
	grpc_argument_transfer_t_np transfer;
} grpc_handle_attr_t_np;

grpc_error_t grpc_handle_attr_initialize_np(grpc_handle_attr_t_np *attr);
grpc_error_t grpc_handle_attr_destruct_np(grpc_handle_attr_t_np *attr);
/* The value is copied. */
grpc_error_t grpc_handle_attr_set_np(grpc_handle_attr_t_np *attr,
				     grpc_handle_attr_name_t_np name,
				     void *value);
/* *value is a copy, for grpc_handle_attr_release_np; NULL: no name was set. */
grpc_error_t grpc_handle_attr_get_np(grpc_handle_attr_t_np *attr,
				     grpc_handle_attr_name_t_np name,
				     void **value);
grpc_error_t grpc_handle_attr_release_np(void *value);
grpc_error_t
grpc_function_handle_init_with_attr_np(grpc_function_handle_t *handle,
				       grpc_handle_attr_t_np *attr);
grpc_error_t
grpc_function_handle_array_init_with_attr_np(grpc_function_handle_t *handles,
					     size_t count,
					     grpc_handle_attr_t_np *attr);
grpc_error_t
grpc_object_handle_init_with_attr_np(grpc_object_handle_t_np *handle,
				     grpc_handle_attr_t_np *attr);
grpc_error_t
grpc_object_handle_array_init_with_attr_np(grpc_object_handle_t_np *handles,
					   size_t count,
					   grpc_handle_attr_t_np *attr);

/*
 * What a handle was made with; the attributes are as grpc_handle_attr_set_np
 * would make them, to be destructed.
 */
grpc_error_t grpc_function_handle_get_attr_np(grpc_function_handle_t *handle,
					      grpc_handle_attr_t_np *attr);
grpc_error_t grpc_object_handle_get_attr_np(grpc_object_handle_t_np *handle,
					    grpc_handle_attr_t_np *attr);
/*
 * GRPC_NO_ERROR if the handle is valid: workers are started when calls need
 * them, and each session has its own error.
 */
grpc_error_t grpc_function_handle_is_ready_np(grpc_function_handle_t *handle);
grpc_error_t grpc_object_handle_is_ready_np(grpc_object_handle_t_np *handle);
grpc_error_t grpc_function_handle_get_error_np(grpc_function_handle_t *handle);
grpc_error_t grpc_object_handle_get_error_np(grpc_object_handle_t_np *handle);

/*
 * Ninf-G's attributes of sessions: those of the handle are the first ones.
 * Other names than those with a comment are refused with GRPC_RPC_REFUSED.
 */
typedef enum {
	/* As GRPC_HANDLE_ATTR_WAIT_ARG_TRANSFER. */
	GRPC_SESSION_ATTR_WAIT_ARG_TRANSFER,
	/* int *: seconds from the call on, after which it is cancelled; 0: no
	 * limit. The call returns, or grpc_get_error, GRPC_TIMEOUT_NP. */
	GRPC_SESSION_ATTR_SESSION_TIMEOUT,
	GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_ARGUMENT,
	GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_RESULT,
	GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_CALLBACK_ARGUMENT,
	GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_CALLBACK_RESULT
} grpc_session_attr_name_t_np;
/* The members belong to the library. */
typedef struct {
	grpc_argument_transfer_t_np transfer;
	int timeout;
} grpc_session_attr_t_np;

grpc_error_t grpc_session_attr_initialize_np(grpc_function_handle_t *handle,
					     grpc_session_attr_t_np *attr);
grpc_error_t grpc_session_attr_initialize_with_object_handle_np(
	grpc_object_handle_t_np *handle, grpc_session_attr_t_np *attr);
grpc_error_t grpc_session_attr_destruct_np(grpc_session_attr_t_np *attr);
grpc_error_t grpc_session_attr_set_np(grpc_session_attr_t_np *attr,
				      grpc_session_attr_name_t_np name,
				      void *value);
/* *value is a copy, for grpc_session_attr_release_np. */
grpc_error_t grpc_session_attr_get_np(grpc_session_attr_t_np *attr,
				      grpc_session_attr_name_t_np name,
				      void **value);
grpc_error_t grpc_session_attr_release_np(void *value);
grpc_error_t grpc_call_with_attr_np(grpc_function_handle_t *handle,
				    grpc_session_attr_t_np *attr, ...);
grpc_error_t grpc_call_async_with_attr_np(grpc_function_handle_t *handle,
					  grpc_sessionid_t *id,
					  grpc_session_attr_t_np *attr, ...);
int grpc_call_arg_stack_with_attr_np(grpc_function_handle_t *handle,
				     grpc_session_attr_t_np *attr,
				     grpc_arg_stack_t *stack);
int grpc_call_arg_stack_async_with_attr_np(grpc_function_handle_t *handle,
					   grpc_session_attr_t_np *attr,
					   grpc_arg_stack_t *stack);
grpc_error_t grpc_invoke_with_attr_np(grpc_object_handle_t_np *handle,
				      char *method,
				      grpc_session_attr_t_np *attr, ...);
grpc_error_t grpc_invoke_async_with_attr_np(grpc_object_handle_t_np *handle,
					    char *method, grpc_sessionid_t *id,
					    grpc_session_attr_t_np *attr, ...);
int grpc_invoke_arg_stack_with_attr_np(grpc_object_handle_t_np *handle,
				       char *method,
				       grpc_session_attr_t_np *attr,
				       grpc_arg_stack_t *stack);
int grpc_invoke_arg_stack_async_with_attr_np(grpc_object_handle_t_np *handle,
					     char *method,
					     grpc_session_attr_t_np *attr,
					     grpc_arg_stack_t *stack);

/*
 * Arguments, first to last, as a stack of pointers: to a scalar of whatever
 * mode, to an array's first element, to a string's first character. At most
 * `max`; NULL: out of memory, or max is negative.
 */
grpc_arg_stack_t *grpc_arg_stack_new(int max);
int grpc_arg_stack_destruct(grpc_arg_stack_t *stack);
/* GRPC_OTHER_ERROR_CODE: the stack is full. */
int grpc_arg_stack_push_arg(grpc_arg_stack_t *stack, void *argument);
/* The last one, which is removed; NULL: there was none. */
void *grpc_arg_stack_pop_arg(grpc_arg_stack_t *stack);
/*
 * Ninf-G's names: 0, or -1 after a failure. The session of the second is
 * reached by grpc_wait_any and grpc_wait_all.
 */
int grpc_call_arg_stack(grpc_function_handle_t *handle,
			grpc_arg_stack_t *stack);
int grpc_call_arg_stack_async(grpc_function_handle_t *handle,
			      grpc_arg_stack_t *stack);
/* DIET's names. */
grpc_error_t grpc_call_argstack(grpc_function_handle_t *handle,
				grpc_arg_stack_t *stack);
grpc_error_t grpc_call_argstack_async(grpc_function_handle_t *handle,
				      grpc_sessionid_t *id,
				      grpc_arg_stack_t *stack);

/* GRPC_NO_ERROR: it has ended, well or not; GRPC_NOT_COMPLETED. */
grpc_error_t grpc_probe(grpc_sessionid_t id);
/* One that has ended, or GRPC_NONE_COMPLETED. */
grpc_error_t grpc_probe_or(grpc_sessionid_t *ids, size_t count,
			   grpc_sessionid_t *id);

/*
 * A session is valid until a function below has waited for it. grpc_wait
 * returns how it ended; the others GRPC_SESSION_FAILED if one has failed.
 */
grpc_error_t grpc_wait(grpc_sessionid_t id);
grpc_error_t grpc_wait_and(grpc_sessionid_t *ids, size_t count);
grpc_error_t grpc_wait_or(grpc_sessionid_t *ids, size_t count,
			  grpc_sessionid_t *id);
grpc_error_t grpc_wait_all(void);
/* If there is no session, *id is GRPC_SESSIONID_VOID, as with Ninf-G. */
grpc_error_t grpc_wait_any(grpc_sessionid_t *id);

/*
 * The call ends with GRPC_SESSION_FAILED, unless it has ended or its result was
 * on its way. It is still to be waited for.
 */
grpc_error_t grpc_cancel(grpc_sessionid_t id);
grpc_error_t grpc_cancel_all(void);

/*
 * How a session ended, also after it was waited for (the last 65536 sessions);
 * GRPC_NOT_COMPLETED while it runs, GRPC_CANCELED_NP if grpc_cancel ended it.
 */
grpc_error_t grpc_get_error(grpc_sessionid_t id);
/*
 * Sessions that failed in the program's last wait for several, one with each
 * call; GRPC_SESSIONID_VOID after the last one.
 */
grpc_error_t grpc_get_failed_sessionid(grpc_sessionid_t *id);
/* Static memory. */
char *grpc_error_string(grpc_error_t error);
/* Ninf-G's: this thread's last error, from any function. */
grpc_error_t grpc_last_error_get_np(void);
#define grpc_get_last_error_np grpc_last_error_get_np
/* Prints it on standard error, behind the text. */
grpc_error_t grpc_perror_np(char *text);
grpc_error_t grpc_function_handle_perror_np(grpc_function_handle_t *handle,
					    char *text);
grpc_error_t grpc_object_handle_perror_np(grpc_object_handle_t_np *handle,
					  char *text);

/* What Ninf-G has and this library does not: calls of them do not compile. */
#if defined(__GNUC__) && !defined(__clang__)
#define SKEP_GRPC_NOT_HERE(instead)                                            \
	__attribute__((error("Skep does not have it: " instead)))
#else
#define SKEP_GRPC_NOT_HERE(instead)
#endif
typedef struct grpc_session_info_t_np grpc_session_info_t_np;
typedef struct grpc_session_info_t_np grpc_exec_info_t_np;
SKEP_GRPC_NOT_HERE("`skep ledger --json` has how long calls took")
grpc_error_t grpc_session_info_get_np(grpc_sessionid_t id,
				      grpc_session_info_t_np **info,
				      int *status);
SKEP_GRPC_NOT_HERE("there is no session information to release")
grpc_error_t grpc_session_info_release_np(grpc_session_info_t_np *info);
SKEP_GRPC_NOT_HERE("leave it out, sessions are forgotten by themselves")
grpc_error_t grpc_session_info_remove_np(grpc_sessionid_t id);
SKEP_GRPC_NOT_HERE("leave it out, the last 65536 sessions are kept")
grpc_error_t grpc_session_info_set_threshold_np(int count);
SKEP_GRPC_NOT_HERE("`skep ledger --json` has how long calls took")
grpc_error_t grpc_get_info_np(grpc_sessionid_t id, grpc_exec_info_t_np *info,
			      int *status);
SKEP_GRPC_NOT_HERE("`skep ledger --json` has how long calls took")
grpc_error_t grpc_get_last_info_np(grpc_exec_info_t_np *info, int *status);
SKEP_GRPC_NOT_HERE("use sigaction(), the library handles no signals")
grpc_error_t grpc_signal_handler_set_np(int number, void (*handler)(int));
SKEP_GRPC_NOT_HERE("name the file in grpc_initialize")
grpc_error_t grpc_config_file_read_np(char *file);

/* Data management (GFD-R-P.186): docs/gridrpc.md has what differs. ----------
 */

/*
 * Data that is described once, and can be given to calls in place of an array:
 * its address. It must stay where it was initialised. One thread at a time.
 */
typedef struct {
	uint64_t mark;
	void *data;
} grpc_data_t;

typedef enum {
	GRPC_BOOL,		    /* char */
	GRPC_INT,		    /* int */
	GRPC_DOUBLE,		    /* double */
	GRPC_COMPLEX,		    /* dcomplex */
	GRPC_STRING,		    /* char */
	GRPC_FILE,		    /* bytes of any type */
	GRPC_CONTAINER_OF_GRPC_DATA /* other data, by rank */
} grpc_data_type_t;

typedef enum {
	GRPC_VOLATILE,		/* sent with each call */
	GRPC_STRICTLY_VOLATILE, /* the same; nothing stays anywhere */
	GRPC_STICKY,	    /* stays in the hub, and on nodes that used it */
	GRPC_UNIQUE_STICKY, /* the same, and on one node alone */
	GRPC_PERSISTENT,    /* as GRPC_STICKY */
	GRPC_END_LIST
} grpc_data_mode_t;

typedef enum { GRPC_WAIT_ALL, GRPC_WAIT_ANY } grpc_completion_mode_t;

/* What grpc_data_getinfo answers. */
typedef enum {
	GRPC_DATA_TYPE_NP,
	GRPC_DATA_MODE_NP,
	GRPC_DATA_BYTES_NP,
	GRPC_DATA_DIGEST_NP, /* SHA-256 of what the hub stores, as in the ledger
			      */
	GRPC_DATA_INPUT_NP,  /* URIs, one a line */
	GRPC_DATA_OUTPUT_NP,
	GRPC_DATA_PARTS_NP /* how many a container has */
} grpc_data_info_type_t;

/*
 * Lists end with NULL, dimensions with 0, modes with GRPC_END_LIST. URIs are
 * memory://localhost/KEY, file://localhost/PATH, and skep://hub for an output
 * that stays in the grid. GRPC_RPC_REFUSED: something of this is not there; a
 * line on standard error says what to do.
 */
grpc_error_t grpc_data_init(grpc_data_t *data, const char **input_uris,
			    const char **output_uris, grpc_data_type_t type,
			    const size_t *dimensions,
			    const grpc_data_mode_t *modes);
/* *info is the caller's, to be freed; `uri` is not used. */
grpc_error_t grpc_data_getinfo(const grpc_data_t *data,
			       grpc_data_info_type_t what, const char *uri,
			       char **info);
/*
 * Reads the inputs again, or others, and writes to these outputs or, with NULL,
 * to those of grpc_data_init. It has ended when it returns.
 */
grpc_error_t grpc_data_transfer(grpc_data_t *data, const char **input_uris,
				const char **output_uris,
				const grpc_data_mode_t *modes);
/* Waits for the calls that write to the data, and writes their results to its
 * outputs. *returned is the one that ended, for GRPC_WAIT_ANY; it may be NULL
 * otherwise. */
grpc_error_t grpc_data_wait(const grpc_data_t **list,
			    grpc_completion_mode_t mode,
			    grpc_data_t **returned);
/* The handle is gone; what the hub stores stays until grpc_finalize. */
grpc_error_t grpc_data_unbind(grpc_data_t *data);
/* The handle is gone, and with the last handle and container that has the data
 * also what hub and nodes store. */
grpc_error_t grpc_data_free(grpc_data_t *data, const char **uris);
/*
 * A container has data of any type by rank, from 0; its one dimension is the
 * number of ranks, 65536 without it. In place of an array of mode IN it stands
 * for its parts, one behind the other in the order of their ranks.
 */
grpc_error_t grpc_data_container_set(grpc_data_t *container, int rank,
				     const grpc_data_t *data);
/* Makes *data one more handle of the part, to be freed or unbound. */
grpc_error_t grpc_data_container_get(const grpc_data_t *container, int rank,
				     grpc_data_t *data);
/*
 * Writes the description of data, not its bytes, to file://localhost/PATH; of a
 * container also those of its parts.
 */
grpc_error_t grpc_data_save(const grpc_data_t *data, const char *output_uri);
/*
 * Makes *data a handle of what a description from there, or in a string at
 * memory://localhost/KEY, describes: the data itself while this program has a
 * handle of it, otherwise new data with the same inputs and outputs. Data whose
 * bytes were only in the grid is then gone: GRPC_RPC_REFUSED.
 */
grpc_error_t grpc_data_load(grpc_data_t *data, const char *input_uri);
/* What memory://localhost/KEY means; NULL takes it back. */
grpc_error_t grpc_data_memory_mapping_set(const char *key, void *memory);
grpc_error_t grpc_data_memory_mapping_get(const char *key, void **memory);

/*
 * Beyond GridRPC: what the last error in this thread was, in one or more
 * sentences; good until this thread's next call of the library.
 */
const char *skep_grpc_error_text(void);

#ifdef __cplusplus
}
#endif

#endif
