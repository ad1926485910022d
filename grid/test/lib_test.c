// SPDX-License-Identifier: MIT
/* libskeprpc against a hub of the test's own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grid/include/OmniRpc.h>
#include <grid/lib/client.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <tests/tap.h>
#include <unistd.h>

#include "hub.h"

#define BIG (4l << 20) /* doubles: eight windows */
#define MANY 200

static struct hub hub;

static int message_has(const char *words)
{
	return !!strstr(OmniRpcLastErrorText(), words);
}

/* Standard error, while a test looks at it. */
static int seen_file = -1, kept_error;

static void watch_error(void)
{
	seen_file = memfd_create("stderr", 0);
	fcntl(seen_file, F_SETFL, O_APPEND);
	kept_error = dup(STDERR_FILENO);
	dup2(seen_file, STDERR_FILENO);
}

static void leave_error(void)
{
	dup2(kept_error, STDERR_FILENO);
	close(kept_error);
	close(seen_file);
}

/* Were there so many lines since the last look, and these words in them? */
static int stderr_has(int lines, const char *words)
{
	char text[8192] = "";
	long i, n = pread(seen_file, text, sizeof(text) - 1, 0);
	int found = 0;

	for (i = 0; i < n; i++)
		found += text[i] == '\n';
	printf("# %d lines: %.300s\n", found, text);
	return !ftruncate(seen_file, 0) && found == lines &&
	       strstr(text, words);
}

static void test_without_hub(void)
{
	unsetenv("SKEP_SOCKET");
	setenv("SKEP_PROGRAM", "/nowhere/skep", 1);
	tap_ok(OmniRpcInit(NULL, NULL) == OMRPC_E_NO_HUB &&
		       message_has("skep run"),
	       "without skep run, init says how to start");
	setenv("SKEP_SOCKET", "/nowhere/at/all", 1);
	tap_ok(OmniRpcInit(NULL, NULL) == OMRPC_E_NO_HUB &&
		       message_has("/nowhere/at/all") &&
		       message_has("skep run"),
	       "a missing socket is named");
	tap_ok(!OmniRpcCallAsync("demo.sum", 0l, NULL, NULL) &&
		       message_has("OmniRpcInit"),
	       "calls before init are refused");
	tap_ok(OmniRpcWait(NULL) == OMRPC_ERROR &&
		       OmniRpcFinalize() == OMRPC_ERROR,
	       "every other function before init is refused");
}

static void test_calls(void)
{
	double x[3] = {1, 2, 3}, total = 0;
	struct skep_info info;
	OmniRpcRequest r;
	OmniRpcHandle h;

	tap_ok(OmniRpcCall("demo.sum", 3l, x, &total) == OMRPC_OK && total == 6,
	       "a call by module and function");
	total = 0;
	tap_ok(OmniRpcCall("sum", 2l, x, &total) == OMRPC_OK && total == 3,
	       "a call by function alone");
	h = OmniRpcCreateHandle(NULL, "demo");
	tap_ok(h && OmniRpcCallByHandle(h, "scale", 3, 0.5, x) == OMRPC_OK &&
		       x[2] == 1.5 && OmniRpcDestroyHandle(h) == OMRPC_OK,
	       "a call by handle changes an INOUT array");
	tap_ok(OmniRpcCall("nothing") == OMRPC_OK, "a call without arguments");
	total = 1;
	tap_ok(OmniRpcCall("sum", 0l, NULL, &total) == OMRPC_OK && total == 0,
	       "an array without elements may be null");
	tap_ok(OmniRpcModuleInit("demo", 3, x) == OMRPC_OK,
	       "a module is initialised");
	r = OmniRpcCallAsync("sum", 3l, x, &total);
	tap_ok(r && OmniRpcWait(r) == OMRPC_OK && OmniRpcProbe(r) == 1 &&
		       total == 3,
	       "a call is waited for");
	tap_ok(!skep_call_info(r, &info) && !strcmp(info.node, "a-node") &&
		       info.substrate == SKEP_INFO_BEE_LINUX &&
		       info.attempt == 2 && info.exec_ns == 1234 &&
		       info.wall_ns && info.bytes_in == 32 &&
		       info.bytes_out == 8 && info.nonce == 11 &&
		       info.calls == 22 && info.program[2] == 3,
	       "a call reports its node and substrate");
	OmniRpcDestroyRequest(r);
}

