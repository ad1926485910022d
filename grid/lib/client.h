/* SPDX-License-Identifier: MIT */
/*
 * One session with the hub: its requests and modules, and the thread that
 * reads. What is public about them is in grid/include/OmniRpc.h.
 */
#ifndef GRID_LIB_CLIENT_H
#define GRID_LIB_CLIENT_H

#include <grid/core/marshal.h>
#include <grid/include/OmniRpc.h>

#include "stream.h"

#define GRID_TEXT_MAX 1024
/* Bytes that the strings and files of one parameter may return. */
#define GRID_TEXT_ROOM 0x10000000

/* Arguments of a call under way; `shape` has an entry for each. */
struct grid_args {
	struct grid_call call;
	u64 in, out; /* bytes that go each way */
	const struct skep_handle *handle;
	int texts; /* those of `call` are ours, no longer the caller's pointers
		    */
	/* See grid_bytes_start; the pieces are gone once they were sent. */
	const struct grid_bytes *bytes;
	u8 *result;
	u64 result_bytes, tag;
	struct grid_shape shape[];
};

/* What is sent as one array, from where it lies. */
struct grid_bytes {
	const struct iovec *piece;
	u32 pieces;
};

/* The frames of a request as they were sent, to send them again. */
struct grid_kept {
	u16 type;
	u32 head_len;
	u64 len; /* of bytes, which go as DATA after the head */
	u8 *bytes;
	u8 head[]; /* the first frame's payload */
};

enum grid_request_kind { GRID_BIND, GRID_INIT, GRID_CALL };

/* client->lock guards all but what the kind's one user or the reader owns. */
struct skep_request {
	u64 id, number; /* number: of calls that were sent, from 1 */
	enum grid_request_kind kind;
	int ended, returned, code; /* returned: by OmniRpcWaitAny */
	int quiet;     /* the program knows of its failure already */
	int reported;  /* its failure was printed */
	int sending;   /* a thread sends it; the request cannot go */
	int cancelled; /* the hub was asked to forget it */
	u64 epoch;     /* of the stream on which it was sent last; 0: none */
	struct grid_kept *kept; /* NULL: it cannot be sent again */
	char *text;		/* why it failed */
	struct grid_args *args; /* until it has ended */
	struct skep_info info;	/* good if code is 0 */
	u64 begun;
	u32 module, bytes; /* BIND: what was received; manifest is bytes long */
	void *manifest;
	u8 *result; /* of grid_bytes_start; the request's until it is taken */
	u64 result_bytes;
	struct skep_request *next, **link; /* in client->request */
	/* 0, or the caller's number: it goes to client->done when it ends. */
	u64 tag;
	struct skep_request *done_next, **done_link; /* link: it is in there */
};

struct skep_handle {
	char name[SKEP_NAME_MAX];
	char *key;  /* what the hub was asked for */
	u32 number; /* of the hub */
	void *bytes;
	struct grid_module module;
	struct skep_handle *next; /* bound before this one */
};

struct grid_client {
	struct grid_stream stream;
	pthread_t reader;
	char *path; /* of the hub's socket */
	/* The reader's: the thread that sends again what an earlier hub had. */
	pthread_t resender;
	int resending;

	/* lock guards these and the requests; ended: a request has. */
	pthread_mutex_t lock;
	pthread_cond_t ended;
	struct skep_request *request, **slot;
	u32 *free_slot, slots, free_slots;
	u64 serial, calls;
	u64 epoch;	     /* counts streams from 1 */
	int away;	     /* there is none, the reader looks for the hub */
	pthread_cond_t back; /* away, epoch or down changed */
	u64 kept_bytes;	     /* of all requests */
	/* Requests with a tag that ended, for grid_request_next. */
	struct skep_request *done, **done_end;
	pthread_cond_t done_more;
	int over;    /* the reader has ended, and all requests with it */
	int closing; /* what still runs is dropped */
	int quiet;   /* failures are not printed; set before the first call */
	int down;    /* OMRPC_E_*: why the session is over; 0 while it lasts */
	char why[GRID_TEXT_MAX];
	struct skep_handle *modules; /* entries never change or go */

