// SPDX-License-Identifier: MIT
/* SKEP_O2G_TRACE: what the file of an endpoint has, and who may not write it.
 */
#include "bed.h"

#include <tests/tap.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[] = "/tmp/o2g-trace-XXXXXX";
static char text[0x40000];

/* The only file of the folder, which is removed; false unless there is just
 * one. */
static int take_file(void)
{
	char path[300];
	struct dirent *entry;
	DIR *dir = opendir(folder);
	int files = 0;
	FILE *file;

	memset(text, 0, sizeof(text));
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		files++;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		file = fopen(path, "re");
		if (!file ||
		    (!fread(text, 1, sizeof(text) - 1, file) && ferror(file)))
			bed_die("fread");
		fclose(file);
		unlink(path);
	}
	closedir(dir);
	return files == 1;
}

static int count_words(const char *words)
{
	int n = 0;

	for (const char *at = text; (at = strstr(at, words)); at++)
		n++;
	return n;
}

/* One record in each line, as JSON wants it; `open`: the end is missing. */
static int lines_good(int open)
{
	size_t length = strlen(text);
	int good = !strncmp(text, "[\n", 2), lines = 0;
	char *save, *line = strtok_r(text, "\n", &save);

	good &= length > 3 && (open || !strcmp(text + length - 3, "\n]\n"));
	for (line = strtok_r(0, "\n", &save); line && strcmp(line, "]");
	     line = strtok_r(0, "\n", &save)) {
		size_t n = strlen(line);

		good &= line[0] == '{' && strchr(",}", line[n - 1]) != 0;
		lines++;
	}
	return good ? lines : 0;
}

static void test_operations(void)
{
	struct o2g *a = bed_open();
	uint32_t self = bed_peer(a, a);
	static char in[4][8];
	int ends, begins;

	for (int i = 0; i < 3; i++) /* with one cookie for the sends */
		bed_recv(a, O2G_ANY, (uint64_t)i, in[i], 8);
	for (int i = 0; i < 3; i++)
		bed_send(a, self, (uint64_t)i, "sixsix", 6);
	for (int i = 0; i < 6; i++)
		TAP(bed_event(a).status == 0);
	bed_recv(a, O2G_ANY, 99, in[3], 8);
	TAP(o2g_cancel(a, in[3]) == 0 && bed_event(a).status == -ECANCELED);
	bed_recv(a, O2G_ANY, 99, in[3], 8); /* never ends */
	TAP(o2g_close(a, 1000) == 0);
	tap_ok(take_file(), "an endpoint writes one file");
	begins = count_words("\"ph\":\"b\"");
	ends = count_words("\"ph\":\"e\"");
	tap_ok(begins == 7 && ends == 7,
	       "each operation has a begin and an end (%d, %d)", begins, ends);
	tap_ok(count_words("\"name\":\"send\"") == 6 &&
		       count_words("\"name\":\"receive\"") == 8,
	       "operations have their names");
	tap_ok(count_words("\"bytes\":6,\"status\":0") == 6 &&
		       count_words("\"status\":-125") == 1 &&
		       count_words("\"tag\":\"0x2\"") == 2,
	       "and tags, sizes and results");
	tap_ok(lines_good(0) == 15, "the file is JSON of 15 records");
}

static void test_refusals(void)
{
	struct o2g_options o = bed_options();
	struct o2g *a;

	setenv("SKEP_O2G_TRACE", "/nonexistent/folder", 1);
	tap_ok(o2g_open(&a, &o) == -ENOENT &&
		       strstr(o2g_error(), "SKEP_O2G_TRACE") &&
		       strstr(o2g_error(), "folder"),
	       "a folder that is missing is refused: %s", o2g_error());
	setenv("SKEP_O2G_TRACE", "", 1);
	TAP(o2g_open(&a, &o) == 0 && bed_transfer(a, a));
	TAP(o2g_close(a, 1000) == 0);
	setenv("SKEP_O2G_TRACE", folder, 1);
	tap_ok(!take_file() && !*text, "without the variable there is none");
}

/* A child has its own file, and adds nothing to its parent's. */
static void test_child(void)
{
	int plain = bed_count_descriptors(), status = 1;
	struct o2g *a = bed_open();
	pid_t pid;

	TAP(bed_transfer(a, a));
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(bed_count_descriptors() != plain);
	waitpid(pid, &status, 0);
	tap_ok(status == 0, "a child of fork() has no descriptor of the file");
	TAP(bed_transfer(a, a));
	TAP(o2g_close(a, 1000) == 0);
	TAP(take_file());
	tap_ok(count_words("\"ph\":\"e\"") == 4 && lines_good(0) == 9,
	       "nor does it write to it");
}

/* A process that exits with an open endpoint. */
static void test_exit(void)
{
	int status = 1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct o2g *a = bed_open();

		exit(!bed_transfer(a, a));
	}
	waitpid(pid, &status, 0);
	TAP(status == 0 && take_file());
	tap_ok(count_words("\"ph\":\"e\"") == 2 && lines_good(1) == 5,
	       "a process that exits leaves what it recorded");
}

/* The file system is full: the program goes on. */
static void test_full(void)
{
	struct rlimit old, tight;
	struct o2g *a = bed_open();
	int good = 1;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	tight = old;
	tight.rlim_cur = 1000;
	setrlimit(RLIMIT_FSIZE, &tight);
	for (int i = 0; i < 1000; i++)
		good &= bed_transfer(a, a);
	setrlimit(RLIMIT_FSIZE, &old);
	tap_ok(good, "messages go on when the trace can't be written");
	TAP(o2g_close(a, 1000) == 0);
	TAP(take_file());
	tap_ok(strlen(text) <= 1000, "the trace ends there");
}

int main(void)
{
	if (!mkdtemp(folder))
		bed_die("mkdtemp");
	setenv("SKEP_O2G_LOG", "0", 1);
	test_refusals();
	test_operations();
	test_child();
	test_exit();
	test_full();
	TAP(rmdir(folder) == 0);
	return tap_done();
}
