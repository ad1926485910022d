// SPDX-License-Identifier: MIT
/*
 * bee_stream_pair, when a step of it fails: nothing stays open. Every function
 * that opens or closes is counted, and one of the steps refused at a time. And
 * empty writes to a pipe, which only Windows' readers receive.
 */
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bee/host/windows/spawn.h"
#include "bee/host/windows/win.h"

static LONG opened, taken; /* handles, blocks of memory */
static int step, refused;  /* of this run; the step that fails */

static int is_refused(void)
{
	SetLastError(ERROR_NOT_ENOUGH_MEMORY);
	return ++step == refused;
}

static HANDLE count_handle(HANDLE h)
{
	if (h)
		InterlockedIncrement(&opened);
	return h;
}

static HANDLE test_event(SECURITY_ATTRIBUTES *s, BOOL manual, BOOL set,
			 const WCHAR *name)
{
	return is_refused() ? NULL
			    : count_handle(CreateEventW(s, manual, set, name));
}

static HANDLE test_thread(SECURITY_ATTRIBUTES *s, SIZE_T stack,
			  LPTHREAD_START_ROUTINE run, void *arg, DWORD flags,
			  DWORD *id)
{
	return is_refused() ? NULL
			    : count_handle(CreateThread(s, stack, run, arg,
							flags, id));
}

static BOOL test_duplicate(HANDLE from, HANDLE h, HANDLE to, HANDLE *copy,
			   DWORD access, BOOL inherit, DWORD how)
{
	return !is_refused() &&
	       DuplicateHandle(from, h, to, copy, access, inherit, how) &&
	       count_handle(*copy);
}

static HANDLE count_file(HANDLE h)
{
	return h == INVALID_HANDLE_VALUE ? h : count_handle(h);
}

static HANDLE test_pipe(const WCHAR *name, DWORD mode, DWORD type, DWORD most,
			DWORD out, DWORD in, DWORD ms, SECURITY_ATTRIBUTES *s)
{
	return is_refused() ? INVALID_HANDLE_VALUE
			    : count_file(CreateNamedPipeW(
				      name, mode, type, most, out, in, ms, s));
}

static HANDLE test_file(const WCHAR *name, DWORD access, DWORD share,
			SECURITY_ATTRIBUTES *s, DWORD how, DWORD flags,
			HANDLE like)
{
	return is_refused() ? INVALID_HANDLE_VALUE
			    : count_file(CreateFileW(name, access, share, s,
						     how, flags, like));
}

static BOOL test_wait(HANDLE *wait, HANDLE h, WAITORTIMERCALLBACK run,
		      void *arg, ULONG ms, ULONG flags)
{
	return !is_refused() &&
	       RegisterWaitForSingleObject(wait, h, run, arg, ms, flags);
}

static BOOL test_close(HANDLE h)
{
	InterlockedDecrement(&opened);
	return CloseHandle(h);
}

void *bee_os_alloc(u64 len)
{
	void *p = is_refused() ? NULL : calloc(1, len);

	if (p)
		InterlockedIncrement(&taken);
	return p;
}

void bee_os_free(void *p, u64 len)
{
	(void)len;
	InterlockedDecrement(&taken);
	free(p);
}

/* What stream.c and pipe.c need of the rest of bee. */
static struct win_handle ends[2];

struct win_handle *bee_handle_new(u32 kind, s32 *number)
{
	*number = ends[0].kind ? 1 : 0;
	if (is_refused())
		return NULL;
	ends[*number].kind = kind;
	return &ends[*number];
}

void bee_handle_free(s32 number)
{
	ends[number] = (struct win_handle){0};
}

s64 bee_file_close(s32 number)
{
	if (ends[number].stream)
		bee_stream_close(ends[number].stream);
	if (ends[number].out)
		bee_stream_close(ends[number].out);
	bee_handle_free(number);
	return 0;
}

void bee_spawn_lock(void)
{
}

void bee_spawn_unlock(void)
{
}

void bee_os_message(const char *line)
{
	(void)line;
}

void bee_thread_ring_all(void)
{
}

s64 bee_win_error(DWORD code)
{
	return -(s64)code;
}

s64 bee_win_last(void)
{
	return bee_win_error(GetLastError());
}

static const char *wine = "test"; /* NULL: this is Windows */
static DWORD received[3];	  /* bytes of one ReadFile after the other */
static int reads;

const char *bee_wine_version(void)
{
	return wine;
}

static BOOL test_read(HANDLE h, void *buf, DWORD len, DWORD *n, OVERLAPPED *o)
{
	(void)h, (void)buf, (void)len, (void)o;
	*n = received[reads++];
	return TRUE;
}

#define CreateEventW test_event
#define CreateThread test_thread
#define DuplicateHandle test_duplicate
#define CloseHandle test_close
#define CreateNamedPipeW test_pipe
#define CreateFileW test_file
#define RegisterWaitForSingleObject test_wait
static HANDLE test_section(HANDLE file, SECURITY_ATTRIBUTES *s, DWORD how,
			   DWORD high, DWORD low, const WCHAR *name)
{
	return is_refused() ? NULL
			    : count_handle(CreateFileMappingW(file, s, how,
							      high, low, name));
}

static void *test_view(HANDLE h, DWORD how, DWORD high, DWORD low, SIZE_T len)
{
	return is_refused() ? NULL : MapViewOfFile(h, how, high, low, len);
}

