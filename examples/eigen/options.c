// SPDX-License-Identifier: MIT
/* Reads the command line. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/eigen/options.h"

#define SIZE 22 /* about half a second for one point */

static const char help[] =
	"usage: skep run -- eigen [options]\n"
	"\n"
	"Eigenvalues of A x = lambda B x inside a circle, A and B symmetric "
	"and\n"
	"sparse, B positive definite. One remote call for each point on it.\n"
	"\n"
	"  --size N           a box of N x N+1 x N+2 finite elements (22)\n"
	"  --elements X,Y,Z   or of these, 2 at least\n"
	"  --edges X,Y,Z      its lengths (1,1.1,1.25)\n"
	"  --matrix-a FILE    A from a Matrix Market file, with --matrix-b\n"
	"  --matrix-b FILE    B from another one\n"
	"  --center G         the circle's center, with --radius\n"
	"  --radius R         without both, a circle is chosen\n"
	"  --points N         calls, even (40)\n"
	"  --block L          columns of each solve (chosen)\n"
	"  --moments M        L x M columns span the subspace (chosen)\n"
	"  --tol T            limit of residuals and differences (1e-8)\n"
	"  --no-reference     for large problems: count, but do not compare\n"
	"  --json FILE        everything as JSON\n"
	"  --local            all points in this process, without workers\n"
	"  --help\n"
	"\n"
	"Exit code: 0 the answer is right, 1 it is not or a call failed, 2 "
	"wrong\n"
	"use, 4 refused: the nodes ran different programs, or bee did not "
	"prove\n"
	"that it ran one.\n";

enum {
	SIZE_IS = 256,
	ELEMENTS,
	EDGES,
	MATRIX_A,
	MATRIX_B,
	CENTER,
	RADIUS,
	POINTS,
	BLOCK,
	MOMENTS,
	TOLERANCE,
	NO_REFERENCE,
	JSON,
	LOCAL,
	HELP,
};

static const struct option names[] = {
	{"size", 1, NULL, SIZE_IS},
	{"elements", 1, NULL, ELEMENTS},
	{"edges", 1, NULL, EDGES},
	{"matrix-a", 1, NULL, MATRIX_A},
	{"matrix-b", 1, NULL, MATRIX_B},
	{"center", 1, NULL, CENTER},
	{"radius", 1, NULL, RADIUS},
	{"points", 1, NULL, POINTS},
	{"block", 1, NULL, BLOCK},
	{"moments", 1, NULL, MOMENTS},
	{"tol", 1, NULL, TOLERANCE},
	{"no-reference", 0, NULL, NO_REFERENCE},
	{"json", 1, NULL, JSON},
	{"local", 0, NULL, LOCAL},
	{"help", 0, NULL, HELP},
	{NULL, 0, NULL, 0},
};

/* Reads comma-separated numbers. Returns 0 if there are exactly `count`, all
 * finite. */
static int parse_numbers(const char *text, double *value, int count)
{
	char *end;
	int i;

	for (i = 0; i < count; i++) {
		errno = 0;
		value[i] = strtod(text, &end);
		if (end == text || errno || !isfinite(value[i]) ||
		    *end != (i + 1 < count ? ',' : 0))
			return -1;
		text = end + 1;
	}
	return 0;
}

static int parse_integer(const char *text, int least, int most, int *number)
{
	double value;

	if (parse_numbers(text, &value, 1) || value < least || value > most ||
	    value != floor(value))
		return -1;
	*number = value;
	return 0;
}

static int read_size(const char *text, struct eigen_box *box)
{
	int d, size;

	if (parse_integer(text, 2, 1000, &size))
		return -1;
	for (d = 0; d < 3; d++)
		box->elements[d] = size + d;
	return 0;
}

static int read_elements(const char *text, struct eigen_box *box)
{
	double value[3];
	int d;

	if (parse_numbers(text, value, 3))
		return -1;
	for (d = 0; d < 3; d++) {
		if (value[d] < 2 || value[d] > 1e6 ||
		    value[d] != floor(value[d]))
			return -1;
		box->elements[d] = value[d];
	}
	return 0;
}

static int read_problem(int name, const char *text, struct eigen_options *o)
{
	switch (name) {
	case SIZE_IS:
		return read_size(text, &o->box);
	case ELEMENTS:
		return read_elements(text, &o->box);
	case EDGES:
		return parse_numbers(text, o->box.edge, 3);
	case MATRIX_A:
		o->matrix_a = text;
		return 0;
	case MATRIX_B:
		o->matrix_b = text;
		return 0;
	case JSON:
		o->json = text;
		return 0;
	case LOCAL:
		o->local = 1;
		return 0;
	case NO_REFERENCE:
		o->no_reference = 1;
		return 0;
	default:
		return -1;
	}
}

static int read_one(int name, const char *text, struct eigen_options *o)
{
	struct eigen_contour *c = &o->contour;

	switch (name) {
	case CENTER:
		o->circle_given |= 1;
		return parse_numbers(text, &c->center, 1);
	case RADIUS:
		o->circle_given |= 2;
		return parse_numbers(text, &c->radius, 1) || c->radius <= 0;
	case POINTS:
		return parse_integer(text, 4, 4096, &c->points) ||
		       c->points % 2;
	case BLOCK:
		return parse_integer(text, 1, 4096, &c->block);
	case MOMENTS:
		return parse_integer(text, 1, 64, &c->moments);
	case TOLERANCE:
		return parse_numbers(text, &o->tolerance, 1) ||
		       o->tolerance <= 0;
	default:
		return read_problem(name, text, o);
	}
}

static int report_wrong(const char *what, const char *value)
{
	fprintf(stderr, "eigen: %s%s; eigen --help lists the options\n", what,
		value);
	return -1;
}

static int bad_value(const char *option, const char *value)
{
	fprintf(stderr,
		"eigen: --%s can't be %s; eigen --help lists the options\n",
		option, value);
	return -1;
}

static int check_options(int argc, char **argv, const struct eigen_options *o)
{
	if (optind < argc)
		return report_wrong("unexpected argument ", argv[optind]);
	if (!o->matrix_a != !o->matrix_b)
		return report_wrong("--matrix-a and --matrix-b go together",
				    "");
	if (o->circle_given == 1 || o->circle_given == 2)
		return report_wrong("--center and --radius go together", "");
	if (!o->matrix_a && eigen_box_unknowns(&o->box) < 0)
		return report_wrong("the box has no unknowns, or above 2000000",
				    "");
	return 0;
}

int eigen_options_read(int argc, char **argv, struct eigen_options *o)
{
	int name, which;

	memset(o, 0, sizeof(*o));
	o->box = (struct eigen_box){{SIZE, SIZE + 1, SIZE + 2}, {1, 1.1, 1.25}};
	o->contour.points = 40;
	o->contour.drop = 1e-12;
	o->tolerance = 1e-8;
	optind = 0; /* restarts getopt: tests read several command lines */
	while ((name = getopt_long(argc, argv, ":", names, &which)) != -1) {
		if (name == HELP) {
			fputs(help, stdout);
			return 1;
		}
		if (name == '?')
			return report_wrong("unknown option ",
					    argv[optind - 1]);
		if (name == ':')
			return report_wrong("a value is missing after ",
					    argv[optind - 1]);
		if (read_one(name, optarg, o))
			return bad_value(names[which].name, optarg);
	}
	return check_options(argc, argv, o);
}
