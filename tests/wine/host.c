// SPDX-License-Identifier: MIT
/*
 * What bee's host does on Windows and never under Wine 8: the processor's
 * counter is no clock, volumes have numbers of their own, Ctrl-C comes from a
 * console, mitigation policies are applied or refused, and error codes come
 * that Wine does not return. The functions of Win32 that answer differently
 * there are replaced.
 */
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <string.h>

#include "bee/host/windows/win.h"
#include "bee/core/core.h"
#include "abi/include/siginfo.h"
#include <cpuid.h>

struct bee bee;
s64 (*bee_clock_quick)(u32 clock);

static const char *wine; /* its version; NULL: this is Windows */
static u64 ticks_per_second, ticks, real_100ns;
static u32 invariant;
static DWORD volume;		     /* number of the file asked for */
static s32 signal_sent, signal_code; /* to the guest */
static PHANDLER_ROUTINE handler;     /* of the console */
static u32 words_known;		     /* of policies, to this Windows */
static u32 words_tried[4], starts;
static DWORD64 policy_seen[2];

static BOOL test_frequency(LARGE_INTEGER *f)
{
	f->QuadPart = (LONGLONG)ticks_per_second;
	return TRUE;
}

static BOOL test_counter(LARGE_INTEGER *c)
{
	c->QuadPart = (LONGLONG)ticks;
	return TRUE;
}

static void test_real(FILETIME *now)
{
	now->dwLowDateTime = (DWORD)real_100ns;
	now->dwHighDateTime = (DWORD)(real_100ns >> 32);
}

static int test_cpuid(u32 leaf, u32 *a, u32 *b, u32 *c, u32 *d)
{
	*a = *b = *c = 0;
	*d = invariant ? 0x100 : 0;
	return leaf == 0x80000007;
}

static BOOL test_information(HANDLE h, BY_HANDLE_FILE_INFORMATION *i)
{
	if (!volume || !GetFileInformationByHandle(h, i))
		return FALSE;
	i->dwVolumeSerialNumber = volume;
	return TRUE;
}

static BOOL test_console(PHANDLER_ROUTINE routine, BOOL add)
{
	handler = add ? routine : NULL;
	return TRUE;
}

static HANDLE test_thread(SECURITY_ATTRIBUTES *s, SIZE_T stack,
			  LPTHREAD_START_ROUTINE run, void *arg, DWORD flags,
			  DWORD *id)
{
	(void)s, (void)stack, (void)run, (void)arg, (void)flags, (void)id;
	return CreateEventW(NULL, TRUE, FALSE, NULL);
}

static BOOL test_attribute(LPPROC_THREAD_ATTRIBUTE_LIST list, DWORD flags,
			   DWORD_PTR attribute, void *value, SIZE_T size,
			   void *old, SIZE_T *got)
{
	(void)list, (void)flags, (void)old, (void)got;
	if (attribute != PROC_THREAD_ATTRIBUTE_MITIGATION_POLICY)
		return TRUE;
	if (size > words_known * sizeof(DWORD64)) {
		SetLastError(ERROR_BAD_LENGTH);
		return FALSE;
	}
	memcpy(policy_seen, value, size);
	words_tried[starts] = (u32)(size / sizeof(DWORD64));
	return TRUE;
}

static BOOL test_process(const WCHAR *name, WCHAR *line, SECURITY_ATTRIBUTES *a,
			 SECURITY_ATTRIBUTES *b, BOOL inherit, DWORD flags,
			 void *variables, const WCHAR *folder, STARTUPINFOW *si,
			 PROCESS_INFORMATION *info)
{
	(void)name, (void)a, (void)b, (void)variables, (void)folder, (void)info;
	starts++;
	return wcsstr(line, L"\" --child") && inherit &&
	       flags & CREATE_SUSPENDED && si->cb == sizeof(STARTUPINFOEXW);
}

