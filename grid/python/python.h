/* SPDX-License-Identifier: MIT */
/*
 * What the Python package calls through ctypes, over grid/lib. Python names a
 * call by a tag of its own, which is never 0. A call that was started ends
 * exactly once in skep_python_next, whatever happens; from then on its request
 * is freed by skep_python_free only. All functions may be called by any thread,
 * except that close must be the last one: its caller ends the session, and
 * waits until no other thread is in one of them.
 */
#ifndef GRID_PYTHON_PYTHON_H
#define GRID_PYTHON_PYTHON_H

#include <grid/lib/client.h>

/* A revision of this interface: the package checks that its library fits. */
#define SKEP_PYTHON_REVISION 4

struct skep_python_ended {
	struct skep_request *request;
	u64 tag;
	const char *text; /* why it failed */
	u8 *result;	  /* of skep_python_send; see skep_python_take */
	u64 result_bytes;
	s32 code; /* OMRPC_E_* */
	u32 substrate, attempt, pad;
	u64 exec_ns, wall_ns, bytes_in, bytes_out;
	char node[64];
};
SKEP_ASSERT_SIZE(struct skep_python_ended, 152);

u32 skep_python_revision(void);
/* Of this thread's last error. */
const char *skep_python_error(s32 *code);

struct grid_client *skep_python_open(const char *socket);
/* Ends the session: who waits in one of these functions returns, and
 * skep_python_next gives 0. */
void skep_python_end(struct grid_client *c);
/* In a child after fork: the session stays its parent's. */
void skep_python_forget(struct grid_client *c);
void skep_python_close(struct grid_client *c);

/* "HOST@" may precede the module's name or the path of its program. */
struct skep_handle *skep_python_bind(struct grid_client *c, const char *name);
const void *skep_python_manifest(const struct skep_handle *m, u64 *bytes);

/*
 * The size of each dimension of parameter `at`, from the arguments before it;
 * of the others only integers and arrays of integers are read. A code, with the
 * error set.
 */
s32 skep_python_sizes(const struct skep_handle *m, u32 f, void *const *pointer,
		      const u64 *count, u32 at, u64 size[SKEP_DIMS_MAX]);

/*
 * A pointer to each argument, unused for WORK. Of functions it is any that is
 * not NULL: the hook, which may be NULL without them, calls these, and must
 * live until the call has ended. `object` is the number of the one whose
 * method f is, or 0. NULL with the error set.
 */
struct skep_request *skep_python_call(struct grid_client *c,
				      const struct skep_handle *m, u32 f,
				      u64 object, void *const *pointer,
				      u32 count, u64 tag,
				      const struct grid_hook *hook);
/* Makes an object of a class, an index in the manifest: its number; 0 with the
 * error set. */
u64 skep_python_object(struct grid_client *c, struct skep_handle *m, u32 class);
/* It ends after the methods that were called. */
void skep_python_object_end(struct grid_client *c, struct skep_handle *m,
			    u32 class, u64 number);
/*
 * Data that the hub stores; its address stands for an array in calls. A copy of
 * the bytes is sent, or with NULL there is none before a call's result is left
 * there. NULL, and a code other than 0, with the error set.
 */
struct skep_python_data;
struct skep_python_data *skep_python_data_new(struct grid_client *c,
					      const void *bytes, u64 length);
/* `to` has room for its bytes. */
s32 skep_python_data_read(struct grid_client *c, struct skep_python_data *d,
			  void *to);
s32 skep_python_data_about(const struct skep_python_data *d, u64 *length,
			   u8 digest[32]);
/* Hub and nodes may forget the bytes. */
s32 skep_python_data_drop(struct grid_client *c, struct skep_python_data *d);
/* Frees the memory, when no call has it. */
void skep_python_data_free(struct skep_python_data *d);
/* Whether data has this address. */
int python_data_is(const void *at);

/* The pieces are done with when it returns. */
struct skep_request *skep_python_send(struct grid_client *c,
				      const struct skep_handle *m, u32 f,
				      const struct iovec *piece, u32 pieces,
				      u64 most, u64 tag);
/* Gives the module's Initialize its data, and waits until the hub has it. */
s32 skep_python_initialize(struct grid_client *c, const struct skep_handle *m,
			   u32 f, const struct iovec *piece, u32 pieces);

/* Fills in what ended, at most `room`; waits for one. 0: nothing more comes. */
u32 skep_python_next(struct grid_client *c, struct skep_python_ended *ended,
		     u32 room);
s32 skep_python_cancel(struct grid_client *c, struct skep_request *r);
/* The result's memory, which outlives the request; skep_python_drop frees it.
 */
u8 *skep_python_take(struct skep_request *r);
void skep_python_drop(void *result);
void skep_python_free(struct grid_client *c, struct skep_request *r);

#endif
