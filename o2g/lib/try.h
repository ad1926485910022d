/* SPDX-License-Identifier: MIT */
/* Tries of the opener; see opener.c. The endpoint's `lock` is held. */
#ifndef O2G_LIB_TRY_H
#define O2G_LIB_TRY_H

#include "endpoint.h"

struct o2g_try {
	struct o2g_try *next, **back; /* in opener.tries, the oldest first */
	/* the peer that is dialled or expected; 0: any */
	struct o2g_peer *peer;
	int socket; /* -1 in a pause and after the end */
	u8 phase;
	u8 proved; /* our proof was sent: only the peer decides */
	u8 dials;  /* is counted in opener.dials */
	/* only a receive waits: goes on until the peer is known to be gone */
	u8 patient;
	u32 pause_ms; /* length of the next pause */
	u32 promised; /* credit that is counted in opener.granted */
	s64 deadline; /* end of the phase, ns */
	/* of all dials of this peer, ns; if patient, `first` is the first of
	 * consecutive failures that show that it is gone */
	s64 first, end;
	struct o2g_opening opening;
};

int o2g_try_accept(struct o2g *o2g, int socket);
int o2g_try_adopt(struct o2g *o2g, int socket, struct o2g_peer *peer,
		  int dialled);
void o2g_try_dial(struct o2g *o2g, struct o2g_peer *peer);
/* Dials after a while, unless the peer connects before. */
void o2g_try_expect(struct o2g *o2g, struct o2g_peer *peer);
/* Handles an event of its socket. */
void o2g_try_work(struct o2g *o2g, struct o2g_try *try);
void o2g_try_expire(struct o2g *o2g, struct o2g_try *try);
void o2g_try_drop(struct o2g *o2g, struct o2g_try *try);
void o2g_try_drop_all(struct o2g *o2g);
/* Frees the tries that have ended. */
void o2g_try_abort(struct o2g *o2g);
int o2g_try_unproven(const struct o2g_try *try);
/* Whether an unauthenticated peer's hello was for this job and endpoint. */
int o2g_try_named(const struct o2g_try *try);
s64 o2g_try_age(const struct o2g_try *try); /* of an unauthenticated peer, ns */
/* Whether the error is a lack of descriptors or memory, which may pass; logs it
 * the first time. */
int o2g_try_lacks_memory(struct o2g *o2g, int error);

#endif
