// SPDX-License-Identifier: MIT
/*
 * Inherited pipes and consoles. Their handles may be synchronous,
 * and a synchronous ReadFile or WriteFile cannot be interrupted, so each has
 * a helper thread and a buffer as large as a Linux pipe; guest threads only
 * touch the buffer and wait in io_wait.
 *
 * A reader requests only as much as the guest did, so that unread input is left
 * for the next program. A writer first waits briefly for the other streams to
 * drain, so that lines on standard output and error keep their order.
 *
 * Pipes that bee made are shared by processes, so nothing is read ahead there:
 * the helper only waits for bytes, with a read of none, and the handle is
 * overlapped, so that this holds up no other process.
 *
 * A two-way pipe is two streams whose handles are overlapped; its reader reads
 * ahead, because nothing else reads there.
 *
 * stream->lock guards everything in a stream; `list_lock` guards the list of
 * all streams and comes first.
 */
#include "pipewatch.h"
#include "spawn.h"
#include "abi/include/name.h"

#define BUFFER WIN_STREAM_BUFFER
#define ATOMIC 4096 /* PIPE_BUF */
#define ORDER_MS 20
#define LOOK_MS 100

struct win_stream {
	struct win_stream *next;
	HANDLE h, thread;
	HANDLE event; /* event of an overlapped handle, or NULL */
	HANDLE taken; /* the same for reads of guest threads, if it is own */
	OVERLAPPED pending;
	int console, output, own; /* own: a pipe that bee made */
	/* Of socket pairs: set when a process has shut down the reader or the
	 * writer, for all processes. Both ends have both. */
	HANDLE shut_event[2];
	HANDLE wait[2];		 /* for them */
	struct pipe_watch watch; /* of output that is own: for readers */
	SRWLOCK lock;
	CONDITION_VARIABLE work;    /* the helper waits for this */
	CONDITION_VARIABLE drained; /* `used` became 0, or an error occurred */
	u32 wanted; /* input: the number of bytes to request next; 0: none */
	u32 start, used;
	s64 error;   /* a negative errno that does not change any more */
	u32 cancels; /* reads that end_read ended */
	u8 end, closing;
	u8 shut; /* its handle is closed when no byte is left */
	u8 data[BUFFER];
};

static SRWLOCK list_lock = SRWLOCK_INIT;
static struct win_stream *streams;

static void wait_for_work(struct win_stream *s)
{
	SleepConditionVariableSRW(&s->work, &s->lock, INFINITE, 0);
}

static void handle_close(HANDLE h)
{
	if (h)
		CloseHandle(h);
}

static void destroy_stream(struct win_stream *s)
{
	struct win_stream **p;
	u32 i;

	AcquireSRWLockExclusive(&list_lock);
	for (p = &streams; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			break;
		}
	ReleaseSRWLockExclusive(&list_lock);
	for (i = 0; i < 2; i++) {
		if (s->wait[i])
			UnregisterWaitEx(s->wait[i], INVALID_HANDLE_VALUE);
		handle_close(s->shut_event[i]);
	}
	pipewatch_stop(&s->watch, s->h);
	pipewatch_exit(&s->watch);
	handle_close(s->h);
	CloseHandle(s->thread);
	handle_close(s->event);
	handle_close(s->taken);
	bee_os_free(s, sizeof(*s));
}

/* One ReadFile or WriteFile that has ended when this returns. */
static BOOL transfer_sync(struct win_stream *s, u8 *buf, u32 len, DWORD *n)
{
	OVERLAPPED *o = s->event ? &s->pending : NULL;
	BOOL ok;

	s->pending = (OVERLAPPED){.hEvent = s->event};
	ok = s->output ? WriteFile(s->h, buf, len, n, o)
		       : ReadFile(s->h, buf, len, n, o);
	if (o && (ok || GetLastError() == ERROR_IO_PENDING))
		ok = GetOverlappedResult(s->h, o, n, TRUE);
	return ok;
}

static int is_shut(const struct win_stream *s, int writer)
{
	HANDLE h = s->shut_event[writer];

	return h && WaitForSingleObject(h, 0) == WAIT_OBJECT_0;
}

/* Input ------------------------------------------------------------------ */

