// SPDX-License-Identifier: MIT
/*
 * The proxy of a partition: sms-proxy [--ledger FILE] PARTITION PROGRAM ARG...
 *
 * Starts sms there with the program, and executes its calls on Linux, with the
 * rights, the directory and the streams of this process. It ends with the
 * program's status. However this process ends, the partition becomes idle.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <skep/version.h>
#include "proxy.h"

#define EXIT_USAGE 2
#define EXIT_REFUSED 126

struct proxy sms_proxy;
extern char **environ;

void sms_proxy_say(const char *format, ...)
{
	char text[1024];
	va_list args;
	int n, more;

	n = snprintf(text, sizeof(text), "sms: ");
	va_start(args, format);
	more = vsnprintf(text + n, sizeof(text) - n - 1, format, args);
	va_end(args);
	n += more < (int)sizeof(text) - n - 1 ? more
					      : (int)sizeof(text) - n - 2;
	text[n++] = '\n';
	if (write(2, text, n) < 0)
		return;
}

static int refuse_run(const char *what, const char *why)
{
	if (why && *why)
		sms_proxy_say("%s: %.*s", what, SHIMOS_WHY, why);
	else
		sms_proxy_say("%s: %s", what, strerror(errno));
	return EXIT_REFUSED;
}

static void *map_device(u64 bytes, u64 offset)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			sms_proxy.device, (off_t)offset);

	return at == MAP_FAILED ? NULL : at;
}

static int open_partition(u32 id)
{
	struct shimos_open o = {.id = id};

	sms_proxy.device = sms_own_add(
		open("/dev/" SHIMOS_DEVICE_NAME, O_RDWR | O_CLOEXEC));
	if (sms_proxy.device < 0)
		return refuse_run("/dev/" SHIMOS_DEVICE_NAME, NULL);
	if (ioctl(sms_proxy.device, SHIMOS_IOC_OPEN, &o) < 0)
		return refuse_run("the partition cannot be used", o.why);
	sms_proxy.id = id;
	sms_proxy.cores = o.cores;
	sms_proxy.pool_bytes = o.pool;
	sms_proxy.mail_bytes = o.mail;
	if (o.cores < 1 || o.cores > SKEP_PARTITION_CORES ||
	    o.mail < MAIL_SLOT(o.cores))
		return refuse_run("the partition cannot be used",
				  "the module is of another build");
	sms_proxy.mail = map_device(o.mail, SHIMOS_MAP_MAIL);
	sms_proxy.pool = map_device(o.pool, SHIMOS_MAP_POOL);
	if (!sms_proxy.mail || !sms_proxy.pool)
		return refuse_run("the partition's memory cannot be mapped",
				  NULL);
	return 0;
}

static int run_program(char **argv)
{
	struct shimos_start s = {{0}};
	int code =
		sms_boot_write((struct mail_boot *)(sms_proxy.mail + MAIL_BOOT),
			       argv, environ);

	if (code)
		return code << 8;
	if (ioctl(sms_proxy.device, SHIMOS_IOC_START, &s) < 0)
		return refuse_run("sms cannot be started", s.why) << 8;
	return sms_serve();
}

/* Ends as the program did, with its status or signal, for the parent of this
 * process. */
static int end_as(int status)
{
	static const struct rlimit none;
	int sig = status & 0x7f;
	sigset_t set;

	if (sig) {
		/* the core dump would be the proxy's */
		setrlimit(RLIMIT_CORE, &none);
		signal(sig, SIG_DFL);
		raise(sig);
		sigemptyset(&set);
		sigaddset(&set, sig);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		return 128 + sig;
	}
	return status >> 8 & 0xff;
}

int main(int argc, char **argv)
{
	const char *ledger = NULL;
	char *rest;
	int at = 1, code, status;
	unsigned long id;

	if (argc == 2 && !strcmp(argv[1], "--version"))
		return puts("sms-proxy " SKEP_VERSION) < 0;
	if (argc > 2 && !strcmp(argv[1], "--ledger")) {
		ledger = argv[2];
		at = 3;
	}
	if (argc < at + 2) {
		sms_proxy_say("usage: sms-proxy [--ledger FILE] PARTITION "
			      "PROGRAM [ARGUMENT...]");
		return EXIT_USAGE;
	}
	id = strtoul(argv[at], &rest, 10);
	if (*rest || id > 0xffffffff) {
		sms_proxy_say("%s is not the number of a partition", argv[at]);
		return EXIT_USAGE;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL); /* the parent of this process may ignore it */
	sms_proxy.umask = umask(0);
	sms_events_block();
	code = open_partition((u32)id);
	if (code)
		return code;
	status = run_program(argv + at + 1);
	umask(sms_proxy.umask);
	if (ledger && sms_ledger_write(ledger, (u32)status))
		sms_proxy_say("%s cannot be written: %s", ledger,
			      strerror(errno));
	/* The program has ended by itself: the list of partitions must not show
	 * an owner that has ended. */
	if (ioctl(sms_proxy.device, SHIMOS_IOC_STOP) < 0)
		sms_proxy_say("the partition does not stop: %s",
			      strerror(errno));
	close(sms_proxy.device);
	return end_as(status);
}
