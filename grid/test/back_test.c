// SPDX-License-Identifier: MIT
/*
 * Callbacks of libskeprpc against a hub that follows a script. The program's
 * call is always solve(3, run_step); the script is the hub's side of it.
 */
#define _GNU_SOURCE
#include <grid/include/OmniRpc.h>
#include <pthread.h>
#include <semaphore.h>
#include <skep/session.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <tests/tap.h>
#include <unistd.h>

#include "manifest.h"

static struct manifest manifest;
static char path[64];
static int listener, fd, wrong; /* wrong: the program left the script */
static u64 call_id;
static u16 call_flags;
static u64 call_outer; /* what ends the payload of the last CALL */
static u8 got[SKEP_FRAME_MAX];
static struct skep_frame frame;
static sem_t inside, go_on, started;
static int called, blocks, codes[5];
static OmniRpcRequest request;

/* solve(IN int n, step(IN int n, IN short s, IN double x[n], IN int m,
 * OUT double y[m], INOUT long k), say(IN int m, INOUT string s, IN string t[m],
 * OUT string u[m])), where both n of step are one. */
static void make_manifest(void)
{
	struct manifest *m = &manifest;

	manifest_init(m, "back");
	manifest_function(m, "solve", 0);
	manifest_param(m, "n", SKEP_INT, SKEP_IN);
	manifest_param(m, "step", SKEP_MASTER_FUNCTION, SKEP_IN)->refers = 1;
	manifest_param(m, "say", SKEP_MASTER_FUNCTION, SKEP_IN)->refers = 2;
	manifest_function(m, "step", SKEP_FUNCTION_CALLBACK);
	manifest_param(m, "n", SKEP_INT, SKEP_IN)->refers = 1;
	manifest_param(m, "s", SKEP_SHORT, SKEP_IN);
	manifest_param(m, "x", SKEP_DOUBLE, SKEP_IN)->dims = 1;
	m->param[5].dim[0].size = manifest_scalar(m, 0);
	manifest_param(m, "m", SKEP_INT, SKEP_IN);
	manifest_param(m, "y", SKEP_DOUBLE, SKEP_OUT)->dims = 1;
	m->param[7].dim[0].size = manifest_scalar(m, 3);
	manifest_param(m, "k", SKEP_LONG, SKEP_INOUT);
	manifest_function(m, "say", SKEP_FUNCTION_CALLBACK);
	manifest_param(m, "m", SKEP_INT, SKEP_IN);
	manifest_param(m, "s", SKEP_STRING, SKEP_INOUT);
	manifest_param(m, "t", SKEP_STRING, SKEP_IN)->dims = 1;
	m->param[11].dim[0].size = manifest_scalar(m, 0);
	manifest_param(m, "u", SKEP_STRING, SKEP_OUT)->dims = 1;
	m->param[12].dim[0].size = manifest_scalar(m, 0);
	manifest_done(m);
}

/* The program ------------------------------------------------------------- */

static void run_step(short s, double *x, int m, double *y, long *k)
{
	called++;
	if (blocks) {
		sem_post(&inside);
		sem_wait(&go_on);
	}
	if (m == 2) {
		y[0] = x[0] + x[1] + x[2];
		y[1] = s;
	}
	*k += 1;
}

static void run_say(int m, char **s, char **t, char **u)
{
	called++;
	u[m - 1] = t[0];
	*s = t[m - 1] ? NULL : *s;
}

static void step_again(short s, double *x, int m, double *y, long *k)
{
	sem_wait(&started);
	codes[0] = OmniRpcCall("back.solve", 3, run_step, run_say);
	codes[1] = OmniRpcWait(request);
	codes[2] = OmniRpcDestroyRequest(request);
	codes[3] = OmniRpcFinalize();
	codes[4] = OmniRpcWaitAny(1, &request);
	run_step(s, x, m, y, k);
}

/* The hub ----------------------------------------------------------------- */

static int read_bytes(void *to, u64 len)
{
	return !len || recv(fd, to, len, MSG_WAITALL) == (ssize_t)len;
}

static void write_frame(u16 type, u16 flags, u64 call, const void *payload,
			u32 len)
{
	struct skep_frame f = {len, type, flags, call};

	wrong |= send(fd, &f, sizeof(f), MSG_NOSIGNAL) < 0 ||
		 (len && send(fd, payload, len, MSG_NOSIGNAL) < 0);
}