static s64 read_console(HANDLE h, u8 *buf, u32 len)
{
	WCHAR text[BUFFER / 8];
	DWORD n;
	s64 got;

	/* A UTF-16 unit is at most three bytes of UTF-8. */
	len = len / 3 ? len / 3 : 1;
	if (len > BUFFER / 8)
		len = BUFFER / 8;
	if (!ReadConsoleW(h, text, len, &n, NULL))
		return bee_win_last();
	/* Ctrl-Z is the end of input, as usual on Windows. */
	if (n && text[0] == 26)
		return 0;
	got = abi_utf16_to_utf8((u16 *)text, n, (char *)buf, BUFFER);
	return got < 0 ? -LINUX_EIO : got;
}

/* Returns the number of bytes, 0 at the end of input, or a negative errno. */
static s64 read_pipe(struct win_stream *s, u8 *buf, u32 len)
{
	DWORD n;

	do {
		if (!transfer_sync(s, buf, len, &n)) {
			n = GetLastError();
			if (n == ERROR_OPERATION_ABORTED)
				return -LINUX_EINTR; /* bee_stream_pass */
			return n == ERROR_BROKEN_PIPE || n == ERROR_HANDLE_EOF
				       ? 0
				       : bee_win_error(n);
		}
		/*
		 * On Windows the reader receives an empty write as an empty
		 * message.
		 */
	} while (!n && GetFileType(s->h) == FILE_TYPE_PIPE &&
		 !bee_wine_version());
	return n;
}

/* Waits for bytes or the end, which own_peek tells. The read begins with the
 * lock held, so that who has it can cancel. */
static void await_bytes(struct win_stream *s)
{
	BOOL ok;
	DWORD n;

	s->pending = (OVERLAPPED){.hEvent = s->event};
	ok = ReadFile(s->h, s->data, 0, &n, &s->pending) ||
	     GetLastError() != ERROR_IO_PENDING;
	ReleaseSRWLockExclusive(&s->lock);
	if (!ok)
		GetOverlappedResult(s->h, &s->pending, &n, TRUE);
	AcquireSRWLockExclusive(&s->lock);
	s->wanted = 0;
	ReleaseSRWLockExclusive(&s->lock);
	bee_thread_ring_all();
	AcquireSRWLockExclusive(&s->lock);
}

static void read_once(struct win_stream *s)
{
	u32 len = s->wanted;
	s64 n;

	ReleaseSRWLockExclusive(&s->lock);
	n = s->console ? read_console(s->h, s->data, len)
		       : read_pipe(s, s->data, len);
	AcquireSRWLockExclusive(&s->lock);
	s->wanted = 0;
	s->cancels += n == -LINUX_EINTR;
	s->start = 0;
	s->used = n > 0 ? (u32)n : 0;
	s->end = !n;
	s->error = n < 0 && n != -LINUX_EINTR ? n : 0;
	ReleaseSRWLockExclusive(&s->lock);
	bee_thread_ring_all();
	AcquireSRWLockExclusive(&s->lock);
}

/* The helper has nothing to do. No process inherits the handle meanwhile. */
static void handle_leave(struct win_stream *s)
{
	HANDLE h = s->h;

	if (!h)
		return;
	s->h = NULL;
	pipewatch_stop(&s->watch, h);
	ReleaseSRWLockExclusive(&s->lock);
	bee_spawn_lock();
	CloseHandle(h);
	bee_spawn_unlock();
	AcquireSRWLockExclusive(&s->lock);
}

static DWORD WINAPI reader_thread(void *arg)
{
	struct win_stream *s = arg;

	AcquireSRWLockExclusive(&s->lock);
	while (!s->closing) {
		if (s->shut && s->end)
			handle_leave(s);
		if (s->shut)
			s->wanted = 0;
		if (s->wanted && s->own)
			await_bytes(s);
		else if (s->wanted && !s->used)
			read_once(s);
		else
			wait_for_work(s);
	}
	ReleaseSRWLockExclusive(&s->lock);
	destroy_stream(s);
	return 0;
}

/* On a terminal the end of input applies only to one line. */
static void request_read(struct win_stream *s, u32 len)
{
	if (s->used || s->end || s->error || s->wanted || s->shut)
		return;
	s->wanted = len < BUFFER && !s->event ? len : BUFFER;
	WakeConditionVariable(&s->work);
}

/* How many bytes there are in a pipe of bee, of which up to `len` are copied to
 * the buffer. At its end `end` is set. */
