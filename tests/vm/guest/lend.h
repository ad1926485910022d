/* SPDX-License-Identifier: MIT */
/* /dev/shimos for tests: one call each, with what it answered. */
#ifndef TESTS_VM_GUEST_LEND_H
#define TESTS_VM_GUEST_LEND_H

#include <stddef.h>

#include <skep/shimos.h>

#include "../image/slot.h"

/* What the last call that failed said, or "". */
extern char lend_why[SHIMOS_WHY];

int lend_device(void); /* an open file; ends the test where there is none */
/* All give 0 or more, or -errno. cpus: a bit for each of the first 64. */
int lend_create(u64 cpus, u64 bytes, const char *name);
int lend_create_on(u64 cpus, const u64 *bytes, u32 nodes, const char *name);
int lend_release(u32 id);
int lend_info(u32 id, struct shimos_info *info);
int lend_find(const char *name); /* its number, or 0 */
int lend_allow(u32 gid, u64 cpus, u64 bytes);

/* Online CPUs, memory of the machine and of each node, and for each zone its
 * managed pages: what must be the same when all is given back.
 */
void lend_look(char *out, size_t size);
/* Text to a file of the system's: 0 or -errno. */
int lend_write(const char *path, const char *text);

/* A partition that this process drives. */
struct lend {
	int fd;
	struct shimos_open open;
	u8 *mail, *pool;
};
int lend_open(struct lend *l, u32 id);
int lend_load(struct lend *l, const char *path);
int lend_start(struct lend *l);
int lend_wait(struct lend *l, u32 *seen, u32 ms);
int lend_stop(struct lend *l);
int lend_nmi(struct lend *l, u32 core, u32 reasons);
void lend_close(struct lend *l);
struct slot *lend_slot(struct lend *l, u32 core);
/* Until all cores of the test image are there, or a command is done. */
int lend_alive(struct lend *l);
int lend_command(struct lend *l, u32 core, enum slot_command command);
int lend_done(struct slot *s);
int lend_inside(struct slot *s); /* until its loop has begun */

/* Until f(arg) is true: polls for some minutes. */
int lend_until(int (*f)(void *arg), void *arg);

#endif
