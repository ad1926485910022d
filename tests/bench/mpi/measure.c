/* SPDX-License-Identifier: MIT */
/*
 * What MPI programs feel of their network, one question per word. Prints lines
 * `result NAME VALUE UNIT` on rank 0; measures and judges nothing, but ends
 * with an error when data arrived wrong. Any MPI, 2 ranks or more.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static int rank, ranks;

static double clock_seconds(void)
{
	return MPI_Wtime();
}

static void print_result(const char *name, double value, const char *unit)
{
	if (rank == 0)
		printf("result %s %.6g %s\n", name, value, unit);
	fflush(stdout);
}

static void exit_failed(const char *what)
{
	fprintf(stderr, "measure: rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static char *alloc_buffer(size_t size)
{
	char *b = malloc(size ? size : 1);

	if (!b)
		exit_failed("out of memory");
	memset(b, rank + 1, size);
	return b;
}

/* Computes for that many seconds without calling MPI. */
static void compute_for(double seconds)
{
	volatile double x = 1;
	struct timespec t;
	double end;

	clock_gettime(CLOCK_MONOTONIC, &t);
	end = (double)t.tv_sec + (double)t.tv_nsec * 1e-9 + seconds;
	do {
		for (int i = 0; i < 1000; i++)
			x = x * 1.0000001 + 1e-9;
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while ((double)t.tv_sec + (double)t.tv_nsec * 1e-9 < end);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

static const char *sized_name(const char *name, size_t size)
{
	static char text[64];

	if (size >= 1 << 20)
		snprintf(text, sizeof(text), "%s-%zuM", name, size >> 20);
	else if (size >= 1 << 10)
		snprintf(text, sizeof(text), "%s-%zuK", name, size >> 10);
	else
		snprintf(text, sizeof(text), "%s-%zu", name, size);
	return text;
}

/* There and back between ranks 0 and 1; how long one way took. */
static double one_trip(char *b, size_t size)
{
	double t = clock_seconds();

	if (rank == 0) {
		MPI_Send(b, (int)size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(b, (int)size, MPI_BYTE, 1, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
	} else if (rank == 1) {
		MPI_Recv(b, (int)size, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		MPI_Send(b, (int)size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
	return (clock_seconds() - t) / 2;
}

/* Half a round trip, median of as many as fit into a fraction of a second. */
static void measure_latency(void)
{
	static const size_t sizes[] = {0, 8, 1024, 65536, 1 << 20, 4 << 20};
	enum { MOST = 2000, LEAST = 10, FIRST = 10 };
	static double trip[MOST];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		size_t size = sizes[s];
		char *b = alloc_buffer(size);
		int n;

		MPI_Barrier(MPI_COMM_WORLD);
		for (int i = 0; i < FIRST; i++)
			trip[i] = one_trip(b, size);
		n = (int)(0.2 / (median_of(trip, FIRST) + 1e-6));
		n = n > MOST ? MOST : n < LEAST ? LEAST : n;
		MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
		for (int i = 0; i < n; i++)
			trip[i] = one_trip(b, size);
		print_result(sized_name("latency", size),
			     median_of(trip, n) * 1e6, "us");
		free(b);
	}
}

/* A stream of messages, 32 in flight, from rank 0 to 1. */
static void measure_bandwidth(void)
{
	static const size_t sizes[] = {8, 1024, 65536, 1 << 20, 4 << 20};
	enum { WINDOW = 32 };
	MPI_Request req[WINDOW];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		size_t size = sizes[s];
		int rounds = size > 500000 ? 4 : size > 5000 ? 60 : 500;
		char *b = alloc_buffer(size * (rank == 1 ? WINDOW : 1)),
		     ack = 0;
		double t;

		MPI_Barrier(MPI_COMM_WORLD);
		t = clock_seconds();
		for (int r = 0; r < rounds && rank < 2; r++) {
			for (int i = 0; i < WINDOW; i++) {
				if (rank == 0)
					MPI_Isend(b, (int)size, MPI_BYTE, 1, i,
						  MPI_COMM_WORLD, &req[i]);
				else
					MPI_Irecv(b + (size_t)i * size,
						  (int)size, MPI_BYTE, 0, i,
						  MPI_COMM_WORLD, &req[i]);
			}
			MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
		}
		if (rank == 0)
			MPI_Recv(&ack, 1, MPI_BYTE, 1, 99, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		else if (rank == 1)
			MPI_Send(&ack, 1, MPI_BYTE, 0, 99, MPI_COMM_WORLD);
		t = clock_seconds() - t;
		if (rank == 0)
			print_result(sized_name("bandwidth", size),
				     (double)size * WINDOW * rounds / t / 1e6,
				     "MB/s");
		free(b);
	}
}

/*
 * How long rank 0 is held in MPI_Send while rank 1 computes 300 ms, its receive
 * posted before or only after; and how long rank 1 waits when it is done.
 */
static void measure_held(void)
{
	static const size_t sizes[] = {65536, 4 << 20, 32 << 20};
	enum { TIMES = 3 };
	char name[64];

	for (int posted = 1; posted >= 0; posted--) {
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			size_t size = sizes[s];
			double out[TIMES], in[TIMES], t;
			char *b = alloc_buffer(size);
			MPI_Request req;

			for (int i = 0; i < TIMES; i++) {
				if (rank == 1 && posted)
					MPI_Irecv(b, (int)size, MPI_BYTE, 0, 1,
						  MPI_COMM_WORLD, &req);
				MPI_Barrier(MPI_COMM_WORLD);
				t = clock_seconds();
				if (rank == 0) {
					compute_for(
						0.01); /* the other is away */
					t = clock_seconds();
					MPI_Send(b, (int)size, MPI_BYTE, 1, 1,
						 MPI_COMM_WORLD);
				} else if (rank == 1) {
					compute_for(0.3);
					t = clock_seconds();
					if (!posted)
						MPI_Irecv(b, (int)size,
							  MPI_BYTE, 0, 1,
							  MPI_COMM_WORLD, &req);
					MPI_Wait(&req, MPI_STATUS_IGNORE);
					if (b[0] != 1 || b[size - 1] != 1)
						exit_failed("wrong data");
				}
				out[i] = in[i] = clock_seconds() - t;
				MPI_Bcast(&in[i], 1, MPI_DOUBLE, 1,
					  MPI_COMM_WORLD);
			}
			snprintf(name, sizeof(name), "%s-%s",
				 sized_name("held", size),
				 posted ? "posted" : "unposted");
			print_result(name, median_of(out, TIMES) * 1e3, "ms");
			snprintf(name, sizeof(name), "%s-%s",
				 sized_name("left", size),
				 posted ? "posted" : "unposted");
			print_result(name, median_of(in, TIMES) * 1e3, "ms");
			free(b);
		}
	}
}

/* Both ways at once behind 300 ms of work: what it adds to them. */
static void measure_overlap(void)
{
	static const size_t sizes[] = {65536, 4 << 20, 32 << 20};
	enum { TIMES = 3 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		size_t size = sizes[s];
		char *a = alloc_buffer(size), *b = alloc_buffer(size);
		double v[TIMES];

		for (int i = 0; i < TIMES; i++) {
			MPI_Request req[2];

			MPI_Barrier(MPI_COMM_WORLD);
			v[i] = clock_seconds();
			if (rank < 2) {
				MPI_Irecv(b, (int)size, MPI_BYTE, 1 - rank, 1,
					  MPI_COMM_WORLD, &req[0]);
				MPI_Isend(a, (int)size, MPI_BYTE, 1 - rank, 1,
					  MPI_COMM_WORLD, &req[1]);
				compute_for(0.3);
				MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
				if (b[size - 1] != 2 - rank)
					exit_failed("wrong data");
			}
			v[i] = clock_seconds() - v[i] - 0.3;
		}
		print_result(sized_name("overlap-added", size),
			     median_of(v, TIMES) * 1e3, "ms");
		free(a);
		free(b);
	}
}

/* Trips of a small message until `req` is done: their mean, and the longest. */
static double trips_during(MPI_Request *req, double *longest)
{
	char go = 1, stop = 0;
	double all = 0;
	int gone = 0, n = 0;

	*longest = 0;
	while (!gone) {
		double trip = clock_seconds();

		MPI_Send(&go, 1, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
		MPI_Recv(&go, 1, MPI_BYTE, 1, 8, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		trip = clock_seconds() - trip;
		*longest = trip > *longest ? trip : *longest;
		all += trip;
		n++;
		MPI_Test(req, &gone, MPI_STATUS_IGNORE);
	}
	MPI_Send(&stop, 1, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
	return all / n;
}

/*
 * Small ping-pong while 32 MB go the same way. Not the median of some number
 * of trips: where the first one waits for all of the 32 MB, the others are
 * beside nothing.
 */
static void measure_mixed(void)
{
	enum { SIZE = 32 << 20 };
	double mean = 0, longest = 0;
	char *b = alloc_buffer(SIZE), go = 1;
	MPI_Request req;

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Isend(b, SIZE, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &req);
		mean = trips_during(&req, &longest);
	} else if (rank == 1) {
		MPI_Irecv(b, SIZE, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &req);
		while (MPI_Recv(&go, 1, MPI_BYTE, 0, 8, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE),
		       go)
			MPI_Send(&go, 1, MPI_BYTE, 0, 8, MPI_COMM_WORLD);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		if (b[0] != 1 || b[SIZE - 1] != 1)
			exit_failed("wrong data");
	}
	print_result("small-during-32M", mean * 1e6, "us");
	print_result("small-during-32M-longest", longest * 1e6, "us");
	free(b);
}

/* One round of each pattern; `a` and `b` have room for all that it moves. */
enum { HALO = 32768, BLOCK = 16384 };

static void exchange_ring(char *a, char *b)
{
	MPI_Sendrecv(a, 8, MPI_BYTE, (rank + 1) % ranks, 1, b, 8, MPI_BYTE,
		     (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
}

static void exchange_halo(char *a, char *b)
{
	int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;

	MPI_Sendrecv(a, HALO, MPI_BYTE, right, 1, b, HALO, MPI_BYTE, left, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(a, HALO, MPI_BYTE, left, 2, b, HALO, MPI_BYTE, right, 2,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange_allreduce(char *a, char *b)
{
	double in = rank, out = 0;

	(void)a, (void)b;
	MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (out != ranks * (ranks - 1) / 2.0)
		exit_failed("wrong sum");
}

static void exchange_alltoall(char *a, char *b)
{
	MPI_Alltoall(a, BLOCK, MPI_BYTE, b, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
}

/* Time of one round, of as many as fit into half a second or so. */
static void measure_pattern(const char *name, void (*round)(char *, char *))
{
	enum { FIRST = 10, LEAST = 50, MOST = 5000 };
	size_t size = (size_t)BLOCK * (size_t)ranks + HALO;
	char *a = alloc_buffer(size), *b = alloc_buffer(size);
	double t;
	int n;

	MPI_Barrier(MPI_COMM_WORLD);
	t = clock_seconds();
	for (int i = 0; i < FIRST; i++)
		round(a, b);
	n = (int)(0.5 * FIRST / (clock_seconds() - t + 1e-6));
	n = n > MOST ? MOST : n < LEAST ? LEAST : n;
	MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	t = clock_seconds();
	for (int i = 0; i < n; i++)
		round(a, b);
	print_result(name, (clock_seconds() - t) / n * 1e6, "us");
	free(a);
	free(b);
}

static void measure_patterns(void)
{
	measure_pattern("ring", exchange_ring);
	measure_pattern("halo-32K", exchange_halo);
	measure_pattern("allreduce", exchange_allreduce);
	measure_pattern("alltoall-16K", exchange_alltoall);
}

static uint32_t next_key(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33);
}

static void check_sorted(const uint32_t *key, int n, uint64_t total)
{
	uint64_t all = 0, mine = (uint64_t)n;
	uint32_t last = n ? key[n - 1] : 0, before = 0;

	for (int i = 1; i < n; i++)
		if (key[i - 1] > key[i])
			exit_failed("not sorted");
	MPI_Exscan(&last, &before, 1, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
	if (rank > 0 && n > 0 && before > key[0])
		exit_failed("not sorted between ranks");
	MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	if (all != total)
		exit_failed("keys were lost");
}

static int by_key(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Keys to buckets by their top bits, bucket r to rank r. */
static void split_keys(const uint32_t *key, int n, uint32_t *out, int *count,
		       int *start)
{
	int *fill = calloc((size_t)ranks, sizeof(int));

	if (!fill)
		exit_failed("out of memory");
	memset(count, 0, sizeof(int) * (size_t)ranks);
	for (int i = 0; i < n; i++)
		count[(uint64_t)key[i] * (uint64_t)ranks >> 31]++;
	start[0] = 0;
	for (int r = 1; r < ranks; r++)
		start[r] = start[r - 1] + count[r - 1];
	for (int i = 0; i < n; i++) {
		int r = (int)((uint64_t)key[i] * (uint64_t)ranks >> 31);

		out[start[r] + fill[r]++] = key[i];
	}
	free(fill);
}

/* An integer sort in the shape of NAS IS: count, all-to-all of the counts,
 * all-to-all of the keys, again and again. */
static void measure_sort(void)
{
	enum { KEYS = 1 << 19, ROUNDS = 8 };
	uint32_t *key = malloc(sizeof(*key) * KEYS);
	uint32_t *out = malloc(sizeof(*out) * KEYS);
	uint32_t *got = malloc(sizeof(*got) * KEYS * 2);
	int *n = calloc((size_t)ranks * 4, sizeof(int)), total = 0;
	int *send = n, *at = n + ranks, *recv = n + 2 * ranks,
	    *to = n + 3 * ranks;
	uint64_t state = (uint64_t)rank + 1;
	double t;

	if (!key || !out || !got || !n)
		exit_failed("out of memory");
	for (int i = 0; i < KEYS; i++)
		key[i] = next_key(&state);
	MPI_Barrier(MPI_COMM_WORLD);
	t = clock_seconds();
	for (int round = 0; round < ROUNDS; round++) {
		key[round] = (uint32_t)round;
		split_keys(key, KEYS, out, send, at);
		MPI_Alltoall(send, 1, MPI_INT, recv, 1, MPI_INT,
			     MPI_COMM_WORLD);
		total = 0;
		for (int r = 0; r < ranks; r++) {
			to[r] = total;
			total += recv[r];
		}
		if (total > KEYS * 2)
			exit_failed("too many keys");
		MPI_Alltoallv(out, send, at, MPI_UINT32_T, got, recv, to,
			      MPI_UINT32_T, MPI_COMM_WORLD);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	t = clock_seconds() - t;
	qsort(got, (size_t)total, sizeof(*got), by_key);
	check_sorted(got, total, (uint64_t)KEYS * (uint64_t)ranks);
	print_result("sort", (double)KEYS * ranks * ROUNDS / t / 1e6,
		     "Mkeys/s");
	free(key);
	free(out);
	free(got);
	free(n);
}

/* CPU time of a rank that waits one second for a message. */
static void measure_wait(void)
{
	struct rusage a, b;
	double used;
	char c = 0;

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		struct timespec second = {1, 0};

		nanosleep(&second, NULL);
		MPI_Send(&c, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	}
	getrusage(RUSAGE_SELF, &a);
	if (rank == 1)
		MPI_Recv(&c, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
	getrusage(RUSAGE_SELF, &b);
	used = (double)(b.ru_utime.tv_sec - a.ru_utime.tv_sec) +
	       (double)(b.ru_utime.tv_usec - a.ru_utime.tv_usec) * 1e-6 +
	       (double)(b.ru_stime.tv_sec - a.ru_stime.tv_sec) +
	       (double)(b.ru_stime.tv_usec - a.ru_stime.tv_usec) * 1e-6;
	MPI_Bcast(&used, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	print_result("wait-cpu", used * 100, "%");
}

static const struct {
	const char *name;
	void (*run)(void);
} questions[] = {
	{"latency", measure_latency}, {"bandwidth", measure_bandwidth},
	{"held", measure_held},	      {"overlap", measure_overlap},
	{"mixed", measure_mixed},     {"patterns", measure_patterns},
	{"sort", measure_sort},	      {"wait", measure_wait},
};

int main(int argc, char **argv)
{
	int known = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks < 2)
		exit_failed("2 ranks or more are needed");
	for (int i = 1; i < argc; i++) {
		for (size_t q = 0; q < sizeof(questions) / sizeof(questions[0]);
		     q++) {
			if (strcmp(argv[i], questions[q].name))
				continue;
			known++;
			questions[q].run();
			MPI_Barrier(MPI_COMM_WORLD);
		}
	}
	if (argc < 2 || known != argc - 1)
		exit_failed(
			"words: latency bandwidth held overlap mixed patterns "
			"sort wait");
	MPI_Finalize();
	return 0;
}
