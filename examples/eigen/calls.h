/* SPDX-License-Identifier: MIT */
/*
 * The calls of one run, and who computes them: this process (local.c) or
 * workers on other nodes (remote.c). Nothing else knows the difference.
 */
#ifndef EIGEN_CALLS_H
#define EIGEN_CALLS_H

#include <complex.h>
#include <stdint.h>

#include "examples/eigen/sparse.h"
#include "examples/eigen/worker.h"

struct eigen_problem {
	struct eigen_sparse a, b;
	int block;
	double *v;  /* n x block */
	int *order; /* of elimination; n numbers from 1 */
};

struct eigen_call {
	int index;
	double complex z;
	double complex *y; /* n x block; given by the master */
	int status;	   /* 0, or a negative error that `why` explains */
	char why[EIGEN_WHY];
	int ended;

	/* Where and how it ran. */
	char node[64];
	const char *substrate;
	int bee; /* only with proof that bee answered */
	unsigned int attempt;
	double exec_ms, wall_ms;
	uint64_t bytes_in, bytes_out, nonce, emulated;
	char program[65]; /* SHA-256 of the program, empty when local */
};

struct eigen_engine {
	const char *name;
	/*
	 * Runs all calls, `done` after each, in this thread and in any order.
	 * 0, or -1 when it could not, with one sentence in why; calls that fail
	 * one by one have it in their status.
	 */
	int (*run)(const struct eigen_problem *problem, struct eigen_call *call,
		   int count, void (*done)(void *, struct eigen_call *),
		   void *arg, char why[EIGEN_WHY]);
};

extern const struct eigen_engine eigen_engine_local, eigen_engine_remote;

#endif
