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

/* What stream.c needs of the rest of bee. */
static struct win_handle pipe_handle;

struct win_handle *bee_handle_new(u32 kind, s32 *number)
{
	pipe_handle.kind = kind;
	*number = 0;
	return &pipe_handle;
}

void bee_handle_free(s32 number)
{
	(void)number;
}

s64 bee_file_close(s32 handle)
{
	(void)handle;
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
#define ReadFile test_read
#include "bee/host/windows/stream.c"
#undef CreateEventW
#undef CreateThread
#undef DuplicateHandle
#undef CloseHandle
#undef ReadFile

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
	int fail, left = 0, made = 0;

	_setmode(1, _O_BINARY);
	for (fail = 1; !made && fail < 100; fail++) {
		made = run_pair(fail);
		left += opened || taken;
		opened = taken = 0;
	}
	test_empty_writes();
	tap_ok(fail - 2 == 7, "each of %d steps failed once", fail - 2);
	tap_ok(made, "without a failure the pair is created");
	tap_ok(!left, "a pair that fails half-way leaves nothing open");
	return tap_done();
}