static void test_types(void)
{
	int64_t r[6];
	short io = -21;
	char c = -7;
	unsigned short s = 65535;
	float f = 0.25f;

	tap_ok(OmniRpcCall("types", c, s, INT64_MIN, f, -1.5, "four", NULL, r,
			   &io) == OMRPC_OK &&
		       r[0] == -7 && r[1] == 65535 && r[2] == INT64_MIN &&
		       r[3] == 250 && r[4] == -1500 && r[5] == 4 && io == -42,
	       "every type arrives as it was given");
}

static void test_errors(void)
{
	OmniRpcRequest r;
	double x = 0;

	tap_ok(OmniRpcCall("other.f") == OMRPC_E_NO_MODULE &&
		       message_has("no worker program"),
	       "a module that is not there");
	tap_ok(OmniRpcCall("demo.other") == OMRPC_E_NO_FUNCTION &&
		       message_has("other"),
	       "a function that is not there");
	tap_ok(OmniRpcCall("fail") == OMRPC_E_WORKER &&
		       message_has("it fell over"),
	       "a worker's error is reported");
	tap_ok(OmniRpcCall("sum", 1l, NULL, &x) == OMRPC_E_ARGUMENTS &&
		       message_has("argument x of demo.sum"),
	       "a null array is named");
	tap_ok(OmniRpcCall("sum", 1l, &x, NULL) == OMRPC_E_ARGUMENTS &&
		       message_has("argument total"),
	       "a null scalar is named");
	tap_ok(OmniRpcCall("scale", -1, 1.0, &x) == OMRPC_E_ARGUMENTS,
	       "a negative size is refused");
	tap_ok(OmniRpcCall("Initialize", 0, &x) == OMRPC_E_NO_FUNCTION &&
		       message_has("OmniRpcModuleInit"),
	       "initialize cannot be called as a function");
	tap_ok(!OmniRpcCreateHandle("some@where", "demo") &&
		       message_has("some@where"),
	       "what is no name of a host is refused");
	r = OmniRpcCallAsync("hang");
	tap_ok(r && !OmniRpcProbe(r) && !OmniRpcCancel(r) &&
		       OmniRpcWait(r) == OMRPC_E_CANCELLED,
	       "a call is cancelled");
	OmniRpcDestroyRequest(r);
	r = OmniRpcCallAsync("hang");
	tap_ok(r && !OmniRpcDestroyRequest(r), "a call under way is destroyed");
}

static void fail_together(void)
{
	OmniRpcRequest r[5];
	int i;

	for (i = 0; i < 5; i++)
		r[i] = OmniRpcCallAsync("fail");
	while (!OmniRpcProbe(r[0]))
		usleep(1000);
	OmniRpcWaitAll(5, r);
	OmniRpcWaitAll(5, r);
	for (i = 0; i < 5; i++) {
		OmniRpcWaitAny(5, r);
		OmniRpcDestroyRequest(r[i]);
		r[i] = NULL;
	}
}

