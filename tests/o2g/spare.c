// SPDX-License-Identifier: MIT
/*
 * What an endpoint buffers for messages beyond credit: a share of the memory
 * that is available, as this program pretends, and of its own limit.
 */
#include <o2g/lib/available.h>
#include <o2g/lib/endpoint.h>
#include <o2g/test/bed.h>
#include <tests/tap.h>

#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#define MANY 1000
#define SHORT 8192
#define SETTLE_NS 300000000ll /* more than the engine uses an old figure */

static uint8_t out[3 << 20], in[3 << 20];
static u64 available; /* atomic */

/* The linker leads the library's calls here. */
u64 __real_o2g_memory_available(void);
u64 __wrap_o2g_memory_available(void);

u64 __wrap_o2g_memory_available(void)
{
	return __atomic_load_n(&available, __ATOMIC_RELAXED);
}

static struct o2g *sender, *receiver;
static uint32_t to_receiver;
static int sent, received; /* events so far */

static void pretend_available(u64 bytes)
{
	__atomic_store_n(&available, bytes, __ATOMIC_RELAXED);
}

static struct o2g *open_one(uint64_t unexpected, uint32_t credit)
{
	struct o2g_options options = bed_options();
	struct o2g *o2g;

	options.engine = "user";
	options.unexpected = unexpected;
	options.credit = credit;
	if (o2g_open(&o2g, &options))
		bed_die("o2g_open");
	return o2g;
}

static void open_both(uint64_t unexpected, uint32_t credit)
{
	sender = open_one(0, 0);
	receiver = open_one(unexpected, credit);
	to_receiver = bed_peer(sender, receiver);
	sent = received = 0;
}

static void close_both(void)
{
	o2g_close(sender, 0);
	o2g_close(receiver, 0);
}

static void take_events(void)
{
	struct o2g_event event;

	while (o2g_poll(sender, &event, 1) == 1)
		sent += event.what == O2G_SENT && !event.status;
	while (o2g_poll(receiver, &event, 1) == 1)
		received += event.what == O2G_RECEIVED && !event.status;
}

/* Until so many events of the program's were taken. */
static int await_count(const int *count, int want)
{
	time_t end = time(0) + BED_WAIT / 1000;

	while (*count < want && time(0) <= end)
		take_events();
	return *count >= want;
}

/* Takes events for a while: what may end, ends. */
static void settle_down(void)
{
	s64 end = o2g_now_ns() + SETTLE_NS;

	while (o2g_now_ns() < end)
		take_events();
}

static void send_some(int n, size_t length)
{
	for (int i = 0; i < n; i++)
		bed_send(sender, to_receiver, 1, out, length);
}

static void receive_one(size_t length)
{
	const int want = received + 1;

	bed_recv(receiver, O2G_ANY, 1, in, length);
	TAP(await_count(&received, want));
}

/* A quarter of what is available is less than twice 3 MB, later more. */
static void test_available(void)
{
	pretend_available(16ull << 20);
	open_both(512ull << 20, O2G_CREDIT_MIN);
	send_some(3, sizeof(out));
	TAP(await_count(&sent, 1));
	settle_down();
	tap_ok(sent == 1, "a quarter of the available memory is granted (%d)",
	       sent);
	receive_one(sizeof(out));
	TAP(await_count(&sent, 2));
	settle_down();
	tap_ok(sent == 2, "what was received is granted again (%d)", sent);
	pretend_available(64ull << 20);
	settle_down();
	receive_one(sizeof(out));
	send_some(2, sizeof(out));
	tap_ok(await_count(&sent, 5), "more memory is noticed");
	for (int i = 0; i < 3; i++)
		receive_one(sizeof(out));
	close_both();
}

/* A quarter of 8 MB is less than three times 900 KB. */
static void test_limit(void)
{
	const size_t length = 900 << 10;

	pretend_available(1ull << 40);
	open_both(8ull << 20, O2G_CREDIT_MIN);
	send_some(3, length);
	TAP(await_count(&sent, 2));
	settle_down();
	tap_ok(sent == 2, "a quarter of the endpoint's limit is granted (%d)",
	       sent);
	for (int i = 0; i < 3; i++)
		receive_one(length);
	close_both();
}

/* Messages within credit, which comes back early up to half of the limit. */
static void test_early(void)
{
	const int credit = 256 << 10, limit = 4 << 20;

	open_both((uint64_t)limit, (uint32_t)credit);
	send_some(MANY, SHORT);
	TAP(await_count(&sent, (1 << 20) / SHORT));
	settle_down();
	tap_ok(sent <= (limit / 2 + 2 * credit) / SHORT,
	       "credit comes back early up to half of the limit (%d)", sent);
	bed_recv(receiver, O2G_ANY, 1, in, SHORT);
	TAP(await_count(&received, 1));
	close_both();
}

static u64 default_limit(u64 bytes)
{
	struct o2g *o2g;
	u64 limit;

	pretend_available(bytes);
	o2g = open_one(0, 0);
	limit = o2g->settings.unexpected;
	o2g_close(o2g, 0);
	return limit;
}

static void test_defaults(void)
{
	tap_ok(default_limit(1ull << 30) == 512ull << 20,
	       "an endpoint's limit is 512 MB at least");
	tap_ok(default_limit(32ull << 30) == 2ull << 30,
	       "a sixteenth of what is available");
	tap_ok(default_limit(1ull << 40) == 4ull << 30, "and 4 GB at most");
}

static void test_figure(void)
{
	const u64 bytes = __real_o2g_memory_available();
	struct sysinfo info;

	TAP(sysinfo(&info) == 0);
	tap_ok(bytes >= (u64)info.freeram * info.mem_unit / 4 &&
		       bytes <= (u64)info.totalram * info.mem_unit,
	       "the available memory is in bytes");
}

int main(void)
{
	test_figure();
	test_defaults();
	test_available();
	test_limit();
	test_early();
	return tap_done();
}
