// SPDX-License-Identifier: MIT
/* What a run prints, and the JSON that it leaves, of calls made by hand. */
#include <ctype.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/eigen/report.h"
#include "examples/eigen/test/capture.h"
#include "tests/tap.h"

static struct eigen_call make_call(int index, const char *node,
				   const char *substrate, double ms)
{
	struct eigen_call call = {.index = index,
				  .ended = 1,
				  .substrate = substrate,
				  .attempt = 1,
				  .exec_ms = ms,
				  .bytes_in = 10,
				  .bytes_out = 20};

	snprintf(call.node, sizeof(call.node), "%s", node);
	return call;
}

#define POINTS 8

static struct eigen_call call[POINTS];

static struct eigen_run make_run(const char *json)
{
	static const struct eigen_engine engine = {"by hand", NULL};
	struct eigen_run run = {.engine = &engine,
				.call = call,
				.wall_s = 12.345,
				.options = {.json = json},
				.contour = {.points = POINTS},
				.reference = {.method = "none"}};

	call[0] = make_call(0, "near", "linux", 30);
	call[1] = make_call(1, "far", "bee-windows", 40);
	call[2] = make_call(2, "near", "linux", 10);
	call[3] = make_call(3, "near", "linux", 20);
	call[4] = make_call(4, "away", "bee-windows", 80);
	call[5] = make_call(5, "far", "bee-windows", 60);
	call[5].attempt = 2;
	call[6] = make_call(6, "near", "linux", 1);
	call[6].status = -1; /* it counts for nobody */
	call[7] = make_call(7, "far\x1b[2J", "bee-windows", 50);
	strcpy(call[6].why, "a \"why\"\n\\ of \xc3\xa4 ~");
	return run;
}

static void test_nodes(void)
{
	struct eigen_run run = make_run(NULL);

	capture_begin();
	eigen_report_nodes(&run);
	capture_end();
	tap_ok(strstr(said, "node       near (linux): 3 calls, 0 run again, "
			    "median 20 ms, 30 bytes in, 60 out\n") &&
		       strstr(said, "node       far (bee-windows): 2 calls, 1 "
				    "run again, median 60 ms") &&
		       strstr(said, "node       away (bee-windows): 1 calls"),
	       "each node has its calls and their median");
	tap_ok(strstr(said, "node       far?[2J ") && !strchr(said, '\x1b'),
	       "control characters of a node's name are not printed");
	tap_ok(strstr(said, "substrate  linux: 3 of the 8 calls, median solve "
			    "20 ms\n") &&
		       strstr(said, "substrate  bee-windows: 4 of the 8 calls, "
				    "median solve 60 ms, linux takes 0.333 of "
				    "that\n"),
	       "each substrate has its calls and their median against linux");
	tap_ok(strstr(said, "wall time  12.35 s for the calls\n") ||
		       strstr(said, "wall time  12.34 s for the calls\n"),
	       "the time of all calls is printed");
}

static void test_problem(void)
{
	struct eigen_run run = make_run(NULL);

	run.options.box = (struct eigen_box){{6, 7, 8}, {1, 1, 1}};
	run.problem.a = (struct eigen_sparse){.n = 210, .nnz = 1000};
	run.problem.b = (struct eigen_sparse){.n = 210, .nnz = 2000};
	run.contour = (struct eigen_contour){.center = 75,
					     .radius = 40.5,
					     .points = 8,
					     .block = 16,
					     .moments = 3};
	run.inertia = 12;
	capture_begin();
	eigen_report_problem(&run);
	capture_end();
	tap_ok(!strcmp(said, "problem    box of 6 x 7 x 8 finite elements, 210 "
			     "unknowns, 1000 + 2000 entries\n"
			     "circle     center 75 radius 40.5 (chosen), 8 "
			     "points\n"
			     "subspace   block 16, moments 3\n"
			     "inside     12 eigenvalues by inertia\n"),
	       "a box, its circle and its subspace are printed");
	run.options.matrix_a = "a.mtx";
	run.options.matrix_b = "b.mtx";
	run.options.circle_given = 3;
	capture_begin();
	eigen_report_problem(&run);
	capture_end();
	tap_ok(strstr(said, "problem    a.mtx, b.mtx, 210 unknowns") &&
		       strstr(said, "radius 40.5 (given)"),
	       "the names of matrices and a given circle are printed");
}