static void test_lines(void)
{
	double x[3] = {1, 2, 3}, total;

	watch_error();
	OmniRpcCall("demo.sum", 3l, x, &total);
	OmniRpcDestroyRequest(OmniRpcCallAsync("hang"));
	tap_ok(stderr_has(0, ""),
	       "successful and cancelled calls print nothing");
	OmniRpcCall("fail");
	tap_ok(stderr_has(1, "skep: demo.fail, call "),
	       "a failed call prints one line");
	OmniRpcCall("fail");
	tap_ok(stderr_has(1, "failed: it fell over\n"),
	       "the line gives the reason");
	fail_together();
	tap_ok(stderr_has(5, "it fell over"),
	       "each of many failed calls prints one line");
	OmniRpcWait(OmniRpcCallAsync("sum", 1l, NULL, &total));
	tap_ok(stderr_has(1, "skep: sum failed: argument x of demo.sum"),
	       "a call that is not sent prints one line");
	OmniRpcCall("demo.oth\n\x1b"
		    "er");
	tap_ok(stderr_has(1, "skep: demo.oth  er failed: module demo has no "),
	       "a line has no newline and no control characters");
	OmniRpcModuleInit("other", 3, x);
	tap_ok(stderr_has(1, "skep: other.Initialize failed: "),
	       "a missing module prints one line");
	OmniRpcModuleInit("demo", 0, x);
	tap_ok(stderr_has(1, "skep: demo.Initialize, call "),
	       "a failed initialize prints one line");
	OmniRpcCallByHandle(NULL, "sum");
	tap_ok(stderr_has(1, "skep: sum failed: the handle is NULL"),
	       "an invalid handle prints one line");
	leave_error();
}

static void test_many(void)
{
	static double x[MANY][50], total[MANY];
	OmniRpcRequest r[MANY];
	int i, seen[MANY] = {0}, good = 0;

	for (i = 0; i < MANY; i++) {
		x[i][49] = i;
		r[i] = OmniRpcCallAsync("demo.sum", 50l, x[i], &total[i]);
	}
	tap_ok(OmniRpcWaitAll(MANY, r) == OMRPC_OK,
	       "many calls are waited for");
	for (i = 0; i < MANY; i++)
		good += total[i] == i;
	tap_ok(good == MANY, "each has its own result");
	for (i = 0; i < MANY; i++)
		seen[OmniRpcWaitAny(MANY, r)]++;
	for (good = 0, i = 0; i < MANY; i++)
		good += seen[i] == 1;
	tap_ok(good == MANY && OmniRpcWaitAny(MANY, r) == OMRPC_ERROR,
	       "waiting for any call returns each once");
	for (i = 0; i < MANY; i++)
		OmniRpcDestroyRequest(r[i]);
}

