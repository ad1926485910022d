/* SPDX-License-Identifier: MIT */
/*
 * Decides whether a partition can be created before anything is changed: checks
 * the request and the allowance against the machine.
 */
#ifndef SHIMOS_REQUEST_H
#define SHIMOS_REQUEST_H

#include <skep/shimos.h>

#include "text.h"

/* Kinds of machines that cannot lend cores. */
enum shimos_machine_kind {
	SHIMOS_PLAIN,
	SHIMOS_XEN,
	SHIMOS_CONFIDENTIAL,
	SHIMOS_ENCRYPTED, /* SME: Linux encrypts its own memory */
	SHIMOS_NO_TSC	  /* Linux uses another clock source */
};

struct shimos_machine {
	enum shimos_machine_kind kind;
	u64 present[SHIMOS_CPU_WORDS], online[SHIMOS_CPU_WORDS];
	u64 lent[SHIMOS_CPU_WORDS]; /* CPUs of all partitions */
	u64 spare[SHIMOS_NODES];    /* bytes that could be freed */
	u64 nodes;		    /* one bit for each node with memory */
	u64 used[SHIMOS_NODES];	    /* bytes lent under the allowance */
	/* for each CPU, the first CPU of its core */
	const u32 *core;
	u32 cpus;	  /* entries of `core` */
	u32 root, member; /* whether the caller is root, is in the group */
};

/* kernel and mail: bytes that the partition needs in addition to its pool. 0,
 * or -errno with the reason in `why`. */
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