/* Without a terminal. */
static void test_calls(void)
{
	struct eigen_run run = make_run(NULL);
	struct eigen_call one = make_call(7, "near", "linux", 12.4);
	int first, early;

	run.contour.points = 20;
	capture_begin();
	for (run.ended = 1; run.ended < 8; run.ended++)
		eigen_report_call(&run, &one);
	capture_end();
	early = !*said;
	capture_begin();
	for (; run.ended <= 20; run.ended++)
		eigen_report_call(&run, &one);
	capture_end();
	first = !strncmp(said, "  8/20  point 7  near (linux)  12 ms\n", 37);
	tap_ok(early && first && strstr(said + 37, " 16/20  ") == said + 37 &&
		       strstr(said + 74, " 20/20  ") == said + 74 &&
		       strlen(said) == 3 * 37,
	       "without a terminal each eighth call and the last are printed");
	one.substrate = NULL;
	one.attempt = 2;
	strcpy(one.node, "far\x7f~ ");
	capture_begin();
	run.ended = 20;
	eigen_report_call(&run, &one);
	capture_end();
	tap_ok(!strcmp(said, " 20/20  point 7  far?~  (unknown)  12 ms  run "
			     "again\n"),
	       "a call that ran again on an unknown substrate says so");
	run.contour.points = 40;
	one.status = -1;
	strcpy(one.why, "no\nroom");
	capture_begin();
	eigen_report_call(&run, &one);
	capture_end();
	tap_ok(!strcmp(said, " 20/40  point 7  failed: no?room\n"),
	       "a failed call is printed at once, its reason in one line");
}

static void test_answer(void)
{
	struct eigen_run run = make_run(NULL);
	struct eigen_pair pair[] = {{2.5, 1e-14}, {4, 3e-13}};
	double reference[] = {2.5, 4.25, 6}, exact = 4;
	size_t kept;

	run.contour.block = 16;
	run.contour.moments = 3;
	run.inertia = 3;
	run.found = (struct eigen_found){.count = 2,
					 .pair = pair,
					 .rank = 5,
					 .estimate = 2.25,
					 .error = 0.5};
	run.reference = (struct eigen_reference){"by hand", 3, reference};
	run.verdict.difference = 1e-9;
	run.verdict.residual = 3e-13;
	run.verdict.faults = 2;
	strcpy(run.verdict.fault[0], "One is missing.");
	strcpy(run.verdict.fault[1], "It stays away.");
	capture_begin();
	eigen_report_answer(&run);
	kept = __fpending(stdout);
	capture_end();
	tap_ok(!kept, "an answer is not kept until the program ends");
	tap_ok(!!strstr(said, "\n   1  2.5                     2.5             "
			      "        1.0e-14\n"
			      "   2  4                       4.25            "
			      "        3.0e-13\n"
			      "   3  -                       6               "
			      "      \n\n"),
	       "each eigenvalue stands beside its reference");
	tap_ok(!!strstr(said,
			"\ncount      2 found, 3 by inertia, trace estimate "
			"2.25 +- 0.50\nrank       5 of 48\nreference  by "
			"hand: 3 inside, largest relative difference "
			"1.0e-09\nresidual   largest 3.0e-13\nWRONG      "
			"One is missing.\nWRONG      It stays away.\n"),
	       "the counts, the differences and what is wrong are printed");
	run.options.no_reference = 1;
	run.reference.count = 1;
	run.exact = &exact;
	run.verdict.exact = 2e-8;
	capture_begin();
	eigen_report_answer(&run);
	capture_end();
	tap_ok(!!strstr(said, "   2  4                       -               "
			      "        3.0e-13\n\n") &&
		       strstr(said, "\nreference  none (--no-reference)\n"
				    "known      values of this grid, largest "
				    "relative difference 2.0e-08\n"),
	       "known values are compared when no reference was wanted");
}

/* JSON -------------------------------------------------------------------- */

static const char *skip_space(const char *at)
{
	return at + strspn(at, " \n\t\r");
}

