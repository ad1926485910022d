// SPDX-License-Identifier: MIT
/*
 * The module's engine, reached by /dev/o2g. It makes progress without the
 * program, so there is no thread and no progress function here; see
 * <skep/o2g_device.h>.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEVICE "/dev/" O2G_DEVICE_NAME

struct o2g_engine {
	int file;
	/* atomic: the file may be readable, so calm() has to reset it */
	int rung;
	int described; /* atomic: somebody polls the file */
	struct o2g_area *area;
	u64 area_size;
};

static int device_call(struct o2g_engine *e, unsigned long request,
		       void *argument)
{
	return ioctl(e->file, request, argument) ? -errno : 0;
}

/* ---- creating and destroying ---- */

static void kernel_close(struct o2g_engine *e)
{
	if (e->file >= 0) {
		device_call(e, O2G_IOC_CLOSE, 0);
		close(e->file);
	}
	if (e->area)
		munmap(e->area, e->area_size);
	free(e);
}

static int map_area(struct o2g_engine *e, u64 size)
{
	void *area =
		mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, e->file, 0);

	if (area == MAP_FAILED)
		return -errno;
	e->area = area;
	e->area_size = size;
	return 0;
}

static int open_device(struct o2g_engine *e, const struct o2g_engine_options *o)
{
	struct o2g_device_open open = {
		.revision = O2G_DEVICE_REVISION,
		.sq_entries = o->sq_entries,
		.cq_entries = o->cq_entries,
		.postings = o->limits.postings,
		.peers = o->limits.peers,
		.slab_message = o->limits.slab_message,
		.unexpected = o->limits.unexpected,
		.write_off = o->limits.write_off,
		.invited = o->limits.invited,
	};
	int r = device_call(e, O2G_IOC_OPEN, &open);

	return r ? r : map_area(e, open.area_size);
}

static int kernel_open(struct o2g_engine **out,
		       const struct o2g_engine_options *options,
		       struct o2g_area **area)
{
	struct o2g_engine *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return -ENOMEM;
	e->file = open(DEVICE, O_RDWR | O_CLOEXEC);
	r = e->file < 0 ? -errno : 0;
	if (r == 0 && options->limits.unexpected > O2G_AREA_PART)
		r = -E2BIG;
	if (r == 0)
		r = open_device(e, options);
	if (r) {
		kernel_close(e);
		return r;
	}
	*area = e->area;
	*out = e;
	return 0;
}

/* ---- operations ---- */

static int kernel_peer(struct o2g_engine *e, u32 peer, int self)
{
	struct o2g_device_peer p = {.peer = peer, .value = self};

	return device_call(e, O2G_IOC_PEER, &p);
}

static void kernel_lost(struct o2g_engine *e, u32 peer, int error)
{
	struct o2g_device_peer p = {.peer = peer, .value = error};

	device_call(e, O2G_IOC_LOST, &p);
}

static int kernel_attach(struct o2g_engine *e, int socket, u32 peer,
			 u32 credit_out, u32 credit_in,
			 const struct o2g_keys *keys, u32 *link)
{
	struct o2g_device_attach a = {.socket = socket,
				      .peer = peer,
				      .credit_out = credit_out,
				      .credit_in = credit_in};
	int r = 0;

	if (keys) {
		a.encrypted = 1;
		memcpy(a.key_out, keys->out, sizeof(a.key_out));
		memcpy(a.key_in, keys->in, sizeof(a.key_in));
	}
	if (setsockopt(socket, IPPROTO_TCP, TCP_ULP, O2G_DEVICE_NAME,
		       sizeof(O2G_DEVICE_NAME) - 1))
		r = -errno;
	if (r == 0)
		r = device_call(e, O2G_IOC_ATTACH, &a);
	explicit_bzero(a.key_out, sizeof(a.key_out));
	explicit_bzero(a.key_in, sizeof(a.key_in));
	close(socket); /* the module has its own references */
	*link = a.link;
	return r;
}

