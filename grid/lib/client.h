/* SPDX-License-Identifier: MIT */
/*
 * One session with the hub: its requests and modules, and the thread that
 * reads. grid/include/OmniRpc.h has the public part.
 */
#ifndef GRID_LIB_CLIENT_H
#define GRID_LIB_CLIENT_H

#include <grid/core/marshal.h>
#include <grid/include/OmniRpc.h>

#include "apply.h"
#include "stream.h"

#define GRID_TEXT_MAX 1024
/* Bytes that the strings and files of one parameter may return. */
#define GRID_TEXT_ROOM 0x10000000

/* Arguments of a call in progress; `shape` has an entry for each. */
struct grid_args {
	struct grid_call call;
	u64 in, out; /* bytes to send and to receive */
	u64 outer;   /* as in struct skep_request */
	u64 object;  /* the number of the object whose method it is, or 0 */
	const struct skep_handle *handle;
	/* texts of `call` are the library's, not the caller's pointers */
	int texts;
	/* See grid_bytes_start; not valid after they were sent. */
	const struct grid_bytes *bytes;
	u8 *result;
	u64 result_bytes, tag;
	/* If arguments are stored data: what CALL_KEPT begins with. */
	void *head;
	u32 head_len;
	int right;	/* the result is complete */
	int by_address; /* the program's functions are Fortran's */
	const struct grid_hook *hook; /* they are another language's */
	int *lost; /* NULL, or set to 1 if the call fails; client->lock guards
		    */
	struct grid_shape shape[];
};

/* Pieces that are sent as one array, without a copy. */
struct grid_bytes {
	const struct iovec *piece;
	u32 pieces;
};

/* The frames of a request, kept to be sent again. */
struct grid_kept {
	u16 type;
	u32 head_len;
	u64 len;    /* of `bytes`, which are sent as DATA after the head */
	u64 mapped; /* bytes of the file that this is in; 0: memory */
	u8 *bytes;
	u8 head[]; /* the first frame's payload */
};

enum grid_request_kind {
	GRID_BIND,
	GRID_KEEP,
	GRID_READ,
	GRID_OBJECT,
	GRID_INIT,
	GRID_CALL
};

/* client->lock guards all but the fields that only one thread or the reader
 * uses. */
struct grid_back;

struct skep_request {
	u64 id, number; /* number: of the calls that were sent, from 1 */
	enum grid_request_kind kind;
	int ended, returned, code; /* returned: by OmniRpcWaitAny */
	int quiet;     /* the program has been told of its failure */
	int reported;  /* its failure was printed */
	int sending;   /* a thread is sending it, so it cannot be freed */
	int cancelled; /* a CANCEL was sent */
	u64 epoch;     /* the stream on which it was last sent; 0: none */
	u64 outer;     /* the call whose function made it, or 0 */
	int method;    /* it is one of an object's */
	struct grid_kept *kept; /* NULL: it cannot be sent again */
	struct grid_back *back; /* once it has called the program, see back.h */
	char *text;		/* why it failed */
	struct grid_args *args; /* until it has ended */
	struct skep_info info;	/* valid if code is 0 */
	u64 begun;
	struct grid_datum *datum; /* KEEP, READ */
	void *memory;		  /* the caller's: of KEEP and READ */
	u32 module, bytes;	  /* BIND: bytes received of the manifest */
	void *manifest;
	u8 *result; /* of grid_bytes_start; owned by the request until taken */
	u64 result_bytes;
	struct skep_request *next, **link; /* in client->request */
	/* 0, or the caller's number: then it is added to client->done when it
	 * ends. */
	u64 tag;
	/* done_link is not NULL while it is in the list */
	struct skep_request *done_next, **done_link;
};

struct skep_handle {
	char name[SKEP_NAME_MAX];
	char *key;  /* the name that the hub was asked for */
	u32 number; /* the hub's number of the module */
	void *bytes;
	struct grid_module module;
	struct skep_handle *next; /* the one bound before */
};

struct grid_client {
	struct grid_stream stream;
	pthread_t reader;
	char *path; /* the hub's socket */
	char *keep; /* the folder for what memory cannot keep, or NULL */
	u64 look;   /* ns; for so long another hub is looked for */
	/* Of the reader: the thread that sends again what an earlier hub
	 * had. */
	pthread_t resender;
	int resending;