static const char *read_text(const char *at)
{
	if (*at++ != '"')
		return NULL;
	while (*at != '"') {
		if ((unsigned char)*at < ' ' || (unsigned char)*at > 126)
			return NULL;
		if (*at++ != '\\')
			continue;
		if (*at++ != 'u' || strspn(at, "0123456789abcdef") < 4)
			return NULL;
		at += 4;
	}
	return at + 1;
}

static const char *read_value(const char *at);

/* What stands between brackets, with commas. */
static const char *read_list(const char *at, char end)
{
	at = skip_space(at + 1);
	if (*at == end)
		return at + 1;
	for (;;) {
		if (end == '}') {
			at = read_text(skip_space(at));
			at = at ? skip_space(at) : NULL;
			if (!at || *at++ != ':')
				return NULL;
		}
		at = read_value(at);
		at = at ? skip_space(at) : NULL;
		if (!at || *at == end)
			return at ? at + 1 : NULL;
		if (*at++ != ',')
			return NULL;
	}
}

/* One value; the text behind it, or NULL. */
static const char *read_value(const char *at)
{
	static const char *const word[] = {"true", "false", "null"};
	char *end;
	int i;

	at = skip_space(at);
	if (*at == '{' || *at == '[')
		return read_list(at, *at == '{' ? '}' : ']');
	if (*at == '"')
		return read_text(at);
	for (i = 0; i < 3; i++) {
		if (!strncmp(at, word[i], strlen(word[i])))
			return at + strlen(word[i]);
	}
	if (*at != '-' && !isdigit((unsigned char)*at))
		return NULL;
	(void)strtod(at, &end);
	return end;
}

static int is_json(const char *text)
{
	const char *end = read_value(text);

	return end && !*skip_space(end);
}

static void test_json(void)
{
	char name[] = "/tmp/eigen-report-XXXXXX";
	int file = mkstemp(name);
	struct eigen_run run = make_run(name);
	struct eigen_pair pair[] = {{2, 1e-14}, {4, 1e-14}};
	double reference[] = {2.5, 4.25, 6};
	ssize_t got;

	run.found = (struct eigen_found){
		.count = 2, .pair = pair, .estimate = NAN, .error = 0.5};
	strcpy(run.verdict.fault[0], "one");
	strcpy(run.verdict.fault[1], "two");
	run.verdict.faults = 2;
	run.reference = (struct eigen_reference){"by hand", 3, reference};
	tap_ok(eigen_report_json(&run, 1) == 0, "a run is written as JSON");
	got = pread(file, said, sizeof(said) - 1, 0);
	said[got > 0 ? got : 0] = 0;
	tap_ok(is_json(said), "the report is valid JSON");
	tap_ok(strstr(said, "\"exit_code\": 1") &&
		       strstr(said, "\"substrates\": {\n    \"linux\": {"
				    "\"calls\": 3, \"median_ms\": 20.000},\n"
				    "    \"bee-windows\": {\"calls\": 4, "
				    "\"median_ms\": 60.000}},\n") &&
		       strstr(said, "\"faults\": [\"one\", \"two\"]") &&
		       strstr(said, "\"estimate\": null") &&
		       strstr(said, "a \\u0022why\\u0022\\u000a\\u005c of "
				    "\\u00c3\\u00a4 "),
	       "the report has exit code, substrates, faults and reasons");
	tap_ok(!!strstr(said, "\"reference\": {\"method\": \"by hand\", "
			      "\"values\": [2.5, 4.25, 6]}"),
	       "the report has all values of the reference");
	close(file);
	unlink(name);
	run.options.json = "/nonexistent/eigen.json";
	capture_begin();
	got = eigen_report_json(&run, 0);
	capture_end();
	tap_ok(got == -1 && strstr(said, "/nonexistent/eigen.json: No such"),
	       "a file that cannot be written fails with its name");
	run.options.json = "/dev/full";
	capture_begin();
	got = eigen_report_json(&run, 0);
	capture_end();
	tap_ok(got == -1 && strstr(said, "/dev/full: No space"),
	       "a full device fails with its name");
}

