/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The session: one framed, resumable protocol over one byte stream.
 *
 * The same frames join a worker to its agent (an inherited descriptor, number
 * in the environment as SKEP_STREAM) and a master's client library to the hub
 * (the local socket named by SKEP_SOCKET). Little endian, no padding.
 *
 * Opening:  both sides send HELLO first and read the other's. The revision must
 * be equal; otherwise each side reports both numbers and closes.
 *
 * Resuming: every frame after HELLO counts, header and payload, in its
 * direction. `received` in HELLO says how many such bytes this side has taken
 * from the session so far. A side that is attached to a new stream sends HELLO
 * with the same session id, and each continues to send from the other's
 * `received`. A sender keeps what is not acknowledged; ACK frames (which do not
 * count) say how far it may forget. `received` beyond what was sent, or before
 * what was acknowledged, ends the session.
 *
 * Nothing in a frame is trusted: `length` is bounded, sizes inside payloads are
 * checked against the manifest, unknown types end the session.
 */
#ifndef SKEP_SESSION_H
#define SKEP_SESSION_H

#include <skep/types.h>

#define SKEP_SESSION_REVISION 2
#define SKEP_SESSION_MAGIC 0x50454b53 /* "SKEP" */
#define SKEP_FRAME_MAX 0x100000	      /* most payload bytes in one frame */
#define SKEP_SESSION_WINDOW                                                    \
	0x400000	       /* most bytes sent and not acknowledged         \
				*/
#define SKEP_ACK_EVERY 0x40000 /* acknowledge at least this often */
#define SKEP_PING_SECONDS 3    /* a worker that computes says so this often */

enum skep_frame_type {
	SKEP_HELLO = 1, /* struct skep_hello */
	SKEP_ACK,	/* u64 received; does not count */
	SKEP_PING,	/* alive */
	SKEP_DATA,	/* bytes of the call; SKEP_LAST on the final one */
	SKEP_ERROR, /* struct skep_error; ends that call, or the session when
		       call is 0 */
	SKEP_BYE,   /* nothing more will be sent */

	/* towards a worker */
	SKEP_INIT, /* struct skep_init: replay module initialisation from a file
		    */
	SKEP_CALL, /* struct skep_call, then DATA with the arguments */

	/* from a worker */
	SKEP_READY,  /* struct skep_ready: after start, and after each INIT */
	SKEP_RESULT, /* struct skep_result, then DATA */

	/* from a master */
	SKEP_BIND,	  /* module name, no terminator */
	SKEP_MODULE_INIT, /* struct skep_module_init, then DATA */
	SKEP_CANCEL,	  /* the call is no longer wanted */

	/* towards a master */
	SKEP_BOUND, /* struct skep_bound and the manifest (module.h) */
	SKEP_DONE,  /* MODULE_INIT was taken */

	/* Data that the hub stores for a master's later calls, and nodes keep.
	 */
	SKEP_KEEP, /* from a master: struct skep_datum, then DATA: store it */
	SKEP_KEPT, /* towards it: struct skep_datum with the digest */
	SKEP_READ, /* from a master: struct skep_datum; RESULT and DATA answer
		    */
	SKEP_DROP, /* from a master: struct skep_datum; nothing answers */
	/*
	 * Like CALL, with an array of struct skep_datum after struct skep_call.
	 * DATA lacks the bytes of those of mode IN; in the result those of mode
	 * OUT are replaced by their digests.
	 */
	SKEP_CALL_KEPT,

	/* A call that calls its master, through agent and hub, and the answer:
	   struct skep_callback, then the arguments that go this way. */
	SKEP_CALLBACK,
	SKEP_RETURN,

	/*
	 * From a master: struct skep_object: makes an object, whose number is
	 * that of the frame. DONE answers. With SKEP_LAST and without a
	 * payload: the object ends after its methods; nothing answers.
	 */
	SKEP_OBJECT,
};

#define SKEP_LAST 1 /* flag: final frame of its DATA */
/*
 * Flag. On a hub's HELLO: it stores sessions, so a master may come back to it
 * after it was killed. On a master's HELLO: it comes back to a hub that may
 * have lost all but what it stored; both sides count from 0 again, and handles
 * stay. On CALL: it was sent before, on another stream.
 */
#define SKEP_AGAIN 2
/* Flag. On a CALL that is sent again: it has called its master, so no node may
 * begin it anew. */
#define SKEP_CALLED 4
/* Flag. On a CALL that a function of the master makes while a call waits for
 * it: that call's id follows, as 8 bytes, at the end of the payload. */
#define SKEP_INNER 8
/* Flag. On a CALL of a method: the number of its object follows, as 8 bytes, at
 * the end of the payload, behind that of SKEP_INNER. */
#define SKEP_METHOD 16

struct skep_frame {
	u32 length; /* payload bytes that follow */
	u16 type;
	u16 flags;
	u64 call; /* call id, chosen by the master; 0 for the session */
};
SKEP_ASSERT_SIZE(struct skep_frame, 16);

