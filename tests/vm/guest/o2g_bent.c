// SPDX-License-Identifier: MIT
/*
 * A socket whose operations the kernel changes back behind the ULP's back: a
 * call of IPV6_ADDRFORM that began before the ULP was set and gets the socket
 * after it. As root, who may stop a fault.
 */
#include "o2g_good.h"

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/syscall.h>

#ifndef IPV6_ADDRFORM
#define IPV6_ADDRFORM 1
#endif

/* ---- who holds the socket ---- */

/* A page that nobody gets before it is given. */
struct page {
	int fd;
	uint8_t *at;
};

static struct page page_make(void)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range.len = size,
					.mode = UFFDIO_REGISTER_MODE_MISSING};
	struct page page = {(int)syscall(SYS_userfaultfd, O_CLOEXEC),
			    mmap(0, size, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};

	range.range.start = (uintptr_t)page.at;
	if (page.fd < 0 || page.at == MAP_FAILED ||
	    ioctl(page.fd, UFFDIO_API, &api) ||
	    ioctl(page.fd, UFFDIO_REGISTER, &range))
		raw_die("userfaultfd");
	return page;
}

static void page_give(struct page *page)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	struct uffdio_zeropage zero = {
		.range = {.start = (uintptr_t)page->at, .len = size}};

	if (ioctl(page->fd, UFFDIO_ZEROPAGE, &zero))
		raw_die("UFFDIO_ZEROPAGE");
	close(page->fd);
}

/* ---- three calls, one after the other, of one socket ---- */

struct call {
	int (*run)(int fd, struct page *page);
	int fd, error;
	struct page *page;
	pid_t id;
	pthread_t thread;
};

static int send_byte(int fd, struct page *page)
{
	return send(fd, page->at, 1, MSG_NOSIGNAL) == 1 ? 0 : errno;
}

static int set_ulp(int fd, struct page *page)
{
	(void)page;
	return setsockopt(fd, IPPROTO_TCP, TCP_ULP, O2G_DEVICE_NAME,
			  sizeof(O2G_DEVICE_NAME))
		       ? errno
		       : 0;
}

static int change_family(int fd, struct page *page)
{
	int family = AF_INET;

	(void)page;
	return setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &family,
			  sizeof(family))
		       ? errno
		       : 0;
}

static void *run_call(void *context)
{
	struct call *c = context;

	__atomic_store_n(&c->id, gettid(), __ATOMIC_RELEASE);
	c->error = c->run(c->fd, c->page);
	return 0;
}

static void begin_call(struct call *c)
{
	pthread_create(&c->thread, 0, run_call, c);
	while (!__atomic_load_n(&c->id, __ATOMIC_ACQUIRE))
		usleep(100);
	raw_asleep(c->id);
}

static long count_references(void)
{
	char text[32] = "";
	int fd = open("/sys/module/o2g/refcnt", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		raw_die("/sys/module/o2g/refcnt");
	close(fd);
	return atol(text);
}

static void test_bent(void)
{
	const long before = count_references();
	struct o2g_device_attach attach = {
		.peer = 1, .credit_out = RAW_CREDIT, .credit_in = RAW_CREDIT};
	struct raw raw = raw_open();
	struct page page = page_make();
	double end = raw_now() + RAW_TIMEOUT_S;
	struct call c[3] = {
		{.run = send_byte}, {.run = set_ulp}, {.run = change_family}};
	int pair[2], i;

	raw_pair_of(RAW_MAPPED, pair);
	for (i = 0; i < 3; i++) {
		c[i].fd = pair[0];
		c[i].page = &page;
		begin_call(&c[i]);
	}
	tap_ok(count_references() == before + 1,
	       "no socket has the ULP so far");
	page_give(&page);
	for (i = 0; i < 3; i++)
		pthread_join(c[i].thread, 0);
	tap_ok(!c[0].error && !c[1].error && !c[2].error,
	       "a socket with the ULP is changed to IPv4 (%d, %d, %d)",
	       c[0].error, c[1].error, c[2].error);
	attach.socket = pair[0];
	tap_ok(raw_ioctl(raw.fd, O2G_IOC_ATTACH, &attach) == -EINVAL,
	       "no endpoint takes such a socket");
	close(pair[0]);
	close(pair[1]);
	raw_close(&raw);
	while (count_references() != before && raw_now() < end)
		usleep(10000);
	tap_ok(count_references() == before,
	       "the module releases such a socket (%ld, %ld)",
	       count_references(), before);
}

int main(void)
{
	alarm(scaled_timeout(600));
	begin_good();
	test_bent();
	finish_good("bent sockets");
	return tap_done();
}