static int next_is(u16 type)
{
	do {
		if (!read_bytes(&frame, sizeof(frame)) ||
		    frame.length > sizeof(got) ||
		    !read_bytes(got, frame.length))
			return 0;
	} while (frame.type == SKEP_ACK);
	return frame.type == type;
}

static void accept_master(void)
{
	struct skep_hello h;

	fd = accept(listener, NULL, NULL);
	wrong |= !next_is(SKEP_HELLO);
	memcpy(&h, got, sizeof(h));
	write_frame(SKEP_HELLO, SKEP_AGAIN, 0, &h, sizeof(h));
}

static void take_call(void)
{
	wrong |= !next_is(SKEP_CALL);
	call_id = frame.call;
	call_flags = frame.flags;
	memcpy(&call_outer, got + frame.length - sizeof(call_outer),
	       sizeof(call_outer));
	wrong |= !next_is(SKEP_DATA);
}

static void begin_script(void)
{
	struct skep_bound b = {9, (u32)manifest_done(&manifest)};
	u8 out[0x4000];

	accept_master();
	wrong |= !next_is(SKEP_BIND);
	memcpy(out, &b, sizeof(b));
	memcpy(out + sizeof(b), manifest.bytes, b.manifest);
	write_frame(SKEP_BOUND, 0, frame.call, out,
		    (u32)sizeof(b) + b.manifest);
	take_call();
}

struct arguments {
	struct skep_callback head;
	u64 n, s, m, k;
	double x[3];
};

static struct arguments arguments_of(u64 number)
{
	return (struct arguments){
		{1, sizeof(struct arguments) - sizeof(struct skep_callback),
		 number},
		3,
		(u64)-5 & 0xffff,
		2,
		40,
		{1, 2, 3.5}};
}

static void send_callback(u64 number)
{
	struct arguments a = arguments_of(number);

	write_frame(SKEP_CALLBACK, 0, call_id, &a, sizeof(a));
}

static int take_return(u64 number)
{
	struct {
		struct skep_callback head;
		u64 k;
		double y[2];
	} r;

	if (!next_is(SKEP_RETURN) || frame.call != call_id ||
	    frame.length != sizeof(r))
		return 0;
	memcpy(&r, got, sizeof(r));
	return r.head.param == 1 && r.head.number == number &&
	       r.head.length == 24 && r.k == 41 && r.y[0] == 6.5 &&
	       r.y[1] == -5;
}

static void send_result(void)
{
	struct skep_result r = {.node = "a-node"};

	write_frame(SKEP_RESULT, 0, call_id, &r, sizeof(r));
	write_frame(SKEP_DATA, SKEP_LAST, call_id, "", 0);
}

static void send_error(void)
{
	struct {
		struct skep_error e;
		char text[4];
	} e = {{SKEP_E_WORKER, 4}, "died"};

	write_frame(SKEP_ERROR, 0, call_id, &e, sizeof(e));
}

/* Runs a script as the hub, and calls step; the code of the call. */
static int run_script(void *(*script)(void *), void *function)
{
	pthread_t t;
	int code;

	called = 0;
	wrong = 0;
	while (!sem_trywait(&started))
		;
	pthread_create(&t, NULL, script, NULL);
	OmniRpcInit(NULL, NULL);
	request = OmniRpcCallAsync("back.solve", 3, function, run_say);
	sem_post(&started);
	code = OmniRpcWait(request);
	OmniRpcFinalize();
	pthread_join(t, NULL);
	close(fd);
	return code;
}

/* Tests ------------------------------------------------------------------- */

static int returns;

static void *good_script(void *none)
{
	begin_script();
	send_callback(1);
	returns = take_return(1);
	send_callback(1);
	returns += take_return(1);
	send_callback(2);
	returns += take_return(2);
	send_result();
	return none;
}

static void test_good(void)
{
	tap_ok(run_script(good_script, run_step) == OMRPC_OK && !wrong &&
		       returns == 3,
	       "functions are called and answer");
	tap_ok(called == 2, "the same number does not call again");
}

static void *killed_script(void *none)
{
	begin_script();
	returns = call_flags == 0;
	send_callback(1);
	sem_wait(&inside);
	close(fd);
	accept_master();
	take_call();
	returns += call_flags == (SKEP_AGAIN | SKEP_CALLED);
	send_callback(1);
	sem_post(&go_on);
	returns += take_return(1);
	close(fd);
	accept_master();
	take_call();
	send_callback(1);
	returns += take_return(1);
	send_result();
	return none;
}

