// SPDX-License-Identifier: MIT
/*
 * See pipewatch.h. A read that a thread began ends with that thread: then all
 * threads are rung too, and one that still polls begins the next one.
 */
#include "pipewatch.h"

/* Another thread may have armed it again when this returns. */
static void CALLBACK watch_ended(void *arg, BOOLEAN late)
{
	struct pipe_watch *w = arg;

	(void)late;
	__atomic_store_n(&w->armed, 0, __ATOMIC_SEQ_CST);
	bee_thread_ring_all();
}

int pipewatch_init(struct pipe_watch *w)
{
	w->read.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
	return w->read.hEvent ? 0 : -1;
}

void pipewatch_arm(struct pipe_watch *w, HANDLE h)
{
	DWORD n;

	if (pipewatch_armed(w))
		return;
	if (w->wait)
		UnregisterWaitEx(w->wait, NULL);
	w->wait = NULL;
	w->read = (OVERLAPPED){.hEvent = w->read.hEvent};
	if (ReadFile(h, &w->byte, 1, NULL, &w->read) ||
	    GetLastError() != ERROR_IO_PENDING)
		return;
	__atomic_store_n(&w->armed, 1, __ATOMIC_SEQ_CST);
	if (RegisterWaitForSingleObject(&w->wait, w->read.hEvent, watch_ended,
					w, INFINITE, WT_EXECUTEONLYONCE))
		return;
	w->wait = NULL;
	CancelIoEx(h, &w->read);
	GetOverlappedResult(h, &w->read, &n, TRUE);
	__atomic_store_n(&w->armed, 0, __ATOMIC_SEQ_CST);
}

void pipewatch_stop(struct pipe_watch *w, HANDLE h)
{
	DWORD n;

	if (!w->wait)
		return;
	CancelIoEx(h, &w->read);
	GetOverlappedResult(h, &w->read, &n, TRUE);
	UnregisterWaitEx(w->wait, INVALID_HANDLE_VALUE);
	w->wait = NULL;
}

void pipewatch_exit(struct pipe_watch *w)
{
	if (w->read.hEvent)
		CloseHandle(w->read.hEvent);
}
