// SPDX-License-Identifier: MIT
/* The command line: what its options take, and what they are without one. */
#include <string.h>

#include "examples/eigen/options.h"
#include "tests/tap.h"

static const struct {
	const char *option, *value;
	int code;
} values[] = {
	{"--tol", "1e-9", 0},
	{"--tol", "1e-9,1", -1},
	{"--points", "4", 0},
	{"--points", "2", -1},
	{"--points", "4096", 0},
	{"--points", "4098", -1},
	{"--block", "1", 0},
	{"--block", "0", -1},
	{"--block", "4096", 0},
	{"--block", "4097", -1},
	{"--moments", "1", 0},
	{"--moments", "0", -1},
	{"--moments", "64", 0},
	{"--moments", "65", -1},
	{"--moments", "1.5", -1},
	{"--size", "2", 0},
	{"--edges", "1,2,3", 0},
	{"--edges", "1,0,3", -1},
	{"--elements", "2,2,2", 0},
	{"--elements", "2,1,2", -1},
	{"--elements", "1000000,2,2", 0},
	{"--elements", "2,1000001,2", -1},
	{"--elements", "2,2,2.5", -1},
	{"--elements", "2,2", -1},
	{"--size", "1", -1},
	{"--size", "1001", -1},
	{"--size", "2.5", -1},
};

static void test_values(void)
{
	struct eigen_options o;
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(*values); i++) {
		char name[] = "eigen", option[20], value[20];
		char *argv[] = {name, option, value, NULL};

		strcpy(option, values[i].option);
		strcpy(value, values[i].value);
		tap_ok(eigen_options_read(3, argv, &o) == values[i].code,
		       "%s %s is %s", option, value,
		       values[i].code ? "refused" : "taken");
	}
}

/* A word of several letters that is refused leaves getopt within it. */
static void test_defaults(void)
{
	char name[] = "eigen", odd[] = "-xyz", *argv[] = {name, NULL};
	char *wrong[] = {name, odd, NULL};
	struct eigen_options o;

	TAP(eigen_options_read(2, wrong, &o) == -1);
	TAP(eigen_options_read(1, argv, &o) == 0);
	tap_ok(o.box.elements[0] == 22 && o.box.elements[1] == 23 &&
		       o.box.elements[2] == 24 && o.box.edge[0] == 1 &&
		       o.box.edge[1] == 1.1 && o.box.edge[2] == 1.25 &&
		       o.contour.points == 40 && o.tolerance == 1e-8 &&
		       !o.json && !o.local && !o.circle_given,
	       "the defaults are those that --help names");
}

int main(void)
{
	test_defaults();
	test_values();
	return tap_done();
}