static void test_killed(void)
{
	blocks = 1;
	tap_ok(run_script(killed_script, run_step) == OMRPC_OK && !wrong &&
		       returns == 4,
	       "the next hub gets the answer, of a call that says that it "
	       "called");
	tap_ok(called == 1, "hubs that are killed do not call again");
}

static int ended_early;

static void *error_script(void *none)
{
	begin_script();
	send_callback(1);
	sem_wait(&inside);
	send_error();
	/* An ACK says that all this was read. */
	write_frame(SKEP_PING, 0, 0, got, SKEP_ACK_EVERY);
	do
		wrong |= !read_bytes(&frame, sizeof(frame)) ||
			 !read_bytes(got, frame.length);
	while (!wrong && frame.type != SKEP_ACK);
	sem_wait(&started);
	ended_early = OmniRpcProbe(request);
	sem_post(&go_on);
	return none;
}

static void test_error(void)
{
	tap_ok(run_script(error_script, run_step) == OMRPC_E_WORKER && !wrong &&
		       called == 1 && !ended_early,
	       "a call that fails ends when its function has returned");
	blocks = 0;
}

/* The hub is killed when the function has made its call. */
static void *inside_script(void *none)
{
	u64 first;
	int i;

	begin_script();
	first = call_id;
	send_callback(1);
	take_call();
	returns = call_flags == SKEP_INNER && call_outer == first;
	close(fd);
	accept_master();
	for (i = 0; i < 2; i++) { /* in any order */
		take_call();
		if (call_id == first)
			returns += call_flags == (SKEP_AGAIN | SKEP_CALLED);
		else
			returns += call_flags == (SKEP_AGAIN | SKEP_INNER) &&
				   call_outer == first;
	}
	wrong |= call_id == first;
	send_result();
	call_id = first;
	send_callback(1);
	wrong |= !take_return(1);
	send_result();
	return none;
}

static void test_inside(void)
{
	int i, refused = 0;

	returns = 0;
	tap_ok(run_script(inside_script, step_again) == OMRPC_OK && !wrong,
	       "a function that is refused something goes on");
	tap_ok(!codes[0] && returns == 3,
	       "a call that it makes says for which call it is made");
	for (i = 1; i < 5; i++)
		refused += codes[i] == OMRPC_E_REFUSED;
	tap_ok(refused == 4,
	       "in it nothing waits for another call or ends the session");
}

static struct arguments bad;
static u32 bad_len, bad_code;
static char why[512];

static void *bad_script(void *none)
{
	struct skep_error e;

	begin_script();
	write_frame(SKEP_CALLBACK, 0, call_id, &bad, bad_len);
	wrong |= !next_is(SKEP_ERROR) || frame.call != call_id;
	memcpy(&e, got, sizeof(e));
	bad_code = e.code;
	snprintf(why, sizeof(why), "%.*s", (int)e.text, got + sizeof(e));
	send_error();
	return none;
}

static void try_bad_as(u32 wanted, const char *words)
{
	int code = run_script(bad_script, run_step);

	tap_ok(code == OMRPC_E_WORKER && !wrong && !called &&
		       bad_code == wanted && strstr(why, words),
	       "refused without a call: %s", words);
	bad = arguments_of(1);
	bad_len = sizeof(bad);
}

static void try_bad(const char *words)
{
	try_bad_as(SKEP_E_ARGUMENTS, words);
}

static void test_bad(void)
{
	bad = arguments_of(2);
	bad_len = sizeof(bad);
	try_bad_as(SKEP_E_PROTOCOL, "with the number 2");
	bad.head.param = 0;
	try_bad("parameter 0 of solve");
	bad.head.param = 99;
	try_bad("parameter 99 of solve");
	bad.n = 2;
	try_bad("more bytes arrived");
	bad.n = 2;
	bad.head.length -= 8;
	bad_len -= 8;
	try_bad("a size differs from that of the call");
	bad.head.length -= 8;
	bad_len -= 8;
	try_bad("their length is wrong");
	bad.m = 0x7fffffff;
	try_bad_as(SKEP_E_INTERNAL, "y: ");
	bad.m = 0x20000;
	try_bad("returns more than 1048560 bytes");
}

/* Strings ----------------------------------------------------------------- */

struct words {
	struct skep_callback head;
	u64 m, word[7]; /* two of s, two and one of t */
};

static struct words words, back; /* in and out */
static u32 words_len;

