// SPDX-License-Identifier: MIT
/*
 * A ring of processes, without MPI: a number goes around once, and each process
 * adds one.
 *
 *   ring DIR RANK SIZE
 *
 * DIR is a folder that all processes can read. Each process writes the name of
 * its endpoint there. SKEP_O2G_SECRET holds the job's secret.
 */
#include <o2g.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void expect_success(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "ring: %s: %s\n", what, o2g_error());
		exit(1);
	}
}

/* Writes another file and renames it, so that nobody reads half a name. */
static void publish_name(struct o2g *o2g, const char *dir, int rank)
{
	uint8_t name[O2G_NAME_SIZE];
	char path[256], part[256];
	FILE *file;

	expect_success(o2g_name(o2g, name), "name");
	snprintf(path, sizeof(path), "%s/%d", dir, rank);
	snprintf(part, sizeof(part), "%s/%d.part", dir, rank);
	file = fopen(part, "w");
	if (!file || fwrite(name, sizeof(name), 1, file) != 1 || fclose(file) ||
	    rename(part, path)) {
		perror(part);
		exit(1);
	}
}

static uint32_t find_peer(struct o2g *o2g, const char *dir, int rank)
{
	uint8_t name[O2G_NAME_SIZE];
	char path[256];
	uint32_t peer;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d", dir, rank);
	while (!(file = fopen(path, "r")))
		usleep(1000);
	if (fread(name, sizeof(name), 1, file) != 1)
		exit(1);
	fclose(file);
	expect_success(o2g_peer(o2g, name, &peer), "peer");
	return peer;
}

/* Waits for the completion of the only operation in progress. */
static void await_completion(struct o2g *o2g, const char *what)
{
	struct o2g_event event;

	expect_success(o2g_wait(o2g, &event, 1, 60000) - 1, what);
	if (event.status) {
		fprintf(stderr, "ring: %s failed: %d\n", what, event.status);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	int rank = argc == 4 ? atoi(argv[2]) : 0;
	int size = argc == 4 ? atoi(argv[3]) : 0, number = 0;
	struct o2g_match next = {.tag = 1}, last = {.tag = 1};
	struct o2g *o2g;

	if (size < 1 || rank < 0 || rank >= size) {
		fprintf(stderr, "usage: ring DIR RANK SIZE\n");
		return 2;
	}
	expect_success(o2g_open(&o2g, 0), "open");
	publish_name(o2g, argv[1], rank);
	next.peer = find_peer(o2g, argv[1], (rank + 1) % size);
	last.peer = find_peer(o2g, argv[1], (rank + size - 1) % size);
	for (int turn = 0; turn < 2; turn++) {
		if ((turn == 0) != (rank == 0)) {
			expect_success(o2g_recv(o2g, &last, &number,
						sizeof(number), 0, 0, 0),
				       "receive");
			await_completion(o2g, "receive");
		} else {
			number++;
			expect_success(o2g_send(o2g, &next, &number,
						sizeof(number), 0, 0, 0),
				       "send");
			await_completion(o2g, "send");
		}
	}
	if (rank == 0)
		printf("%d processes counted to %d\n", size, number);
	expect_success(o2g_close(o2g, 5000), "close");
	return number == (rank == 0 ? size : rank + 1) ? 0 : 1;
}
