/* SPDX-License-Identifier: MIT */
/*
 * A writer of a database that others write to as well.
 * usage: sqlite FILE JOURNAL MMAP_BYTES ROWS: ROWS transactions of one row;
 * 0 rows: tells how many there are, and what the check of integrity says.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static sqlite3 *db;

static int print_row(void *arg, int columns, char **values, char **names)
{
	(void)arg, (void)columns, (void)names;
	puts(values[0]);
	return 0;
}

static int ignore_row(void *arg, int columns, char **values, char **names)
{
	(void)arg, (void)columns, (void)values, (void)names;
	return 0;
}

static void run_sql(const char *sql, int (*row)(void *, int, char **, char **))
{
	char *why = NULL;

	if (sqlite3_exec(db, sql, row, NULL, &why) == SQLITE_OK)
		return;
	fprintf(stderr, "sqlite: %s: %s\n", sql, why);
	exit(1);
}

/* Entering WAL mode wants the file alone, and sqlite answers at once that it is
 * not, whatever the busy timeout. */
static void set_journal(const char *mode)
{
	char sql[100];
	int tries = 0, result;

	snprintf(sql, sizeof(sql), "PRAGMA journal_mode=%s", mode);
	while ((result = sqlite3_exec(db, sql, ignore_row, NULL, NULL)) ==
		       SQLITE_BUSY &&
	       tries++ < 10000)
		sqlite3_sleep(10);
	if (result == SQLITE_OK)
		return;
	fprintf(stderr, "sqlite: %s: %s\n", sql, sqlite3_errmsg(db));
	exit(1);
}

int main(int argc, char **argv)
{
	char sql[200];
	int i, rows;

	if (argc != 5 || sqlite3_open(argv[1], &db))
		return 2;
	rows = atoi(argv[4]);
	sqlite3_busy_timeout(db, 100000);
	snprintf(sql, sizeof(sql), "PRAGMA mmap_size=%s", argv[3]);
	run_sql(sql, ignore_row);
	set_journal(argv[2]);
	run_sql("PRAGMA synchronous=OFF", ignore_row);
	run_sql("CREATE TABLE IF NOT EXISTS t(writer, number, filling)",
		ignore_row);
	for (i = 0; i < rows; i++) {
		snprintf(sql, sizeof(sql),
			 "BEGIN IMMEDIATE; INSERT INTO t VALUES(%d, %d, "
			 "randomblob(300)); SELECT count(*) FROM t; COMMIT",
			 i, rows);
		run_sql(sql, ignore_row);
	}
	if (!rows) {
		run_sql("SELECT count(*) FROM t", print_row);
		run_sql("PRAGMA integrity_check", print_row);
	}
	return sqlite3_close(db) != SQLITE_OK;
}