static void *run_caller(void *arg)
{
	double *bad = arg, x[3000], total;
	int i, n;

	for (i = 0; i < 100; i++) {
		n = 1 + i * 29;
		memset(x, 0, sizeof(x));
		x[n - 1] = i;
		if (OmniRpcCall("demo.sum", (long)n, x, &total) || total != i)
			*bad += 1;
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t thread[8];
	double bad[8] = {0}, sum = 0;
	int i;

	for (i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, run_caller, &bad[i]);
	for (i = 0; i < 8; i++) {
		pthread_join(thread[i], NULL);
		sum += bad[i];
	}
	tap_ok(sum == 0, "eight threads call at the same time");
}

static void test_big(void)
{
	double *x = malloc(BIG * sizeof(*x));
	long i, bad = 0;

	for (i = 0; i < BIG; i++)
		x[i] = (double)i;
	tap_ok(OmniRpcCall("demo.scale", (int)BIG, 2.0, x) == OMRPC_OK,
	       "arguments beyond the window are sent and come back");
	for (i = 0; i < BIG; i++)
		bad += x[i] != 2.0 * (double)i;
	tap_ok(!bad, "arguments beyond the window arrive unchanged");
	free(x);
}

#define WHOLE 300000 /* doubles: several frames */

/* An array whose second half may be used as `second` says. */
static double *make_halves(int second)
{
	u64 half = WHOLE * sizeof(double) / 2 & ~0xfffull;
	u8 *at = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(at + half, half, second);
	return (double *)at;
}

static int call_works(void)
{
	double x[3] = {1, 2, 3}, total = 0;

	return !OmniRpcCall("demo.sum", 3l, x, &total) && total == 6;
}

int __real_grid_stream_send(struct grid_stream *s, u16 type, u64 call,
			    const void *payload, u32 length);
int __wrap_grid_stream_send(struct grid_stream *s, u16 type, u64 call,
			    const void *payload, u32 length);

/* The linker puts it in place of the library's. The reader is as fast as it can
 * be: whoever cancels a call goes on when the hub's answer has ended it. */
int __wrap_grid_stream_send(struct grid_stream *s, u16 type, u64 call,
			    const void *payload, u32 length)
{
	void *c = (u8 *)s - offsetof(struct grid_client, stream);
	int err = __real_grid_stream_send(s, type, call, payload, length);

	while (!err && type == SKEP_CANCEL && grid_client_find(c, call))
		usleep(1000);
	return err;
}

/* Memory that is not the program's, on a hub that keeps sessions or not. */
static void test_memory(enum hub_manner manner)
{
	enum { LEN = WHOLE / 2 + 20000 };
	const char *keeps = manner == HUB_GOOD	  ? "not kept"
			    : manner == HUB_KEEPS ? "kept"
						  : "kept, long frames";
	double *none = make_halves(PROT_NONE), *fixed = make_halves(PROT_READ);
	double *gone = mmap(NULL, 0x1000, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double total = 7;
	u64 calls;

	hub_start(&hub, manner);
	OmniRpcInit(NULL, NULL);
	watch_error();
	tap_ok(OmniRpcCall("demo.sum", (long)LEN, none, &total) ==
			       OMRPC_E_ARGUMENTS &&
		       message_has("argument x cannot be read") && total == 7,
	       "%s: half of an array is not the program's memory", keeps);
	tap_ok(stderr_has(1, "argument x cannot be read"), "%s: it prints one",
	       keeps);
	tap_ok(call_works(), "%s: the session goes on", keeps);
	tap_ok(OmniRpcCall("demo.sum", 100l, gone, &total) ==
			       OMRPC_E_ARGUMENTS &&
		       message_has("argument x cannot be read") && call_works(),
	       "%s: a small array is not either", keeps);
	tap_ok(!OmniRpcCallAsync("demo.sum", (long)LEN, none, &total) &&
		       message_has("argument x") && call_works(),
	       "%s: a call is not begun with it", keeps);
	calls = hub.calls;
	tap_ok(OmniRpcCall("demo.scale", LEN, 2.0, fixed) ==
			       OMRPC_E_ARGUMENTS &&
		       message_has("argument x of scale cannot be written") &&
		       hub.calls == calls + 1 && !hub.again,
	       "%s: a result that has no place ends its call once", keeps);
	tap_ok(call_works(), "%s: the session goes on", keeps);
	mprotect(fixed, 0x1000, PROT_READ);
	tap_ok(OmniRpcCall("demo.scale", 100, 2.0, fixed) ==
			       OMRPC_E_ARGUMENTS &&
		       message_has("cannot be written") && call_works(),
	       "%s: nor has a small one", keeps);
	OmniRpcFinalize();
	hub_stop(&hub);
	leave_error();
	tap_ok(!hub.broken, "%s: every frame was in its place", keeps);
	tap_ok(hub.taken == (manner == HUB_GOOD ? 3 : 0),
	       "%s: what was begun is taken back", keeps);
	munmap(none, WHOLE * sizeof(double) & ~0x1fffull);
	munmap(fixed, WHOLE * sizeof(double) & ~0x1fffull);
	munmap(gone, 0x1000);
}

/* The last frame of arguments that are kept is a short one. */
static void test_window(void)
{
	enum { LEN = 50000, TIMES = 64 };
	double *x = calloc(LEN, sizeof(*x));
	int i, good = 0;

	hub_start(&hub, HUB_KEEPS);
	OmniRpcInit(NULL, NULL);
	for (i = 0; i < TIMES; i++)
		good += OmniRpcCall("demo.scale", LEN, 2.0, x) == OMRPC_OK;
	OmniRpcFinalize();
	hub_stop(&hub);
	free(x);
	tap_ok(good == TIMES && !hub.broken,
	       "kept arguments take from the window what was sent");
}

static void test_good(void)
{
	hub_start(&hub, HUB_GOOD);
	tap_ok(OmniRpcInit(NULL, NULL) == OMRPC_OK, "a session is opened");
	tap_ok(OmniRpcInit(NULL, NULL) == OMRPC_ERROR,
	       "a session is not opened twice");
	test_calls();
	test_types();
	test_errors();
	test_lines();
	test_many();
	test_threads();
	test_big();
	watch_error();
	OmniRpcCallAsync("hang");
	tap_ok(OmniRpcFinalize() == OMRPC_OK && stderr_has(0, ""),
	       "finalize drops what still runs");
	leave_error();
	hub_stop(&hub);
	tap_ok(!hub.broken, "the client followed the protocol");
	tap_ok(hub.unacked_max <= SKEP_SESSION_WINDOW &&
		       hub.unacked_max > SKEP_SESSION_WINDOW / 2,
	       "the window was used and not exceeded");
	tap_ok(hub.sent - hub.sent_acked < 4096,
	       "a large result is acknowledged to its end");
	tap_ok(hub.inits == 2, "each initialize was sent once");
}

/* One call of a session in which the hub misbehaves. */
static int call_once(enum hub_manner manner)
{
	double *x = calloc(10000, sizeof(*x));
	int code;

	hub_start(&hub, manner);
	code = OmniRpcInit(NULL, NULL);
	if (!code)
		code = OmniRpcCall("demo.scale", 10000, 2.0, x);
	/* Again, when the library knows already. */
	if (manner == HUB_BREAKS && code == OMRPC_E_NO_HUB)
		code = OmniRpcCall("demo.scale", 10000, 2.0, x);
	free(x);
	return code;
}

static void test_bad_hubs(void)
{
	static const struct {
		enum hub_manner manner;
		int code;
		const char *name, *says;
	} cases[] = {
		{HUB_OLD, OMRPC_E_REVISION, "another revision is named",
		 "OmniRpcInit: the hub speaks"},
		{HUB_NONSENSE, OMRPC_E_PROTOCOL,
		 "a server that is not a hub is named as such",
		 "OmniRpcInit: "},
		{HUB_LONG, OMRPC_E_PROTOCOL,
		 "a result that does not fit is refused",
		 "demo.scale, call 1 of this program, failed: the result of"},
		{HUB_BREAKS, OMRPC_E_NO_HUB, "calls end when the hub goes away",
		 "skep: demo.scale failed: the hub closed the session"},
		{HUB_TORN, OMRPC_E_INTERNAL,
		 "an error in the middle of a result ends its call",
		 "call 1 of this program, failed on node a-node: "},
		{HUB_ENDS, OMRPC_E_REFUSED,
		 "an error of the session ends its calls",
		 "demo.scale, call 1"},
		{HUB_WRONG, OMRPC_E_PROTOCOL,
		 "a result for no call ends the session", "demo.scale, call 1"},
	};
	u32 i;

	watch_error();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tap_ok(call_once(cases[i].manner) == cases[i].code, "%s",
		       cases[i].name);
		tap_ok(stderr_has(cases[i].manner == HUB_BREAKS ? 2 : 1,
				  cases[i].says),
		       "%s: one line for each call", cases[i].name);
		OmniRpcFinalize();
		hub_stop(&hub);
	}
	tap_ok(stderr_has(0, ""), "the end of a session prints no line");
	leave_error();
}

#define KEPT_MAX (256u << 20) /* bytes that a library keeps for a session */

/* A hub that is killed four times; each time there is another. */
static void test_killed_hub(void)
{
	static double x[10000], large[200000], huge[KEPT_MAX / sizeof(double)];
	double total = 0;
	OmniRpcRequest hangs, kept, lost;
	int i, good = 1;

	watch_error();
	hub_start(&hub, HUB_KILLED);
	for (i = 0; i < 10000; i++)
		x[i] = i;
	OmniRpcInit(NULL, NULL);
	tap_ok(OmniRpcCall("demo.scale", 10000, 2.0, x) == OMRPC_OK,
	       "a call ends although three hubs were killed before its end");
	for (i = 0; i < 10000; i++)
		good &= x[i] == 2.0 * i;
	tap_ok(good, "a result that came in part did not change its arguments");
	tap_ok(stderr_has(0, ""), "that prints no line");
	hangs = OmniRpcCallAsync("demo.hang");
	kept = OmniRpcCallAsync("demo.sum", 200000l, large, &total);
	lost = OmniRpcCallAsync("demo.sum", (long)(KEPT_MAX / sizeof(double)),
				huge, &total);
	tap_ok(OmniRpcCall("demo.nothing") == OMRPC_OK,
	       "the fifth hub answers");
	tap_ok(!OmniRpcProbe(hangs), "a call goes on with it");
	tap_ok(OmniRpcProbe(kept) == 0, "so does one with large arguments");
	tap_ok(OmniRpcWait(lost) == OMRPC_E_NO_HUB &&
		       stderr_has(1, "arguments were not kept"),
	       "a call that is too large to be kept ends with that reason");
	tap_ok(OmniRpcCancel(hangs) == OMRPC_OK &&
		       OmniRpcWait(hangs) == OMRPC_E_CANCELLED &&
		       OmniRpcCancel(kept) == OMRPC_OK &&
		       OmniRpcWait(kept) == OMRPC_E_CANCELLED,
	       "calls that went on can be cancelled");
	tap_ok(OmniRpcCall("demo.nothing") == OMRPC_E_INTERNAL &&
		       stderr_has(1, "the session is over"),
	       "a session that is over is not looked for again");
	OmniRpcFinalize();
	leave_error();
	hub_stop(&hub);
	tap_ok(!hub.broken && hub.again == 5,
	       "the client followed the protocol and sent %d calls again",
	       (int)hub.again);
}

/* As `skep run` says it in SKEP_KEEP_RUNS. */
static void test_again_for(void)
{
	static const char *const none[] = {"",	 "0",  "-1",	  "x",
					   "5x", "1 ", "31536001"};
	u64 minute = 60000000000ull;
	u32 i;

	tap_ok(grid_again_for("1") == 1000000000 &&
		       grid_again_for("300") == 5 * minute &&
		       grid_again_for("31536000") == 525600 * minute,
	       "a hub is looked for as long as it keeps runs");
	for (i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (grid_again_for(none[i]) != minute)
			break;
	tap_ok(i == sizeof(none) / sizeof(none[0]) &&
		       grid_again_for(NULL) == minute,
	       "for a minute, if nobody says how long that is");
}

/* A detached program's call that cannot be kept is not accepted; others are. */
static void test_nowhere_to_keep(void)
{
	long n = KEPT_MAX / sizeof(double) + 1;
	double *huge = calloc((size_t)n, sizeof(*huge)), total = 0;

	watch_error();
	setenv("SKEP_KEEP", "/nonexistent", 1);
	hub_start(&hub, HUB_KEEPS);
	OmniRpcInit(NULL, NULL);
	tap_ok(OmniRpcCall("demo.sum", n, huge, &total) == OMRPC_E_NO_MEMORY &&
		       stderr_has(1, "and /nonexistent has no room for "
				     "268435472 bytes: No such file"),
	       "a detached program's call that is not kept is not accepted");
	tap_ok(OmniRpcCall("demo.nothing") == OMRPC_OK && stderr_has(0, ""),
	       "its other calls are");
	OmniRpcFinalize();
	unsetenv("SKEP_KEEP");
	leave_error();
	hub_stop(&hub);
	free(huge);
}

#define SOON 20000000ull /* ns */

/* Nobody accepts: one connection waits in the queue, others for a place. */
static void test_deaf_hub(void)
{
	static struct grid_stream s;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), i, good = 1;
	u32 theirs;

	snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/skep-deaf-test-%d",
		 getpid());
	unlink(at.sun_path);
	tap_ok(!bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 0),
	       "a socket that nobody serves");
	for (i = 0; i < 3; i++)
		good &= grid_stream_open(&s, at.sun_path, grid_clock() + SOON,
					 &theirs) == -ETIMEDOUT;
	tap_ok(good, "a hub that does not accept is not waited for forever");
	close(fd);
	unlink(at.sun_path);
}

