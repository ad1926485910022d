/* SPDX-License-Identifier: MIT */
#ifndef TESTS_KILL_WORK_H
#define TESTS_KILL_WORK_H

void work_initialize(int n, double *weight);
void work_weigh(int n, double *x, int milliseconds, double *sum);
void work_leave(int status);

#endif
