// SPDX-License-Identifier: MIT
/*
 * The kernel engine when a user's share of memory is small and used up: what
 * has no room is refused or waits, nothing is lost, and all goes on when there
 * is room again. Run as root, who sets the share.
 */
#include "o2g_raw.h"

#include <sys/mman.h>

#define PARAMETERS "/sys/module/o2g/parameters/"
#define SHARE_MB 8
#define SHARE ((long long)SHARE_MB << 20)
#define MESSAGE 4096
#define MESSAGES 6000 /* 24 MB */
#define ENDPOINTS 1000
#define RECEIVES 100000

static void set_share(int megabytes)
{
	FILE *file = fopen(PARAMETERS "user_megabytes", "w");

	if (!file || fprintf(file, "%d\n", megabytes) < 0 || fclose(file))
		raw_die(PARAMETERS "user_megabytes");
}

static long long read_total(const char *name)
{
	long long value = -1;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%lld", &value) != 1)
		raw_die(path);
	fclose(file);
	return value;
}

static long long memory_used(void)
{
	return read_total("memory") + read_total("pages") * 4096;
}

static int open_one(struct o2g_device_open options)
{
	int fd = open("/dev/" O2G_DEVICE_NAME, O_RDWR | O_CLOEXEC);
	int r = fd < 0 ? -errno : raw_ioctl(fd, O2G_IOC_OPEN, &options);

	if (r && fd >= 0)
		close(fd);
	return r ? r : fd;
}

static void test_endpoints(void)
{
	static int fd[ENDPOINTS];
	struct o2g_device_open large = raw_options();
	int n = 0, r;

	large.sq_entries = large.cq_entries = 65536;
	tap_ok(open_one(large) == -ENOMEM, "rings beyond the share: -ENOMEM");
	while (n < ENDPOINTS && (r = open_one(raw_options())) >= 0)
		fd[n++] = r;
	tap_ok(n > 10 && n < ENDPOINTS && r == -ENOMEM &&
		       memory_used() <= SHARE,
	       "endpoints are opened up to the share: %d, %lld bytes", n,
	       memory_used());
	tap_ok(read_total("engines") == n, "the module counts all endpoints");
	while (n > 0)
		close(fd[--n]);
	tap_ok(read_total("engines") == 0 && memory_used() == 0,
	       "closed endpoints free their memory");
}

static void join_pair(struct raw *a, struct raw *b)
{
	struct o2g_device_attach attach = {
		.peer = 1, .credit_out = 64 << 20, .credit_in = 64 << 20};
	int end[2];

	raw_pair(end);
	for (int i = 0; i < 2; i++) {
		attach.socket = end[i];
		if (setsockopt(end[i], IPPROTO_TCP, TCP_ULP, O2G_DEVICE_NAME,
			       sizeof(O2G_DEVICE_NAME)) ||
		    ioctl((i ? b : a)->fd, O2G_IOC_ATTACH, &attach))
			raw_die("O2G_IOC_ATTACH");
		close(end[i]);
	}
}

static void test_refused(void)
{
	struct raw raw = raw_open();
	u32 submitted = 0, none = 0, other = 0;
	struct o2g_cqe cqe;
	static char byte;

	while (submitted < RECEIVES) {
		struct o2g_sqe sqe =
			raw_entry(O2G_OP_RECV, 1, submitted, &byte, 1);

		if (o2g_ring_submit(raw.area, &sqe)) {
			submitted++;
			continue;
		}
		if (raw_ioctl(raw.fd, O2G_IOC_KICK, 0))
			raw_die("a kick");
		while (o2g_ring_take(raw.area, &cqe)) {
			none += cqe.status == -ENOMEM;
			other += cqe.status != -ENOMEM;
		}
	}
	raw_ioctl(raw.fd, O2G_IOC_KICK, 0);
	while (o2g_ring_take(raw.area, &cqe)) {
		none += cqe.status == -ENOMEM;
		other += cqe.status != -ENOMEM;
		raw_ioctl(raw.fd, O2G_IOC_KICK, 0);
	}
	tap_ok(none > 0 && !other && raw_counts(&raw).posted + none == RECEIVES,
	       "receives without memory: %u of %d are refused", none, RECEIVES);
	raw_close(&raw);
}

static uint8_t sent[MESSAGES][MESSAGE], got[MESSAGE];

static uint32_t send_all(struct raw *a)
{
	uint32_t failed = 0;
	struct o2g_cqe cqe;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct o2g_sqe sqe;

		raw_fill(sent[i], MESSAGE, i);
		sqe = raw_entry(O2G_OP_SEND, 1, i, sent[i], MESSAGE);
		sqe.flags = O2G_SQE_QUIET;
		while (raw_submit(a, sqe) == -EAGAIN)
			raw_ioctl(a->fd, O2G_IOC_KICK, 0);
		while (o2g_ring_take(a->area, &cqe))
			failed++;
	}
	return failed;
}

static bool reading_stops(struct raw *b)
{
	double end = raw_now() + RAW_TIMEOUT_S;

	while (raw_now() < end) {
		if (raw_counts(b).stopped_reading > 0)
			return true;
		usleep(1000);
	}
	return false;
}

static void test_flood(void)
{
	struct o2g_device_open options = raw_options();
	uint32_t failed, wrong = 0;
	struct raw a, b;

	options.unexpected = 64 << 20;
	options.postings = 2 * MESSAGES;
	a = raw_open_with(options);
	b = raw_open_with(options);
	failed = send_all(&a); /* they wait for the connection */
	join_pair(&a, &b);
	tap_ok(!failed && reading_stops(&b),
	       "without memory a socket is not read");
	tap_ok(memory_used() <= SHARE, "%lld bytes are used", memory_used());
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct o2g_cqe cqe;

		raw_do(&b, O2G_OP_RECV, 1, i, got, MESSAGE);
		cqe = raw_event(&b, got);
		wrong += cqe.status || cqe.cookie != i ||
			 !raw_check(got, MESSAGE, i);
	}
	tap_ok(!wrong, "all %d messages come in the end: %u wrong", MESSAGES,
	       wrong);
	raw_close(&a);
	raw_close(&b);
}

int main(void)
{
	set_share(SHARE_MB);
	test_endpoints();
	test_refused();
	test_flood();
	tap_ok(read_total("engines") == 0 && read_total("links") == 0 &&
		       memory_used() == 0,
	       "nothing is left");
	set_share(0);
	return tap_done();
}
