/* SPDX-License-Identifier: MIT */
/* What the files of the proxy share. */
#ifndef SMS_PROXY_PROXY_H
#define SMS_PROXY_PROXY_H

#include <skep/shimos.h>
#include "sms/mail.h"

/* The partition that this process drives; written before workers run. */
struct proxy {
	int device;
	u32 id, cores;
	u64 pool_bytes, mail_bytes;
	u8 *pool, *mail;
	u32 umask; /* of this process at its start; later it is 0, because abi
		      applies the program's */
};
extern struct proxy sms_proxy;

void sms_proxy_say(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* boot.c: writes the boot message; argv[0] is the program. 0, or an exit code
 * after an error message. */
int sms_boot_write(struct mail_boot *to, char **argv, char **envp);

/* serve.c: answers all cores until the program ends; returns its status as
 * wait(2) does. */
int sms_serve(void);
/* Executes one call, in the worker of that core. */
struct mail_wakes {
	int cancel; /* eventfd: the image cancels an io_wait */
	int child;  /* eventfd: MAIL_CHILD */
};
void sms_serve_call(struct mail_slot *slot, const struct mail_wakes *wakes);
/* Tells all cores of MAIL_CHILD. */
void sms_serve_child(void);
/* Ends the service; called by any worker. */
void sms_serve_end(u32 status);

/* events.c: signals and timers. Blocks signals for threads that are created
 * later. */
void sms_events_block(void);
int sms_events_start(void); /* 0 or -errno */
/* Sends an NMI to a core. */
void sms_events_interrupt(u32 core, enum mail_nmi why);
/* Called after a doorbell: checks whether the program's deadline or the set of
 * time-sliced cores has changed. */
void sms_events_look(void);

/* own.c: the proxy's own descriptors; add returns the descriptor, or -1. */
int sms_own_add(int fd);
void sms_own_close(int fd);
int sms_own_is(s32 handle);

/* family.c: struct abi_host's family, but it never waits; negative errnos. */
s64 sms_family(struct abi_family_op *op);

/* ledger.c: writes the ledger as text; 0 or -errno. */
int sms_ledger_write(const char *path, u32 status);

#endif
