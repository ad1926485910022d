// SPDX-License-Identifier: MIT
/*
 * The parent: starts bee again as the child that becomes the guest, with the
 * attributes that only a creator can set (job, mitigation policy, priority,
 * inherited handles), waits for it, and reports in one sentence how it died.
 * Ctrl-C reaches the child through the console; the parent outlives it.
 */
#include "win.h"
#include "family.h"
#include <stdio.h>

#define POLICY_DYNAMIC_CODE_OFF (2ull << 36)
#define POLICY2_SHADOW_STACKS_OFF (2ull << 28)
/* Memory of bee itself, in addition to the guest's. */
#define JOB_SLACK (256ull << 20)

#define SIGINT 2
#define SIGILL 4
#define SIGABRT 6
#define SIGSEGV 11

struct child {
	const struct bee_options *options;
	HANDLE job, goodbye;
	HANDLE faults; /* NULL: the child has no debugger */
	HANDLE family; /* with a debugger only */
	PROCESS_INFORMATION info;
};

/* Returns the part of the command line after the program's name. */
static const WCHAR *command_rest(void)
{
	const WCHAR *p = GetCommandLineW();
	int quoted = 0;

	for (; *p && (quoted || (*p != ' ' && *p != '\t')); p++)
		if (*p == '"')
			quoted = !quoted;
	return p;
}

static WCHAR *command_line(void)
{
	const WCHAR *rest = command_rest();
	u64 room = wcslen(rest) + WIN_PATH_MAX + 16;
	WCHAR *line = HeapAlloc(GetProcessHeap(), 0, room * sizeof(WCHAR));
	DWORD n;

	if (!line)
		return NULL;
	line[0] = '"';
	n = GetModuleFileNameW(NULL, line + 1, WIN_PATH_MAX);
	if (!n || n >= WIN_PATH_MAX)
		return NULL;
	wcscpy(line + 1 + n, L"\" --child");
	wcscat(line, rest);
	return line;
}

static HANDLE job_new(const struct bee_options *o)
{
	JOBOBJECT_EXTENDED_LIMIT_INFORMATION limit = {0};
	HANDLE job = CreateJobObjectW(NULL, NULL);

	if (!job)
		return NULL;
	limit.BasicLimitInformation.LimitFlags =
		JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
		JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
	if (o->no_debugger) {
		limit.BasicLimitInformation.LimitFlags |=
			JOB_OBJECT_LIMIT_ACTIVE_PROCESS;
		limit.BasicLimitInformation.ActiveProcessLimit = 1;
	}
	if (o->memory) {
		limit.BasicLimitInformation.LimitFlags |=
			JOB_OBJECT_LIMIT_PROCESS_MEMORY;
		limit.ProcessMemoryLimit = o->memory + JOB_SLACK;
	}
	if (SetInformationJobObject(job, JobObjectExtendedLimitInformation,
				    &limit, sizeof(limit)))
		return job;
	CloseHandle(job);
	return NULL;
}

static u32 handles_add(HANDLE *list, u32 n, HANDLE h)
{
	u32 i;

	if (!h || h == INVALID_HANDLE_VALUE)
		return n;
	for (i = 0; i < n; i++)
		if (list[i] == h)
			return n;
	if (!SetHandleInformation(h, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT))
		return n;
	list[n] = h;
	return n + 1;
}

static u32 handles_listed(const struct child *c, STARTUPINFOEXW *si,
			  HANDLE *list)
{
	u32 n = 0;

	si->StartupInfo.dwFlags = STARTF_USESTDHANDLES;
	si->StartupInfo.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
	si->StartupInfo.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
	si->StartupInfo.hStdError = GetStdHandle(STD_ERROR_HANDLE);
	n = handles_add(list, n, c->goodbye);
	n = handles_add(list, n, c->faults);
	n = handles_add(list, n, c->family);
	n = handles_add(list, n, (HANDLE)(ULONG_PTR)c->options->stream);
	n = handles_add(list, n, si->StartupInfo.hStdInput);
	n = handles_add(list, n, si->StartupInfo.hStdOutput);
	return handles_add(list, n, si->StartupInfo.hStdError);
}

/* `policies` counts the words of DWORD64: 0, 1 or 2. */
static BOOL create_child(struct child *c, WCHAR *line, u32 policies)
{
	DWORD64 policy[2] = {POLICY_DYNAMIC_CODE_OFF,
			     POLICY2_SHADOW_STACKS_OFF};
	STARTUPINFOEXW si = {.StartupInfo.cb = sizeof(si)};
	u64 space[64];
	SIZE_T size = sizeof(space);
	HANDLE list[7];
	DWORD flags = CREATE_SUSPENDED | EXTENDED_STARTUPINFO_PRESENT;
	u32 n = handles_listed(c, &si, list);
	BOOL ok;

	si.lpAttributeList = (LPPROC_THREAD_ATTRIBUTE_LIST)space;
	if (c->options->idle)
		flags |= IDLE_PRIORITY_CLASS;
	if (c->faults)
		flags |= DEBUG_PROCESS; /* and what it starts */
	if (!InitializeProcThreadAttributeList(si.lpAttributeList, 2, 0, &size))
		return FALSE;
	ok = UpdateProcThreadAttribute(si.lpAttributeList, 0,
				       PROC_THREAD_ATTRIBUTE_HANDLE_LIST, list,
				       n * sizeof(HANDLE), NULL, NULL);
	if (ok && policies)
		ok = UpdateProcThreadAttribute(
			si.lpAttributeList, 0,
			PROC_THREAD_ATTRIBUTE_MITIGATION_POLICY, policy,
			policies * sizeof(DWORD64), NULL, NULL);
	if (ok)
		ok = CreateProcessW(NULL, line, NULL, NULL, TRUE, flags, NULL,
				    NULL, &si.StartupInfo, &c->info);
	DeleteProcThreadAttributeList(si.lpAttributeList);
	return ok;
}

