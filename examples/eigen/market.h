/* SPDX-License-Identifier: MIT */
/*
 * Matrix Market files (Boisvert, Pozo, Remington, NISTIR 5935) with a real
 * symmetric matrix: coordinate; real or integer; symmetric, or general with
 * both halves equal.
 */
#ifndef EIGEN_MARKET_H
#define EIGEN_MARKET_H

#include <stdio.h>

#include "examples/eigen/sparse.h"

#define EIGEN_MARKET_ROWS 2000000
#define EIGEN_MARKET_ENTRIES 200000000
#define EIGEN_MARKET_WHY 160

/* 0, or a negative error; `why` then has a sentence with the line's number. */
int eigen_market_read(FILE *from, struct eigen_sparse *m,
		      char why[EIGEN_MARKET_WHY]);

#endif