/* Each number and text of a report, all of them different. */
static const char whole[] =
	"{\n"
	"  \"exit_code\": 3, \"wall_s\": 12.345000, \"engine\": \"by hand\",\n"
	"  \"unknowns\": 210, \"entries_a\": 1000, \"entries_b\": 2000,\n"
	"  \"circle\": {\"center\": 75, \"radius\": 40.5, \"points\": 2, "
	"\"given\": true, \"block\": 16, \"moments\": 3},\n"
	"  \"eigenvalues\": [\n"
	"    {\"value\": 2.5, \"residual\": 1.250e-14},\n"
	"    {\"value\": 4, \"residual\": 2.500e-13}],\n"
	"  \"reference\": {\"method\": \"by hand\", \"values\": [2.5, 4.25]},\n"
	"  \"estimate\": 2.25, \"estimate_error\": null, \"inertia\": 7, "
	"\"rank\": 5, \"full\": true,\n"
	"  \"largest_difference\": 0.5, \"largest_residual\": 0.25,\n"
	"  \"faults\": [\"one\"],\n"
	"  \"substrates\": {\n"
	"    \"linux\": {\"calls\": 1, \"median_ms\": 30.000},\n"
	"    \"bee-windows\": {\"calls\": 1, \"median_ms\": 40.000}},\n"
	"  \"calls\": [\n"
	"    {\"point\": 0, \"re\": 1.5, \"im\": -2.5, \"status\": 0, \"why\": "
	"\"\", \"node\": \"near\", \"substrate\": \"linux\", \"attempt\": 1, "
	"\"exec_ms\": 30.000, \"wall_ms\": 31.250, \"bytes_in\": 10, "
	"\"bytes_out\": 20, \"nonce\": \"0000000000000abc\", "
	"\"emulated_calls\": 18000000000000000000, \"program\": \"f00d\"},\n"
	"    {\"point\": 1, \"re\": 0, \"im\": 0, \"status\": 0, \"why\": "
	"\"\", \"node\": \"far\", \"substrate\": \"bee-windows\", \"attempt\": "
	"1, \"exec_ms\": 40.000, \"wall_ms\": 0.000, \"bytes_in\": 10, "
	"\"bytes_out\": 20, \"nonce\": \"0000000000000000\", "
	"\"emulated_calls\": 0, \"program\": \"\"}\n"
	"  ]\n"
	"}\n";

static void test_whole_json(void)
{
	char name[] = "/tmp/eigen-report-XXXXXX";
	int file = mkstemp(name);
	struct eigen_run run = make_run(name);
	struct eigen_pair pair[] = {{2.5, 1.25e-14}, {4, 2.5e-13}};
	double reference[] = {2.5, 4.25};
	ssize_t got;

	run.problem.a = (struct eigen_sparse){.n = 210, .nnz = 1000};
	run.problem.b = (struct eigen_sparse){.n = 210, .nnz = 2000};
	run.contour = (struct eigen_contour){.center = 75,
					     .radius = 40.5,
					     .points = 2,
					     .block = 16,
					     .moments = 3};
	run.options.circle_given = 3;
	run.inertia = 7;
	run.found = (struct eigen_found){.count = 2,
					 .pair = pair,
					 .rank = 5,
					 .full = 1,
					 .estimate = 2.25,
					 .error = INFINITY};
	run.reference = (struct eigen_reference){"by hand", 2, reference};
	run.verdict.difference = 0.5;
	run.verdict.residual = 0.25;
	run.verdict.faults = 1;
	strcpy(run.verdict.fault[0], "one");
	call[0].z = CMPLX(1.5, -2.5);
	call[0].wall_ms = 31.25;
	call[0].nonce = 0xabc;
	call[0].emulated = 18000000000000000000u;
	strcpy(call[0].program, "f00d");
	got = eigen_report_json(&run, 3);
	if (!got)
		got = pread(file, said, sizeof(said) - 1, 0);
	said[got > 0 ? got : 0] = 0;
	tap_ok(is_json(said) && !strcmp(said, whole),
	       "a whole report is as expected");
	close(file);
	unlink(name);
}

int main(void)
{
	test_problem();
	test_calls();
	test_answer();
	test_nodes();
	test_json();
	test_whole_json();
	return tap_done();
}
