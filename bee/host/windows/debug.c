// SPDX-License-Identifier: MIT
/*
 * The parent as the debugger of all processes of the run. Windows writes the
 * record of an exception below the stack pointer before any handler in the
 * process runs, but asks a debugger before that. So a fault of the guest is
 * handled here: its record and registers are written to a shared section, and
 * the thread continues in bee (fault.c) on its host stack. The guest's stack is
 * not touched.
 *
 * Only the thread that created the child may wait for its events, so this has
 * no lock. Owns the list of the child's threads. The section is only written
 * here, never read, because the child can write to it.
 */
#include "win.h"
#include "family.h"

#define PROCESSES 1024

struct debugged {
	DWORD id; /* 0: the slot is free */
	HANDLE handle;
};

static struct debugged threads[WIN_FAULTS];
static struct win_fault *faults;

/* Debugged processes. `begun`: the loader's breakpoint was seen. */
static struct {
	DWORD id; /* 0: the slot is free */
	HANDLE handle;
	u32 begun;
} processes[PROCESSES];

/* A section in the page file that the child inherits; NULL: there is none. */
HANDLE bee_debug_section(void)
{
	SECURITY_ATTRIBUTES inherit = {sizeof(inherit), NULL, TRUE};
	HANDLE h;

	h = CreateFileMappingW(INVALID_HANDLE_VALUE, &inherit, PAGE_READWRITE,
			       0, WIN_FAULTS * sizeof(*faults), NULL);
	if (!h)
		return NULL;
	faults = MapViewOfFile(h, FILE_MAP_WRITE, 0, 0, 0);
	if (faults)
		return h;
	CloseHandle(h);
	return NULL;
}

static struct debugged *thread_find(DWORD id)
{
	u32 i;

	for (i = 0; i < WIN_FAULTS; i++)
		if (threads[i].id == id)
			return &threads[i];
	return NULL;
}

/*
 * A thread beyond the last slot uses the vectored handler, which needs no slot.
 */
static void thread_add(DWORD id, HANDLE handle)
{
	struct debugged *t = thread_find(0);

	if (t)
		*t = (struct debugged){id, handle};
}

static void thread_remove(DWORD id)
{
	struct debugged *t = thread_find(id);

	if (t)
		t->id = 0;
}

/*
 * 1: the thread continues in bee. 0: it is not a fault of the guest, or the
 * thread cannot be sent to bee.
 */
static int fault_send(const DEBUG_EVENT *e)
{
	const EXCEPTION_RECORD *r = &e->u.Exception.ExceptionRecord;
	struct debugged *t = thread_find(e->dwThreadId);
	struct win_fault *f = &faults[t ? t - threads : 0];
	CONTEXT c = {.ContextFlags = CONTEXT_CONTROL | CONTEXT_INTEGER};

	if (!t || !e->u.Exception.dwFirstChance ||
	    !GetThreadContext(t->handle, &c) || !bee_fault_is_guest(r, &c))
		return 0;
	f->record = *r;
	f->context = c;
	c.Rcx = (u64)(t - threads);
	c.Rip = (u64)bee_fault_enter;
	c.EFlags &= ~0x500u; /* TF, DF */
	return SetThreadContext(t->handle, &c);
}

static u32 process_find(DWORD id)
{
	u32 i;

	for (i = 0; i < PROCESSES; i++)
		if (processes[i].id == id)
			break;
	return i;
}

static void process_add(DWORD id, HANDLE handle)
{
	u32 i = process_find(0);

	if (i == PROCESSES)
		return;
	processes[i].id = id;
	processes[i].handle = handle;
	processes[i].begun = 0;
}

/* 1: the run has ended. */
static int process_remove(DWORD id, DWORD code)
{
	u32 i = process_find(id);
	HANDLE h = i < PROCESSES ? processes[i].handle : NULL;

	if (h)
		processes[i].id = 0;
	return bee_family_ended(id, h, code);
}

/*
 * Two exceptions occur only under a debugger: the loader's breakpoint, and the
 * one for CloseHandle of an invalid handle.
 */
static DWORD on_exception(const DEBUG_EVENT *e)
{
	DWORD code = e->u.Exception.ExceptionRecord.ExceptionCode;
	u32 i;

	if (fault_send(e) || code == (DWORD)STATUS_INVALID_HANDLE)
		return DBG_CONTINUE;
	i = process_find(e->dwProcessId);
	if (code == EXCEPTION_BREAKPOINT && i < PROCESSES &&
	    !processes[i].begun) {
		processes[i].begun = 1;
		return DBG_CONTINUE;
	}
	return DBG_EXCEPTION_NOT_HANDLED;
}

/*
 * Windows closes the handles of threads and processes, but not that of the
 * file.
 */
static DWORD on_event(const DEBUG_EVENT *e)
{
	switch (e->dwDebugEventCode) {
	case EXCEPTION_DEBUG_EVENT:
		return on_exception(e);
	case CREATE_PROCESS_DEBUG_EVENT:
		thread_add(e->dwThreadId, e->u.CreateProcessInfo.hThread);
		process_add(e->dwProcessId, e->u.CreateProcessInfo.hProcess);
		if (e->u.CreateProcessInfo.hFile)
			CloseHandle(e->u.CreateProcessInfo.hFile);
		break;
	case CREATE_THREAD_DEBUG_EVENT:
		thread_add(e->dwThreadId, e->u.CreateThread.hThread);
		break;
	case EXIT_THREAD_DEBUG_EVENT:
		thread_remove(e->dwThreadId);
		break;
	case LOAD_DLL_DEBUG_EVENT:
		if (e->u.LoadDll.hFile)
			CloseHandle(e->u.LoadDll.hFile);
		break;
	}
	return DBG_CONTINUE;
}

/*
 * Returns when the first process of the run has ended. Only the thread that
 * created it may call this.
 */
void bee_debug_run(void)
{
	DEBUG_EVENT e;
	DWORD how;
	int over = 0;

	while (!over && WaitForDebugEvent(&e, INFINITE)) {
		how = on_event(&e);
		if (e.dwDebugEventCode == EXIT_PROCESS_DEBUG_EVENT)
			over = process_remove(e.dwProcessId,
					      e.u.ExitProcess.dwExitCode);
		ContinueDebugEvent(e.dwProcessId, e.dwThreadId, how);
	}
}