static int kernel_identify(struct o2g_engine *e, u32 link, u32 peer)
{
	struct o2g_device_identify i = {.link = link, .peer = peer};

	return device_call(e, O2G_IOC_IDENTIFY, &i);
}

static int kernel_region_add(struct o2g_engine *e,
			     const struct o2g_region_options *options)
{
	struct o2g_device_region r = {.key = options->key,
				      .address = options->address,
				      .length = options->length,
				      .first = options->first,
				      .cookie = options->cookie,
				      .rights = options->rights};

	return device_call(e, O2G_IOC_REGION_ADD, &r);
}

static int kernel_region_remove(struct o2g_engine *e, u64 key)
{
	return device_call(e, O2G_IOC_REGION_REMOVE, &key);
}

static int kernel_kick(struct o2g_engine *e)
{
	return device_call(e, O2G_IOC_KICK, 0);
}

static int kernel_drive(struct o2g_engine *e)
{
	(void)e;
	return 0;
}

static void set_rung(struct o2g_engine *e, int rung)
{
	__atomic_store_n(&e->rung, rung, __ATOMIC_SEQ_CST);
}

/* A wake-up while nobody sleeps is not counted here: it makes the next sleep
 * return at once. */
static int kernel_sleep(struct o2g_engine *e, u64 us)
{
	int r = ioctl(e->file, O2G_IOC_SLEEP, &us);

	if (r)
		set_rung(e, 1);
	return r < 0 ? -errno : 0;
}

static void kernel_wake(struct o2g_engine *e)
{
	device_call(e, O2G_IOC_WAKE, 0);
	set_rung(e, 1);
}

/* If somebody polls the descriptor, calm() must always reset it. */
static int kernel_descriptor(struct o2g_engine *e)
{
	__atomic_store_n(&e->described, 1, __ATOMIC_SEQ_CST);
	return e->file;
}

static void kernel_calm(struct o2g_engine *e)
{
	int described = __atomic_load_n(&e->described, __ATOMIC_SEQ_CST);

	if (__atomic_exchange_n(&e->rung, 0, __ATOMIC_SEQ_CST) || described)
		device_call(e, O2G_IOC_CALM, 0);
}

static s64 now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (s64)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int kernel_finish(struct o2g_engine *e, int ms)
{
	s64 now = now_ms(), end = now + ms;
	int r;

	do { /* EINTR is not retried: the program handles signals */
		u32 left = end > now ? (u32)(end - now) : 0;

		r = device_call(e, O2G_IOC_FINISH, &left);
		now = now_ms();
	} while (r == -EINTR);
	return r;
}

static void kernel_module(struct o2g_engine *e, struct o2g_device_counts *c)
{
	*c = (struct o2g_device_counts){.size = sizeof(*c)};
	device_call(e, O2G_IOC_COUNTS, c);
}

static void kernel_counts(struct o2g_engine *e, struct o2g_counts *counts)
{
	struct o2g_device_counts c;

	kernel_module(e, &c);
	/* The device's counters begin with those of the core. */
	memcpy(counts, &c.sent, sizeof(*counts));
}

/* The child has no copy of the area: the module maps it with VM_DONTCOPY. */
static void kernel_fork(struct o2g_engine *e, enum o2g_fork when)
{
	if (when != O2G_FORK_CHILD)
		return;
	close(e->file);
	e->file = -1;
}

const struct o2g_engine_ops o2g_kernel_engine = {
	.name = "kernel",
	.open = kernel_open,
	.close = kernel_close,
	.peer = kernel_peer,
	.lost = kernel_lost,
	.attach = kernel_attach,
	.identify = kernel_identify,
	.region_add = kernel_region_add,
	.region_remove = kernel_region_remove,
	.kick = kernel_kick,
	.drive = kernel_drive,
	.sleep = kernel_sleep,
	.wake = kernel_wake,
	.calm = kernel_calm,
	.descriptor = kernel_descriptor,
	.finish = kernel_finish,
	.counts = kernel_counts,
	.module = kernel_module,
	.fork = kernel_fork,
};
