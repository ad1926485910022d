// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/shimos: the calls of skep/shimos.h. Input from user space is copied
 * once; the functions that are called check it. Process context, and may sleep.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "partition.h"
#include <shimos/core/image.h>

static struct shimos_partition *proxy_partition(struct shimos_proxy *proxy)
{
	return smp_load_acquire(&proxy->partition);
}

static long ioctl_release(struct shimos_proxy *proxy, void *arg)
{
	struct shimos_release *r = arg;
	struct shimos_text why;

	shimos_text_begin(&why, r->why, sizeof(r->why));
	return shimos_partition_release(r->id, &why);
}

static long ioctl_allow(struct shimos_proxy *proxy, void *arg)
{
	struct shimos_allow *a = arg;
	struct shimos_text why;

	shimos_text_begin(&why, a->why, sizeof(a->why));
	return shimos_partition_allow(a, &why);
}

static long ioctl_allowed(struct shimos_proxy *proxy, void *arg)
{
	shimos_partition_allowed(arg);
	return 0;
}

static long ioctl_create(struct shimos_proxy *proxy, void *arg)
{
	struct shimos_create *c = arg;
	struct shimos_text why;
	int err;

	if (!(c->flags & SHIMOS_FILE))
		return shimos_partition_create(c);
	if (mutex_lock_killable(&proxy->lock))
		return -EINTR;
	if (proxy->made) {
		shimos_text_begin(&why, c->why, sizeof(c->why));
		shimos_text_add(&why, "this file has made a partition already");
		err = -EBUSY;
	} else {
		err = shimos_partition_create(c);
		if (!err)
			proxy->made = c->id;
	}
	mutex_unlock(&proxy->lock);
	return err;
}

static long ioctl_partition_info(struct shimos_proxy *proxy, void *arg)
{
	return shimos_partition_info(arg);
}

static long open_partition(struct shimos_proxy *proxy, void *arg)
{
	struct shimos_open *o = arg;
	struct shimos_text why;
	int err;

	shimos_text_begin(&why, o->why, sizeof(o->why));
	if (mutex_lock_killable(&proxy->lock))
		return -EINTR;
	if (proxy_partition(proxy)) {
		shimos_text_add(&why, "this file already has a partition");
		err = -EBUSY;
	} else {
		err = shimos_partition_open(proxy, o, &why);
	}
	mutex_unlock(&proxy->lock);
	return err;
}

static struct skep_image *copy_image(const struct shimos_load *load,
				     struct shimos_text *why)
{
	struct skep_image *image;
	int err;

	if (load->length < sizeof(*image) || load->length > SKEP_IMAGE_MAX)
		return ERR_PTR(-EFBIG);
	image = vmemdup_user(u64_to_user_ptr(load->address), load->length);
	if (IS_ERR(image))
		return image;
	err = shimos_image_check(image, load->length, why);
	if (!err)
		return image;
	kvfree(image);
	return ERR_PTR(err);
}

static long ioctl_load(struct shimos_proxy *proxy, void *arg)
{
	struct shimos_load *l = arg;
	struct skep_image *image;
	struct shimos_text why;
	int err = 0;

	shimos_text_begin(&why, l->why, sizeof(l->why));
	if (!capable(CAP_SYS_ADMIN) ||
	    security_locked_down(LOCKDOWN_MODULE_SIGNATURE)) {
		shimos_text_add(&why, "an image of your own needs root and a "
				      "kernel that is not locked down");
		return -EPERM;
	}
	image = copy_image(l, &why);
	if (IS_ERR(image))
		return PTR_ERR(image);
	mutex_lock(&proxy->lock);
	if (proxy->image) {
		shimos_text_add(&why, "this file already has an image");
		kvfree(image);
		err = -EBUSY;
	} else {
		smp_store_release(&proxy->image, image);
	}
	mutex_unlock(&proxy->lock);
	return err;
}

static long ioctl_start(struct shimos_proxy *proxy, void *arg)
{
	struct shimos_start *s = arg;
	struct shimos_text why;

	shimos_text_begin(&why, s->why, sizeof(s->why));
	return shimos_partition_start(proxy, &why);
}

static bool doorbell_rang(struct shimos_partition *p,
			  struct shimos_doorbell *doorbell, u32 seen)
{
	return READ_ONCE(p->state) != SHIMOS_RUNNING ||
	       (u32)atomic_read(&doorbell->rung) != seen;
}

static long wait_for_doorbell(struct shimos_partition *p,
			      struct shimos_doorbell *doorbell,
			      struct shimos_wait *w)
{
	long left = wait_event_interruptible_timeout(
		doorbell->wait, doorbell_rang(p, doorbell, w->seen),
		msecs_to_jiffies(w->ms));
	u32 now = atomic_read(&doorbell->rung);

