// SPDX-License-Identifier: MIT
/*
 * execve: a new bee.exe, which gets the state that abi saved and the handles of
 * the descriptors in a section. After vfork the caller goes on; otherwise the
 * new process takes the caller's place in the family and the caller ends.
 * `lock` guards the environment variable that names the new process.
 */
#include "family.h"
#include "abi/include/exec.h"
#include "abi/include/name.h"
#include <stdio.h>

#define SPACE (32u << 20) /* of the section: state, strings, handles */
#define ROOM (SPACE - sizeof(struct exec_head))
#define PASSED 1024 /* as many descriptors as abi has */
#define POLICY_DYNAMIC_CODE_OFF (2ull << 36)
#define POLICY2_SHADOW_STACKS_OFF (2ull << 28)

/* A handle that the new process inherits. */
struct passed {
	s32 number; /* in the table of both processes */
	u32 kind, flags, inherited, console, output;
	u64 handle;
};

struct exec_head {
	u32 passed, strings; /* offset of the strings in `state` */
	u64 error; /* the handle of descriptor 2, for messages; 0: none */
	struct passed list[PASSED];
	_Alignas(16) u8 state[];
};

static SRWLOCK lock = SRWLOCK_INIT;

/* The section ------------------------------------------------------------- */

s64 bee_exec_file(void)
{
	SECURITY_ATTRIBUTES inherit = {sizeof(inherit), NULL, TRUE};
	struct win_handle *h;
	s32 number;
	HANDLE section = CreateFileMappingW(INVALID_HANDLE_VALUE, &inherit,
					    PAGE_READWRITE, 0, SPACE, NULL);
	void *p = section ? MapViewOfFile(section, FILE_MAP_WRITE, 0, 0, 0)
			  : NULL;

	h = p ? bee_handle_new(WIN_EXEC, &number) : NULL;
	if (h) {
		h->h = section;
		h->dir = p;
		return number;
	}
	if (p)
		UnmapViewOfFile(p);
	if (section)
		CloseHandle(section);
	return p ? -LINUX_ENFILE : -LINUX_ENOMEM;
}

void *bee_exec_memory(struct win_handle *h, u64 offset, u64 len)
{
	struct exec_head *e = (void *)h->dir;

	return offset > ROOM || len > ROOM - offset ? NULL : e->state + offset;
}

void bee_exec_close(struct win_handle *h)
{
	UnmapViewOfFile(h->dir);
	CloseHandle(h->h);
	h->dir = NULL;
}

/* What is passed ----------------------------------------------------------- */

