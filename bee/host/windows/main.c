// SPDX-License-Identifier: MIT
/*
 * bee.exe: arguments and environment in UTF-8, then one of two roles. Without
 * --child it is the parent, which starts itself again under a job object; the
 * child becomes the guest. Owns the host table, `options` and the two vectors,
 * all written before guest threads exist.
 */
#include "win.h"
#include "spawn.h"
#include "view.h"
#include "abi/include/name.h"
#include <stdio.h>

#define ENV_GOODBYE L"BEE_GOODBYE"
#define ENV_FAULTS L"BEE_FAULTS"
#define ENV_HEAP L"_NO_DEBUG_HEAP"
#define GUEST_PATH "PATH=/usr/local/bin:/usr/bin:/bin"

static struct bee_options options;
static HANDLE goodbye; /* set if bee ends the process on purpose */

static void end_guest(u32 status);

static const struct abi_host host = {
	.mem_commit = bee_mem_commit,
	.mem_protect = bee_mem_protect,
	.mem_release = bee_mem_release,
	.mem_discard = bee_mem_discard,
	.mem_file = bee_view_map,
	.mem_place = bee_view_place,
	.mem_reach = bee_view_reach,
	.mem_sync = bee_view_sync,
	.text_seal = bee_text_seal,
	.text_file = bee_text_file,
	.text_pc = bee_text_pc,
	.thread_start = bee_thread_start,
	.thread_number = bee_family_number,
	.thread_lives = bee_family_lives,
	.thread_exit = bee_thread_exit,
	.thread_kick = bee_thread_kick,
	.thread_self = bee_thread_index,
	.thread_yield = bee_thread_yield,
	.thread_affinity = bee_thread_affinity,
	.thread_clock = bee_thread_clock,
	.wait = bee_wait,
	.wake = bee_wake,
	.futex = bee_futex,
	.robust = bee_robust_watch,
	.timer_arm = bee_timer_arm,
	.clock = bee_clock,
	.random = bee_random,
	.info = bee_info,
	.rusage = bee_rusage,
	.file_open = bee_file_open,
	.file_close = bee_file_close,
	.file_read = bee_file_read,
	.file_write = bee_file_write,
	.file = bee_file,
	.file_lock = bee_file_lock,
	.path = bee_path,
	.pipe = bee_stream_pipe,
	.counter = bee_counter_new,
	.family = bee_family,
	.sock_open = bee_sock_open,
	.sock = bee_sock,
	.io_wait = bee_io_wait,
	.proc_exit = end_guest,
	.log = bee_log,
};

/* Text ------------------------------------------------------------------- */

static char *to_utf8(const WCHAR *w)
{
	u64 len = wcslen(w), room = len * 3 + 1;
	char *s = HeapAlloc(GetProcessHeap(), 0, room);
	s64 n;

	if (!s)
		return NULL;
	n = abi_utf16_to_utf8((const u16 *)w, len, s, room - 1);
	if (n < 0)
		return NULL;
	s[n] = 0;
	return s;
}

static char **alloc_vector(u32 count)
{
	return HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY,
			 (count + 1) * sizeof(char *));
}

static char **utf8_arguments(int argc, WCHAR **wide)
{
	char **argv = alloc_vector((u32)argc);
	int i;

	for (i = 0; argv && i < argc; i++) {
		argv[i] = to_utf8(wide[i]);
		if (!argv[i])
			return NULL;
	}
	return argv;
}

/* Environment ------------------------------------------------------------- */

static int same_name(const char *a, const char *b)
{
	while (*a && *a == *b && *a != '=')
		a++, b++;
	return *a == '=' && *b == '=';
}

static int is_overridden(const char *var)
{
	u32 i;

	for (i = 0; i < options.envs; i++)
		if (same_name(var, options.env[i]))
			return 1;
	return 0;
}

/*
 * Leaves out drive directories (=C:), variables for bee, and Windows' own PATH.
 */
static int is_wanted(const WCHAR *w)
{
	return *w != '=' && wcsncmp(w, ENV_GOODBYE, 11) &&
	       wcsncmp(w, ENV_FAULTS, 10) && wcsncmp(w, WIN_ENV_FAMILY, 10) &&
	       wcsncmp(w, WIN_ENV_MEMBER, 10) && wcsncmp(w, ENV_HEAP, 14) &&
	       _wcsnicmp(w, L"PATH=", 5);
}

static u32 environ_count(const WCHAR *block)
{
	u32 n = 0;

	for (; *block; block += wcslen(block) + 1)
		n++;
	return n;
}

static char **make_environment(void)
{
	WCHAR *block = GetEnvironmentStringsW(), *w = block;
	char **env, *var;
	u32 n = 0, i;

	env = alloc_vector(environ_count(block) + options.envs + 1);
	if (!env)
		return NULL;
	for (; *w && !options.clean_env; w += wcslen(w) + 1) {
		var = is_wanted(w) ? to_utf8(w) : NULL;
		if (var && !is_overridden(var))
			env[n++] = var;
	}
	if (!options.clean_env && !is_overridden(GUEST_PATH))
		env[n++] = (char *)GUEST_PATH;
	for (i = 0; i < options.envs; i++)
		env[n++] = (char *)options.env[i];
	FreeEnvironmentStringsW(block);
	return env;
}

/* The end ------------------------------------------------------------------ */