static u32 own_peek(struct win_stream *s, u32 len)
{
	DWORD n, more = 0;
	int good;

	if (s->end || s->error)
		return 0;
	good = !s->h ||
	       PeekNamedPipe(s->h, len ? s->data : NULL, len, &n, &more, NULL);
	if (good && !s->shut)
		return more;
	if (!good && GetLastError() != ERROR_BROKEN_PIPE)
		s->error = bee_win_last();
	else if (!more)
		s->end = 1;
	if (s->shut && s->end)
		WakeConditionVariable(&s->work); /* to close the handle */
	return more;
}

/* Fills the buffer with up to `len` bytes, unless another process takes them
 * first. */
static u32 own_fill(struct win_stream *s, u32 len)
{
	OVERLAPPED o = {.hEvent = s->taken};
	DWORD n = 0;

	if (ReadFile(s->h, s->data, len, &n, &o))
		return n;
	if (GetLastError() != ERROR_IO_PENDING)
		return 0;
	CancelIoEx(s->h, &o);
	return GetOverlappedResult(s->h, &o, &n, TRUE) ? n : 0;
}

static s64 own_take(struct win_stream *s, void *buf, u64 len, int peek)
{
	u32 most = len < BUFFER ? (u32)len : BUFFER;
	u32 n = own_peek(s, peek ? most : 0);

	if (n > most)
		n = most;
	if (n && !peek)
		n = own_fill(s, n);
	if (n)
		memcpy(buf, s->data, n);
	else if (s->end || s->error)
		return s->error;
	else
		request_read(s, 1);
	return n ? (s64)n : -LINUX_EAGAIN;
}

static s64 take_bytes(struct win_stream *s, void *buf, u64 len, int peek)
{
	s64 n = -LINUX_EAGAIN;

	if (s->output)
		return -LINUX_EBADF;
	if (!len)
		return 0;
	AcquireSRWLockExclusive(&s->lock);
	if (s->own) {
		n = own_take(s, buf, len, peek);
	} else if (s->used) {
		n = len < s->used ? (s64)len : s->used;
		memcpy(buf, s->data + s->start, n);
		s->start += peek ? 0 : (u32)n;
		s->used -= peek ? 0 : (u32)n;
		if (s->event)
			request_read(s, BUFFER);
	} else if (s->error || s->end) {
		n = s->error;
		if (s->console)
			s->end = 0;
	} else {
		request_read(s, len < BUFFER ? (u32)len : BUFFER);
	}
	ReleaseSRWLockExclusive(&s->lock);
	return n;
}

s64 bee_stream_read(struct win_stream *s, void *buf, u64 len)
{
	return take_bytes(s, buf, len, 0);
}

s64 bee_stream_peek(struct win_stream *s, void *buf, u64 len)
{
	return take_bytes(s, buf, len, 1);
}

/* Output ----------------------------------------------------------------- */

/*
 * The longest part of p[0..n) that ends with a complete UTF-8 character. The
 * result is never 0.
 */
static u32 whole_characters(const u8 *p, u32 n)
{
	u32 back = 1;

	while (back < n && back < 4 && (p[n - back] & 0xc0) == 0x80)
		back++;
	if (back < n && p[n - back] >= 0xc0 &&
	    back < (p[n - back] >= 0xf0	  ? 4u
		    : p[n - back] >= 0xe0 ? 3u
					  : 2u))
		return n - back;
	return n;
}

static void write_once(struct win_stream *s)
{
	u32 len = BUFFER - s->start;
	DWORD n = 0;
	s64 err = 0;

	if (len > s->used)
		len = s->used;
	if (s->console)
		len = whole_characters(s->data + s->start, len);
	ReleaseSRWLockExclusive(&s->lock);
	if (!transfer_sync(s, s->data + s->start, len, &n))
		err = bee_win_last();
	AcquireSRWLockExclusive(&s->lock);
	s->start = (s->start + n) % BUFFER;
	s->used -= n;
	if (err) {
		s->error = err;
		s->used = 0;
	}
	if (!s->used)
		WakeAllConditionVariable(&s->drained);
	ReleaseSRWLockExclusive(&s->lock);
	bee_thread_ring_all();
	AcquireSRWLockExclusive(&s->lock);
}

