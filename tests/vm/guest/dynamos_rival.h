/* SPDX-License-Identifier: MIT */
/* Others that have an interest in a function of the kernel, for tests. */
#ifndef TESTS_VM_GUEST_DYNAMOS_RIVAL_H
#define TESTS_VM_GUEST_DYNAMOS_RIVAL_H

/* Mounts what they need; ends the test where that fails. */
void rival_begin(void);

/* All give 0 or -errno; at most one of each kind is there. */
int rival_kprobe(const char *symbol);
int rival_kretprobe(const char *symbol);
void rival_probes_end(void);
long rival_probe_hits(void); /* of all probes */

int rival_graph(const char *symbol);
void rival_graph_end(void);
long rival_graph_hits(const char *symbol);

int rival_bpf(const char *symbol, int fexit);
void rival_bpf_end(void);
long rival_bpf_hits(void);

/* Whether the kernel's list of hooks names somebody for a function. */
int rival_is_named(const char *symbol, const char *who);

/* The livepatch of getpgid: its module, and what that is told. */
int rival_livepatch(const char *module, const char *options);
int rival_livepatch_end(void);

#endif