	pthread_mutex_t binding; /* one module at a time; taken before lock */
};

/* The text of this thread's last error; answers code. */
__attribute__((format(printf, 2, 3))) int
grid_error_set(int code, const char *format, ...);

int grid_error_code(void);
/* That error is of a call that failed and was printed. */
int grid_error_reported(void);
void grid_error_tell(void);

/*
 * Starts `skep run` beside this program, and gives the socket of its hub; 0, or
 * a code with the error set. Without `end` it ends with the program.
 */
int grid_holder_start(const char *hostfile, char *socket, size_t size);
void grid_holder_end(void);
/* The program's session; NULL with the error set. */
struct grid_client *grid_session(void);

/* OmniRPC's programs may declare and set it themselves. */
extern int omrpc_debug_flag;

/* Prints that a call failed; it has not ended yet. The reader's. */
void grid_report_failed(const struct skep_request *r, const char *text);
/* Prints this thread's last error, unless it was: of a call that was not sent.
 */
void grid_report_unsent(const char *module, const char *function);
/*
 * OmniRPC's programs do not look at codes: unless SKEP_ERRORS is "return", a
 * failure ends the program. Gives the code otherwise.
 */
int grid_end_failed(int code);
/* -EINVAL: SKEP_ERRORS is neither "return" nor "exit". */
int grid_errors_check(void);

int grid_client_open(struct grid_client **client, const char *path);
/* Ends the session and frees everything. */
void grid_client_close(struct grid_client *c);

/*
 * NULL with the error set. args, which may be NULL, becomes the request's; with
 * them it counts as being sent until grid_request_sent, which comes before the
 * last byte goes out.
 */
struct skep_request *grid_request_new(struct grid_client *c,
				      enum grid_request_kind kind,
				      struct grid_args *args);
/*
 * Sends a request, on the next stream if this one breaks and it is kept. Takes
 * `kept`, which may be NULL. `send` sends it otherwise. 0, or a negative errno:
 * then it has not been sent and will not be, unless it has a tag.
 */
int grid_request_send(struct grid_client *c, struct skep_request *r,
		      struct grid_kept *kept,
		      int (*send)(struct grid_client *, struct skep_request *));
/* Whether so many bytes may be kept; NULL if not. */
struct grid_kept *grid_kept_new(struct grid_client *c, u16 type,
				const void *head, u32 head_len, u64 len);
/* The text of a request that was lost with the hub. */
extern const char grid_lost[];

/*
 * The reader's, after its stream ended: looks for the hub until it is there
 * again. 0: read on. Negative: the session is over.
 */
int grid_client_again(struct grid_client *c);
/* lock is held: nothing is kept of it any more. */
void grid_request_drop_kept(struct grid_client *c, struct skep_request *r);
int grid_request_busy(struct grid_client *c, struct skep_request *r);
void grid_request_sent(struct grid_client *c, struct skep_request *r);
/* Waits; answers how it ended, and sets the error from it. */
int grid_request_wait(struct grid_client *c, struct skep_request *r);
int grid_request_ended(struct grid_client *c, const struct skep_request *r);
/* Asks the hub to forget a call; 0, or a code with the error set. */
int grid_request_cancel(struct grid_client *c, struct skep_request *r);
/* The program gave it up, or another line reports its end. */
void grid_request_hush(struct grid_client *c, struct skep_request *r);
/*
 * The requests with a tag that ended since the last time, at most `room`; waits
 * for one. 0: the session is over and there is none left, or
 * grid_request_wake was called.
 */
u32 grid_request_next(struct grid_client *c, struct skep_request **ended,
		      u32 room);
