/* SPDX-License-Identifier: MIT */
/* Tests of updates that supersede, for dynamos_engine. */
#ifndef TESTS_VM_GUEST_DYNAMOS_SUPERSEDE_H
#define TESTS_VM_GUEST_DYNAMOS_SUPERSEDE_H

#define HAND "dynamos_hand"
#define NEXT "dynamos_next"

/* The files of the two modules. */
void test_supersede(const char *hand, const char *next);

#endif
