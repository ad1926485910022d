/* SPDX-License-Identifier: MIT */
/* The options of the master's command line. */
#ifndef EIGEN_OPTIONS_H
#define EIGEN_OPTIONS_H

#include "examples/eigen/box.h"
#include "examples/eigen/contour.h"

struct eigen_options {
	struct eigen_box box;
	const char *matrix_a, *matrix_b, *json;
	struct eigen_contour contour; /* block and moments are 0 if not given */
	int circle_given;
	double tolerance;
	int local;
	int no_reference;
};

/* 0; 1: help was printed; -1: wrong usage, with a sentence on stderr. */
int eigen_options_read(int argc, char **argv, struct eigen_options *options);

#endif
