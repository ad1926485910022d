// SPDX-License-Identifier: GPL-2.0-only
/*
 * A virtio transport in a kernel that runs on a partition. Its devices are
 * those of the table in the mailbox: this module knows none of their kinds. The
 * queues lie in this kernel's memory; the table tells the command where.
 *
 * No interrupt comes from Linux, so each device has a timer that looks at its
 * queues while the command has buffers of them.
 *
 * Process context, one operation of a device at a time, as the virtio core
 * calls them; but kick_queue runs anywhere, and look_at_device in a hard
 * interrupt.
 *
 * There is no exit: the root file system needs its device.
 */
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/io.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#include <skep/linux.h>

#include "compat.h"

#define ENTRIES 256
#define QUEUE_BYTES vring_size(ENTRIES, SMP_CACHE_BYTES)
#define SOON_NS 50000 /* from a request to the first look for its reply */
#define LATE_NS 4000000
#define LEAVE_MS 10000 /* until the command has left the queues */

static ulong mail;
module_param(mail, ulong, 0400);
MODULE_PARM_DESC(mail, "physical address of the partition's mailbox");

struct shimos_queue {
	struct virtqueue *queue; /* NULL: there is none, and none behind it */
	void *pages;
	struct vring ring; /* the same memory as the queue's */
	u16 seen;	   /* how far the command was; the timer's own */
};

struct shimos_device {
	struct virtio_device virtio;
	struct skep_linux_device *mail;
	struct shimos_queue queue[SKEP_LINUX_QUEUES];
	struct hrtimer timer;
	u32 pause_ns; /* a guess, which nothing guards */
	u8 status;
	/* from the mailbox, copied once */
	u32 queues;
	u64 features;
	u8 config[SKEP_LINUX_CONFIG];
};

static struct skep_linux *mailbox;
static struct device *parent;
static struct shimos_device devices[SKEP_LINUX_DEVICES];

static struct shimos_device *device_of(struct virtio_device *vdev)
{
	return container_of(vdev, struct shimos_device, virtio);
}

static bool have_buffers(struct shimos_device *d, struct shimos_queue *q)
{
	u16 put = virtio16_to_cpu(&d->virtio, READ_ONCE(q->ring.avail->idx));
	u16 done = virtio16_to_cpu(&d->virtio, READ_ONCE(q->ring.used->idx));

	return put != done;
}

/* Whether the command did something. A driver that was told already and has not
 * looked yet is told again, which is no news. */
static bool look_at_queue(struct shimos_device *d, struct shimos_queue *q)
{
	u16 done = virtio16_to_cpu(&d->virtio, READ_ONCE(q->ring.used->idx));
	bool news = done != q->seen;

	q->seen = done;
	vring_interrupt(0, q->queue);
	return news;
}

/* Hard interrupt context. What comes after the question whether the command has
 * buffers is seen, or the timer runs once more. */
static enum hrtimer_restart look_at_device(struct hrtimer *t)
{
	struct shimos_device *d = container_of(t, struct shimos_device, timer);
	u32 i, ns = READ_ONCE(d->pause_ns);
	bool more = false, news = false;

	for (i = 0; i < SKEP_LINUX_QUEUES && d->queue[i].queue; i++)
		more |= have_buffers(d, d->queue + i);
	smp_rmb(); /* the question before the look: see above */
	for (i = 0; i < SKEP_LINUX_QUEUES && d->queue[i].queue; i++)
		news |= look_at_queue(d, d->queue + i);
	ns = news ? SOON_NS : min(ns + ns / 8, (u32)LATE_NS);
	WRITE_ONCE(d->pause_ns, ns);
	/* not by hrtimer_forward(): a kick may have started it by now */
	if (more)
		hrtimer_start(t, ns_to_ktime(ns), HRTIMER_MODE_REL);
	return HRTIMER_NORESTART;
}

static bool kick_queue(struct virtqueue *vq)
{
	struct shimos_device *d = device_of(vq->vdev);

	WRITE_ONCE(d->pause_ns, SOON_NS);
	hrtimer_start(&d->timer, ns_to_ktime(SOON_NS), HRTIMER_MODE_REL);
	return true;
}

static void read_config(struct virtio_device *vdev, unsigned int offset,
			void *to, unsigned int bytes)
{
	struct shimos_device *d = device_of(vdev);
	u8 *out = to;
	unsigned int i;

	for (i = 0; i < bytes; i++)
		out[i] = offset + i < sizeof(d->config) ? d->config[offset + i]
							: 0;
}

static u8 read_status(struct virtio_device *vdev)
{
	return device_of(vdev)->status;
}

/* With DRIVER_OK the command may use the queues. */
static void write_status(struct virtio_device *vdev, u8 to)
{
	struct shimos_device *d = device_of(vdev);

	d->status = to;
	if (d->queue[0].queue && to & VIRTIO_CONFIG_S_DRIVER_OK)
		smp_store_release(&d->mail->ready, 1);
}

/* Waits until the command has left the queues. One that does not is stopped or
 * dead, and so is this kernel soon. */
static void reset_device(struct virtio_device *vdev)
{
	struct shimos_device *d = device_of(vdev);
	u32 ms;

	d->status = 0;
	WRITE_ONCE(d->mail->ready, 0);
	for (ms = 0; READ_ONCE(d->mail->served); ms += 10) {
		if (ms >= LEAVE_MS) {
			dev_err(&vdev->dev, "the command does not leave the "
					    "queues: their memory is lost\n");
			return;
		}
		msleep(10);
	}
}

