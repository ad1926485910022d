/* SPDX-License-Identifier: MIT */
/*
 * libo2g: messages with MPI's matching over TCP, matched and moved while the
 * program computes. It follows "The Design and Implementation of Kernel API for
 * MPI Communication Model" (Matsuda et al. 2003): the paper's o2g_put_entry()
 * is o2g_recv() here, and o2g_poll() is the same. o2g_set_dump_area() and
 * o2g_start_dumper_thread() have no counterpart, because the engine owns its
 * area and copies by itself. Sends, names of endpoints, and closing are new.
 *
 * Every function returns 0 or a count, or a negative errno. Several threads may
 * use one endpoint. After fork() the child's copy cannot be used (-EBADF).
 */
#ifndef O2G_H
#define O2G_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* libo2g is built with hidden symbols; these are exported. */
#pragma GCC visibility push(default)

struct o2g; /* an endpoint */

#define O2G_NAME_SIZE 40 /* bytes of an endpoint's name, to be passed on */
#define O2G_ANY UINT32_MAX

struct o2g_options {	       /* zero means the default; see libo2g(3) */
	size_t size;	       /* sizeof(struct o2g_options) */
	const char *interface; /* name or address to listen on; $SKEP_O2G_IFACE;
				  "*": on every address; "0.0.0.0" or "::":
				  on every one of this family */
	const char *ports;     /* "FIRST-LAST" to listen on; $SKEP_O2G_PORTS */
	const char *secret;    /* 64 hexadecimal digits; $SKEP_O2G_SECRET */
	uint32_t credit; /* bytes that each peer may send without a grant */
	/* maximum of bytes buffered for unmatched messages */
	uint64_t unexpected;
	uint32_t operations; /* maximum of operations in flight */
	const char *engine;  /* "auto", "kernel", "user"; $SKEP_O2G_ENGINE */
	uint32_t nap_us;     /* longest nap in o2g_nap() */
	uint32_t connect_ms; /* time limit for reaching a peer */
	uint32_t encrypt;    /* 1: encrypts all messages between processes, and
				has only peers that do; $SKEP_O2G_ENCRYPT */
};

/* Opens an endpoint that listens. -EACCES: the secret is missing or malformed;
 * -EADDRINUSE, -EADDRNOTAVAIL: o2g_error() says which address. */
int o2g_open(struct o2g **out, const struct o2g_options *options);
/* Sends what was submitted, sends BYE and frees the endpoint. Waits for slow
 * peers for `linger_ms` at most; -ETIMEDOUT: not everything was sent. Sends
 * that failed before are reported only by o2g_poll(). Unmatched receives are
 * dropped. */
int o2g_close(struct o2g *o2g, int linger_ms);
/* This thread's last error message, with the remedy; never 0. */
const char *o2g_error(void);

/* This endpoint's name: bytes to pass to other processes by any means. */
int o2g_name(struct o2g *o2g, uint8_t name[O2G_NAME_SIZE]);
/* The name of the endpoint that listens at a socket address, IPv4 or IPv6; and
 * the address in a name. -EAFNOSUPPORT, -EINVAL: no port. */
int o2g_name_make(uint8_t name[O2G_NAME_SIZE], const struct sockaddr *address,
		  size_t length);
int o2g_name_address(const uint8_t name[O2G_NAME_SIZE],
		     struct sockaddr_storage *address, size_t *length);
/* Names a peer; the same name gives the same number. The own name is allowed.
 */
int o2g_peer(struct o2g *o2g, const uint8_t name[O2G_NAME_SIZE],
	     uint32_t *peer);
/* The paper's o2g_register_socket(): a connected TCP socket becomes the
 * connection to `peer`, after the opening of <skep/o2g_wire.h> (`dialled`: this
 * side connected). Takes ownership of the socket. Programs that let libo2g
 * connect do not need it. */
int o2g_register_socket(struct o2g *o2g, int socket, uint32_t peer,
			int dialled);

/* A completed operation. Events are in the order in which operations end, which
 * may differ from the order of calls: a send beyond credit ends late. */