	/* Guards the fields below and the requests; `ended` is signalled when
	 * one ends. */
	pthread_mutex_t lock;
	pthread_cond_t ended;
	struct skep_request *request, **slot;
	u32 *free_slot, slots, free_slots;
	u64 serial, calls;
	u64 epoch;	     /* counts streams from 1 */
	int away;	     /* no stream: the reader is looking for the hub */
	pthread_cond_t back; /* signals changes of away, epoch and down */
	u64 kept_bytes;	     /* total of all requests kept in memory */
	/* Requests with a tag that have ended, for grid_request_next. */
	struct skep_request *done, **done_end;
	pthread_cond_t done_more;
	u32 backs;   /* threads of requests that called the program */
	int over;    /* the reader and all requests have ended */
	int closing; /* requests that still run are dropped */
	int quiet;   /* do not print failures; set before the first call */
	int down;    /* OMRPC_E_*: why the session is over; 0: it is not */
	char why[GRID_TEXT_MAX];
	struct skep_handle *modules; /* entries are never changed or removed */

	pthread_mutex_t binding; /* serializes binding; locked before `lock` */
};

/* Sets the text of this thread's last error; returns code. */
__attribute__((format(printf, 2, 3))) int
grid_error_set(int code, const char *format, ...);

int grid_error_code(void);
/* Whether that error was printed; grid_error_tell() marks it as printed. */
int grid_error_reported(void);
void grid_error_tell(void);

/*
 * Starts `skep run` for this program and returns the socket of its hub; 0, or a
 * code with the error set. Unless grid_holder_end() is called, it ends with the
 * program.
 */
int grid_holder_start(const char *hostfile, char *socket, size_t size);
void grid_holder_end(void);
/* The program's session; NULL with the error set. */
struct grid_client *grid_session(void);

/* Programs for OmniRPC may declare and set it. */
extern int omrpc_debug_flag;

/* Prints that a call failed, before the call ends. Called by the reader. */
void grid_report_failed(const struct skep_request *r, const char *text);
/* Prints this thread's last error, unless it was printed: of a call that was
 * not sent. */
void grid_report_unsent(const char *module, const char *function);
/*
 * Programs for OmniRPC do not check codes: a failure ends the program, unless
 * SKEP_ERRORS is "return"; then this returns the code.
 */
int grid_end_failed(int code);
/* -EINVAL: SKEP_ERRORS is neither "return" nor "exit". */
int grid_errors_check(void);

/* Frees the handles of OmniRpcMpiCreateHandle, when no call is left. */
void grid_ranks_free(void);
/* Frees the objects of OmniRpcCreateObject, which end with the session. */
void grid_made_free(void);

int grid_client_open(struct grid_client **client, const char *path);
/* Takes leave of the hub: threads that wait for it return. Any thread may call
 * it, also twice. */
void grid_client_end(struct grid_client *c);
/* Ends it and frees it; no other thread may be in one of these functions. */
void grid_client_close(struct grid_client *c);

/*
 * NULL with the error set. The request owns args, which may be NULL. If there
 * are args, it counts as being sent until grid_request_sent, which is called
 * before the last byte is sent.
 */
struct skep_request *grid_request_new(struct grid_client *c,
				      enum grid_request_kind kind,
				      struct grid_args *args);
/*
 * Sends a request by `send`, or from `kept`, which may be NULL and which it
 * then owns. A kept request is sent on the next stream if this one breaks. 0,
 * or a negative errno: then it was not sent and will not be, unless it has a
 * tag.
 */
int grid_request_send(struct grid_client *c, struct skep_request *r,
		      struct grid_kept *kept,
		      int (*send)(struct grid_client *, struct skep_request *));
/*
 * Makes room to keep a request, to be freed by grid_kept_free. *kept is NULL if
 * it cannot be kept. Returns 0, or a code with the error set if it must be:
 * with SKEP_KEEP no request is accepted that is not kept.
 */
int grid_kept_new(struct grid_client *c, u16 type, const void *head,
		  u32 head_len, u64 len, struct grid_kept **kept);
void grid_kept_free(struct grid_kept *k); /* may be NULL */
/* The request owns `kept`, which may be NULL, from then on. */
void grid_request_keep(struct grid_client *c, struct skep_request *r,
		       struct grid_kept *kept);
/* The text for requests that were lost with the hub. */
extern const char grid_lost[];

/*
 * Called by the reader after the end of its stream: looks for the hub until it
 * is back. 0: read on. Negative: the session is over.
 */
int grid_client_again(struct grid_client *c);
/* How long the next hub is looked for, in ns: the variable SKEP_KEEP_RUNS, or a
 * minute if it is NULL or no number of seconds. */