/* Drops one connection, then there is nobody, then another hub. */
static void *die_once(void *arg)
{
	const char *path = getenv("SKEP_SOCKET");
	int *fd = arg;

	close(accept(*fd, NULL, NULL));
	close(*fd);
	usleep(50000);
	unlink(path);
	usleep(50000);
	*fd = symlink(hub.path, path);
	return NULL;
}

static void test_hub_killed_at_first(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	pthread_t dies;

	hub_start(&hub, HUB_GOOD);
	snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/skep-dies-test-%d",
		 getpid());
	unlink(at.sun_path);
	setenv("SKEP_SOCKET", at.sun_path, 1);
	tap_ok(!bind(fd, (struct sockaddr *)&at, sizeof(at)) &&
		       !listen(fd, 4) &&
		       !pthread_create(&dies, NULL, die_once, &fd),
	       "a hub that is killed before its HELLO");
	tap_ok(OmniRpcInit(NULL, NULL) == OMRPC_OK &&
		       OmniRpcCall("demo.nothing") == OMRPC_OK,
	       "a program that begins then waits for the next hub");
	pthread_join(dies, NULL);
	tap_ok(!fd, "which had another socket");
	OmniRpcFinalize();
	unlink(at.sun_path);
	hub_stop(&hub);
}

