/* SPDX-License-Identifier: MIT */
/*
 * Whether a partition can be created, decided before anything is touched:
 * checks the request and the allowance against the machine.
 */
#ifndef SHIMOS_REQUEST_H
#define SHIMOS_REQUEST_H

#include <skep/shimos.h>

#include "text.h"

/* Kinds of machines whose cores cannot be lent. */
enum shimos_machine_kind {
	SHIMOS_PLAIN,
	SHIMOS_XEN,
	SHIMOS_CONFIDENTIAL,
	SHIMOS_ENCRYPTED, /* the host's own memory */
	SHIMOS_NO_TSC	  /* Linux uses another clock source */
};

struct shimos_machine {
	enum shimos_machine_kind kind;
	u64 present[SHIMOS_CPU_WORDS], online[SHIMOS_CPU_WORDS];
	u64 lent[SHIMOS_CPU_WORDS]; /* in any partition */
	u64 spare[SHIMOS_NODES];    /* bytes that could be freed */
	u64 nodes;		    /* a bit for each that has memory */
	u64 used[SHIMOS_NODES];	    /* bytes lent under the allowance */
	const u32 *core;	    /* for each CPU the first of its core */
	u32 cpus;		    /* entries there */
	u32 root, member; /* of the caller: may all, is in the group */
};

/* kernel and mail: bytes that the partition needs in addition to its pool. 0 or
 * -errno and why.
 */
int shimos_request_check(const struct shimos_create *request,
			 const struct shimos_allow *allow,
			 const struct shimos_machine *machine,
			 struct shimos_text *why);
int shimos_request_memory(const struct shimos_create *request, u64 needed,
			  struct shimos_text *why);
int shimos_allow_check(const struct shimos_allow *allow,
		       struct shimos_text *why);
u32 shimos_request_cores(const struct shimos_create *request);

#endif