u64 grid_again_for(const char *seconds);
/* The caller holds lock. Frees what is kept of the request. */
void grid_request_drop_kept(struct grid_client *c, struct skep_request *r);
int grid_request_busy(struct grid_client *c, struct skep_request *r);
void grid_request_sent(struct grid_client *c, struct skep_request *r);
/* Waits for the end; returns the request's code, and sets the error from it. */
int grid_request_wait(struct grid_client *c, struct skep_request *r);
int grid_request_ended(struct grid_client *c, const struct skep_request *r);
/* Asks the hub to forget a call; 0, or a code with the error set. */
int grid_request_cancel(struct grid_client *c, struct skep_request *r);
/* Its failure will not be printed: the program dropped it, or another line
 * reports it. */
void grid_request_hush(struct grid_client *c, struct skep_request *r);
/*
 * Returns requests with a tag that have ended, at most `room`; waits for at
 * least one. 0: the session is over and there are none left, or
 * grid_client_end was called.
 */
u32 grid_request_next(struct grid_client *c, struct skep_request **ended,
		      u32 room);
/* Frees a request that has ended. */
void grid_request_free(struct grid_client *c, struct skep_request *r);
/* Called when a frame could not be sent: sets the error to why the session is
 * over. */
int grid_client_over(struct grid_client *c);
/* The request's frames could not be sent: ends the session and frees the
 * request. */
int grid_request_abandon(struct grid_client *c, struct skep_request *r);

/* Finds a bound module, or binds it. NULL with the error set. */
struct skep_handle *grid_module_bind(struct grid_client *c, const char *name,
				     u64 len);
/* Binds a module whose calls run only on this node; module may be a path. */
struct skep_handle *grid_module_bind_host(struct grid_client *c,
					  const char *host, const char *module);
/* Index of the module's function, or a negative code with the error set. */
int grid_handle_function(const struct skep_handle *m, const char *name);
/* A code with the error set if the function is Initialize, which no call runs.
 */
int grid_function_refuse_init(const struct skep_handle *m, int f);
/* Finds the function that OmniRpcCall's name means: its index, or a negative
 * code with the error set. */
int grid_module_function(struct grid_client *c, const char *name,
			 struct skep_handle **module);

/* Sends a call of function f, or if f is Initialize, its data. */
struct skep_request *grid_call_start(struct grid_client *c,
				     const struct skep_handle *module, u32 f,
				     va_list values);
/* The same in an MPI job of so many ranks; see grid_args.lost. */
struct skep_request *grid_call_start_ranks(struct grid_client *c,
					   const struct skep_handle *module,
					   u32 f, int ranks, int *lost,
					   va_list values);
/*
 * The same with a pointer to each argument: scalars of any mode are read and
 * written by them; those of WORK arrays are ignored.
 */
struct skep_request *grid_call_start_at(struct grid_client *c,
					const struct skep_handle *module, u32 f,
					void *const *pointer, u32 count);
/*
 * The same for a program in Fortran, whose functions get all arguments by
 * address. `object` is the number of the one whose method f is, or 0. Unless
 * `elements` is NULL, each argument except characters and texts must have as
 * many as the interface says.
 */
struct skep_request *grid_call_start_fortran(struct grid_client *c,
					     const struct skep_handle *module,
					     u32 f, u64 object,
					     void *const *pointer,
					     const s64 *elements, u32 count);
/* The same; with this tag, the request is added to client->done when it
 * ends. */
struct skep_request *grid_call_start_tagged(struct grid_client *c,
					    const struct skep_handle *module,
					    u32 f, void *const *pointer,
					    u32 count, u64 tag);
/* The same; the hook must live until the call has ended. */
struct skep_request *
grid_call_start_hooked(struct grid_client *c, const struct skep_handle *module,
		       u32 f, u64 object, void *const *pointer, u32 count,
		       u64 tag, const struct grid_hook *hook);
/* An object of a class: object.c. */
struct grid_object {
	struct skep_handle *module;
	u32 class;  /* index in the manifest */
	u64 number; /* no other object of the session has it */
};

/*
 * Makes an object of the class of this name, "module/class", on this node; NULL
 * and "" let the hub choose. 0, or a code with the error set.
 */
int grid_object_make(struct grid_client *c, struct grid_object *o,
		     const char *server, const char *name);
/* The same of a module that is bound; `class` is an index in its manifest. */
int grid_object_start(struct grid_client *c, struct grid_object *o,
		      struct skep_handle *module, u32 class);