static void remove_queues(struct virtio_device *vdev)
{
	struct shimos_device *d = device_of(vdev);
	struct shimos_queue *q;

	hrtimer_cancel(&d->timer);
	for (q = d->queue; q < d->queue + SKEP_LINUX_QUEUES; q++) {
		if (!q->queue)
			continue;
		vring_del_virtqueue(q->queue);
		q->queue = NULL;
		if (!READ_ONCE(d->mail->served))
			free_pages_exact(q->pages, QUEUE_BYTES);
		q->pages = NULL;
	}
}

static void describe_queue(struct shimos_queue *q, struct skep_linux_queue *to)
{
	WRITE_ONCE(to->descriptors, virt_to_phys(q->ring.desc));
	WRITE_ONCE(to->available, virt_to_phys(q->ring.avail));
	WRITE_ONCE(to->used, virt_to_phys(q->ring.used));
	WRITE_ONCE(to->size, ENTRIES);
}

static int make_queue(struct shimos_device *d, u32 i, vq_callback_t *call,
		      const char *name, bool context)
{
	struct shimos_queue *q = d->queue + i;

	q->pages = alloc_pages_exact(QUEUE_BYTES, GFP_KERNEL | __GFP_ZERO);
	if (!q->pages)
		return -ENOMEM;
	vring_init(&q->ring, ENTRIES, q->pages, SMP_CACHE_BYTES);
	q->seen = 0;
	q->queue = vring_new_virtqueue(i, ENTRIES, SMP_CACHE_BYTES, &d->virtio,
				       true, context, q->pages, kick_queue,
				       call, name);
	if (!q->queue) {
		free_pages_exact(q->pages, QUEUE_BYTES);
		return -ENOMEM;
	}
	describe_queue(q, d->mail->queue + i);
	return 0;
}

static int find_queues(struct virtio_device *vdev, unsigned int count,
		       struct virtqueue *queues[], SHIMOS_QUEUE_PARAMETERS,
		       struct irq_affinity *affinity)
{
	struct shimos_device *d = device_of(vdev);
	u32 i;
	int err;

	if (count != d->queues || d->queue[0].queue)
		return -ENOENT;
	for (i = 0; i < count; i++) {
		err = make_queue(d, i, SHIMOS_QUEUE_CALL(i),
				 SHIMOS_QUEUE_NAME(i), SHIMOS_QUEUE_CONTEXT(i));
		if (err) {
			remove_queues(vdev);
			return err;
		}
		queues[i] = d->queue[i].queue;
	}
	return 0;
}

/* Neither indirect descriptors nor events: the command knows neither. */
static u64 offer_features(struct virtio_device *vdev)
{
	return BIT_ULL(VIRTIO_F_VERSION_1) | device_of(vdev)->features;
}

static int accept_features(struct virtio_device *vdev)
{
	vring_transport_features(vdev);
	return __virtio_test_bit(vdev, VIRTIO_F_VERSION_1) ? 0 : -EINVAL;
}

static const char *name_bus(struct virtio_device *vdev)
{
	return "shimos";
}

static const struct virtio_config_ops operations = {
	.get = read_config,
	.get_status = read_status,
	.set_status = write_status,
	.reset = reset_device,
	.find_vqs = find_queues,
	.del_vqs = remove_queues,
	.get_features = offer_features,
	.finalize_features = accept_features,
	.bus_name = name_bus,
};

/* The devices are static. */
static void release_device(struct device *dev)
{
}

/* Copies what the command wrote about a device. 0: there is none. */
static u32 copy_device(struct shimos_device *d, struct skep_linux_device *from)
{
	u32 i, kind = READ_ONCE(from->kind);

	d->mail = from;
	d->queues = min_t(u32, READ_ONCE(from->queues), SKEP_LINUX_QUEUES);
	d->features = READ_ONCE(from->features);
	for (i = 0; i < sizeof(d->config); i++)
		d->config[i] = READ_ONCE(from->config[i]);
	return kind;
}

static int add_device(struct shimos_device *d, u32 kind)
{
	int err;

	d->virtio.dev.parent = parent;
	d->virtio.dev.release = release_device;
	d->virtio.config = &operations;
	d->virtio.id.device = kind;
	hrtimer_init(&d->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	d->timer.function = look_at_device;
	err = register_virtio_device(&d->virtio);
	if (err)
		put_device(&d->virtio.dev);
	return err;
}

static int __init add_devices(void)
{
	u32 kind, count = 0;
	int err = 0;

	parent = root_device_register("shimos");
	if (IS_ERR(parent))
		return PTR_ERR(parent);
	while (count < SKEP_LINUX_DEVICES) {
		kind = copy_device(devices + count, mailbox->device + count);
		if (!kind)
			return 0;
		err = add_device(devices + count, kind);
		if (err)
			break;
		count++;
	}
	if (!err)
		return 0;
	while (count)
		unregister_virtio_device(&devices[--count].virtio);
	root_device_unregister(parent);
	return err;
}

static int __init shimos_virtio_init(void)
{
	int err = -ENODEV;

	if (!mail || mail & ~PAGE_MASK)
		return -EINVAL;
	mailbox =
		memremap(mail + SKEP_LINUX_MAIL, sizeof(*mailbox), MEMREMAP_WB);
	if (!mailbox)
		return -ENOMEM;
	if (mailbox->magic == SKEP_LINUX_MAGIC &&
	    mailbox->revision == SKEP_LINUX_REVISION)
		err = add_devices();
	if (err)
		memunmap(mailbox);
	return err;
}

module_init(shimos_virtio_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Virtio devices for a Linux kernel on lent cores");
