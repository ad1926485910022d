/* SPDX-License-Identifier: MIT */
/*
 * Programs that the partition's program starts. They run on Linux:
 *
 *	worker of the core                     process of its own
 *	FORK: fork() ------------------------> waits, with a socket only
 *	SPAWN: order, record, descriptors ---> takes over what the record says,
 *	       <------------- error or, by FD_CLOEXEC, end of file --- execve
 *	ENDED: order ------------------------> ends as the child of vfork did
 *
 * So the process has its pid from vfork on, and after an error of execve it
 * waits for the next order.
 */
#ifndef SMS_PROXY_HELPER_H
#define SMS_PROXY_HELPER_H

#include "proxy.h"

#define HELPER_RECORD_MAX (32u << 20)

enum helper_verb { HELPER_RUN, HELPER_SESSION, HELPER_END };

struct helper_order {
	u32 verb;
	s32 status; /* END: as for wait(2) */
	u32 record; /* RUN: bytes that follow; then one message for each
		       descriptor that has a handle */
	char path[MAIL_PATH_SIZE]; /* RUN: the program */
};

/* helper.c; negative errnos. One process at a time waits for orders. */
s64 sms_helper_birth(void); /* its pid */
s64 sms_helper_run(s32 pid, s32 record, const char *path);
s64 sms_helper_session(s32 pid);
s64 sms_helper_end(s32 pid, s32 status);

/* newborn.c: the other end of the socket, in the new process. */
__attribute__((noreturn)) void sms_newborn(int sock);
/* Exactly len bytes; 0 or -1. */
int sms_newborn_read(int sock, void *to, u64 len);

#endif
