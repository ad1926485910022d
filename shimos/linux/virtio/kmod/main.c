// SPDX-License-Identifier: GPL-2.0-only
/*
 * A virtio transport in a kernel that runs on a partition. It has one device,
 * of the kernel's own 9p, with one queue. The queue lies in this kernel's
 * memory; struct skep_linux_queue in the mailbox tells the command where.
 *
 * No interrupt comes from Linux, so a timer looks for replies while there are
 * requests without one.
 *
 * Process context, one operation at a time, as the virtio core calls them; but
 * kick_queue runs anywhere, and look_at_queue in a hard interrupt.
 *
 * There is no exit: the root file system needs the device.
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
#include <linux/virtio_9p.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#include <skep/linux.h>

#include "compat.h"

#define ENTRIES 256
#define SOON_NS 50000 /* from a request to the first look for its reply */
#define LATE_NS 4000000
#define LEAVE_MS 10000 /* until the command has left the queue */

static ulong mail;
module_param(mail, ulong, 0400);
MODULE_PARM_DESC(mail, "physical address of the partition's mailbox");

static struct skep_linux *mailbox;
static struct virtio_device device;
static struct virtqueue *queue;
static void *pages;
static struct vring ring; /* the same memory as the queue's */
static struct hrtimer timer;
static u32 pause_ns; /* a guess, which nothing guards */
static u8 status;

static bool have_requests(void)
{
	u16 put = virtio16_to_cpu(&device, READ_ONCE(ring.avail->idx));
	u16 done = virtio16_to_cpu(&device, READ_ONCE(ring.used->idx));

	return put != done;
}

/* Hard interrupt context. A reply that comes after the question whether there
 * are requests is seen, or the timer runs once more. */
static enum hrtimer_restart look_at_queue(struct hrtimer *t)
{
	u32 ns = READ_ONCE(pause_ns);
	bool more = have_requests();

	smp_rmb(); /* the question before the look: see above */
	if (vring_interrupt(0, queue) == IRQ_HANDLED)
		ns = SOON_NS;
	else
		ns = min(ns + ns / 8, (u32)LATE_NS);
	WRITE_ONCE(pause_ns, ns);
	/* not by hrtimer_forward(): a kick may have started it by now */
	if (more)
		hrtimer_start(t, ns_to_ktime(ns), HRTIMER_MODE_REL);
	return HRTIMER_NORESTART;
}

static bool kick_queue(struct virtqueue *vq)
{
	WRITE_ONCE(pause_ns, SOON_NS);
	hrtimer_start(&timer, ns_to_ktime(SOON_NS), HRTIMER_MODE_REL);
	return true;
}

static void read_config(struct virtio_device *vdev, unsigned int offset,
			void *to, unsigned int bytes)
{
	/* struct virtio_9p_config: length and tag */
	static const u8 config[] = {sizeof(SKEP_LINUX_TAG) - 1, 0,
				    SKEP_LINUX_TAG_BYTES};
	u8 *out = to;
	unsigned int i;

	for (i = 0; i < bytes; i++)
		out[i] = offset + i < sizeof(config) ? config[offset + i] : 0;
}

static u8 read_status(struct virtio_device *vdev)
{
	return status;
}

/* With DRIVER_OK the command may use the queue. */
static void write_status(struct virtio_device *vdev, u8 to)
{
	status = to;
	if (queue && to & VIRTIO_CONFIG_S_DRIVER_OK)
		smp_store_release(&mailbox->files.ready, 1);
}

/* Waits until the command has left the queue. One that does not is stopped or
 * dead, and so is this kernel soon. */
static void reset_device(struct virtio_device *vdev)
{
	u32 ms;

	status = 0;
	WRITE_ONCE(mailbox->files.ready, 0);
	for (ms = 0; READ_ONCE(mailbox->files.served); ms += 10) {
		if (ms >= LEAVE_MS) {
			dev_err(&vdev->dev, "the command does not leave the "
					    "queue: its memory is lost\n");
			return;
		}
		msleep(10);
	}
}

static void remove_queues(struct virtio_device *vdev)
{
	if (!queue)
		return;
	hrtimer_cancel(&timer);
	vring_del_virtqueue(queue);
	queue = NULL;
	if (!READ_ONCE(mailbox->files.served))
		free_pages_exact(pages, vring_size(ENTRIES, SMP_CACHE_BYTES));
	pages = NULL;
}

static void describe_queue(void)
{
	struct skep_linux_queue *q = &mailbox->files;

	WRITE_ONCE(q->descriptors, virt_to_phys(ring.desc));
	WRITE_ONCE(q->available, virt_to_phys(ring.avail));
	WRITE_ONCE(q->used, virt_to_phys(ring.used));
	WRITE_ONCE(q->size, ENTRIES);
}

static int find_queues(struct virtio_device *vdev, unsigned int count,
		       struct virtqueue *queues[], SHIMOS_QUEUE_PARAMETERS,
		       struct irq_affinity *affinity)
{
	size_t bytes = vring_size(ENTRIES, SMP_CACHE_BYTES);

	if (count != 1 || queue)
		return -ENOENT;
	pages = alloc_pages_exact(bytes, GFP_KERNEL | __GFP_ZERO);
	if (!pages)
		return -ENOMEM;
	vring_init(&ring, ENTRIES, pages, SMP_CACHE_BYTES);
	queue = vring_new_virtqueue(0, ENTRIES, SMP_CACHE_BYTES, vdev, true,
				    false, pages, kick_queue, SHIMOS_QUEUE_CALL,
				    SHIMOS_QUEUE_NAME);
	if (!queue) {
		free_pages_exact(pages, bytes);
		return -ENOMEM;
	}
	describe_queue();
	queues[0] = queue;
	return 0;
}

/* Neither indirect descriptors nor events: the command knows neither. */
static u64 offer_features(struct virtio_device *vdev)
{
	return BIT_ULL(VIRTIO_F_VERSION_1) | BIT_ULL(VIRTIO_9P_MOUNT_TAG);
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

/* The device is static. */
static void release_device(struct device *d)
{
}

static int __init add_device(void)
{
	int err;

	device.dev.parent = root_device_register("shimos");
	if (IS_ERR(device.dev.parent))
		return PTR_ERR(device.dev.parent);
	device.dev.release = release_device;
	device.config = &operations;
	device.id.device = VIRTIO_ID_9P;
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer.function = look_at_queue;
	err = register_virtio_device(&device);
	if (err) {
		put_device(&device.dev);
		root_device_unregister(device.dev.parent);
	}
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
		err = add_device();
	if (err)
		memunmap(mailbox);
	return err;
}

module_init(shimos_virtio_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("The files of a folder for a Linux kernel on lent cores");