static DWORD WINAPI writer_thread(void *arg)
{
	struct win_stream *s = arg;

	AcquireSRWLockExclusive(&s->lock);
	while (!s->closing || s->used) {
		if (s->shut && !s->used)
			handle_leave(s);
		if (s->used)
			write_once(s);
		else
			wait_for_work(s);
	}
	ReleaseSRWLockExclusive(&s->lock);
	destroy_stream(s);
	return 0;
}

/* What nobody will read is not waited for. */
static void drain_stream(struct win_stream *s, DWORD ms)
{
	DWORD part = ms == INFINITE ? LOOK_MS : ms;

	AcquireSRWLockExclusive(&s->lock);
	while (s->used)
		if (!SleepConditionVariableSRW(&s->drained, &s->lock, part,
					       0) &&
		    (ms != INFINITE || is_shut(s, 0)))
			break;
	ReleaseSRWLockExclusive(&s->lock);
}

/* Waits for all output streams except `but`, at most `ms` for each. */
static void drain_others(const struct win_stream *but, DWORD ms)
{
	struct win_stream *s;

	AcquireSRWLockShared(&list_lock);
	for (s = streams; s; s = s->next)
		if (s->output && s != but && !(but && (s->event || s->own)))
			drain_stream(s, ms);
	ReleaseSRWLockShared(&list_lock);
}

void bee_stream_flush_all(void)
{
	drain_others(NULL, INFINITE);
}

static void put_bytes(struct win_stream *s, const u8 *p, u32 n)
{
	u32 at = (s->start + s->used) % BUFFER;
	u32 first = BUFFER - at < n ? BUFFER - at : n;

	memcpy(s->data + at, p, first);
	memcpy(s->data, p + first, n - first);
	s->used += n;
	WakeConditionVariable(&s->work);
}

/* Whether no reader is left of a pipe of bee. */
static int own_broken(const struct win_stream *s)
{
	if (!s->own || !s->h)
		return 0;
	return is_shut(s, 0) ||
	       (!PeekNamedPipe(s->h, NULL, 0, NULL, NULL, NULL) &&
		GetLastError() == ERROR_BROKEN_PIPE);
}

s64 bee_stream_write(struct win_stream *s, const void *buf, u64 len)
{
	u32 room;
	int full;
	s64 n;

	if (!s->output)
		return -LINUX_EBADF;
	if (!s->event && !s->own)
		drain_others(s, ORDER_MS);
	AcquireSRWLockExclusive(&s->lock);
	full = s->used != 0;
	room = BUFFER - s->used;
	if (s->error || s->shut || is_shut(s, 0))
		n = s->error ? s->error : -LINUX_EPIPE;
	else if (!room || (len <= ATOMIC && room < len))
		n = -LINUX_EAGAIN;
	else
		n = len < room ? (s64)len : room;
	if (n > 0)
		put_bytes(s, buf, (u32)n);
	ReleaseSRWLockExclusive(&s->lock);
	if (n <= 0 || !s->own || full)
		return n;
	/* Whoever learns of this write in another way finds the bytes; and it
	 * fails if nobody reads them. */
	drain_stream(s, ORDER_MS);
	AcquireSRWLockShared(&s->lock);
	if (s->error)
		n = s->error;
	else if (s->used && own_broken(s)) /* the thread has not tried yet */
		n = -LINUX_EPIPE;
	ReleaseSRWLockShared(&s->lock);
	return n;
}

/* Both ------------------------------------------------------------------- */

/*
 * Returns the events of poll(2) that are true now. Polling for input requests
 * input.
 */
u32 bee_stream_poll(struct win_stream *s, u32 events)
{
	u32 now = 0;

	AcquireSRWLockExclusive(&s->lock);
	if (s->output) {
		if (s->error || s->shut || own_broken(s))
			now = WIN_POLLERR | WIN_POLLOUT | WIN_POLLWRNORM;
		else if (BUFFER - s->used >= ATOMIC)
			now = WIN_POLLOUT | WIN_POLLWRNORM;
		if (s->own && s->h && !(now & (events | WIN_POLLERR)))
			pipewatch_arm(&s->watch, s->h);
	} else {
		if (s->own && own_peek(s, 0))
			now = WIN_POLLIN | WIN_POLLRDNORM;
		if (s->used || s->error || s->end)
			now = WIN_POLLIN | WIN_POLLRDNORM;
		if (s->end && !s->used && !s->console)
			now = WIN_POLLHUP;
		if (s->own ? !now : events & (WIN_POLLIN | WIN_POLLRDNORM))
			request_read(s, ATOMIC);
		if (now && events & WIN_POLLRDHUP &&
		    (is_shut(s, 0) || is_shut(s, 1)))
			now |= WIN_POLLRDHUP;
	}
	ReleaseSRWLockExclusive(&s->lock);
	return now & (events | WIN_POLLERR | WIN_POLLHUP);
}

