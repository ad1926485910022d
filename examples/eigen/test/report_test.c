// SPDX-License-Identifier: MIT
/* What a run prints, and the JSON that it leaves, of calls made by hand. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/eigen/report.h"
#include "tests/tap.h"

static char said[65536];

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

/* Prints into `said`. */
static void report_nodes(const struct eigen_run *run)
{
	int was = dup(1), to = fileno(tmpfile());
	ssize_t got;

	fflush(stdout);
	dup2(to, 1);
	eigen_report_nodes(run);
	dup2(was, 1);
	close(was);
	got = pread(to, said, sizeof(said) - 1, 0);
	said[got > 0 ? got : 0] = 0;
	close(to);
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

	report_nodes(&run);
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

/* JSON -------------------------------------------------------------------- */

static const char *skip(const char *at)
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
	at = skip(at + 1);
	if (*at == end)
		return at + 1;
	for (;;) {
		if (end == '}') {
			at = read_text(skip(at));
			at = at ? skip(at) : NULL;
			if (!at || *at++ != ':')
				return NULL;
		}
		at = read_value(at);
		at = at ? skip(at) : NULL;
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

	at = skip(at);
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

	return end && !*skip(end);
}

static void test_json(void)
{
	char name[] = "/tmp/eigen-report-XXXXXX";
	int file = mkstemp(name);
	struct eigen_run run = make_run(name);
	struct eigen_pair pair[] = {{2, 1e-14}, {4, 1e-14}};
	ssize_t got;

	run.found = (struct eigen_found){
		.count = 2, .pair = pair, .estimate = NAN, .error = 0.5};
	strcpy(run.verdict.fault[0], "one");
	strcpy(run.verdict.fault[1], "two");
	run.verdict.faults = 2;
	tap_ok(eigen_report_json(&run, 1) == 0, "a run is written as JSON");
	got = pread(file, said, sizeof(said) - 1, 0);
	said[got > 0 ? got : 0] = 0;
	tap_ok(is_json(said), "the report is valid JSON");
	tap_ok(strstr(said, "\"exit_code\": 1") &&
		       strstr(said, "\"bee-windows\": {\"calls\": 4, "
				    "\"median_ms\": 60.000}") &&
		       strstr(said, "\"faults\": [\"one\", \"two\"]") &&
		       strstr(said, "\"estimate\": null") &&
		       strstr(said, "a \\u0022why\\u0022\\u000a\\u005c of "
				    "\\u00c3\\u00a4 "),
	       "the report has exit code, substrates, faults and reasons");
	close(file);
	unlink(name);
	run.options.json = "/nonexistent/eigen.json";
	tap_ok(eigen_report_json(&run, 0) == -1,
	       "a file that can't be written fails");
	run.options.json = "/dev/full";
	tap_ok(eigen_report_json(&run, 0) == -1, "a full disk fails");
}

int main(void)
{
	test_nodes();
	test_json();
	return tap_done();
}
