// SPDX-License-Identifier: MIT
/*
 * Reads Matrix Market files. Memory grows with the lines that were read, not
 * with the counts in the header, which may be false.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "examples/eigen/market.h"

#define LINE 1024

struct reader {
	FILE *from;
	char *why;
	char text[LINE];
	long line;
	int symmetric, n, entries;
	int below, above; /* entries off the diagonal */
	int count, room;
	int *row, *column;
	double *value;
};

static int report_bad(struct reader *r, const char *what)
{
	snprintf(r->why, EIGEN_MARKET_WHY, "line %ld: %s", r->line, what);
	return -EINVAL;
}

/* Comments may have any length: the rest of a long one is read and dropped. */
static int skip_line(struct reader *r)
{
	int c;

	do
		c = getc(r->from);
	while (c != '\n' && c != EOF);
	return ferror(r->from) ? report_bad(r, strerror(errno)) : 0;
}

/* Reads the next line that is not a comment. Returns 1, or 0 at the end. */
static int next_line(struct reader *r)
{
	size_t length;
	int comment;

	do {
		if (!fgets(r->text, LINE, r->from))
			return ferror(r->from) ? report_bad(r, strerror(errno))
					       : 0;
		r->line++;
		comment = r->text[0] == '%';
		length = strlen(r->text);
		if (length < LINE - 1 || r->text[LINE - 2] == '\n')
			continue;
		if (!comment)
			return report_bad(r, "longer than 1022 characters");
		if (skip_line(r))
			return -EINVAL;
	} while (comment || !r->text[strspn(r->text, " \t\r\n")]);
	return 1;
}

/* Splits the first line into words. Case does not matter, as in scipy. */
static int split_banner(struct reader *r, char word[5][20])
{
	char extra[2];

	r->line = 1;
	if (!fgets(r->text, LINE, r->from))
		return report_bad(r, ferror(r->from) ? strerror(errno)
						     : "empty file");
	return sscanf(r->text, "%19s %19s %19s %19s %19s %1s", word[0], word[1],
		      word[2], word[3], word[4], extra) == 5 &&
			       !strcasecmp(word[0], "%%MatrixMarket")
		       ? 0
		       : report_bad(
				 r,
				 "want %%MatrixMarket matrix coordinate real "
				 "symmetric");
}

static int read_banner(struct reader *r)
{
	char word[5][20];
	int error = split_banner(r, word);

	if (error)
		return error;
	if (strcasecmp(word[1], "matrix") || strcasecmp(word[2], "coordinate"))
		return report_bad(r, "want a matrix in coordinate format");
	if (strcasecmp(word[3], "real") && strcasecmp(word[3], "integer"))
		return report_bad(r, "want real or integer numbers");
	r->symmetric = !strcasecmp(word[4], "symmetric");
	if (!r->symmetric && strcasecmp(word[4], "general"))
		return report_bad(
			r, "want a symmetric matrix, or a general one whose "
			   "halves are equal");
	return 0;
}

/* Reads an integer within bounds. Returns the text after it, or NULL. */
static char *read_number(char *text, long least, long most, int *number)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (end == text || errno || value < least || value > most)
		return NULL;
	*number = value;
	return isspace((unsigned char)*end) || !*end ? end : NULL;
}

static int at_end(const char *text)
{
	return !text[strspn(text, " \t\r\n")];
}

static int read_sizes(struct reader *r)
{
	int columns, found = next_line(r);
	char *text = r->text;

	if (found < 0)
		return found;
	if (!found)
		return report_bad(r, "the line with the sizes is missing");
	text = read_number(text, 1, EIGEN_MARKET_ROWS, &r->n);
	text = text ? read_number(text, 1, EIGEN_MARKET_ROWS, &columns) : NULL;
	text = text ? read_number(text, 0, EIGEN_MARKET_ENTRIES, &r->entries)
		    : NULL;
	if (!text || !at_end(text))
		return report_bad(
			r, "want rows, columns and entries, at most 2000000 "
			   "rows and 200000000 entries");
	return columns == r->n ? 0 : report_bad(r, "the matrix is not square");
}