#define QueryPerformanceFrequency test_frequency
#define QueryPerformanceCounter test_counter
#define GetSystemTimePreciseAsFileTime test_real
#define __get_cpuid test_cpuid
#include "bee/host/windows/clock.c"
#define GetFileInformationByHandle test_information
#include "bee/host/windows/stat.c"
#undef GetFileInformationByHandle
#define SetConsoleCtrlHandler test_console
#define CreateThread test_thread
#define on_control pass_control
#include "bee/host/windows/timer.c"
#undef on_control
#define UpdateProcThreadAttribute test_attribute
#define CreateProcessW test_process
#include "bee/host/windows/parent.c"
#include "bee/host/windows/xlat.c"

#include "tests/tap.h"

/* What these need of the rest of bee. */
const char *bee_wine_version(void)
{
	return wine;
}

s64 abi_signal_send(struct abi_proc *p, struct abi_thread *from, u32 tid,
		    const struct abi_siginfo *info)
{
	(void)p, (void)from, (void)tid;
	signal_sent = info->signo;
	signal_code = info->code;
	return 0;
}

u64 abi_timer_fire(struct abi_proc *p, u64 now)
{
	(void)p, (void)now;
	return ABI_FOREVER;
}

struct win_thread *bee_thread_block(u32 index)
{
	static struct win_thread block;

	(void)index;
	return &block;
}

void bee_thread_adopt(struct win_thread *t)
{
	(void)t;
}

s64 bee_wait(u32 *word, u32 expect, u64 deadline_ns)
{
	(void)word, (void)expect, (void)deadline_ns;
	return 0;
}

HANDLE bee_debug_section(void)
{
	return NULL;
}

void bee_debug_run(void)
{
}

HANDLE bee_family_new(void)
{
	return NULL;
}

void bee_family_first(DWORD process)
{
	(void)process;
}

int bee_family_status(u32 *status)
{
	*status = 0;
	return 0;
}

u32 bee_family_count(void)
{
	return 0;
}

void bee_os_message(const char *line)
{
	(void)line;
}

/* A counter that is not invariant, or a frequency that is not 10 MHz. */
static void test_clocks(u32 is_invariant_now, u64 rate, const char *what)
{
	memset(&tsc, 0, sizeof(tsc));
	bee_clock_quick = NULL;
	invariant = is_invariant_now;
	ticks_per_second = rate;
	bee_clock_init();
	tap_ok(!bee_clock_quick, "%s: the counter is not used", what);
	ticks = 3 * rate + 7;
	tap_ok(bee_clock(ABI_CLOCK_MONOTONIC) == (s64)(3 * NS + 7 * NS / rate),
	       "%s: the clock is Windows'", what);
	ticks = rate << 32; /* times 10^9 it has more than 64 bits */
	tap_ok(bee_clock(ABI_CLOCK_MONOTONIC) == (s64)(NS << 32),
	       "%s: the clock runs for a century", what);
	real_100ns = EPOCH_1601 + 123;
	tap_ok(bee_clock(ABI_CLOCK_REALTIME) == 12300,
	       "%s: the time of day is Windows'", what);
}

/* Both files are one; only the answers differ. */
static void test_volumes(void)
{
	HANDLE h = CreateFileW(L"host-file", GENERIC_WRITE, 7, NULL,
			       CREATE_ALWAYS, FILE_FLAG_DELETE_ON_CLOSE, NULL);
	struct win_file_id a, b, unknown;
	struct abi_stat st;

	wine = NULL;
	volume = 11;
	tap_ok(!bee_file_identify(h, &a) && a.volume == 11 &&
		       !bee_file_stat(h, &st) && st.dev == 11,
	       "a file has its volume's number");
	volume = 12;
	tap_ok(!bee_file_identify(h, &b) && b.volume == 12 &&
		       !bee_file_same(&a, &b),
	       "the same index on another volume is another file");
	volume = 0;
	tap_ok(!bee_file_identify(h, &unknown) && bee_file_same(&a, &unknown),
	       "an unknown volume may be any");
	wine = "8.0";
	volume = 13;
	bee_file_identify(h, &a);
	volume = 14;
	tap_ok(!bee_file_identify(h, &b) && b.volume == 13,
	       "Wine is asked for its one number once");
	CloseHandle(h);
}

