// SPDX-License-Identifier: MIT
/*
 * A scripted agent: starts workers natively and under bee, says what an agent
 * says, and what it never would. argv[1]: the build directory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <skep/session.h>

#include "base/sha256.h"
#include "tests/tap.h"

#define NONCE 0x123456789abcdef1ull
#define TIMEOUT_MS 30000 /* ms for one read or write */

enum { SCALE, INITIALIZE, STATE, SAY, REST, FILL, BACK, STEP };

static const char *build, *substrate;
static const char *library;
static int bee;
static int fd, errors; /* the stream; the worker's error stream */
static pid_t child;
static u64 received, acked, call_number, proofs;
static u32 pings;

#define CHECK(condition, name)                                                 \
	tap_ok(!!(condition), "%s %s: " name, library, substrate)

/* Stream ------------------------------------------------------------------- */

static int ready_for(short events)
{
	struct pollfd p = {fd, events, 0};

	return poll(&p, 1, TIMEOUT_MS) == 1;
}

static int write_pair(const void *bytes, u64 len)
{
	const u8 *at = bytes;
	ssize_t n;

	for (; len; len -= (u64)n, at += n) {
		n = ready_for(POLLOUT) ? send(fd, at, len, MSG_NOSIGNAL) : -1;
		if (n <= 0)
			return 0;
	}
	return 1;
}

static int read_bytes(void *to, u64 len)
{
	u8 *at = to;
	ssize_t n;

	for (; len; len -= (u64)n, at += n) {
		n = ready_for(POLLIN) ? read(fd, at, len) : -1;
		if (n <= 0)
			return 0;
	}
	return 1;
}

/* Small frames in one piece: a worker that refuses a header is gone before
 * what follows could be sent. */
static int send_frame(u16 type, u16 flags, u64 call, const void *bytes, u32 len)
{
	struct {
		struct skep_frame f;
		u8 payload[256];
	} one = {{len, type, flags, call}, {0}};

	if (len > sizeof(one.payload))
		return write_pair(&one.f, sizeof(one.f)) &&
		       write_pair(bytes, len);
	if (len)
		memcpy(one.payload, bytes, len);
	return write_pair(&one, sizeof(one.f) + len);
}

/* The next frame but ACK and PING; answers ACKs as they are due. */
static int next_frame(struct skep_frame *f, u8 *payload)
{
	do {
		if (!read_bytes(f, sizeof(*f)) || f->length > SKEP_FRAME_MAX ||
		    !read_bytes(payload, f->length))
			return 0;
		if (f->type != SKEP_HELLO && f->type != SKEP_ACK)
			received += sizeof(*f) + f->length;
		pings += f->type == SKEP_PING;
		if (received - acked >= SKEP_ACK_EVERY) {
			acked = received;
			if (!send_frame(SKEP_ACK, 0, 0, &acked, 8))
				return 0;
		}
	} while (f->type == SKEP_PING || f->type == SKEP_ACK);
	return 1;
}

static int proof_valid(const struct skep_proof *p)
{
	int ok = bee ? p->nonce == NONCE && p->calls > proofs
		     : !p->nonce && !p->calls;

	proofs = p->calls;
	return ok;
}

static int await_ready(void)
{
	static u8 payload[SKEP_FRAME_MAX];
	struct skep_ready *r = (void *)payload;
	struct skep_frame f;

	return next_frame(&f, payload) && f.type == SKEP_READY &&
	       f.length == sizeof(*r) && r->functions == 8 &&
	       proof_valid(&r->proof);
}

/* Processes ---------------------------------------------------------------- */

static void become_worker(int theirs, int log)
{
	char program[256], loader[256], guard[256];

	snprintf(program, sizeof(program), "%s/test/grid/worker-%s", build,
		 library);
	snprintf(loader, sizeof(loader), "%s/bin/bee", build);
	snprintf(guard, sizeof(guard), "%s/bin/bee-guard", build);
	dup2(theirs, 3);
	dup2(log, 1);
	dup2(log, 2);
	setenv("SKEP_STREAM", "3", 1);
	if (bee)
		execl(guard, guard, loader, "--nonce", "123456789abcdef1",
		      "--stream", "3", program, (char *)NULL);
	else
		execl(program, program, (char *)NULL);
	_exit(125);
}

static int start_worker(void)
{
	int ends[2], log[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ||
	    pipe2(log, O_CLOEXEC))
		return 0;
	child = fork();
	if (!child)
		become_worker(ends[1], log[1]);
	close(ends[1]);
	close(log[1]);
	fd = ends[0];
	errors = log[0];
	received = acked = proofs = 0;
	return child > 0;
}

