// SPDX-License-Identifier: MIT
/*
 * execve: a new bee.exe, which gets the state that abi saved and the handles of
 * the descriptors in a section. After vfork the caller goes on; otherwise the
 * new process takes the caller's place in the family and the caller ends.
 * `lock` guards which handles are inherited, and the environment variable that
 * names the new process.
 */
#include "spawn.h"
#include "abi/include/exec.h"
#include "abi/include/name.h"
#include <stdio.h>

#define SPACE (32u << 20) /* of the section: state, strings, handles */
#define ROOM (SPACE - sizeof(struct win_spawn))
#define POLICY_DYNAMIC_CODE_OFF (2ull << 36)
#define POLICY2_SHADOW_STACKS_OFF (2ull << 28)

static SRWLOCK lock = SRWLOCK_INIT;

void bee_spawn_lock(void)
{
	AcquireSRWLockExclusive(&lock);
}

void bee_spawn_unlock(void)
{
	ReleaseSRWLockExclusive(&lock);
}

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
	struct win_spawn *e = (void *)h->dir;

	return offset > ROOM || len > ROOM - offset ? NULL : e->state + offset;
}

void bee_exec_close(struct win_handle *h)
{
	UnmapViewOfFile(h->dir);
	CloseHandle(h->h);
	h->dir = NULL;
}

/* What is passed ----------------------------------------------------------- */

static HANDLE handle_of(struct win_handle *h, struct win_passed *to)
{
	if (h->kind == WIN_COUNTER)
		return bee_counter_pass(h->counter, to);
	if (h->kind != WIN_STREAM)
		return h->h;
	return h->out ? NULL : bee_stream_pass(h->stream, to);
}

/* The open file's locks are the new process's too. */
static int pass_locks(struct win_spawn *e, struct win_handle *h,
		      struct win_passed *to)
{
	HANDLE locks;

	if (h->kind != WIN_FILE && h->kind != WIN_DIR)
		return 0;
	locks = bee_filelock_share(h);
	e->locks = (u64)locks;
	to->lock_owner = (u64)h->lock_owner;
	to->lock_id = h->lock_id;
	to->lock_held = h->lock_held;
	return locks ? 0 : -1;
}

static int is_passed(const struct win_spawn *e, s32 number)
{
	u32 i;

	for (i = 0; i < e->passed; i++)
		if (e->list[i].number == number)
			return 1;
	for (i = 0; i < e->sockets; i++)
		if (e->socket[i].number == number)
			return 1;
	return 0;
}

static int set_inherited(u64 handle, int inherited)
{
	return !handle ||
	       SetHandleInformation((HANDLE)handle, HANDLE_FLAG_INHERIT,
				    inherited ? HANDLE_FLAG_INHERIT : 0);
}

static int inherit_pipe(const struct win_passed *of, int inherited)
{
	u32 i;

	for (i = 0; i < WIN_SHUTS; i++)
		if (!set_inherited(of->shut[i], inherited))
			return 0;
	return set_inherited(of->handle, inherited) &&
	       set_inherited(of->out, inherited);
}

static int pass_pair(struct win_spawn *e, struct win_handle *h,
		     struct win_passed *to)
{
	to->pair = 1;
	to->handle = (u64)bee_stream_pass(h->stream, to);
	to->out = (u64)bee_stream_pass(h->out, to);
	to->output = 0;
	if (!inherit_pipe(to, 1))
		return -1;
	e->passed++;
	return 0;
}

/* Windows inherits no sockets: bee_spawn_sockets makes them. */
static int pass_socket(struct win_spawn *e, s32 number)
{
	if (e->sockets == WIN_SOCKETS_PASSED)
		return -1;
	e->socket[e->sockets].number = number;
	e->socket[e->sockets].as = *bee_handle_get(number);
	e->sockets++;
	return 0;
}

int bee_spawn_sockets(struct win_spawn *e, DWORD process)
{
	u32 i;

	for (i = 0; i < e->sockets; i++)
		if (WSADuplicateSocketW(e->socket[i].as.s, process,
					&e->socket[i].info))
			return -1;
	return 0;
}

int bee_spawn_pass(struct win_spawn *e, s32 number)
{
	struct win_handle *h = bee_handle_get(number);
	struct win_passed *to = &e->list[e->passed];
	HANDLE handle;

	if (!h || is_passed(e, number))
		return 0;
	if (h->kind == WIN_SOCK)
		return pass_socket(e, number);
	if (e->passed == WIN_PASSED)
		return -1;
	*to = (struct win_passed){.number = number,
				  .kind = h->kind,
				  .flags = h->flags,
				  .inherited = h->inherited,
				  .gone = h->gone};
	if (h->pair)
		return pass_pair(e, h, to);
	handle = handle_of(h, to);
	if (!handle || handle == INVALID_HANDLE_VALUE || pass_locks(e, h, to) ||
	    !SetHandleInformation(handle, HANDLE_FLAG_INHERIT,
				  HANDLE_FLAG_INHERIT))
		return -1;
	to->handle = (u64)handle;
	e->passed++;
	return 0;
}

