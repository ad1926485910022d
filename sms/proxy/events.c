// SPDX-License-Identifier: MIT
/*
 * Events from Linux for the program: signals to this process and the program's
 * earliest timer. One thread waits for both, records events in the mail, and
 * interrupts core 0. All signals are blocked in all threads, except those that
 * stop a process: then the cores continue to compute, and their calls wait.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "proxy.h"

#define SECOND 1000000000ull
/* an image that does not handle a signal for so long is stuck */
#define REPEAT_TIMEOUT (10 * SECOND)

#define SLICE (SECOND / 100) /* for threads that share a core */

static int signals = -1, timer = -1, slicer = -1;
static u32 slicing;		/* the slicer is armed; atomic */
static u64 armed = ABI_FOREVER; /* the timer's deadline; atomic */
static u64 since[64];		/* when each signal was recorded */

static struct mail_events *event_mail(void)
{
	return (struct mail_events *)(sms_proxy.mail + MAIL_EVENTS);
}

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * SECOND + (u64)ts.tv_nsec;
}

void sms_events_interrupt(u32 core, enum mail_nmi why)
{
	struct shimos_nmi nmi = {.core = core, .reasons = 1u << why};

	ioctl(sms_proxy.device, SHIMOS_IOC_NMI, &nmi);
}

/* Before START no core receives the NMI; sms checks for events when its program
 * begins. */
static void ring_image(void)
{
	sms_events_interrupt(0, MAIL_NMI_EVENT);
}

static int ends_programs(u32 signo)
{
	return signo == SIGHUP || signo == SIGINT || signo == SIGQUIT ||
	       signo == SIGTERM;
}

/* A second ^C ends the run if the image does not react to the first. */
static void note_signal(u32 signo)
{
	u64 bit = 1ull << (signo - 1), before, time = now_ns();

	before = __atomic_fetch_or(&event_mail()->signals, bit,
				   __ATOMIC_SEQ_CST);
	if (!(before & bit))
		since[signo - 1] = time;
	else if (ends_programs(signo) &&
		 time - since[signo - 1] > REPEAT_TIMEOUT)
		sms_serve_end(signo);
	if (signo == SIGCHLD)
		sms_serve_child();
	ring_image();
}

static void take_signals(void)
{
	struct signalfd_siginfo info;

	while (read(signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo >= 1 && info.ssi_signo <= 64)
			note_signal(info.ssi_signo);
}

static void take_timer(void)
{
	u64 times;

	if (read(timer, &times, sizeof(times)) != sizeof(times))
		return;
	__atomic_store_n(&event_mail()->due, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&armed, ABI_FOREVER, __ATOMIC_SEQ_CST);
	ring_image();
}

static struct mail_slot *core_slot(u32 core)
{
	return (struct mail_slot *)(sms_proxy.mail + MAIL_SLOT(core));
}

static int is_sliced(u32 core)
{
	return __atomic_load_n(&core_slot(core)->slice, __ATOMIC_SEQ_CST) != 0;
}

static void arm_slicer(void)
{
	struct itimerspec at = {.it_value.tv_nsec = (long)SLICE};

	if (!__atomic_exchange_n(&slicing, 1, __ATOMIC_SEQ_CST))
		timerfd_settime(slicer, 0, &at, NULL);
}

static void look_at_slices(void)
{
	u32 i;

	for (i = 0; i < sms_proxy.cores; i++)
		if (is_sliced(i))
			arm_slicer();
}

/* Arms the slicer again while a core needs it. A core that needs it has rung
 * the doorbell before. */
static void take_slicer(void)
{
	u64 times;
	u32 i;

	if (read(slicer, &times, sizeof(times)) != sizeof(times))
		return;
	for (i = 0; i < sms_proxy.cores; i++)
		if (is_sliced(i))
			sms_events_interrupt(i, MAIL_NMI_SLICE);
	__atomic_store_n(&slicing, 0, __ATOMIC_SEQ_CST);
	look_at_slices();
}

static void *wait_for_all(void *arg)
{
	struct pollfd fds[3] = {{.fd = signals, .events = POLLIN},
				{.fd = timer, .events = POLLIN},
				{.fd = slicer, .events = POLLIN}};

	(void)arg;
	for (;;) {
		if (poll(fds, 3, -1) < 0 && errno != EINTR)
			return NULL;
		take_signals();
		take_timer();
		take_slicer();
	}
}

/* A deadline that has passed is not armed again: sms sets the next one. */
void sms_events_look(void)
{
	u64 deadline =
		__atomic_load_n(&event_mail()->deadline, __ATOMIC_SEQ_CST);
	struct itimerspec at = {.it_value.tv_sec = (time_t)(deadline / SECOND),
				.it_value.tv_nsec = (long)(deadline % SECOND)};

	look_at_slices();
	if (__atomic_load_n(&event_mail()->due, __ATOMIC_SEQ_CST) ||
	    __atomic_exchange_n(&armed, deadline, __ATOMIC_SEQ_CST) == deadline)
		return;
	if (deadline == ABI_FOREVER)
		at.it_value.tv_sec = at.it_value.tv_nsec = 0;
	else if (!deadline)
		at.it_value.tv_nsec = 1; /* 0 would disarm the timer */
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
}

void sms_events_block(void)
{
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGTSTP);
	sigdelset(&set, SIGTTIN);
	sigdelset(&set, SIGTTOU);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

int sms_events_start(void)
{
	pthread_t thread;
	sigset_t set;

	event_mail()->deadline = ABI_FOREVER;
	sigfillset(&set);
	signals = sms_own_add(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
	timer = sms_own_add(
		timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	slicer = sms_own_add(
		timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	if (signals < 0 || timer < 0 || slicer < 0)
		return -errno;
	return pthread_create(&thread, NULL, wait_for_all, NULL) ? -EAGAIN : 0;
}
