// SPDX-License-Identifier: MIT
/* Matrix Market files, good and hostile, as strings. */
#define _GNU_SOURCE /* fopencookie */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "examples/eigen/market.h"
#include "tests/tap.h"

static char why[EIGEN_MARKET_WHY];

static int parse_text(const char *text, size_t length, struct eigen_sparse *m)
{
	FILE *from = fmemopen((void *)text, length, "r");
	int error;

	why[0] = 0;
	error = eigen_market_read(from, m, why);
	fclose(from);
	return error;
}

#define BANNER "%%MatrixMarket matrix coordinate real symmetric\n"
#define GENERAL "%%MatrixMarket matrix coordinate real general\n"

static void test_good(void)
{
	struct eigen_sparse m;
	const char *text = BANNER "% a comment\n\n3 3 4\n1 1 2.5\n2 1 -1\n"
				  "3 3 1e-3\n2 2 4\n";

	tap_ok(!parse_text(text, strlen(text), &m) && m.n == 3 && m.nnz == 4 &&
		       m.start[2] == 3 && m.column[1] == 0 &&
		       m.value[1] == -1 && m.value[3] == 1e-3,
	       "a symmetric file is read");
	eigen_sparse_free(&m);
	text = "%%matrixmarket MATRIX Coordinate Integer Symmetric\n"
	       "1 1 2\n1 1 2\n1 1 3";
	tap_ok(!parse_text(text, strlen(text), &m) && m.nnz == 1 &&
		       m.value[0] == 5,
	       "entries at one place are summed; any case, no last newline");
	eigen_sparse_free(&m);
	text = "%%matrixmarket matrix coordinate real symmetric\n2 2 1\n2 1 "
	       "3\n";
	tap_ok(!parse_text(text, strlen(text), &m) && m.n == 2 && m.nnz == 1 &&
		       m.value[0] == 3,
	       "a banner in lower case is read");
	eigen_sparse_free(&m);
	text = GENERAL "2 2 4\n1 1 1\n1 2 7\r\n2 1 7\n2 2 1\n";
	tap_ok(!parse_text(text, strlen(text), &m) && m.nnz == 3 &&
		       m.value[1] == 7,
	       "a general file with equal halves is read");
	eigen_sparse_free(&m);
	text = BANNER "2 2 3\n1 1 1\n1 2 7\n2 2 4\n";
	tap_ok(!parse_text(text, strlen(text), &m) && m.nnz == 3 &&
		       m.column[1] == 0 && m.value[1] == 7 && m.value[2] == 4,
	       "a symmetric file that gives the upper triangle is read");
	eigen_sparse_free(&m);
	text = BANNER "2 2 0\n";
	tap_ok(!parse_text(text, strlen(text), &m) && m.n == 2 && m.nnz == 0,
	       "a file without an entry is read");
	eigen_sparse_free(&m);
}

static void long_comment(void)
{
	static char text[5000] = BANNER;
	size_t start = strlen(BANNER);
	struct eigen_sparse m;

	memset(text + start, '%', 4000);
	strcpy(text + start + 4000, "\n1 1 1\n1 1 3\n");
	tap_ok(!parse_text(text, strlen(text), &m) && m.n == 1 &&
		       m.value[0] == 3,
	       "a comment line of 4000 characters is passed over");
	eigen_sparse_free(&m);
	memset(text + start, ' ', 4000);
	tap_ok(parse_text(text, strlen(text), &m) < 0 && strstr(why, "longer"),
	       "refused with its reason: a long line of numbers");
}

/* Lines about as long as a line may be: 1022 characters and a line feed. */
static void long_lines(void)
{
	static char text[5000] = BANNER;
	char *line = text + strlen(BANNER);
	struct eigen_sparse m;
	size_t length;

	for (length = 1021; length <= 1023; length++) {
		memset(line, '%', length);
		strcpy(line + length, "\n1 1 1\n1 1 3\n");
		tap_ok(!parse_text(text, strlen(text), &m) && m.value[0] == 3,
		       "a comment of %zu characters is one line", length);
		eigen_sparse_free(&m);
		memset(line, ' ', length);
		memcpy(line, "1 1 1", 5);
		strcpy(line + length, "\n1 1 3\n");
		tap_ok((length <= 1022) == !parse_text(text, strlen(text), &m),
		       "sizes in %zu characters: %s", length, why);
		eigen_sparse_free(&m);
	}
}