void bee_spawn_error(struct win_spawn *e, s32 number)
{
	u32 i;

	for (i = 0; i < e->passed; i++)
		if (e->list[i].number == number)
			e->error = e->list[i].pair ? e->list[i].out
						   : e->list[i].handle;
}

static void pass_all(struct win_spawn *e)
{
	const struct abi_exec_head *head = (const void *)e->state;
	u32 i;

	for (i = 0; i < head->numbers; i++) {
		if (bee_spawn_pass(e, abi_exec_handle(head, i)))
			bee_os_message("a descriptor cannot be passed to the "
				       "program that is started");
		if (abi_exec_number(head, i) == 2)
			bee_spawn_error(e, abi_exec_handle(head, i));
	}
}

/* The new handles of this process are not for later ones. */
static void keep_all(const struct win_spawn *e)
{
	u32 i;

	for (i = 0; i < e->passed; i++) {
		inherit_pipe(&e->list[i], 0);
		set_inherited(e->list[i].lock_owner, 0);
	}
	set_inherited(e->locks, 0);
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

static s64 make_line(struct line *l, HANDLE section, const WCHAR *program,
		     int report)
{
	const struct bee_options *o = bee.options;
	char number[4][32];
	DWORD n;

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
	put_quoted(l, "--report", report ? o->report : NULL);
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

void bee_spawn_add(struct win_start *s, HANDLE h)
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

static BOOL create_process(struct win_start *s, WCHAR *line, u32 policies)
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
static BOOL create_somehow(struct win_start *s)
{
	u32 policies;

	for (policies = 2;; policies--) {
		wcscpy(s->copy, s->line);
		if (create_process(s, s->copy, policies))
			return TRUE;
		if (!policies)
			return FALSE;
	}
}

s64 bee_spawn_start(struct win_start *s, HANDLE section, struct win_spawn *e,
		    const WCHAR *program, s32 pid, int report)
{
	struct line l = {s->line, s->line + WIN_LINE - 1};
	s64 err = make_line(&l, section, program, report);
	WCHAR text[16];
	u32 i, j;

	s->si.StartupInfo.cb = sizeof(s->si);
	s->si.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
	s->si.StartupInfo.hStdError = (HANDLE)e->error;
	bee_spawn_add(s, section);
	bee_spawn_add(s, named_handle(L"BEE_FAULTS"));
	bee_spawn_add(s, named_handle(WIN_ENV_FAMILY));
	bee_spawn_add(s, (HANDLE)e->locks);
	for (i = 0; i < e->passed; i++) {
		bee_spawn_add(s, (HANDLE)e->list[i].handle);
		bee_spawn_add(s, (HANDLE)e->list[i].out);
		for (j = 0; j < WIN_SHUTS; j++)
			bee_spawn_add(s, (HANDLE)e->list[i].shut[j]);
		bee_spawn_add(s, (HANDLE)e->list[i].lock_owner);
	}
	swprintf(text, 16, L"%d", pid);
	SetEnvironmentVariableW(WIN_ENV_MEMBER, text);
	if (!err && !create_somehow(s))
		err = bee_win_last();
	keep_all(e);
	return err;
}

/* The caller's place is the new process's now. */
__attribute__((noreturn)) static void leave_place(struct win_start *s,
						  const struct win_spawn *e)
{
	bee_robust_end(1);
	if (e->mirrored) {
		ResumeThread(s->info.hThread);
		bee_filelock_await(s->info.hProcess);
	}
	bee_thread_freeze();
	bee_stream_flush_all();
	ResumeThread(s->info.hThread); /* if it does not run yet */
	TerminateProcess(GetCurrentProcess(), 0);
	__builtin_unreachable();
}

/* Gives the process what the caller cannot keep, and makes it the member. */
static s64 hand_over(struct win_start *s, struct win_spawn *e,
		     const struct abi_family_op *op, s32 member, s32 pid)
{
	s64 err = bee_family_set_process(member, s->info.dwProcessId);

	if (err || pid)
		return err;
	err = bee_filelock_move(&s->info, e, op);
	if (err)
		bee_family_set_process(member, GetCurrentProcessId());
	return err;
}

static s64 exec_with(struct win_start *s, const struct abi_family_op *op,
		     struct win_handle *state, s32 pid)
{
	struct win_spawn *e = (void *)state->dir;
	const struct abi_exec_head *head = (const void *)e->state;
	WCHAR program[WIN_PATH_MAX];
	s32 member = pid ? pid : (s32)bee_family_pid();
	s64 err = bee_path_encode(op->path, program);

	if (err < 0)
		return err;
	e->strings = head->size;
	bee_spawn_lock();
	pass_all(e);
	err = bee_spawn_start(s, state->h, e, program, member, !pid);
	bee_spawn_unlock();
	if (err)
		return err;
	err = bee_spawn_sockets(e, s->info.dwProcessId)
		      ? -LINUX_ENOMEM
		      : hand_over(s, e, op, member, pid);
	if (err)
		TerminateProcess(s->info.hProcess, 1);
	else if (!pid)
		leave_place(s, e);
	else
		ResumeThread(s->info.hThread);
	CloseHandle(s->info.hThread);
	CloseHandle(s->info.hProcess);
	return err;
}

s64 bee_exec(const struct abi_family_op *op, s32 pid)
{
	struct win_handle *state = bee_handle_get(op->handle);
	struct win_start *s = bee_os_alloc(sizeof(*s));
	s64 err = -LINUX_ENOMEM;

	if (s && state)
		err = exec_with(s, op, state, pid);
	bee_os_free(s, sizeof(*s));
	return err;
}

/* The new process -----------------------------------------------------------
 */

static int take_pipe(struct win_handle *h, const struct win_passed *from)
{
	HANDLE in[2] = {(HANDLE)from->shut[0], (HANDLE)from->shut[1]};
	HANDLE out[2] = {(HANDLE)from->shut[2], (HANDLE)from->shut[3]};

	inherit_pipe(from, 0);
	h->pair = from->pair;
	if (from->pair)
		h->out = bee_stream_own((HANDLE)from->out, 1, out);
	h->stream = bee_stream_own((HANDLE)from->handle, (int)from->output, in);
	return h->stream && (h->out || !h->pair) ? 0 : ERROR_NOT_ENOUGH_MEMORY;
}

static int take_handle(const struct win_passed *from)
{
	struct win_handle *h = bee_handle_at(from->kind, from->number);
	HANDLE handle = (HANDLE)from->handle;

	if (!h)
		return ERROR_NOT_ENOUGH_MEMORY;
	h->flags = from->flags;
	h->inherited = 1;
	h->gone = from->gone;
	h->lock_owner = (HANDLE)from->lock_owner;
	h->lock_id = from->lock_id;
	h->lock_held = from->lock_held;
	if (from->own)
		return take_pipe(h, from);
	set_inherited(from->handle, 0);
	set_inherited(from->out, 0);
	set_inherited(from->lock_owner, 0);
	if (from->kind == WIN_COUNTER) {
		set_inherited(from->shut[0], 0);
		h->counter = bee_counter_open(handle, (HANDLE)from->out,
					      (HANDLE)from->shut[0]);
		return h->counter ? 0 : ERROR_NOT_ENOUGH_MEMORY;
	}
	if (from->kind != WIN_STREAM) {
		h->h = handle;
		return 0;
	}
	h->stream =
		bee_stream_new(handle, (int)from->console, (int)from->output);
	return h->stream ? 0 : ERROR_NOT_ENOUGH_MEMORY;
}

static int sockets_take(const struct win_spawn *e)
{
	const struct win_socket *from = e->socket;
	struct win_handle *h;
	u32 i;

	if (e->sockets && bee_sock_init())
		return WSANOTINITIALISED;
	for (i = 0; i < e->sockets; i++, from++) {
		h = bee_handle_at(WIN_SOCK, from->number);
		if (!h)
			return ERROR_NOT_ENOUGH_MEMORY;
		*h = from->as;
		h->s = WSASocketW(
			FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO,
			FROM_PROTOCOL_INFO, (WSAPROTOCOL_INFOW *)&from->info, 0,
			WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
		if (h->s == INVALID_SOCKET)
			return WSAGetLastError();
	}
	return 0;
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

static int take_program(struct bee_options *o, struct win_spawn *e, char ***env)
{
	const struct abi_exec_head *head = (const void *)e->state;
	char *at = (char *)e->state + e->strings;

	bee.resume = head;
	bee.resume_len = abi_exec_len(head);
	o->argv = take_strings(&at, head->argc);
	*env = take_strings(&at, head->envc);
	if (!o->argv || !*env)
		return ERROR_NOT_ENOUGH_MEMORY;
	if (!o->argv[0])
		o->argv[0] = (char *)o->program;
	return 0;
}

int bee_exec_take(struct bee_options *o, char ***env, struct win_spawn **from)
{
	struct win_spawn *e = MapViewOfFile((HANDLE)(ULONG_PTR)o->resume,
					    FILE_MAP_WRITE, 0, 0, 0);
	u32 i;
	int err = 0;

	if (!e)
		return (int)GetLastError();
	CloseHandle((HANDLE)(ULONG_PTR)o->resume);
	*from = e;
	if (!e->forked)
		err = take_program(o, e, env);
	if (e->locks) {
		set_inherited(e->locks, 0);
		bee_filelock_inherit((HANDLE)e->locks);
	}
	for (i = 0; i < e->passed && !err; i++)
		err = take_handle(&e->list[i]);
	if (!err)
		err = sockets_take(e);
	if (!err && e->mirrored)
		bee_filelock_take(e);
	if (e->error)
		SetStdHandle(STD_ERROR_HANDLE, (HANDLE)e->error);
	return err;
}