int bee_stream_unwatched(const struct win_stream *s)
{
	return s->own && s->output && !pipewatch_armed(&s->watch);
}

s64 bee_stream_available(struct win_stream *s)
{
	DWORD more = 0;
	s64 n;

	AcquireSRWLockExclusive(&s->lock);
	n = s->output ? 0 : s->used;
	if (s->own && !s->output)
		more = own_peek(s, 0);
	else if (!s->output && !s->console && !s->wanted && s->h)
		PeekNamedPipe(s->h, NULL, 0, NULL, &more, NULL);
	ReleaseSRWLockExclusive(&s->lock);
	return n + more;
}

s64 bee_stream_winsize(struct win_stream *s)
{
	CONSOLE_SCREEN_BUFFER_INFO i;
	HANDLE h = s->h;
	BOOL ok;

	if (!s->console)
		return -LINUX_ENOTTY;
	if (!s->output)
		h = CreateFileW(L"CONOUT$", GENERIC_READ | GENERIC_WRITE,
				FILE_SHARE_READ | FILE_SHARE_WRITE, NULL,
				OPEN_EXISTING, 0, NULL);
	ok = GetConsoleScreenBufferInfo(h, &i);
	if (!s->output && h != INVALID_HANDLE_VALUE)
		CloseHandle(h);
	if (!ok)
		return -LINUX_ENOTTY;
	return (s64)(i.srWindow.Bottom - i.srWindow.Top + 1) << 16 |
	       (i.srWindow.Right - i.srWindow.Left + 1);
}

int bee_stream_console(const struct win_stream *s)
{
	return s->console;
}

static struct win_stream *stream_new(HANDLE h, HANDLE event, int console,
				     int output)
{
	struct win_stream *s = bee_os_alloc(sizeof(*s));

	if (!s)
		return NULL;
	s->h = h;
	s->console = console;
	s->output = output;
	s->event = event;
	InitializeSRWLock(&s->lock);
	InitializeConditionVariable(&s->work);
	InitializeConditionVariable(&s->drained);
	s->thread = CreateThread(
		NULL, 0x40000, output ? writer_thread : reader_thread, s,
		STACK_SIZE_PARAM_IS_A_RESERVATION | CREATE_SUSPENDED, NULL);
	if (!s->thread) {
		bee_os_free(s, sizeof(*s));
		return NULL;
	}
	AcquireSRWLockExclusive(&list_lock);
	s->next = streams;
	streams = s;
	ReleaseSRWLockExclusive(&list_lock);
	ResumeThread(s->thread);
	return s;
}

struct win_stream *bee_stream_new(HANDLE h, int console, int output)
{
	return stream_new(h, NULL, console, output);
}

/* Takes ownership of h, also if it fails; then it closes all that it opened. */
int bee_stream_pair(HANDLE h, struct win_stream **in, struct win_stream **out)
{
	HANDLE process = GetCurrentProcess(), other = NULL;
	HANDLE ev[2] = {CreateEventW(NULL, TRUE, FALSE, NULL),
			CreateEventW(NULL, TRUE, FALSE, NULL)};

	*in = *out = NULL;
	if (ev[0] && ev[1] &&
	    DuplicateHandle(process, h, process, &other, 0, FALSE,
			    DUPLICATE_SAME_ACCESS))
		*in = stream_new(h, ev[0], 0, 0);
	if (*in)
		*out = stream_new(other, ev[1], 0, 1);
	if (*out)
		return 0;
	if (*in) {
		bee_stream_close(*in); /* its helper closes h and ev[0] */
		*in = NULL;
		h = ev[0] = NULL;
	}
	handle_close(h);
	handle_close(other);
	handle_close(ev[0]);
	handle_close(ev[1]);
	return -1;
}