/* Index of a method of its class, or a code with the error set. */
int grid_object_method(const struct grid_object *o, const char *name);
/* The object of OmniRpcCreateObject; 0, or a code with the error set. */
int grid_made_get(const void *object, struct grid_object *o);
/* It ends after the methods that were called. */
void grid_object_end(struct grid_client *c, const struct grid_object *o);
/* Calls a method; with `pointer` as grid_call_start_at, else with values. */
struct skep_request *grid_method_start(struct grid_client *c,
				       const struct grid_object *o,
				       const char *name, va_list *values,
				       void *const *pointer, u32 count);
/* Index of a function that a call can name without an object, or a code with
 * the error set. */
int grid_function_refuse_method(const struct skep_handle *m, u32 f);

/* What ends the payload of a call: how many numbers. */
u32 grid_call_tail(const struct grid_args *a, u64 tail[2]);
/* The request owns the arguments, which may be NULL with the error set. */
struct skep_request *grid_args_start(struct grid_client *c, u32 f,
				     struct grid_args *a);
/*
 * Stores bytes in the hub, as data for later calls: datum->length of them.
 * Returns 0, or a code with the error set; so do the others.
 */
int grid_data_keep(struct grid_client *c, struct grid_datum *datum,
		   const void *bytes);
/* Sends KEEP; for grid_request_send. */
int grid_data_send(struct grid_client *c, struct skep_request *r);
/* Reads stored data into memory with room for datum->length bytes. */
int grid_data_read(struct grid_client *c, struct grid_datum *datum, void *to);
/* Whether a call is under way whose result it is. */
int grid_data_busy(const struct grid_datum *datum);
/* OMRPC_E_REFUSED with the error set if this thread must not wait for that. */
int grid_data_refuse_wait(const struct grid_datum *datum);
/* Waits until one of them is not; its index. */
u32 grid_data_wait_any(struct grid_client *c, struct grid_datum *const *datum,
		       u32 count);
/* The hub and the nodes may forget it. */
int grid_data_drop(struct grid_client *c, struct grid_datum *datum);
/* Called by the reader when KEPT was received. */
int grid_data_handle_kept(struct grid_client *c,
			  const struct skep_frame *frame);
/*
 * If the array at v->at is a handle to data, sets v->data, or v->at to memory.
 * NULL: there are no handles. 0, or a code with the error set.
 */
extern int (*grid_data_resolve)(struct grid_client *c,
				const struct skep_param *p,
				struct grid_value *v);
/* Ends what a call has to do with stored data; before its arguments are freed.
 */
void grid_data_settle(struct grid_args *a);
/* 0, or a code with the error set. Call it before measuring. */
int grid_data_prepare(struct grid_client *c, struct grid_args *a);
/* Makes `head`. Call it after measuring. */
int grid_data_announce(struct grid_args *a);

/* See bytes.c; `most`: the largest result. */
struct skep_request *grid_bytes_start(struct grid_client *c,
				      const struct skep_handle *m, u32 f,
				      const struct grid_bytes *b, u64 most,
				      u64 tag);
int grid_bytes_send(const struct grid_bytes *b, struct grid_mover *to);
int grid_bytes_accept(struct grid_args *a, struct grid_mover *from, u64 length);

/*
 * Strings and files. prepare: call it when all values are known; 0 or a code
 * with the error set. deliver: call it when the complete result was received;
 * 0, or a negative errno and the parameter's name.
 */
int grid_texts_prepare(struct grid_args *a);
int grid_texts_deliver(struct grid_args *a, const char **name);
void grid_args_free(struct grid_args *a);

/* Called by the reader when a RESULT was received; its DATA frames follow. */
int grid_result_take(struct grid_client *c, const struct skep_frame *frame);
/* Handles any frame but RESULT and DATA. */
int grid_client_frame(struct grid_client *c, const struct skep_frame *frame);
struct skep_request *grid_client_find(struct grid_client *c, u64 id);
/* The caller holds lock. */
struct skep_request *grid_client_slot(struct grid_client *c, u64 id);
/* Whether the session may continue with another hub. */
int grid_client_keeps(struct grid_client *c);
/* Breaks the stream. */
void grid_client_cut(struct grid_client *c);
/* Sets why the session is over; only the first reason is kept. */
void grid_client_down(struct grid_client *c, int code, const char *why);
/* Ends a request. A failure is printed first, because the program may exit when
 * the request has ended. */
void grid_request_end(struct grid_client *c, struct skep_request *r, int code,
		      const char *text);
/* Reads an ERROR's payload: its code as OMRPC_E_*, and the text. */
int grid_client_error(struct grid_client *c, u32 length, char *text, u64 size,
		      int *code);

#endif