#define CreateFileMappingW test_section
#define MapViewOfFile test_view
#include "bee/host/windows/counter.c"
#include "bee/host/windows/pipe.c"
#include "bee/host/windows/pipewatch.c"
#define ReadFile test_read
#include "bee/host/windows/stream.c"
#undef CreateEventW
#undef CreateThread
#undef DuplicateHandle
#undef CloseHandle
#undef ReadFile
#undef CreateNamedPipeW
#undef CreateFileW
#undef RegisterWaitForSingleObject

#include "tests/tap.h"

/* A two-way pipe, our end of which counts as opened. */
static HANDLE pipe_new(HANDLE *peer)
{
	const WCHAR *name = L"\\\\.\\pipe\\skep-stream-test";
	HANDLE h = CreateNamedPipeW(name,
				    PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED,
				    PIPE_TYPE_BYTE, 1, 4096, 4096, 0, NULL);

	*peer = CreateFileW(name, GENERIC_READ | GENERIC_WRITE, 0, NULL,
			    OPEN_EXISTING, 0, NULL);
	if (h == INVALID_HANDLE_VALUE || *peer == INVALID_HANDLE_VALUE) {
		puts("Bail out! no pipe");
		exit(1);
	}
	return count_handle(h);
}

/* Helpers close what is theirs when they end. At most a minute. */
static int all_closed(void)
{
	int i;

	for (i = 0; i < 6000 && (opened || taken); i++)
		Sleep(10);
	return !opened && !taken;
}

/* 1: the pair was made. */
static int run_pair(int fail)
{
	struct win_stream *in, *out;
	HANDLE peer, h = pipe_new(&peer);
	int made;

	step = 0;
	refused = fail;
	made = !bee_stream_pair(h, &in, &out);
	refused = 0;
	if (made) {
		bee_stream_close(in);
		bee_stream_close(out);
	}
	if (!all_closed())
		printf("# step %d refused: %ld handles, %ld blocks left\n",
		       fail, opened, taken);
	CloseHandle(peer);
	return made;
}

static int unwatched; /* writers that would have to look again and again */

/* The same for a socket pair that bee makes, and a poll of its output. */
static int run_ends(int fail)
{
	s32 number[2];
	int made;

	step = 0;
	refused = fail;
	made = !bee_stream_pipe(number, 1);
	if (made) {
		(void)bee_stream_poll(ends[0].out, 0);
		unwatched += bee_stream_unwatched(ends[0].out);
		bee_file_close(number[0]);
		bee_file_close(number[1]);
	}
	if (!all_closed())
		printf("# ends: step %d refused: %ld handles, %ld blocks "
		       "left\n",
		       fail, opened, taken);
	refused = 0;
	return made && step < fail;
}

/* The same for an eventfd, which also waits. */
static int run_counter(int fail)
{
	struct win_counter *c;
	s64 number;

	step = 0;
	refused = fail;
	number = bee_counter_new(0, 0);
	if (number >= 0) {
		c = ends[number].counter;
		(void)bee_counter_poll(c, WIN_POLLIN);
		c->shared->value = LARGEST;
		(void)bee_counter_poll(c, WIN_POLLOUT);
		bee_counter_close(c);
		bee_handle_free((s32)number);
	}
	refused = 0;
	return number >= 0 && step < fail;
}

/* Counts the steps, each of which is refused once. Returns what is left open.
 */
static int refuse_each(int (*run)(int), int *steps)
{
	int left = 0, made = 0, fail;

	for (fail = 1; !made && fail < 100; fail++) {
		made = run(fail);
		left += opened || taken;
		opened = taken = 0;
	}
	*steps = made ? fail - 2 : -1;
	return left;
}

/* What a stream reads when the first two reads give no bytes. */
static s64 read_empty(HANDLE h, const char *version)
{
	struct win_stream s = {.h = h};
	u8 buf[8];

	wine = version;
	reads = 0;
	received[2] = 5;
	return read_pipe(&s, buf, sizeof(buf));
}

static void test_empty_writes(void)
{
	HANDLE nul, peer, h = pipe_new(&peer);

	tap_ok(read_empty(h, NULL) == 5 && reads == 3,
	       "Windows: an empty write to a pipe is not its end");
	tap_ok(!read_empty(h, "test") && reads == 1,
	       "Wine: a pipe that gives no bytes has ended");
	nul = CreateFileW(L"NUL", GENERIC_READ, 7, NULL, OPEN_EXISTING, 0,
			  NULL);
	tap_ok(!read_empty(nul, NULL) && reads == 1,
	       "Windows: a file that gives no bytes has ended");
	wine = "test";
	CloseHandle(nul);
	CloseHandle(peer);
	CloseHandle(h);
	opened--;
}

int main(void)
{
	int left, steps;

	_setmode(1, _O_BINARY);
	left = refuse_each(run_pair, &steps);
	test_empty_writes();
	tap_ok(steps == 7, "each of %d steps failed once", steps);
	tap_ok(!left, "a pair that fails half-way leaves nothing open");
	left = refuse_each(run_ends, &steps);
	tap_ok(steps == 37, "of a pair of bee's %d steps failed once", steps);
	tap_ok(!left && !ends[0].kind && !ends[1].kind,
	       "and that leaves nothing open");
	tap_ok(unwatched == 1, "a writer that cannot be told looks again");
	left = refuse_each(run_counter, &steps);
	tap_ok(steps == 8, "of an eventfd's %d steps failed once", steps);
	tap_ok(!left && !ends[0].kind, "and that leaves nothing open");
	return tap_done();
}