#define PASS_MS 2000
#define CANCEL_TRIES 100

/* Ends a read that waits; another thread may begin the next one at once. 0: it
 * did not end, or it has read bytes. */
static int end_read(struct win_stream *s)
{
	u32 i, before = s->cancels;

	for (i = 0;
	     i < CANCEL_TRIES && s->wanted && !s->used && s->cancels == before;
	     i++) {
		CancelSynchronousIo(s->thread);
		ReleaseSRWLockExclusive(&s->lock);
		Sleep(1);
		AcquireSRWLockExclusive(&s->lock);
	}
	return !s->used && (!s->wanted || s->cancels != before);
}

HANDLE bee_stream_pass(struct win_stream *s, struct win_passed *to)
{
	HANDLE h;

	if (s->event && !s->own)
		return NULL;
	if (s->output)
		drain_stream(s, PASS_MS);
	AcquireSRWLockExclusive(&s->lock);
	if (!s->output && !s->own && !end_read(s))
		bee_os_message("bytes that the program has read ahead from a "
			       "stream are not passed to the program that it "
			       "starts");
	h = s->shut && (s->output || s->end) ? NULL : s->h;
	ReleaseSRWLockExclusive(&s->lock);
	to->shut[2 * s->output] = (u64)s->shut_event[0];
	to->shut[2 * s->output + 1] = (u64)s->shut_event[1];
	to->console = (u32)s->console;
	to->output = (u32)s->output;
	to->own = (u32)s->own;
	return h;
}

/* Pipes and socket pairs of bee -------------------------------------------- */

static void shut_here(struct win_stream *s)
{
	AcquireSRWLockExclusive(&s->lock);
	s->shut = 1;
	if (!s->output && s->h && s->wanted)
		CancelIoEx(s->h, &s->pending);
	WakeConditionVariable(&s->work);
	ReleaseSRWLockExclusive(&s->lock);
	bee_thread_ring_all();
}

static void CALLBACK shut_elsewhere(void *arg, BOOLEAN late)
{
	(void)late;
	shut_here(arg);
}

/* The reader of this output was shut down. */
static void CALLBACK reader_shut(void *arg, BOOLEAN late)
{
	(void)arg;
	(void)late;
	bee_thread_ring_all();
}

static int wait_shut(struct win_stream *s, int writer,
		     WAITORTIMERCALLBACK callback)
{
	return !s->shut_event[writer] ||
	       RegisterWaitForSingleObject(&s->wait[writer],
					   s->shut_event[writer], callback, s,
					   INFINITE, WT_EXECUTEONLYONCE);
}

void bee_stream_shut(struct win_stream *s)
{
	if (s->shut_event[s->output])
		SetEvent(s->shut_event[s->output]);
	shut_here(s);
}

struct win_stream *bee_stream_own(HANDLE h, int output, const HANDLE shut[2])
{
	HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);
	HANDLE read = output ? NULL : CreateEventW(NULL, TRUE, FALSE, NULL);
	struct win_stream *s = stream_new(NULL, event, 0, output);

	if (!s) {
		handle_close(event);
		handle_close(read);
		handle_close(h);
		handle_close(shut[0]);
		handle_close(shut[1]);
		return NULL;
	}
	AcquireSRWLockExclusive(&s->lock);
	s->h = h;
	s->own = 1;
	s->taken = read;
	s->shut_event[0] = shut[0];
	s->shut_event[1] = shut[1];
	ReleaseSRWLockExclusive(&s->lock);
	if (!h)
		shut_here(s);
	if (!event || (!output && !read) ||
	    (output && pipewatch_init(&s->watch)) ||
	    !wait_shut(s, output, shut_elsewhere) ||
	    (output && !wait_shut(s, 0, reader_shut))) {
		bee_stream_close(s);
		return NULL;
	}
	return s;
}

/* The helper writes the last byte, and then frees the stream. */
void bee_stream_close(struct win_stream *s)
{
	AcquireSRWLockExclusive(&s->lock);
	s->closing = 1;
	if (!s->output && s->wanted && s->h)
		s->event ? CancelIoEx(s->h, &s->pending)
			 : CancelSynchronousIo(s->thread);
	WakeConditionVariable(&s->work);
	ReleaseSRWLockExclusive(&s->lock);
}