/* One that was stopped for an hour has looked for a hub for 10 s. */
static void test_stopped_program(void)
{
	struct grid_patience p = {25000000000ull};
	u64 now = grid_clock(), until = grid_patience_until(&p);

	tap_ok(until >= now + GRID_TRY && until <= grid_clock() + GRID_TRY,
	       "a try waits for ten seconds");
	tap_ok(grid_patience_spend(&p, 3600000000000ull) &&
		       p.left == 15000000000ull,
	       "an hour in which a program was stopped counts as one try");
	tap_ok(grid_patience_spend(&p, 14000000000ull) &&
		       grid_patience_until(&p) <= grid_clock() + p.left,
	       "the last try waits for what is left");
	tap_ok(!grid_patience_spend(&p, 5000000000ull) && !p.left,
	       "then no other follows");
}

static void test_silent_hub(void)
{
	static struct grid_stream s;
	static struct hub silent;
	u32 theirs;
	int err;

	hub_start(&silent, HUB_SILENT);
	err = grid_stream_open(&s, silent.path, grid_clock() + SOON, &theirs);
	tap_ok(err == -ETIMEDOUT,
	       "a hub that stops in its HELLO is not waited for forever");
	hub_stop(&silent);
	hub_start(&hub, HUB_KEEPS);
	err = grid_stream_open(&s, hub.path, grid_clock() + 1000 * SOON,
			       &theirs);
	tap_ok(!err && !s.until, "a hub that answers is");
	grid_stream_cut(&s);
	hub_stop(&hub);
	hub_start(&silent, HUB_SILENT);
	memcpy(silent.session, s.session, sizeof(s.session));
	silent.life = 1;
	err = grid_stream_reopen(&s, silent.path, grid_clock() + SOON, &theirs);
	tap_ok(err == -ETIMEDOUT && s.dead,
	       "nor is one that is found when the first was lost");
	grid_stream_close(&s);
	hub_stop(&silent);
}

int main(void)
{
	setenv("SKEP_ERRORS", "return", 1);
	test_deaf_hub();
	test_hub_killed_at_first();
	test_silent_hub();
	test_again_for();
	test_stopped_program();
	test_without_hub();
	test_good();
	test_window();
	test_memory(HUB_GOOD);
	test_memory(HUB_KEEPS);
	test_memory(HUB_WIDE);
	test_bad_hubs();
	test_killed_hub();
	test_nowhere_to_keep();
	return tap_done();
}