static HANDLE handle_of(struct win_handle *h, struct passed *to)
{
	static u32 said;

	if (h->kind == WIN_STREAM)
		return h->out ? NULL
			      : bee_stream_pass(h->stream, &to->console,
						&to->output);
	if (h->lock_held && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		bee_os_message("locks of a file that is passed on stay with "
			       "the program that set them");
	return h->h;
}

static int is_passed(const struct exec_head *e, s32 number)
{
	u32 i;

	for (i = 0; i < e->passed; i++)
		if (e->list[i].number == number)
			return 1;
	return 0;
}

static void pass_handle(struct exec_head *e, s32 number)
{
	struct win_handle *h = bee_handle_get(number);
	struct passed *to = &e->list[e->passed];
	HANDLE handle;

	if (!h || e->passed == PASSED || is_passed(e, number))
		return;
	*to = (struct passed){.number = number,
			      .kind = h->kind,
			      .flags = h->flags,
			      .inherited = h->inherited};
	handle = handle_of(h, to);
	if (!handle || handle == INVALID_HANDLE_VALUE ||
	    !SetHandleInformation(handle, HANDLE_FLAG_INHERIT,
				  HANDLE_FLAG_INHERIT)) {
		bee_os_message("a descriptor cannot be passed to the program "
			       "that is started");
		return;
	}
	to->handle = (u64)handle;
	e->passed++;
}

static void pass_all(struct exec_head *e)
{
	const struct abi_exec_head *head = (const void *)e->state;
	u32 i, j;

	for (i = 0; i < head->numbers; i++) {
		pass_handle(e, abi_exec_handle(head, i));
		if (abi_exec_number(head, i) != 2)
			continue;
		for (j = 0; j < e->passed; j++)
			if (e->list[j].number == abi_exec_handle(head, i))
				e->error = e->list[j].handle;
	}
}

/* The new handles of this process are not for later ones. */
static void keep_all(const struct exec_head *e)
{
	u32 i;

	for (i = 0; i < e->passed; i++)
		SetHandleInformation((HANDLE)e->list[i].handle,
				     HANDLE_FLAG_INHERIT, 0);
}

/* The command line --------------------------------------------------------- */

struct line {
	WCHAR *at, *end;
};

static void put_wide(struct line *l, const WCHAR *text)
{
	while (*text && l->at < l->end)
		*l->at++ = *text++;
	*l->at = 0;
}

/* Names of files contain no quotes on Windows. */
static void put_quoted(struct line *l, const char *name, const char *value)
{
	s64 n;

	if (!value)
		return;
	while (*name && l->at < l->end)
		*l->at++ = (u8)*name++;
	put_wide(l, L" \"");
	n = abi_utf8_to_utf16(value, strlen(value), (u16 *)l->at,
			      (u64)(l->end - l->at));
	l->at += n > 0 ? n : 0;
	put_wide(l, L"\" ");
}

static s64 make_line(struct line *l, HANDLE section, const char *path, s32 pid)
{
	const struct bee_options *o = bee.options;
	char number[4][32];
	WCHAR program[WIN_PATH_MAX];
	s64 err = bee_path_encode(path, program);
	DWORD n;

	if (err < 0)
		return err;
	put_wide(l, L"\"");
	n = GetModuleFileNameW(NULL, l->at, (DWORD)(l->end - l->at));
	if (!n || n >= (DWORD)(l->end - l->at))
		return -LINUX_ENAMETOOLONG;
	l->at += n;
	put_wide(l, o->trace ? L"\" --child --trace " : L"\" --child ");
	snprintf(number[0], 32, "%llu", (u64)section);
	put_quoted(l, "--resume", number[0]);
	snprintf(number[1], 32, "%llx", o->nonce);
	put_quoted(l, "--nonce", number[1]);
	snprintf(number[2], 32, "%llu", o->memory);
	put_quoted(l, "--memory", o->memory ? number[2] : NULL);
	put_quoted(l, "--cache", o->cache);
	put_quoted(l, "--root", o->root);
	put_quoted(l, "--report", pid ? NULL : o->report);
	put_wide(l, L"\"");
	put_wide(l, program);
	put_wide(l, L"\"");
	return l->at < l->end ? 0 : -LINUX_E2BIG;
}

/* The process -------------------------------------------------------------- */

static HANDLE named_handle(const WCHAR *name)
{
	WCHAR text[32];
	DWORD n = GetEnvironmentVariableW(name, text, 32);

	return n && n < 32 ? (HANDLE)(ULONG_PTR)_wcstoui64(text, NULL, 16)
			   : NULL;
}

struct start {
	HANDLE list[PASSED + 4];
	u32 count;
	STARTUPINFOEXW si;
	PROCESS_INFORMATION info;
};

static void list_add(struct start *s, HANDLE h)
{
	u32 i;

	if (!h)
		return;
	for (i = 0; i < s->count; i++)
		if (s->list[i] == h)
			return;
	SetHandleInformation(h, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
	s->list[s->count++] = h;
}

static BOOL create_process(struct start *s, WCHAR *line, u32 policies)
{
	DWORD64 policy[2] = {POLICY_DYNAMIC_CODE_OFF,
			     POLICY2_SHADOW_STACKS_OFF};
	u64 space[64];
	SIZE_T size = sizeof(space);
	BOOL ok;

	s->si.lpAttributeList = (LPPROC_THREAD_ATTRIBUTE_LIST)space;
	if (!InitializeProcThreadAttributeList(s->si.lpAttributeList, 2, 0,
					       &size))
		return FALSE;
	ok = UpdateProcThreadAttribute(
		s->si.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
		s->list, s->count * sizeof(HANDLE), NULL, NULL);
	if (ok && policies)
		ok = UpdateProcThreadAttribute(
			s->si.lpAttributeList, 0,
			PROC_THREAD_ATTRIBUTE_MITIGATION_POLICY, policy,
			policies * sizeof(DWORD64), NULL, NULL);
	if (ok)
		ok = CreateProcessW(NULL, line, NULL, NULL, TRUE,
				    CREATE_SUSPENDED |
					    EXTENDED_STARTUPINFO_PRESENT,
				    NULL, NULL, &s->si.StartupInfo, &s->info);
	DeleteProcThreadAttributeList(s->si.lpAttributeList);
	return ok;
}

/* An older Windows does not know some policies. */
static BOOL create_somehow(struct start *s, const WCHAR *line, WCHAR *copy)
{
	u32 policies;

	for (policies = 2;; policies--) {
		wcscpy(copy, line);
		if (create_process(s, copy, policies))
			return TRUE;
		if (!policies)
			return FALSE;
	}
}

static s64 start_process(struct start *s, struct win_handle *state,
			 const WCHAR *line, WCHAR *copy, s32 pid)
{
	struct exec_head *e = (void *)state->dir;
	WCHAR text[16];
	u32 i;
	BOOL ok;

	s->si.StartupInfo.cb = sizeof(s->si);
	s->si.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
	s->si.StartupInfo.hStdError = (HANDLE)e->error;
	list_add(s, state->h);
	list_add(s, named_handle(L"BEE_FAULTS"));
	list_add(s, named_handle(WIN_ENV_FAMILY));
	for (i = 0; i < e->passed; i++)
		list_add(s, (HANDLE)e->list[i].handle);
	swprintf(text, 16, L"%d", pid);
	AcquireSRWLockExclusive(&lock);
	SetEnvironmentVariableW(WIN_ENV_MEMBER, text);
	ok = create_somehow(s, line, copy);
	ReleaseSRWLockExclusive(&lock);
	keep_all(e);
	return ok ? 0 : bee_win_last();
}

/* The caller's place is the new process's now. */
__attribute__((noreturn)) static void leave_place(struct start *s)
{
	bee_thread_freeze();
	bee_stream_flush_all();
	ResumeThread(s->info.hThread);
	TerminateProcess(GetCurrentProcess(), 0);
	__builtin_unreachable();
}

#define LINE 40000 /* Windows allows 32,767 */

static s64 exec_with(struct start *s, WCHAR *text, const char *path,
		     struct win_handle *state, s32 pid)
{
	struct exec_head *e = (void *)state->dir;
	const struct abi_exec_head *head = (const void *)e->state;
	struct line l = {text, text + LINE - 1};
	s32 member = pid ? pid : (s32)bee_family_pid();
	s64 err = make_line(&l, state->h, path, pid);

	if (err)
		return err;
	e->strings = head->size;
	pass_all(e);
	err = start_process(s, state, text, text + LINE, member);
	if (err)
		return err;
	err = bee_family_set_process(member, s->info.dwProcessId);
	if (err)
		TerminateProcess(s->info.hProcess, 1);
	else if (!pid)
		leave_place(s);
	else
		ResumeThread(s->info.hThread);
	CloseHandle(s->info.hThread);
	CloseHandle(s->info.hProcess);
	return err;
}

s64 bee_exec(const struct abi_family_op *op, s32 pid)
{
	struct win_handle *state = bee_handle_get(op->handle);
	struct start *s = bee_os_alloc(sizeof(*s));
	WCHAR *text = bee_os_alloc(2 * LINE * sizeof(WCHAR));
	s64 err = -LINUX_ENOMEM;

	if (s && text && state)
		err = exec_with(s, text, op->path, state, pid);
	bee_os_free(s, sizeof(*s));
	bee_os_free(text, 2 * LINE * sizeof(WCHAR));
	return err;
}

/* The new process -----------------------------------------------------------
 */

static int take_handle(const struct passed *from)
{
	struct win_handle *h = bee_handle_at(from->kind, from->number);
	HANDLE handle = (HANDLE)from->handle;

	if (!h)
		return ERROR_NOT_ENOUGH_MEMORY;
	SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0);
	h->flags = from->flags;
	h->inherited = 1;
	if (from->kind != WIN_STREAM) {
		h->h = handle;
		return 0;
	}
	h->stream =
		bee_stream_new(handle, (int)from->console, (int)from->output);
	return h->stream ? 0 : ERROR_NOT_ENOUGH_MEMORY;
}

static char **take_strings(char **at, u32 count)
{
	char **v = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY,
			     (count + 2ull) * sizeof(char *));
	u32 i;

	for (i = 0; v && i < count; i++) {
		v[i] = *at;
		*at += strlen(*at) + 1;
	}
	return v;
}

int bee_exec_take(struct bee_options *o, char ***env)
{
	struct exec_head *e = MapViewOfFile((HANDLE)(ULONG_PTR)o->resume,
					    FILE_MAP_WRITE, 0, 0, 0);
	const struct abi_exec_head *head;
	char *at;
	u32 i;
	int err = 0;

	if (!e)
		return (int)GetLastError();
	CloseHandle((HANDLE)(ULONG_PTR)o->resume);
	head = (const void *)e->state;
	bee.resume = head;
	bee.resume_len = head->size;
	at = (char *)e->state + e->strings;
	o->argv = take_strings(&at, head->argc);
	*env = take_strings(&at, head->envc);
	if (!o->argv || !*env)
		return ERROR_NOT_ENOUGH_MEMORY;
	if (!o->argv[0])
		o->argv[0] = (char *)o->program;
	for (i = 0; i < e->passed && !err; i++)
		err = take_handle(&e->list[i]);
	if (e->error)
		SetStdHandle(STD_ERROR_HANDLE, (HANDLE)e->error);
	return err;
}