/* An older Windows does not know some policies, and does not need them. */
static BOOL create_somehow(struct child *c)
{
	u32 policies = 2;
	WCHAR *line;
	BOOL ok = FALSE;

	for (;;) {
		line = command_line();
		if (!line)
			return FALSE;
		ok = create_child(c, line, policies);
		if (ok || !policies)
			return ok;
		policies--;
	}
}

static int fail_start(const char *what)
{
	char line[200];

	snprintf(line, sizeof(line), "%s (Windows error %lu)", what,
		 GetLastError());
	bee_os_message(line);
	return BEE_EXIT_REFUSED;
}

static BOOL WINAPI on_control(DWORD event)
{
	return event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
}

static int signal_of(DWORD status)
{
	switch (status) {
	case STATUS_ACCESS_VIOLATION:
	case STATUS_STACK_OVERFLOW:
		return SIGSEGV;
	case STATUS_ILLEGAL_INSTRUCTION:
		return SIGILL;
	case (DWORD)STATUS_CONTROL_C_EXIT:
		return SIGINT;
	}
	return SIGABRT;
}

/* They end with the job. */
static void left_say(void)
{
	u32 left = bee_family_count();
	char line[120];

	if (!left)
		return;
	snprintf(line, sizeof(line),
		 "%lu processes that the program started are ended with it",
		 (unsigned long)left);
	bee_os_message(line);
}

static int exit_code(struct child *c)
{
	DWORD status = 0;
	const char *name;
	char line[200];
	u32 said = 0;

	if (c->family && bee_family_status(&said)) {
		left_say();
		return said & 0x7f ? BEE_EXIT_SIGNAL + (int)(said & 0x7f)
				   : (int)(said >> 8 & 0xff);
	}
	GetExitCodeProcess(c->info.hProcess, &status);
	if (c->family)
		status = said;
	if (WaitForSingleObject(c->goodbye, 0) == WAIT_OBJECT_0)
		return (int)status;
	if (status == (DWORD)STATUS_CONTROL_C_EXIT)
		return BEE_EXIT_SIGNAL + SIGINT;
	name = bee_win_status_name(status);
	if (!name && !c->faults)
		name = "it was killed from outside, or its stack had no space "
		       "for a fault";
	snprintf(line, sizeof(line),
		 "the program's process died unexpectedly: %s "
		 "(status 0x%08lx)",
		 name ? name : "it was killed from outside", status);
	bee_os_message(line);
	return BEE_EXIT_SIGNAL + signal_of(status);
}

static void handle_name(const WCHAR *name, HANDLE h)
{
	WCHAR text[32];

	swprintf(text, 32, L"%llx", (u64)h);
	SetEnvironmentVariableW(name, text);
}

/*
 * Windows gives a process with a debugger a slow heap, unless this variable is
 * set.
 */
static void debug_prepare(struct child *c)
{
	if (c->options->no_debugger)
		return;
	c->faults = bee_debug_section();
	if (!c->faults) {
		bee_os_message("can't create a section for faults: faults may "
			       "damage small stacks");
		return;
	}
	c->family = bee_family_new();
	if (c->family)
		handle_name(WIN_ENV_FAMILY, c->family);
	handle_name(L"BEE_FAULTS", c->faults);
	SetEnvironmentVariableW(L"_NO_DEBUG_HEAP", L"1");
}

int bee_parent_run(const struct bee_options *o)
{
	struct child c = {.options = o};

	c.job = job_new(o);
	if (!c.job)
		return fail_start("can't create a job object for the program");
	c.goodbye = CreateEventW(NULL, TRUE, FALSE, NULL);
	if (!c.goodbye)
		return fail_start("can't create an event");
	handle_name(L"BEE_GOODBYE", c.goodbye);
	debug_prepare(&c);
	SetConsoleCtrlHandler(on_control, TRUE);
	if (!create_somehow(&c))
		return fail_start("bee can't start its child process");
	if (c.family)
		bee_family_first(c.info.dwProcessId);
	if (!AssignProcessToJobObject(c.job, c.info.hProcess)) {
		TerminateProcess(c.info.hProcess, 1);
		return fail_start(
			"can't assign the program's process to its job object");
	}
	/* Without a copy here, the peer sees the end when the child ends. */
	if (o->stream)
		CloseHandle((HANDLE)(ULONG_PTR)o->stream);
	ResumeThread(c.info.hThread);
	if (c.faults)
		bee_debug_run();
	if (!c.family)
		WaitForSingleObject(c.info.hProcess, INFINITE);
	return exit_code(&c);
}
