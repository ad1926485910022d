/* SPDX-License-Identifier: MIT */
/*
 * A hub for tests of libskeprpc: one thread that serves one master on a socket
 * of its own and runs the functions of module "demo" itself.
 */
#ifndef GRID_TEST_HUB_H
#define GRID_TEST_HUB_H

#include <pthread.h>
#include <skep/session.h>

enum hub_manner {
	HUB_GOOD,
	HUB_KEEPS,    /* says that it keeps sessions */
	HUB_WIDE,     /* the same, with results in long frames */
	HUB_OLD,      /* another revision of the session */
	HUB_NONSENSE, /* answers with no HELLO */
	HUB_SILENT,   /* sends the beginning of a HELLO, and nothing more */
	HUB_LONG,     /* a result longer than its interface has */
	HUB_BREAKS,   /* goes away in the middle of a result */
	HUB_TORN,     /* an ERROR in the middle of a result */
	HUB_ENDS,     /* ERROR for the whole session instead of a result */
	HUB_WRONG,    /* RESULT for a call that is not there */
	/*
	 * Keeps sessions, and is killed: instead of binding, at a call's
	 * arguments, in the middle of a result, at a call of `nothing`, of
	 * which the fifth hub says that the session is over at the second one.
	 */
	HUB_KILLED,
};

struct hub {
	char path[64];
	int listener, fd, broken; /* broken: the master broke the protocol */
	enum hub_manner manner;
	pthread_t thread;
	int life; /* how often it was killed */
	u8 session[16];
	u64 again; /* calls that were sent again */
	u64 taken; /* calls that were taken back */
	u64 received, acked, inits, calls, unacked_max, sent, sent_acked;
};

int hub_start(struct hub *h, enum hub_manner manner);
/* Waits for the master to leave. */
void hub_stop(struct hub *h);

#endif