static s32 signal_for(DWORD event)
{
	signal_sent = signal_code = 0;
	return handler(event) ? (send_control(), signal_sent) : -1;
}

static void test_console_events(void)
{
	tap_ok(!bee_timer_start() && handler, "the console's events are heard");
	tap_ok(signal_for(CTRL_C_EVENT) == SIGINT && signal_code == SI_KERNEL,
	       "Ctrl-C is SIGINT from the kernel");
	tap_ok(signal_for(CTRL_BREAK_EVENT) == SIGTERM,
	       "Ctrl-Break is SIGTERM");
	tap_ok(signal_for(CTRL_CLOSE_EVENT) == -1 && !signal_sent,
	       "a closed console is left to Windows");
	tap_ok(on_control(CTRL_C_EVENT) && on_control(CTRL_BREAK_EVENT) &&
		       !on_control(CTRL_CLOSE_EVENT),
	       "the parent outlives both");
}

/* A Windows that knows so many words of policies. */
static void test_policies(u32 words)
{
	struct bee_options o = {0};
	struct child c = {.options = &o};

	words_known = words;
	starts = 0;
	memset(words_tried, 0, sizeof(words_tried));
	memset(policy_seen, 0, sizeof(policy_seen));
	tap_ok(create_somehow(&c) && starts == 1 && words_tried[0] == words,
	       "the child starts with %u words of policies", words);
	tap_ok(policy_seen[0] == (words > 0 ? 0x2000000000ull : 0) &&
		       policy_seen[1] == (words > 1 ? 0x20000000ull : 0),
	       "%u words: dynamic code and shadow stacks", words);
}

static void test_errors(void)
{
	static const struct {
		DWORD code;
		s64 error;
	} want[] = {
		{ERROR_CANT_RESOLVE_FILENAME, -LINUX_ELOOP},
		{ERROR_CANT_ACCESS_FILE, -LINUX_EACCES},
		{ERROR_COMMITMENT_LIMIT, -LINUX_ENOMEM},
		{ERROR_NO_SYSTEM_RESOURCES, -LINUX_ENOMEM},
		{ERROR_NOT_ENOUGH_QUOTA, -LINUX_ENOMEM},
		{ERROR_DELETE_PENDING, -LINUX_EBUSY},
		{ERROR_DISK_FULL, -LINUX_ENOSPC},
		{ERROR_FILE_TOO_LARGE, -LINUX_EFBIG},
		{ERROR_PRIVILEGE_NOT_HELD, -LINUX_EPERM},
		{ERROR_USER_MAPPED_FILE, -LINUX_ETXTBSY},
		{ERROR_WRITE_PROTECT, -LINUX_EROFS},
		{225, -LINUX_EIO}, /* ERROR_VIRUS_INFECTED: not in the table */
	};
	u32 i, k, wrong = 0, n = sizeof(win32) / sizeof(win32[0]);

	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		wrong += bee_win_error(want[i].code) != want[i].error;
	tap_ok(!wrong, "codes of a full, locked or infected disk are Linux's");
	for (i = 0; i < n; i++)
		for (k = i + 1; k < n; k++)
			wrong += win32[i].code == win32[k].code;
	tap_ok(!wrong, "each of %u codes is in the table once", n);
}

int main(void)
{
	WCHAR temp[MAX_PATH];

	_setmode(1, _O_BINARY);
	GetTempPathW(MAX_PATH, temp);
	SetCurrentDirectoryW(temp);
	test_clocks(0, 10000000, "not invariant");
	test_clocks(1, 3000000, "3 MHz");
	test_volumes();
	test_console_events();
	test_policies(2);
	test_policies(1);
	test_policies(0);
	test_errors();
	return tap_done();
}