struct o2g_event {
	void *cookie;
	/* 0, -ECANCELED, -EMSGSIZE: truncated, -ECONNRESET, ... */
	int32_t status;
	uint32_t what; /* O2G_SENT, ... */
	uint32_t peer; /* O2G_ANY if the sender has not been named */
	uint32_t context;
	uint64_t tag;
	uint64_t length; /* bytes delivered; for a peek, of the message */
	uint64_t total;	 /* of the message */
	uint64_t data;
	void *where;	 /* start of the message in the receive's buffer */
	uint64_t handle; /* of a claimed message */
	uint32_t flags;
};
enum {
	O2G_SENT = 1,
	O2G_RECEIVED,
	O2G_PEEKED,
	O2G_PUT, /* o2g_write(): the data is in the peer's memory */
	O2G_GOT, /* o2g_read(): the data is in the buffer */
	/* o2g_atomic(): it was performed, and its result is in the buffer */
	O2G_CHANGED,
	/* a peer's o2g_write() to this endpoint's memory at `where` has ended;
	 * the cookie is that of the memory */
	O2G_WAS_WRITTEN,
	O2G_WAS_READ /* the same for a peer's o2g_read() */
};
enum { O2G_HAS_DATA = 1, O2G_STAYS_POSTED = 2 }; /* flags */

/* Options of an operation. */
enum {
	O2G_WITH_DATA = 1, /* send: `data` is sent too */
	O2G_QUIET = 2,	   /* send: no event unless it fails */
	O2G_COPY = 4,	   /* send: the buffer may be reused at once; up to
			      o2g_copy_max() bytes */
	O2G_MULTI = 8,	   /* recv: see min_left */
	/* peek: reserve the message for o2g_recv_claimed() */
	O2G_CLAIM = 16,
	O2G_DISCARD = 32 /* peek: discard the message */
};

struct o2g_match {
	uint32_t peer; /* O2G_ANY: from any peer (receives and peeks) */
	uint32_t context;
	uint64_t tag;
	uint64_t ignore; /* bits of tag that are ignored */
};

/* -EAGAIN: too many operations in flight; call o2g_poll(), then try again.
 * Buffers belong to the engine until the event. A send to a peer that cannot be
 * reached fails by an event. */
int o2g_send(struct o2g *o2g, const struct o2g_match *to, const void *buffer,
	     size_t length, uint64_t data, unsigned options, void *cookie);
int o2g_recv(struct o2g *o2g, const struct o2g_match *from, void *buffer,
	     size_t length, size_t min_left, unsigned options, void *cookie);
int o2g_peek(struct o2g *o2g, const struct o2g_match *from, unsigned options,
	     void *cookie);
int o2g_recv_claimed(struct o2g *o2g, uint64_t handle, void *buffer,
		     size_t length, void *cookie);
int o2g_discard_claimed(struct o2g *o2g, uint64_t handle);
/* Cancels the receive with this cookie if it has not matched: it ends with
 * -ECANCELED. A receive that has matched is not affected. */
int o2g_cancel(struct o2g *o2g, void *cookie);

/*
 * Memory of this endpoint that its peers may access under `key`. How the peers
 * learn the key is up to the program. Addresses in it start at `first`: 0, or
 * the memory's address. All of the program's memory may be registered. -EEXIST:
 * the key is in use; -EOPNOTSUPP: not with this engine.
 */
struct o2g_memory {
	uint64_t key;
	void *start;
	size_t length;
	uint64_t first;
	unsigned rights;
	void *cookie;
};
enum {
	O2G_MAY_READ = 1,
	O2G_MAY_WRITE = 2,
	O2G_TELL = 4 /* each successful access is an event */
};
int o2g_register_memory(struct o2g *o2g, const struct o2g_memory *memory);
/* When it returns, peers no longer read or write the memory; accesses in
 * progress fail at the peer with -EKEYREJECTED. -ENOENT: no such key. */
int o2g_unregister_memory(struct o2g *o2g, uint64_t key);

