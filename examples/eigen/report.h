/* SPDX-License-Identifier: MIT */
/* The output of a run, for people (text) and for programs (JSON). */
#ifndef EIGEN_REPORT_H
#define EIGEN_REPORT_H

#include "examples/eigen/master.h"

void eigen_report_problem(const struct eigen_run *run);
void eigen_report_call(struct eigen_run *run, const struct eigen_call *call);
void eigen_report_answer(const struct eigen_run *run);
void eigen_report_nodes(const struct eigen_run *run);
/* 0, or -1 with a message on stderr if the file cannot be written. */
int eigen_report_json(const struct eigen_run *run, int exit_code);

#endif