void grid_request_wake(struct grid_client *c);
/* Of one that has ended. */
void grid_request_free(struct grid_client *c, struct skep_request *r);
/* A frame could not be sent: says why the session is over. */
int grid_client_over(struct grid_client *c);
/* Of one whose frames could not be sent: ends the session and frees it. */
int grid_request_abandon(struct grid_client *c, struct skep_request *r);

/* Finds a module that is bound, or binds it. NULL with the error set. */
struct skep_handle *grid_module_bind(struct grid_client *c, const char *name,
				     u64 len);
/* One whose calls only the node of this name runs; module may be a path. */
struct skep_handle *grid_module_bind_host(struct grid_client *c,
					  const char *host, const char *module);
/* Index of the module's function, or a negative code with the error set. */
int grid_handle_function(const struct skep_handle *m, const char *name);
/* The function of a name as OmniRpcCall takes it: index or error. */
int grid_module_function(struct grid_client *c, const char *name,
			 struct skep_handle **module);

/* Sends a call of function f, or its data if it is the module's Initialize. */
struct skep_request *grid_call_start(struct grid_client *c,
				     const struct skep_handle *module, u32 f,
				     va_list values);
/*
 * The same with a pointer to each argument: scalars of any mode are read and
 * written through theirs, those of WORK arrays are not used.
 */
struct skep_request *grid_call_start_at(struct grid_client *c,
					const struct skep_handle *module, u32 f,
					void *const *pointer, u32 count);
/*
 * Each argument but characters and texts must have as many elements as the
 * interface says.
 */
struct skep_request *grid_call_start_sized(struct grid_client *c,
					   const struct skep_handle *module,
					   u32 f, void *const *pointer,
					   const s64 *elements, u32 count);
/* Goes to client->done when it ends, with this tag. */
struct skep_request *grid_call_start_tagged(struct grid_client *c,
					    const struct skep_handle *module,
					    u32 f, void *const *pointer,
					    u32 count, u64 tag);
/* The arguments become the request's; they may be NULL, with the error set. */
struct skep_request *grid_args_start(struct grid_client *c, u32 f,
				     struct grid_args *a);
/* See bytes.c; `most` is for the result. */
struct skep_request *grid_bytes_start(struct grid_client *c,
				      const struct skep_handle *m, u32 f,
				      const struct grid_bytes *b, u64 most,
				      u64 tag);
int grid_bytes_send(const struct grid_bytes *b, struct grid_mover *to);
int grid_bytes_accept(struct grid_args *a, struct grid_mover *from, u64 length);

/*
 * Strings and files: prepare after all values are known, 0 or a code with the
 * error set; deliver when the whole result is here, 0 or a negative errno and
 * the parameter's name.
 */
int grid_texts_prepare(struct grid_args *a);
int grid_texts_deliver(struct grid_args *a, const char **name);
void grid_args_free(struct grid_args *a);

/* The reader's: RESULT was received, its DATA follow. */
int grid_result_take(struct grid_client *c, const struct skep_frame *frame);
/* Any frame but RESULT and DATA. */
int grid_client_frame(struct grid_client *c, const struct skep_frame *frame);
struct skep_request *grid_client_find(struct grid_client *c, u64 id);
/* lock is held. */
struct skep_request *grid_client_slot(struct grid_client *c, u64 id);
/* Whether the session may go on with another hub. */
int grid_client_keeps(struct grid_client *c);
/* Ends the session. */
void grid_client_cut(struct grid_client *c);
/* Only the first reason is kept. */
void grid_client_down(struct grid_client *c, int code, const char *why);
/* Prints it first if it failed: the program may exit as soon as it has ended.
 */
void grid_request_end(struct grid_client *c, struct skep_request *r, int code,
		      const char *text);
/* Reads an ERROR's payload: its code as OMRPC_E_*, and the text. */
int grid_client_error(struct grid_client *c, u32 length, char *text, u64 size,
		      int *code);
u64 grid_clock(void);

#endif