struct skep_hello {
	u32 magic;
	u32 revision;
	u8 session[16];
	u64 received;
};
SKEP_ASSERT_SIZE(struct skep_hello, 32);

struct skep_error {
	u32 code; /* enum skep_error_code */
	u32 text; /* bytes of text that follow, no terminator */
};
SKEP_ASSERT_SIZE(struct skep_error, 8);

enum skep_error_code {
	SKEP_E_PROTOCOL = 1, /* the peer broke the rules above */
	SKEP_E_REVISION,
	SKEP_E_NO_MODULE,  /* no such worker program */
	SKEP_E_BAD_MODULE, /* missing, dynamic or corrupt ELF, no manifest */
	SKEP_E_NO_FUNCTION,
	SKEP_E_ARGUMENTS, /* sizes do not fit the manifest */
	SKEP_E_WORKER,	  /* the worker exited or was killed too often */
	SKEP_E_CANCELLED,
	SKEP_E_REFUSED, /* by a safety check or by the owner's policy */
	SKEP_E_NO_NODE, /* no node can run it */
	SKEP_E_INTERNAL,
	SKEP_E_DIGEST, /* data is not what its digest says */
};

/*
 * Other programs of the node's user may write to a file by its name. So either
 * the path is /proc/self/fd/N, where N is a descriptor that the worker
 * inherited of memory that nobody can change, and digest is zero; or the
 * worker answers SKEP_E_DIGEST unless what it read has that SHA-256.
 */
struct skep_init {
	u32 function; /* index of the module's Initialize */
	u32 path; /* bytes of path that follow; the file holds its arguments */
	u64 length; /* bytes in the file */
	u8 digest[32];
};
SKEP_ASSERT_SIZE(struct skep_init, 48);

struct skep_call {
	u32 function; /* index in the manifest */
	u32 module; /* towards the hub: handle from BOUND; 0 towards a worker */
	u64 length; /* bytes of DATA that follow */
	u64 result; /* most bytes of DATA that its result may have */
};
SKEP_ASSERT_SIZE(struct skep_call, 24);

/*
 * What bee alone can answer (system call 0xBEE): the nonce that the agent gave
 * to the loader, and how many calls it emulated. Zero on other substrates.
 */
struct skep_proof {
	u64 nonce;
	u64 calls;
};
SKEP_ASSERT_SIZE(struct skep_proof, 16);

struct skep_ready {
	u32 revision; /* of the manifest */
	u32 functions;
	struct skep_proof proof;
};
SKEP_ASSERT_SIZE(struct skep_ready, 24);

enum skep_substrate {
	SKEP_SUBSTRATE_LINUX = 1,
	SKEP_SUBSTRATE_BEE_WINDOWS,
	SKEP_SUBSTRATE_BEE_LINUX,
	SKEP_SUBSTRATE_BARE,
};

/* The worker fills length, exec_ns, proof; the agent and the hub the rest. */
struct skep_result {
	u64 length;  /* bytes of DATA that follow */
	u64 exec_ns; /* inside the user's function */
	struct skep_proof proof;
	u32 attempt; /* 1 for the first */
	u32 substrate;
	u8 program[32]; /* SHA-256 over the bytes that were loaded */
	char node[64];
};
SKEP_ASSERT_SIZE(struct skep_result, 136);

/*
 * Stored data. As an argument: where it is in the bytes that the worker
 * receives or sends, in ascending order. `digest` of OUT is that of the data
 * that it replaces, or zero. `length` of struct skep_call is that of DATA,
 * `result` that of the worker's whole result.
 */
struct skep_datum {
	u8 digest[32]; /* SHA-256 */
	u64 offset;
	u64 length; /* bytes */
	u32 mode;   /* SKEP_IN or SKEP_OUT (module.h), and SKEP_ONE_NODE */
	u32 zero;
};
SKEP_ASSERT_SIZE(struct skep_datum, 56);

/* The first node that uses the data is the only one that may. */
#define SKEP_ONE_NODE 0x100

/* One frame has all arguments. A call has one callback at a time. */
struct skep_callback {
	u32 param;  /* of the call: the function that is called */
	u32 length; /* bytes of arguments that follow */
	u64 number; /* counts from 1 in each call; RETURN repeats it */
};
SKEP_ASSERT_SIZE(struct skep_callback, 16);

#define SKEP_CALLBACK_MAX (SKEP_FRAME_MAX - 16) /* most bytes of arguments */

struct skep_module_init {
	u32 module; /* handle */
	u32 function;
	u64 length;
};
SKEP_ASSERT_SIZE(struct skep_module_init, 16);

struct skep_object {
	u32 module; /* handle */
	u32 class;  /* index in the manifest */
};
SKEP_ASSERT_SIZE(struct skep_object, 8);

struct skep_bound {
	u32 module;   /* handle for later calls */
	u32 manifest; /* bytes that follow */
};
SKEP_ASSERT_SIZE(struct skep_bound, 8);

#endif
