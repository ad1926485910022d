// SPDX-License-Identifier: MIT
/*
 * Probe: limits and policies. The limits of the job apply to the probing
 * process itself, so this part is the last.
 */
#include "probe.h"

#define POLICY_SHADOW_STACK ((PROCESS_MITIGATION_POLICY)15)
#define EXTRA (64ull << 20)

static void probe_policy(const char *name, PROCESS_MITIGATION_POLICY which)
{
	DWORD flags = 0;

	if (!GetProcessMitigationPolicy(GetCurrentProcess(), which, &flags,
					sizeof(flags)))
		bee_probe_line(name, PROBE_ABSENT, "error %lu: not known here",
			       GetLastError());
	else
		bee_probe_line(name, flags & 1 ? PROBE_BAD : PROBE_OK, "%s",
			       flags & 1 ? "on: guests cannot run"
					 : "off, as required");
}

static void probe_token(void)
{
	HANDLE mine, limited;
	BOOL ok;

	if (!OpenProcessToken(GetCurrentProcess(), TOKEN_DUPLICATE, &mine))
		return;
	ok = CreateRestrictedToken(mine, DISABLE_MAX_PRIVILEGE, 0, NULL, 0,
				   NULL, 0, NULL, &limited);
	bee_probe_line("restricted-token", ok ? PROBE_ACCEPTED : PROBE_ABSENT,
		       "CreateRestrictedToken: error %lu; its effect is not "
		       "measured",
		       ok ? 0 : GetLastError());
	if (ok)
		CloseHandle(limited);
	CloseHandle(mine);
}

static void probe_idle(void)
{
	BOOL ok = SetPriorityClass(GetCurrentProcess(), IDLE_PRIORITY_CLASS);
	DWORD now = GetPriorityClass(GetCurrentProcess());

	bee_probe_line("idle-priority",
		       now == IDLE_PRIORITY_CLASS ? PROBE_OK
		       : ok			  ? PROBE_ACCEPTED
						  : PROBE_ABSENT,
		       "class 0x%lx after asking for 0x40", now);
}

static int can_spawn(void)
{
	STARTUPINFOW si = {.cb = sizeof(si)};
	PROCESS_INFORMATION pi;
	WCHAR line[MAX_PATH + 16];
	BOOL ok;

	line[0] = '"';
	line[1 + GetModuleFileNameW(NULL, line + 1, MAX_PATH)] = 0;
	wcscat(line, L"\" --version");
	ok = CreateProcessW(NULL, line, NULL, NULL, FALSE,
			    CREATE_SUSPENDED | DETACHED_PROCESS, NULL, NULL,
			    &si, &pi);
	if (!ok)
		return 0;
	TerminateProcess(pi.hProcess, 0);
	CloseHandle(pi.hThread);
	CloseHandle(pi.hProcess);
	return 1;
}

static void job_limits(void)
{
	JOBOBJECT_EXTENDED_LIMIT_INFORMATION limit = {0};
	HANDLE job = CreateJobObjectW(NULL, NULL);
	void *big;
	BOOL ok;

	limit.BasicLimitInformation.LimitFlags =
		JOB_OBJECT_LIMIT_ACTIVE_PROCESS |
		JOB_OBJECT_LIMIT_PROCESS_MEMORY;
	limit.BasicLimitInformation.ActiveProcessLimit = 1;
	limit.ProcessMemoryLimit = EXTRA;
	ok = job &&
	     SetInformationJobObject(job, JobObjectExtendedLimitInformation,
				     &limit, sizeof(limit)) &&
	     AssignProcessToJobObject(job, GetCurrentProcess());
	bee_probe_line("job", ok ? PROBE_OK : PROBE_ABSENT, "error %lu",
		       ok ? 0 : GetLastError());
	if (!ok)
		return;
	big = VirtualAlloc(NULL, 4 * EXTRA, MEM_RESERVE | MEM_COMMIT,
			   PAGE_READWRITE);
	bee_probe_line("job-memory", big ? PROBE_ACCEPTED : PROBE_OK,
		       "committing four times the limit %s",
		       big ? "succeeds: bee's own count is the limit"
			   : "fails");
	ok = can_spawn();
	bee_probe_line("job-processes", ok ? PROBE_ACCEPTED : PROBE_OK,
		       "a second process %s", ok ? "starts" : "is refused");
}

void bee_probe_policy(void)
{
	probe_policy("shadow-stack", POLICY_SHADOW_STACK);
	probe_policy("dynamic-code", ProcessDynamicCodePolicy);
	probe_token();
	probe_idle();
	job_limits();
}