struct o2g_remote { /* an address in a peer's memory */
	uint32_t peer;
	uint64_t key;
	uint64_t place;
};
/* The event O2G_PUT reports that all data is in the peer's memory.
 * -EKEYREJECTED: no such key; -EACCES: not allowed; -ERANGE: beyond the end.
 * Options as for o2g_send(); `data` is an event at the peer. */
int o2g_write(struct o2g *o2g, const struct o2g_remote *to, const void *buffer,
	      size_t length, uint64_t data, unsigned options, void *cookie);
int o2g_read(struct o2g *o2g, const struct o2g_remote *from, void *buffer,
	     size_t length, unsigned options, void *cookie);
/*
 * Changes `count` aligned elements of a peer's memory, each atomically, also
 * with respect to the peer's own atomic instructions. The changes that one
 * endpoint makes at one peer are performed in the order of the calls. The
 * earlier elements are stored at `result`, unless it is 0; O2G_FETCH and the
 * operations that compare need it. Operands and values to compare with may be
 * reused when the call returns. The only option is O2G_QUIET. -EINVAL: no such
 * operation for such elements; the event has it if they are not aligned.
 */
struct o2g_change {
	unsigned operation, type;
	/* the elements have at most O2G_CHANGE_MAX bytes */
	size_t count;
	const void *operand; /* not for O2G_FETCH */
	const void *compare; /* for O2G_SWAP_EQ and later ones */
	void *result;
};
#define O2G_CHANGE_MAX 4096
enum { /* operation */
       O2G_MIN = 1,
       O2G_MAX,
       O2G_SUM,
       O2G_PRODUCT,
       O2G_LOGICAL_OR,
       O2G_LOGICAL_AND,
       O2G_OR,
       O2G_AND,
       O2G_LOGICAL_XOR,
       O2G_XOR,
       O2G_FETCH,
       O2G_STORE,
       O2G_SWAP_EQ, /* stores the operand if `compare` is the element */
       O2G_SWAP_NE,
       O2G_SWAP_LE, /* if `compare` is at most the element */
       O2G_SWAP_LT,
       O2G_SWAP_GE,
       O2G_SWAP_GT,
       /* stores those bits of the operand that are set in `compare` */
       O2G_SWAP_BITS
};
enum { /* type */
       O2G_INT8 = 1,
       O2G_UINT8,
       O2G_INT16,
       O2G_UINT16,
       O2G_INT32,
       O2G_UINT32,
       O2G_INT64,
       O2G_UINT64,
       O2G_FLOAT, /* not for bitwise operations */
       O2G_DOUBLE
};
int o2g_atomic(struct o2g *o2g, const struct o2g_remote *at,
	       const struct o2g_change *change, unsigned options, void *cookie);
/* Bytes of an element; 0 if the operation does not exist for this type. */
size_t o2g_element_size(unsigned operation, unsigned type);
/* Whether this endpoint's engine has these five functions. */
int o2g_accesses(const struct o2g *o2g);

/* Reads up to `most` events; makes progress if the engine is in this process.
 * Returns their number, 0 if there is none. Never blocks. */
int o2g_poll(struct o2g *o2g, struct o2g_event *event, int most);
/* Like o2g_poll(), but sleeps until there is an event; the timeout is in ms,
 * -1: none. -EINTR after o2g_wake() or a signal. */
int o2g_wait(struct o2g *o2g, struct o2g_event *event, int most,
	     int timeout_ms);
int o2g_wake(struct o2g *o2g);
/* For callers that poll in a loop: sleeps after many empty polls in close
 * succession. A completion ends the sleep. It never lasts longer than nap_us,
 * and above 20 us not longer than a sixteenth of the wait so far. A loop that
 * does other work between its polls never sleeps. */
void o2g_nap(struct o2g *o2g);
/* A descriptor that is readable while there may be events. */
int o2g_descriptor(struct o2g *o2g);

size_t o2g_copy_max(const struct o2g *o2g);
/* "user" or "kernel". */
const char *o2g_engine_name(const struct o2g *o2g);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