static int exchange_hello(u32 revision)
{
	struct skep_hello h = {SKEP_SESSION_MAGIC, revision, {0}, 0};
	struct skep_frame f;

	return send_frame(SKEP_HELLO, 0, 0, &h, sizeof(h)) &&
	       next_frame(&f, (u8 *)&h) && f.type == SKEP_HELLO &&
	       f.length == sizeof(h) && h.magic == SKEP_SESSION_MAGIC &&
	       h.revision == SKEP_SESSION_REVISION && !h.received;
}

static int begin_session(void)
{
	return start_worker() && exchange_hello(SKEP_SESSION_REVISION) &&
	       await_ready();
}

/* The exit status, 128 + n for signals. */
static int end_session(void)
{
	int status = 0;
	pid_t got;

	close(fd);
	close(errors);
	do
		got = waitpid(child, &status, 0);
	while (got < 0 && errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Calls -------------------------------------------------------------------- */

static int send_call(u32 function, const void *bytes, u64 len, u64 announce)
{
	struct skep_call c = {function, 0, announce, 1ull << 40};
	const u8 *at = bytes;
	u64 part;
	int ok = send_frame(SKEP_CALL, 0, ++call_number, &c, sizeof(c));

	do {
		part = len < 0x40000 ? len : 0x40000;
		len -= part;
		ok = ok && send_frame(SKEP_DATA, len ? 0 : SKEP_LAST,
				      call_number, at, (u32)part);
		at += part;
	} while (ok && len);
	return ok;
}

static int take_result(void *to, u64 len)
{
	static u8 payload[SKEP_FRAME_MAX];
	struct skep_result *r = (void *)payload;
	struct skep_frame f;
	u8 *at = to;

	if (!next_frame(&f, payload) || f.type != SKEP_RESULT ||
	    f.call != call_number || f.length != sizeof(*r) ||
	    r->length != len || !proof_valid(&r->proof))
		return 0;
	do {
		if (!next_frame(&f, payload) || f.type != SKEP_DATA ||
		    f.call != call_number || f.length > len)
			return 0;
		memcpy(at, payload, f.length);
		at += f.length;
		len -= f.length;
	} while (!(f.flags & SKEP_LAST));
	return !len;
}

/* The code of the ERROR that comes, whose text contains `text`; or 0. */
static u32 take_error(u64 call, const char *text)
{
	static u8 payload[SKEP_FRAME_MAX + 1];
	struct skep_error *e = (void *)payload;
	struct skep_frame f;

	if (!next_frame(&f, payload) || f.type != SKEP_ERROR ||
	    f.call != call || f.length < sizeof(*e) ||
	    f.length != sizeof(*e) + e->text)
		return 0;
	payload[f.length] = 0;
	return strstr((char *)payload + sizeof(*e), text) ? e->code : 0;
}

/* scale(n, by 2, x, sum) */
static int call_scale(long n)
{
	u64 len = 16 + (u64)n * 8, i;
	double *in = malloc(len), *out = malloc(len), sum = 0, by = 2;
	int ok;

	memcpy(in, &n, 8);
	memcpy(in + 1, &by, 8);
	for (i = 0; i < (u64)n; i++) {
		in[2 + i] = (double)i;
		sum += 2 * (double)i;
	}
	ok = send_call(SCALE, in, len, len) && take_result(out, len - 8);
	ok = ok && out[0] == sum;
	for (i = 0; ok && i < (u64)n; i++)
		ok = out[1 + i] == 2 * in[2 + i];
	free(in);
	free(out);
	return ok;
}

static int call_say(const char *text)
{
	struct {
		u64 length;
		char text[16];
	} a = {strlen(text), ""};
	u64 len = 0;

	memcpy(a.text, text, a.length);
	return send_call(SAY, &a, 8 + ((a.length + 7) & ~7ull),
			 8 + ((a.length + 7) & ~7ull)) &&
	       take_result(&len, 8) && len == a.length;
}

/* The next line of the worker's error stream. */
static int stderr_has(const char *text)
{
	struct pollfd p = {errors, POLLIN, 0};
	char got[256];
	u32 n = 0;

	while (n < sizeof(got) - 1 && poll(&p, 1, TIMEOUT_MS) == 1 &&
	       read(errors, got + n, 1) == 1 && got[n++] != '\n')
		;
	got[n] = 0;
	return !strcmp(got, text);
}

/* Tests -------------------------------------------------------------------- */

/* step(n, i, x, sum), both ways, for n of 2. */
struct step_in {
	struct skep_callback head;
	u64 n, i;
	double x[2];
};

struct step_out {
	struct skep_callback head;
	double sum, x[2];
};

static int take_step(u64 number, u64 i, double x)
{
	static u8 payload[SKEP_FRAME_MAX];
	const struct step_in *s = (void *)payload;
	struct skep_frame f;

	return next_frame(&f, payload) && f.type == SKEP_CALLBACK && !f.flags &&
	       f.call == call_number && f.length == sizeof(*s) &&
	       s->head.param == 1 && s->head.number == number &&
	       s->head.length == sizeof(*s) - sizeof(s->head) && s->n == 2 &&
	       s->i == i && s->x[0] == x && s->x[1] == 0;
}

static int begin_back(s64 n)
{
	return begin_session() && send_call(BACK, &n, 8, 8);
}

static int answer_step(struct step_out s)
{
	return send_frame(SKEP_RETURN, 0, call_number, &s, sizeof(s));
}

static void test_callbacks(void)
{
	const struct step_out good = {{1, 24, 1}, 10, {20, 0}};
	const char unexpected[] = "worker: the session with the agent ended: "
				  "received an unexpected frame\n";
	struct step_out bad;
	double sum;

	CHECK(begin_back(2) && take_step(1, 7, 1) && answer_step(good) &&
		      take_step(2, 8, 30) &&
		      answer_step((struct step_out){{1, 24, 2}, 3, {4, 5}}) &&
		      take_result(&sum, 8) && sum == 7 && call_scale(3),
	      "functions of the master are called, in turn");
	CHECK(!end_session(), "and the worker goes on");
	bad = good;
	bad.head.number = 2;
	CHECK(begin_back(2) && take_step(1, 7, 1) && answer_step(bad) &&
		      stderr_has(unexpected) && end_session() == 3,
	      "an answer of another number ends the session");
	bad = good;
	bad.head.param = 2;
	CHECK(begin_back(2) && take_step(1, 7, 1) && answer_step(bad) &&
		      stderr_has(unexpected) && end_session() == 3,
	      "so does one of another function");
	bad = good;
	bad.head.length = 16;
	CHECK(begin_back(2) && take_step(1, 7, 1) && answer_step(bad) &&
		      stderr_has(unexpected) && end_session() == 3,
	      "and one of another length");
	CHECK(begin_back(2) && take_step(1, 7, 1) &&
		      send_frame(SKEP_BYE, 0, 0, "", 0) && end_session() == 0,
	      "a worker that waits for an answer obeys BYE");
	CHECK(begin_back(0x20000) &&
		      take_error(call_number, "1048592 bytes of arguments") ==
			      SKEP_E_ARGUMENTS &&
		      end_session() == 5,
	      "arguments that fit no frame end the call and the worker");
	CHECK(begin_back(-3) &&
		      take_error(call_number, "argument 3 (x) of step") ==
			      SKEP_E_ARGUMENTS &&
		      end_session() == 5,
	      "so do sizes that cannot be");
	CHECK(begin_back(-1) &&
		      stderr_has("worker: a function of the master may only be "
				 "called by the thread that runs the call, and "
				 "not after its end\n") &&
		      end_session() == 5,
	      "another thread cannot call the master");
	CHECK(begin_back(-2) &&
		      stderr_has("worker: a function of the master was called "
				 "that this call was not given\n") &&
		      end_session() == 5,
	      "nor is another function called");
	CHECK(begin_session() && send_call(STEP, &sum, 8, 8) &&
		      take_error(call_number, "can be called") ==
			      SKEP_E_NO_FUNCTION &&
		      !end_session(),
	      "a call cannot name a function of the master");
}

static void test_calls(void)
{
	static const u64 huge[2] = {1ull << 43, 0};
	static const u64 n = 100000;
	char *all = malloc(n);
	u64 i;

	CHECK(begin_session(), "a worker says HELLO and READY with a proof");
	CHECK(call_scale(3), "scalars and arrays are passed in and out");
	CHECK(call_scale(0), "an empty array is an array");
	CHECK(call_scale(1 << 21), "arrays four times the window go both ways");
	for (i = 0; i < 3000 && call_scale(5); i++)
		;
	CHECK(i == 3000, "thousands of small calls on one session");
	CHECK(send_call(FILL, &n, 8, 8) &&
		      take_result(all, n + (-n & 7)) == (n % 8 == 0),
	      "WORK memory is allocated by the worker");
	CHECK(call_say("hello") && stderr_has("said hello\n"),
	      "a function's output goes to the error stream at once");
	CHECK(send_call(SCALE, huge, 16, 16) &&
		      take_error(call_number,
				 "argument 3 (x) of scale: the "
				 "worker has no memory") == SKEP_E_WORKER,
	      "a call that needs too much memory is refused");
	CHECK(send_call(SCALE, &n, 8, 8) &&
		      take_error(call_number, "length") == SKEP_E_ARGUMENTS,
	      "arguments that are too short are refused");
	CHECK(send_call(99, all, n, n) &&
		      take_error(call_number, "no function") ==
			      SKEP_E_NO_FUNCTION,
	      "a function that does not exist is refused");
	CHECK(send_call(INITIALIZE, all, 0, 0) &&
		      take_error(call_number, "no function") ==
			      SKEP_E_NO_FUNCTION,
	      "Initialize cannot be called");
	CHECK(call_scale(10), "a worker that refused calls accepts others");
	CHECK(send_frame(SKEP_BYE, 0, 0, NULL, 0) && end_session() == 0,
	      "BYE ends a worker with status 0");
	free(all);
}

static u8 digest[32]; /* of the next file of Initialize; zero: not looked at */

static int initialize_worker(const char *path, u64 len)
{
	struct {
		struct skep_init i;
		char path[64];
	} f = {{INITIALIZE, (u32)strlen(path), len, {0}}, ""};

	memcpy(f.path, path, f.i.path);
	memcpy(f.i.digest, digest, sizeof(f.i.digest));
	return send_frame(SKEP_INIT, 0, 0, &f, (u32)sizeof(f.i) + f.i.path);
}

static void test_state(void)
{
	struct {
		u64 n;
		double x[1000];
	} file = {1000, {0}};
	char path[] = "/tmp/skep-grid-XXXXXX";
	int f = mkstemp(path), i;
	double sum = 0;

	for (i = 0; i < 1000; i++)
		file.x[i] = i;
	i = write(f, &file, sizeof(file)) == sizeof(file);
	close(f);
	CHECK(i && begin_session() && initialize_worker(path, sizeof(file)) &&
		      await_ready(),
	      "Initialize reads its arguments from a file");
	CHECK(call_scale(1000) && send_call(STATE, NULL, 0, 0) &&
		      take_result(&sum, 8) && sum == 999 * 500.0,
	      "Initialize's data stay for later calls");
	CHECK(initialize_worker(path, sizeof(file) + 8) &&
		      take_error(0, "Initialize: more bytes") ==
			      SKEP_E_ARGUMENTS,
	      "a file that is too long for Initialize is refused");
	unlink(path);
	CHECK(initialize_worker(path, sizeof(file)) &&
		      take_error(0, "cannot be opened") == SKEP_E_INTERNAL,
	      "a missing file of Initialize is refused");
	CHECK(end_session() == 0,
	      "the end of the stream ends a worker with status 0");
}

/* Another worker of the node's user wrote to the file that the agent named. */
static void test_digested(void)
{
	struct {
		u64 n;
		double x[1000];
	} file = {1000, {1, 2, 3}};
	char path[] = "/tmp/skep-grid-XXXXXX";
	struct skep_sha256 sum;
	int f = mkstemp(path);
	double total = 0;
	u64 one = 1;

	skep_sha256_init(&sum);
	skep_sha256_update(&sum, &file, sizeof(file));
	skep_sha256_final(&sum, digest);
	CHECK(write(f, &file, sizeof(file)) == sizeof(file) &&
		      begin_session() &&
		      initialize_worker(path, sizeof(file)) && await_ready() &&
		      send_call(STATE, NULL, 0, 0) && take_result(&total, 8) &&
		      total == 6 && end_session() == 0,
	      "data of Initialize with the right digest are accepted");
	CHECK(pwrite(f, "x", 1, 4000) == 1 && begin_session() &&
		      initialize_worker(path, sizeof(file)) &&
		      take_error(0, "changed on this node") == SKEP_E_DIGEST &&
		      end_session() == 0,
	      "data of Initialize that were changed are refused");
	CHECK(pwrite(f, &one, 8, 0) == 8 && begin_session() &&
		      initialize_worker(path, sizeof(file)) &&
		      take_error(0, "changed on this node") == SKEP_E_DIGEST &&
		      end_session() == 0,
	      "data of Initialize whose sizes were changed are refused");
	CHECK(!ftruncate(f, 100) && begin_session() &&
		      initialize_worker(path, sizeof(file)) &&
		      take_error(0, "changed on this node") == SKEP_E_DIGEST &&
		      end_session() == 0,
	      "truncated data of Initialize are refused");
	memset(digest, 0, sizeof(digest));
	close(f);
	unlink(path);
}

/* Natively the file is an inherited descriptor of sealed memory. */
static void test_inherited(void)
{
	struct {
		u64 n;
		double x[4];
	} file = {4, {1, 2, 3, 4}};
	double total = 0;
	char path[32];
	int f, initial;

	f = memfd_create("initial", MFD_CLOEXEC);
	initial = fcntl(f, F_DUPFD, 10); /* 3 is the stream's */
	close(f);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", initial);
	CHECK(write(initial, &file, sizeof(file)) == sizeof(file) &&
		      begin_session() &&
		      initialize_worker(path, sizeof(file)) && await_ready() &&
		      send_call(STATE, NULL, 0, 0) && take_result(&total, 8) &&
		      total == 10 && end_session() == 0,
	      "data of Initialize comes by an inherited descriptor");
	close(initial);
}

static void test_alive(void)
{
	u64 seconds = 2 * SKEP_PING_SECONDS + 1;
	u8 none[1];

	pings = 0;
	CHECK(begin_session() && send_call(REST, &seconds, 8, 8) &&
		      take_result(none, 0) && pings >= 1 && pings <= 3,
	      "a computing worker sends keepalives");
	CHECK(send_call(SAY, "\4\0\0\0\0\0\0\0exit\0\0\0\0", 16, 16) &&
		      stderr_has("said exit\n") && end_session() == 7,
	      "a function that exits ends the worker with its status");
}

static int is_refused(int ok)
{
	struct skep_frame f;
	static u8 payload[SKEP_FRAME_MAX];

	return ok && !next_frame(&f, payload) && end_session() == 3;
}

static void test_breaches(void)
{
	u8 bytes[64] = {0};
	struct {
		struct skep_init i;
		char path[8];
	} cut = {{INITIALIZE, 0, 0, {0}}, ""};

	CHECK(is_refused(start_worker() &&
			 !exchange_hello(SKEP_SESSION_REVISION + 1) == 0),
	      "another revision ends the session");
	CHECK(is_refused(begin_session() && send_frame(77, 0, 0, NULL, 0)),
	      "a frame of an unknown type ends the session");
	CHECK(is_refused(begin_session() &&
			 send_frame(SKEP_DATA, SKEP_LAST, 1, bytes, 8)),
	      "data without a call ends the session");
	CHECK(is_refused(begin_session() && send_call(SCALE, bytes, 32, 24)),
	      "more data than announced ends the session");
	CHECK(is_refused(begin_session() && send_call(SCALE, bytes, 24, 32)),
	      "less data than announced ends the session");
	CHECK(is_refused(begin_session() &&
			 send_frame(SKEP_CALL, 0, 1, bytes, 12)),
	      "a CALL of a wrong length ends the session");
	CHECK(is_refused(begin_session() &&
			 send_frame(SKEP_INIT, 0, 0, bytes, 56)),
	      "a path that does not fit its INIT ends the session");
	/* The path is "/dev", NUL, "ull": not what the agent meant to name. */
	cut.i.path = sizeof(cut.path);
	memcpy(cut.path, "/dev\0ull", sizeof(cut.path));
	CHECK(is_refused(begin_session() &&
			 send_frame(SKEP_INIT, 0, 0, &cut,
				    sizeof(cut.i) + sizeof(cut.path))),
	      "a path with a NUL inside ends the session");
	CHECK(is_refused(begin_session() &&
			 send_frame(SKEP_ACK, 0, 0, "\0\0\0\1\0\0\0", 8)),
	      "an ACK of what was not sent ends the session");
}

static void test_substrate(const char *c_library, int under)
{
	library = c_library;
	bee = under;
	substrate = under ? "under bee" : "natively";
	test_calls();
	test_callbacks();
	test_state();
	test_digested();
	if (!bee)
		test_inherited();
	test_alive();
	test_breaches();
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	build = argv[1];
	signal(SIGPIPE, SIG_IGN);
	test_substrate("glibc", 0);
	test_substrate("musl", 0);
	test_substrate("glibc", 1);
	test_substrate("musl", 1);
	return tap_done();
}
