/* SPDX-License-Identifier: MIT */
/* What the master's command line says. */
#ifndef EIGEN_OPTIONS_H
#define EIGEN_OPTIONS_H

#include "examples/eigen/box.h"
#include "examples/eigen/contour.h"

struct eigen_options {
	struct eigen_box box;
	const char *matrix_a, *matrix_b, *json;
	struct eigen_contour contour; /* block, moments 0: to be chosen */
	int circle_given;
	double tolerance;
	int local;
	int no_reference;
};

/* 0; 1: help was printed; -1: used wrongly, a sentence is on stderr. */
int eigen_options_read(int argc, char **argv, struct eigen_options *options);

#endif
