/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_RPC_BENCH_H
#define TESTS_BENCH_RPC_BENCH_H

void bench_empty(int x, int *y);
void bench_who(int *process);
void bench_take(int n, const double *x, double *entered);

#endif