/* A disk that fails within a long comment. */
static ssize_t read_comment(void *cookie, char *to, size_t size)
{
	int *times = cookie;

	if ((*times)++) {
		errno = EIO;
		return -1;
	}
	memset(to, '%', size);
	memcpy(to, BANNER, strlen(BANNER));
	return (ssize_t)size;
}

static void test_disk(void)
{
	int times = 0;
	FILE *from = fopencookie(&times, "r",
				 (cookie_io_functions_t){.read = read_comment});
	struct eigen_sparse m;

	why[0] = 0;
	tap_ok(from && eigen_market_read(from, &m, why) < 0 &&
		       strstr(why, "Input/output error"),
	       "an error within a long comment is told: %s", why);
	if (from)
		fclose(from);
}

static void test_folder(void)
{
	struct eigen_sparse m;
	FILE *from = fopen("/", "r");

	why[0] = 0;
	tap_ok(from && eigen_market_read(from, &m, why) < 0 &&
		       strstr(why, "Is a directory"),
	       "a folder given as a file is refused as such");
	if (from)
		fclose(from);
}

static const struct {
	const char *name, *text, *why;
} hostile[] = {
	{"no banner", "3 3 0\n", "line 1: want %%MatrixMarket"},
	{"an array", "%%MatrixMarket matrix array real general\n", "format"},
	{"complex numbers",
	 "%%MatrixMarket matrix coordinate complex symmetric\n", "real or"},
	{"a pattern", "%%MatrixMarket matrix coordinate pattern symmetric\n",
	 "real or"},
	{"skew symmetry",
	 "%%MatrixMarket matrix coordinate real skew-symmetric\n", "halves"},
	{"no sizes", BANNER "% only this\n", "missing"},
	{"two sizes", BANNER "3 3\n", "line 2: want rows"},
	{"a huge size", BANNER "99999999999999999999 1 1\n", "want rows"},
	{"too many entries", BANNER "3 3 2000000001\n", "want rows"},
	{"negative rows", BANNER "-3 -3 1\n", "want rows"},
	{"not square", BANNER "3 2 1\n1 1 1\n", "square"},
	{"row 0", BANNER "2 2 1\n0 1 1\n", "line 3: want a row"},
	{"a row outside", BANNER "2 2 1\n3 1 1\n", "inside"},
	{"both halves, symmetric", BANNER "2 2 2\n1 2 1\n2 1 1\n",
	 "line 4: entries on both sides"},
	{"not a number", BANNER "2 2 1\n1 1 x\n", "finite"},
	{"nan", BANNER "2 2 1\n1 1 nan\n", "finite"},
	{"infinity", BANNER "2 2 1\n1 1 1e999\n", "finite"},
	{"two numbers", BANNER "2 2 1\n1 1 1 2\n", "finite"},
	{"a missing entry", BANNER "2 2 2\n1 1 1\n", "fewer"},
	{"an entry too many", BANNER "2 2 1\n1 1 1\n2 2 1\n", "line 4: more"},
	{"halves that differ", GENERAL "2 2 4\n1 1 1\n1 2 7\n2 1 8\n2 2 1\n",
	 "halves"},
	{"halves of other columns", GENERAL "3 3 3\n1 1 1\n2 3 8\n3 1 8\n",
	 "halves"},
	{"halves of other rows", GENERAL "3 3 3\n1 1 1\n1 2 8\n3 1 8\n",
	 "halves"},
	{"halves of other last values",
	 GENERAL "3 3 5\n1 1 1\n2 2 1\n3 3 1\n3 2 7\n2 3 8\n", "halves"},
	{"half of a general matrix", GENERAL "2 2 2\n1 1 1\n2 1 8\n", "halves"},
};

static void test_bad(void)
{
	struct eigen_sparse m;
	char line[2000];
	size_t i;

	for (i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		const char *text = hostile[i].text;

		tap_ok(parse_text(text, strlen(text), &m) < 0 && !m.value &&
			       strstr(why, hostile[i].why),
		       "refused with its reason: %s", hostile[i].name);
	}
	tap_ok(parse_text("", 1, &m) < 0, "refused: a zero byte");
	memset(line, '%', sizeof(line));
	tap_ok(parse_text(line, sizeof(line), &m) < 0 && strstr(why, "want"),
	       "refused with its reason: a long first line");
}

int main(void)
{
	test_good();
	long_comment();
	long_lines();
	test_disk();
	test_folder();
	test_bad();
	return tap_done();
}
