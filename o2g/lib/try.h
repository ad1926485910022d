/* SPDX-License-Identifier: MIT */
/* Tries of the opener; see opener.c. The endpoint's `lock` is held. */
#ifndef O2G_LIB_TRY_H
#define O2G_LIB_TRY_H

#include "endpoint.h"

struct o2g_try {
	struct o2g_try *next, **back; /* in opener.tries, the oldest first */
	struct o2g_peer *peer;	      /* whom we dial or expect; 0: anybody */
	int socket;		      /* -1 in a pause and after the end */
	u8 phase;
	u8 proved;	/* our proof went out: only the other side decides */
	u8 dials;	/* counts in opener.dials */
	u8 patient;	/* only a receive waits: goes on until it is clear that
			 * the peer is gone */
	u32 pause_ms;	/* the next one */
	u32 promised;	/* credit that counts in opener.granted */
	s64 deadline;	/* of the phase, ns */
	s64 first, end; /* of all dials of this peer, ns; a patient one: first
			 * of the failures in a row that say it is gone */
	struct o2g_opening opening;
};

int o2g_try_accept(struct o2g *o2g, int socket);
int o2g_try_adopt(struct o2g *o2g, int socket, struct o2g_peer *peer,
		  int dialled);
void o2g_try_dial(struct o2g *o2g, struct o2g_peer *peer);
/* Dials after a while; a peer that is about to connect is left to it. */
void o2g_try_expect(struct o2g *o2g, struct o2g_peer *peer);
/* Its socket has something to say. */
void o2g_try_work(struct o2g *o2g, struct o2g_try *try);
void o2g_try_expire(struct o2g *o2g, struct o2g_try *try);
void o2g_try_drop(struct o2g *o2g, struct o2g_try *try);
void o2g_try_drop_all(struct o2g *o2g);
/* Frees what was dropped. */
void o2g_try_abort(struct o2g *o2g);
int o2g_try_unproven(const struct o2g_try *try);
/* Of an unauthenticated peer: its hello was for this job and endpoint. */
int o2g_try_named(const struct o2g_try *try);
s64 o2g_try_age(const struct o2g_try *try); /* unauthenticated, ns */
/* Whether an error is want of descriptors or memory, which may pass; says so
 * on standard error the first time. */
int o2g_try_lacks_memory(struct o2g *o2g, int error);

#endif
