/* SPDX-License-Identifier: MIT */
/* /dev/dynamos for tests: one call each, with what it answered. */
#ifndef TESTS_VM_GUEST_DYNAMOS_USE_H
#define TESTS_VM_GUEST_DYNAMOS_USE_H

#include <skep/dynamos.h>

#define TRY "dynamos_try" /* the module of updates by hand */

/* What the last call that was refused said, or "". */
extern char use_why[DYNAMOS_WHY];

void use_begin(const char *module); /* its file; ends the test without a
				       device */
/* The calls that follow are about another module, TRY unless this was called.
 */
void use_turn(const char *name, const char *module);
extern const char *use_name;
/* All give 0 or -errno. */
int use_load(const char *kind);
int use_unload(void);
/* References to the engine; and waits until only this program has any: what
 * left last may still be leaving the kernel's text. */
long use_users(void);
int use_alone(void);
int use_stop(void); /* ends try_loop and try_sleep */
int use_apply(struct dynamos_apply *apply);
int use_policy(const struct dynamos_policy *policy);
int use_commit(void);
int use_commit_for(const struct dynamos_policy *policy); /* in one step */
int use_revert(void);
int use_info(struct dynamos_info *info);
int use_count(u32 function, u32 version, struct dynamos_count *count);

/* The update's state, 0 without one; and all calls that are inside. */
u32 use_state(void);
u64 use_inside(u32 version);
/* The next event of this cause within some seconds. */
int use_event(u32 cause, struct dynamos_event *event);
/* Until the update is in this state: a minute at most. */
int use_until(u32 state);
/* Whether it keeps this state for three seconds, in which the engine looks at
 * it some thirty times. */
int use_stays(u32 state);
/* Whether the kernel has a function of this name. */
int use_symbol(const char *name);

/* A process that calls getpgid(0) on request. */
struct canary {
	int pid, ask, answer;
};

void use_canary(struct canary *c);
void use_ask(struct canary *c);
/* What it was answered; -1000: it is dead. */
long use_answer(struct canary *c);
long use_call(struct canary *c); /* both */
void use_calls(struct canary *c, unsigned char times);
/* Whether the answer is there, within some ms. */
int use_answered(struct canary *c, int ms);
int use_end(struct canary *c); /* its wait status */

/* A policy for one process. */
void use_only(struct dynamos_policy *policy, int tgid);

#endif