	if (left < 0)
		return -EINTR;
	if (now == w->seen && READ_ONCE(p->state) != SHIMOS_RUNNING)
		return -EPIPE;
	if (now == w->seen)
		return -ETIMEDOUT;
	w->seen = now;
	return 0;
}

/* May send an NMI first: one system call answers and waits. */
static long ioctl_wait(struct shimos_proxy *proxy, void *arg)
{
	struct shimos_partition *p = proxy_partition(proxy);
	struct shimos_wait *w = arg;
	struct shimos_nmi nmi = {.core = w->core, .reasons = w->reasons};
	struct shimos_doorbell *doorbell = shimos_doorbell_find(p, w->core);
	long err = 0;

	if (!doorbell)
		return -EINVAL;
	if (w->reasons)
		err = shimos_partition_nmi(proxy, &nmi);
	return err ?: wait_for_doorbell(p, doorbell, w);
}

static long ioctl_nmi(struct shimos_proxy *proxy, void *arg)
{
	return shimos_partition_nmi(proxy, arg);
}

static long ioctl_stop(struct shimos_proxy *proxy, void *arg)
{
	return shimos_partition_stop(proxy);
}

static const struct call {
	u32 number;
	bool opened; /* allowed for a file that has only called OPEN */
	long (*call)(struct shimos_proxy *proxy, void *arg);
} calls[] = {
	{SHIMOS_IOC_ALLOW, false, ioctl_allow},
	{SHIMOS_IOC_CREATE, false, ioctl_create},
	{SHIMOS_IOC_RELEASE, false, ioctl_release},
	{SHIMOS_IOC_INFO, false, ioctl_partition_info},
	{SHIMOS_IOC_OPEN, false, open_partition},
	{SHIMOS_IOC_LOAD, false, ioctl_load},
	{SHIMOS_IOC_START, true, ioctl_start},
	{SHIMOS_IOC_WAIT, true, ioctl_wait},
	{SHIMOS_IOC_NMI, true, ioctl_nmi},
	{SHIMOS_IOC_STOP, true, ioctl_stop},
	{SHIMOS_IOC_ALLOWED, false, ioctl_allowed},
};

/* Copies the result back after an error too, because it contains the reason. */
static long copy_and_run(const struct call *c, struct shimos_proxy *proxy,
			 void __user *user)
{
	u32 size = _IOC_SIZE(c->number);
	void *arg = NULL;
	long err;

	if (c->opened && !proxy_partition(proxy))
		return -ENXIO;
	if (!size)
		return c->call(proxy, NULL);
	arg = kzalloc(size, GFP_KERNEL);
	if (!arg)
		return -ENOMEM;
	err = -EFAULT;
	if (_IOC_DIR(c->number) & _IOC_WRITE && copy_from_user(arg, user, size))
		goto out;
	err = c->call(proxy, arg);
	if (_IOC_DIR(c->number) & _IOC_READ && copy_to_user(user, arg, size))
		err = -EFAULT;
out:
	kfree(arg);
	return err;
}

static long shimos_ioctl(struct file *file, unsigned int number,
			 unsigned long arg)
{
	const struct call *c;

	for (c = calls; c < calls + ARRAY_SIZE(calls); c++)
		if (c->number == number)
			return copy_and_run(c, file->private_data,
					    (void __user *)arg);
	return -ENOTTY;
}

static int shimos_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct shimos_partition *p = proxy_partition(file->private_data);

	return p ? shimos_map_area(p, vma) : -ENXIO;
}

static int shimos_open(struct inode *inode, struct file *file)
{
	struct shimos_proxy *proxy = kzalloc(sizeof(*proxy), GFP_KERNEL);

	if (!proxy)
		return -ENOMEM;
	mutex_init(&proxy->lock);
	file->private_data = proxy;
	return 0;
}

static int shimos_close(struct inode *inode, struct file *file)
{
	struct shimos_proxy *proxy = file->private_data;

	shimos_partition_close(proxy);
	if (proxy->made)
		shimos_partition_abandon(proxy->made);
	kvfree(proxy->image);
	kfree(proxy);
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = shimos_open,
	.release = shimos_close,
	.unlocked_ioctl = shimos_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = shimos_mmap,
};

/* Everybody may open it: each call checks the caller. */
static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = SHIMOS_DEVICE_NAME,
	.fops = &operations,
	.mode = 0666,
};

int shimos_device_init(void)
{
	return misc_register(&device);
}

void shimos_device_exit(void)
{
	misc_deregister(&device);
}