static void report_write(u32 status)
{
	char text[4096];
	WCHAR path[WIN_PATH_MAX];
	u64 len = bee_report(text, sizeof(text), status);
	s64 n = abi_utf8_to_utf16(options.report, strlen(options.report),
				  (u16 *)path, WIN_PATH_MAX - 1);
	DWORD put;
	HANDLE h;

	if (n < 0)
		return;
	path[n] = 0;
	h = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
	if (h == INVALID_HANDLE_VALUE ||
	    !WriteFile(h, text, (DWORD)len, &put, NULL))
		bee_os_message("the report could not be written; give --report "
			       "a file that can be created");
	if (h != INVALID_HANDLE_VALUE)
		CloseHandle(h);
}

/*
 * Uses TerminateProcess, because ExitProcess would run code of DLLs under locks
 * that killed threads still hold.
 */
static void end_process(u32 code)
{
	if (goodbye)
		SetEvent(goodbye);
	TerminateProcess(GetCurrentProcess(), code);
}

void bee_proc_exit(u32 status)
{
	u32 signal = status & 0x7f;

	bee_thread_freeze();
	bee_stream_flush_all();
	if (options.report)
		report_write(status);
	bee_family_end(status);
	end_process(signal ? BEE_EXIT_SIGNAL + signal : status >> 8 & 0xff);
}

static void end_guest(u32 status)
{
	bee_robust_end(1);
	bee_proc_exit(status);
}

/* The child ------------------------------------------------------------------
 */

/* Returns a handle that the parent named in the environment; NULL: none. */
static HANDLE handle_inherited(const WCHAR *name)
{
	WCHAR text[32];
	DWORD n = GetEnvironmentVariableW(name, text, 32);

	if (!n || n >= 32)
		return NULL;
	return (HANDLE)(ULONG_PTR)_wcstoui64(text, NULL, 16);
}

static int refuse_start(const char *what, DWORD error)
{
	char line[200];

	snprintf(line, sizeof(line), "%s (Windows error %lu); run bee --probe",
		 what, error);
	bee_os_message(line);
	return BEE_EXIT_REFUSED;
}

static int prepare_child(struct win_thread **main_thread)
{
	HANDLE section = handle_inherited(ENV_FAULTS);
	int err = section ? bee_fault_map(section) : 0;

	if (err)
		return refuse_start(
			"the parent's section for faults can't be mapped",
			(DWORD)err);
	SetConsoleOutputCP(CP_UTF8);
	err = bee_thread_slots_take();
	if (err)
		return refuse_start(
			"the thread slots that rewritten code uses are in use",
			(DWORD)err);
	err = bee_mem_reserve();
	if (err)
		return refuse_start("the guest's address range is in use",
				    (DWORD)err);
	bee_cpu_init();
	*main_thread = bee_thread_main();
	if (!*main_thread)
		return refuse_start("no memory for the first thread",
				    GetLastError());
	bee_fault_install();
	return 0;
}

/* Loads the program, or what a process that forked has left. */
static int load_guest(void)
{
	struct win_spawn *from = NULL;
	char **env = options.resume ? NULL : make_environment();
	int err = bee_family_join();

	if (!err && options.resume)
		err = bee_exec_take(&options, &env, &from);
	if (!err && from && from->forked)
		err = bee_fork_take(from, &host);
	if (err)
		return refuse_start("what the parent passed on can't be used",
				    (DWORD)err);
	if (bee.vec)
		return 0;
	if (!env)
		return refuse_start("no memory for the environment", 8);
	return bee_load(&options, &host, (const char *const *)env);
}

static int start_helpers(void)
{
	int err = bee_timer_start();

	if (err)
		return refuse_start("can't create a thread for timers",
				    (DWORD)err);
	err = bee_family_start();
	return err ? refuse_start("can't create a thread for signals",
				  (DWORD)err)
		   : 0;
}

static int run_child(void)
{
	struct win_thread *t;
	int code;

	if (!options.resume)
		goodbye = handle_inherited(ENV_GOODBYE);
	bee.options = &options;
	bee.image.started_ns = (u64)bee_clock(ABI_CLOCK_MONOTONIC);
	code = prepare_child(&t);
	if (!code)
		code = load_guest();
	if (!code && options.load_only)
		bee_proc_exit(0);
	if (!code) {
		t->bee.proc = bee.proc;
		code = start_helpers();
	}
	if (!code && options.stream && options.report)
		report_write(0); /* the stream's peer reads it at the start */
	bee.image.entered_ns = (u64)bee_clock(ABI_CLOCK_MONOTONIC);
	if (!code && bee.vec && bee_fork_ready())
		code = BEE_EXIT_REFUSED;
	if (!code)
		bee_thread_enter(&t->bee);
	bee_family_end((u32)code << 8);
	end_process((u32)code);
	return code;
}

/* Options that need no program. fflush detects a full disk. */
static int answer_option(void)
{
	int code = 0;

	if (options.help)
		fputs(bee_usage, stdout);
	else if (options.version)
		puts("bee " SKEP_VERSION);
	else if (options.list)
		fputs(bee_list(&host), stdout);
	else
		code = bee_probe();
	if (!fflush(stdout))
		return code;
	bee_os_message("standard output can't be written");
	return 1;
}

/* The start code of mingw calls this, but no header declares it. */
int wmain(int argc, WCHAR **wide);

int wmain(int argc, WCHAR **wide)
{
	char **argv = utf8_arguments(argc, wide);
	char why[160];
	int code;

	bee_clock_init();
	if (!argv) {
		bee_os_message("an argument is not valid UTF-16");
		return BEE_EXIT_USAGE;
	}
	code = bee_options_parse(&options, argc, argv, why);
	if (code) {
		bee_os_message(why);
		return code;
	}
	if (options.help || options.version || options.list)
		return answer_option();
	if (bee_root_set(options.root))
		return refuse_start("--root is not a usable directory",
				    GetLastError());
	if (options.probe)
		return answer_option();
	return options.child ? run_child() : bee_parent_run(&options);
}