static int grow_entries(struct reader *r)
{
	int room = r->room ? r->room * 2 : 4096;
	void *row, *column, *value;

	row = realloc(r->row, room * sizeof(*r->row));
	r->row = row ? row : r->row;
	column = realloc(r->column, room * sizeof(*r->column));
	r->column = column ? column : r->column;
	value = realloc(r->value, room * sizeof(*r->value));
	r->value = value ? value : r->value;
	if (!row || !column || !value)
		return -ENOMEM;
	r->room = room;
	return 0;
}

static int read_entry(struct reader *r)
{
	char *text = r->text, *end;
	int i, j;
	double value;

	text = read_number(text, 1, r->n, &i);
	text = text ? read_number(text, 1, r->n, &j) : NULL;
	if (!text)
		return report_bad(r,
				  "want a row and a column inside the matrix");
	value = strtod(text, &end);
	if (end == text || !at_end(end) || !isfinite(value))
		return report_bad(
			r, "want one finite number behind row and column");
	r->below |= i > j;
	r->above |= i < j;
	/* The format requires the lower half; scipy reads either half. Both at
	 * once are ambiguous: a sum, or the same number twice. */
	if (r->symmetric && r->below && r->above)
		return report_bad(r,
				  "entries on both sides of the diagonal, in a "
				  "symmetric file");
	if (r->count == r->room && grow_entries(r))
		return -ENOMEM;
	r->row[r->count] = i - 1;
	r->column[r->count] = j - 1;
	r->value[r->count++] = value;
	return 0;
}

static int read_entries(struct reader *r)
{
	int found, error;

	while ((found = next_line(r)) > 0) {
		if (r->count == r->entries)
			return report_bad(r,
					  "more entries than the header says");
		error = read_entry(r);
		if (error)
			return error;
	}
	if (found < 0)
		return found;
	if (r->count < r->entries)
		return report_bad(r, "fewer entries than the header says");
	return 0;
}

/* Makes a matrix of one half of the entries: those on and above the diagonal,
 * or those on and below. */
static int build_half(const struct reader *r, int above, struct eigen_sparse *m)
{
	size_t room = r->count + 1ul;
	int *row = malloc(room * sizeof(*row));
	int *column = malloc(room * sizeof(*column));
	double *value = malloc(room * sizeof(*value));
	int i, kept = 0, error = -ENOMEM;

	for (i = 0; row && column && value && i < r->count; i++) {
		if (above ? r->row[i] > r->column[i] : r->row[i] < r->column[i])
			continue;
		row[kept] = r->row[i];
		column[kept] = r->column[i];
		value[kept++] = r->value[i];
	}
	if (row && column && value)
		error = eigen_sparse_build(m, r->n, kept, row, column, value);
	free(row);
	free(column);
	free(value);
	return error;
}

static int same_matrix(const struct eigen_sparse *x,
		       const struct eigen_sparse *y)
{
	return x->nnz == y->nnz &&
	       !memcmp(x->start, y->start, (x->n + 1ul) * sizeof(*x->start)) &&
	       !memcmp(x->column, y->column, x->nnz * sizeof(*x->column)) &&
	       !memcmp(x->value, y->value, x->nnz * sizeof(*x->value));
}

static int fold_halves(struct reader *r, struct eigen_sparse *m)
{
	struct eigen_sparse other;
	int error = build_half(r, r->above, m);

	if (error || r->symmetric)
		return error;
	error = build_half(r, !r->above, &other);
	if (!error) {
		if (!same_matrix(m, &other))
			error = report_bad(
				r, "the halves of the matrix are not equal");
		eigen_sparse_free(&other);
	}
	if (error)
		eigen_sparse_free(m);
	return error;
}

int eigen_market_read(FILE *from, struct eigen_sparse *m,
		      char why[EIGEN_MARKET_WHY])
{
	struct reader r = {.from = from, .why = why};
	int error;

	memset(m, 0, sizeof(*m));
	error = read_banner(&r);
	if (!error)
		error = read_sizes(&r);
	if (!error)
		error = read_entries(&r);
	if (!error)
		error = fold_halves(&r, m);
	if (error == -ENOMEM)
		report_bad(&r, "not enough memory");
	free(r.row);
	free(r.column);
	free(r.value);
	return error;
}
