/* SPDX-License-Identifier: MIT */
/* OmniRPC's functions for workers that are MPI jobs. */
#include <OmniRpc.h>
#include <math.h>

static int bad;

static void expect_that(int yes, const char *what)
{
	if (!yes) {
		printf("wrong: %s\n", what);
		bad = 1;
	}
}

static void call_pi(void)
{
	OmniRpcHandle two = OmniRpcMpiCreateHandle(2, "ranks");
	OmniRpcRequest r[2];
	double pi[3];
	int n[3];

	r[0] = OmniRpcMpiCallAsyncByHandle(two, 2, "pi", 1000, &pi[0], &n[0]);
	r[1] = OmniRpcMpiCallAsync("ranks.pi", 3, 1000, &pi[1], &n[1]);
	expect_that(!OmniRpcWaitAll(2, r), "the calls ended well");
	OmniRpcWait(OmniRpcCallAsyncMPI("pi", 1, 1000, &pi[2], &n[2]));
	expect_that(n[0] == 2 && n[1] == 3 && n[2] == 1,
		    "the numbers of ranks");
	expect_that(fabs(pi[0] - M_PI) < 1e-5 && fabs(pi[1] - M_PI) < 1e-5 &&
			    fabs(pi[2] - M_PI) < 1e-5,
		    "pi");
	expect_that(OmniRpcMpiCheckHandle(two) == 1, "the handle is alive");
	expect_that(OmniRpcMpiAskHandleAlive(OmniRpcGetRPID(two)) == 1,
		    "by number");
	expect_that(OmniRpcMpiAskHandleAlive(99) == 0, "another number");
	expect_that(OmniRpcMpiStopHeartBeat(two) == 0 &&
			    OmniRpcMpiCheckHandle(two) == 0,
		    "the heart beat was stopped");
	expect_that(OmniRpcMpiGetErrorHandleId(-1) == OmniRpcGetRPID(two),
		    "which handle is lost");
	expect_that(OmniRpcMpiGetErrorHandleId(0) == -1, "no handle is lost");
}

static void call_spread(void)
{
	OmniRpcHandle two = OmniRpcMpiCreateHandle(2, "ranks");
	double x[4] = {1, 2, 3, 4};
	char *back = NULL;

	OmniRpcWait(OmniRpcMpiCallAsyncByHandle(two, 2, "spread", 4, x, "last",
						&back, NULL));
	expect_that(x[0] == 2 && x[3] == 8, "each rank had the array");
	expect_that(back && !strcmp(back, "last of 1"),
		    "each rank had the string");
	free(back);
}

static int asked;

/* Rank i weighs element i and those that follow at a distance of size. */
static void give_weights(int rank, int size, const double *y, double *w)
{
	int j;

	asked++;
	for (j = 0; j < 4; j++)
		w[j] = j % size == rank ? y[j] : 0;
}

static void add_comment(const char *text, char **answer)
{
	char line[64];

	snprintf(line, sizeof(line), "%s with %d answers", text, asked);
	*answer = strdup(line);
}

static void call_weigh(void)
{
	double x[4] = {1, 2, 3, 4}, sum[2] = {0, 0};
	OmniRpcRequest r[2];
	char *said[2] = {NULL, NULL};

	r[0] = OmniRpcMpiCallAsync("weigh", 3, 4, x, &sum[0], &said[0],
				   give_weights, add_comment);
	OmniRpcWait(r[0]);
	expect_that(sum[0] == 30 && asked == 3, "rank 0 asked for each rank");
	expect_that(said[0] && !strcmp(said[0], "all weighed with 3 answers"),
		    "strings of a function of the master");
	r[1] = OmniRpcMpiCallAsync("weigh", 3, 4, x, &sum[1], &said[1],
				   give_weights, add_comment);
	OmniRpcWait(r[1]);
	expect_that(sum[1] == 30 && asked == 6, "the same job asked again");
	free(said[0]);
	free(said[1]);
}

/* A job stays for calls with as many ranks; each begins with Initialize. */
static void call_state(void)
{
	int value, count[4];

	OmniRpcWait(OmniRpcMpiCallAsync("state", 2, &value, &count[0]));
	OmniRpcWait(OmniRpcMpiCallAsync("state", 2, &value, &count[1]));
	expect_that(value == 7, "Initialize was run first");
	expect_that(count[1] == count[0] + 1, "the job stayed");
	OmniRpcWait(OmniRpcMpiCallAsync("state", 3, &value, &count[2]));
	expect_that(value == 7 && count[2] == 1, "another job began");
	OmniRpcCall("state", &value, &count[3]);
	expect_that(value == 7, "a call without a number of ranks");
}

static void add_one(int n, int *m)
{
	*m = n + 1;
}

static void call_marked(void)
{
	int n = 0;

	OmniRpcWait(OmniRpcMpiCallAsync("marked.size", 2, &n));
	expect_that(n == 2, "a marked function");
	OmniRpcWait(OmniRpcMpiCallAsync("marked.called", 2, &n, 21));
	expect_that(n == 42, "a marked function of another file");
	OmniRpcCall("marked.alone", &n);
	expect_that(n == 1, "one that is not marked");
	OmniRpcCall("marked.twice", 5, &n, add_one);
	expect_that(n == 13, "one that is not marked calls the master");
	OmniRpcWait(OmniRpcMpiCallAsync("plain.double_it", 1, 4, &n));
	expect_that(n == 8, "a worker that is no job, with one rank");
}

int main(int argc, char *argv[])
{
	int list[2] = {3, 7};

	OmniRpcMpiInit(&argc, &argv);
	OmniRpcModuleInit("ranks", 2, list);
	call_pi();
	call_spread();
	call_weigh();
	call_state();
	if (argc > 1)
		call_marked();
	OmniRpcMpiFinalize();
	puts(bad ? "wrong" : "right");
	return 0;
}