static void *words_script(void *none)
{
	begin_script();
	write_frame(SKEP_CALLBACK, 0, call_id, &words, words_len);
	wrong |= !next_is(SKEP_RETURN) || frame.length > sizeof(back);
	memcpy(&back, got, frame.length);
	send_result();
	return none;
}

static void *bad_words_script(void *none)
{
	struct skep_error e;

	begin_script();
	write_frame(SKEP_CALLBACK, 0, call_id, &words, words_len);
	wrong |= !next_is(SKEP_ERROR);
	memcpy(&e, got, sizeof(e));
	bad_code = e.code;
	snprintf(why, sizeof(why), "%.*s", (int)e.text, got + sizeof(e));
	send_error();
	return none;
}

static void fill_words(void)
{
	words = (struct words){{2, 6 * 8, 1}, 2, {3, 0, 1, 0, ~0ull}};
	memcpy(&words.word[1], "abc", 3);
	memcpy(&words.word[3], "d", 1);
	words_len = sizeof(words.head) + words.head.length;
}

static void try_bad_words(const char *words_of_why, u32 code)
{
	tap_ok(run_script(bad_words_script, run_step) == OMRPC_E_WORKER &&
		       !wrong && !called && bad_code == code &&
		       strstr(why, words_of_why),
	       "wild strings are refused without a call: %s", words_of_why);
	fill_words();
}

static void test_words(void)
{
	fill_words();
	tap_ok(run_script(words_script, run_step) == OMRPC_OK && !wrong &&
		       called == 1 && back.head.length == 5 * 8 &&
		       back.m == 3 && !memcmp(&back.word[0], "abc", 4) &&
		       back.word[1] == ~0ull && back.word[2] == 1 &&
		       !memcmp(&back.word[3], "d", 2),
	       "strings go both ways, and null pointers remain");
	words.word[4] = 0;
	tap_ok(run_script(words_script, run_step) == OMRPC_OK && !wrong &&
		       back.head.length == 4 * 8 && back.m == ~0ull,
	       "an empty string is no null pointer");
	words.word[2] = ~1ull;
	try_bad_words("their length is wrong", SKEP_E_ARGUMENTS);
	words.word[4] = 1;
	try_bad_words("their length is wrong", SKEP_E_ARGUMENTS);
	words.head.length -= 8;
	words_len -= 8;
	try_bad_words("their length is wrong", SKEP_E_ARGUMENTS);
	words.head.length += 8;
	words_len += 8;
	try_bad_words("more bytes arrived", SKEP_E_ARGUMENTS);
	words.m = 0x7fffffff;
	try_bad_words("t: ", SKEP_E_INTERNAL);
	words.m = (u32)-2;
	try_bad_words("t: its size", SKEP_E_ARGUMENTS);
}

static void leave_step(short s, double *x, int m, double *y, long *k)
{
	(void)s;
	(void)x;
	(void)m;
	(void)y;
	(void)k;
	called++;
	pthread_exit(NULL);
}

static void test_leave(void)
{
	int code = run_script(bad_script, leave_step);

	tap_ok(code == OMRPC_E_WORKER && !wrong && called == 1 &&
		       bad_code == SKEP_E_ARGUMENTS &&
		       strstr(why, "step of this program ended its thread"),
	       "a function that ends its thread ends the call");
	code = run_script(good_script, run_step);
	tap_ok(code == OMRPC_OK && !wrong && called == 2,
	       "and the next session has none of it");
}

static void *early_script(void *none)
{
	begin_script();
	send_callback(1);
	sem_wait(&inside);
	send_result();
	next_is(SKEP_BYE); /* or the end: the stream was cut */
	sem_post(&go_on);
	return none;
}

static void test_early(void)
{
	blocks = 1;
	tap_ok(run_script(early_script, run_step) == OMRPC_E_PROTOCOL,
	       "a result while its function runs ends the session");
}

int main(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	setenv("SKEP_ERRORS", "return", 1);
	snprintf(path, sizeof(path), "/tmp/skep-back-test-%d", getpid());
	strcpy(at.sun_path, path);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(listener, 1))
		return 2;
	setenv("SKEP_SOCKET", path, 1);
	sem_init(&inside, 0, 0);
	sem_init(&go_on, 0, 0);
	sem_init(&started, 0, 0);
	make_manifest();
	test_good();
	test_killed();
	test_error();
	test_inside();
	test_bad();
	test_words();
	test_leave();
	test_early();
	unlink(path);
	return tap_done();
}
