// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/o2g: checks requests of a program and passes them to its engine.
 * Everybody may open it (mode 0666): an endpoint grants no rights beyond those
 * of its sockets, and its memory is charged to the user (memory.c).
 *
 * Context: process, the system calls of whoever has the file.
 */
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "internal.h"

static struct o2g_engine *engine_of(struct file *file)
{
	return smp_load_acquire(&file->private_data);
}

static bool caller_owns(const struct o2g_engine *engine)
{
	return task_tgid(current) == engine->owner && current->mm == engine->mm;
}

/* ---- calls ---- */

static int call_open(struct file *file, void __user *arg)
{
	struct o2g_engine *engine;
	struct o2g_device_open o;
	int rc;

	if (copy_from_user(&o, arg, sizeof(o)))
		return -EFAULT;
	engine = o2g_engine_make(&o, &rc);
	if (!engine)
		return rc;
	o.area_size = engine->pages.size;
	if (copy_to_user(arg, &o, sizeof(o)))
		rc = -EFAULT;
	else if (cmpxchg(&file->private_data, NULL, engine))
		rc = -EBUSY;
	if (rc) {
		o2g_engine_close(engine);
		o2g_engine_put(engine);
	}
	return rc;
}

static int call_peer(struct o2g_engine *engine, void __user *arg)
{
	struct o2g_device_peer p;

	if (copy_from_user(&p, arg, sizeof(p)))
		return -EFAULT;
	if (p.value & ~1)
		return -EINVAL;
	return o2g_engine_peer(engine, p.peer, p.value);
}

static int call_lost(struct o2g_engine *engine, void __user *arg)
{
	struct o2g_device_peer p;

	if (copy_from_user(&p, arg, sizeof(p)))
		return -EFAULT;
	if (p.value >= 0 || p.value < -MAX_ERRNO)
		return -EINVAL;
	return o2g_engine_lost(engine, p.peer, p.value);
}

static int attach_link(struct o2g_engine *engine, struct o2g_device_attach *a)
{
	int rc;

	if (!READ_ONCE(engine->pages.mapped))
		return -EINVAL;
	mutex_lock(&engine->control);
	rc = engine->closed ? -ESHUTDOWN : o2g_link_attach(engine, a);
	mutex_unlock(&engine->control);
	return rc;
}

static int call_attach(struct o2g_engine *engine, void __user *arg)
{
	struct o2g_device_attach a;
	int rc;

	rc = copy_from_user(&a, arg, sizeof(a)) ? -EFAULT
						: attach_link(engine, &a);
	memzero_explicit(a.key_out, sizeof(a.key_out));
	memzero_explicit(a.key_in, sizeof(a.key_in));
	/* the program gets its own copy of the keys back as zeros */
	if (!rc && copy_to_user(arg, &a, sizeof(a)))
		return -EFAULT;
	return rc;
}

static int call_identify(struct o2g_engine *engine, void __user *arg)
{
	struct o2g_device_identify i;
	int rc;

	if (copy_from_user(&i, arg, sizeof(i)))
		return -EFAULT;
	mutex_lock(&engine->control);
	rc = engine->closed ? -ESHUTDOWN
			    : o2g_link_identify(engine, i.link, i.peer);
	mutex_unlock(&engine->control);
	return rc;
}

static int call_region_add(struct o2g_engine *engine, void __user *arg)
{
	const u32 rights =
		O2G_REGION_READ | O2G_REGION_WRITE | O2G_REGION_EVENTS;
	struct o2g_device_region r;

	if (copy_from_user(&r, arg, sizeof(r)))
		return -EFAULT;
	if (r.zero || (r.rights & ~rights))
		return -EINVAL;
	return o2g_engine_region_add(
		engine, &(struct o2g_region_options){.key = r.key,
						     .address = r.address,
						     .length = r.length,
						     .first = r.first,
						     .cookie = r.cookie,
						     .rights = r.rights});
}

static int call_region_remove(struct o2g_engine *engine, void __user *arg)
{
	u64 key;

	if (copy_from_user(&key, arg, sizeof(key)))
		return -EFAULT;
	return o2g_engine_region_remove(engine, key);
}

static int call_sleep(struct o2g_engine *engine, void __user *arg)
{
	u64 us;

	if (copy_from_user(&us, arg, sizeof(us)))
		return -EFAULT;
	return o2g_engine_sleep(engine, us);
}

static int call_finish(struct o2g_engine *engine, void __user *arg)
{
	u32 ms;

	if (copy_from_user(&ms, arg, sizeof(ms)))
		return -EFAULT;
	return o2g_engine_finish(engine, ms);
}

/* Copies as many bytes as both sides know: the program may be older or
 * newer. */
static int call_counts(struct o2g_engine *engine, void __user *arg)
{
	struct o2g_device_counts counts, head;
	const size_t fixed = offsetof(struct o2g_device_counts, sent);
	int rc;

	if (copy_from_user(&head, arg, fixed))
		return -EFAULT;
	if (head.size < fixed || head.zero)
		return -EINVAL;
	rc = o2g_engine_counts(engine, &counts);
	if (rc)
		return rc;
	counts.size = min_t(u32, head.size, sizeof(counts));
	counts.zero = 0;
	return copy_to_user(arg, &counts, counts.size) ? -EFAULT : 0;
}

static int dispatch_ioctl(struct o2g_engine *engine, unsigned int call,
			  void __user *arg)
{
	switch (call) {
	case O2G_IOC_PEER:
		return call_peer(engine, arg);
	case O2G_IOC_LOST:
		return call_lost(engine, arg);
	case O2G_IOC_ATTACH:
		return call_attach(engine, arg);
	case O2G_IOC_IDENTIFY:
		return call_identify(engine, arg);
	case O2G_IOC_REGION_ADD:
		return call_region_add(engine, arg);
	case O2G_IOC_REGION_REMOVE:
		return call_region_remove(engine, arg);
	case O2G_IOC_KICK:
		return o2g_engine_kick(engine);
	case O2G_IOC_SLEEP:
		return call_sleep(engine, arg);
	case O2G_IOC_WAKE:
		o2g_engine_wake(engine);
		return 0;
	case O2G_IOC_CALM:
		o2g_engine_calm(engine);
		return 0;
	case O2G_IOC_FINISH:
		return call_finish(engine, arg);
	case O2G_IOC_COUNTS:
		return call_counts(engine, arg);
	case O2G_IOC_CLOSE:
		o2g_engine_close(engine);
		return 0;
	}
	return -ENOTTY;
}

/* ---- the file ---- */

static int device_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL; /* was set by miscdevice */
	return nonseekable_open(inode, file);
}

static long device_ioctl(struct file *file, unsigned int call,
			 unsigned long arg)
{
	struct o2g_engine *engine = engine_of(file);

	if (call == O2G_IOC_OPEN)
		return engine ? -EBUSY : call_open(file, (void __user *)arg);
	if (!engine)
		return -ENXIO;
	if (!caller_owns(engine))
		return -EPERM;
	return dispatch_ioctl(engine, call, (void __user *)arg);
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct o2g_engine *engine = engine_of(file);

	if (!engine)
		return -ENXIO;
	return caller_owns(engine) ? o2g_area_map(engine, vma) : -EPERM;
}

static __poll_t device_poll(struct file *file, poll_table *table)
{
	struct o2g_engine *engine = engine_of(file);

	if (!engine)
		return EPOLLERR;
	poll_wait(file, &engine->wait, table);
	if (READ_ONCE(engine->closed))
		return EPOLLIN | EPOLLHUP;
	return READ_ONCE(engine->rung) ? EPOLLIN | EPOLLRDNORM : 0;
}

/* Mappings refer to the file, so there are none left, and end_work is not
 * queued again. */
static void finish_engine(struct o2g_engine *engine)
{
	o2g_engine_close(engine);
	cancel_work_sync(&engine->end_work);
	o2g_engine_put(engine);
}

static int finish_apart(void *data)
{
	struct o2g_engine *engine = data;
	struct path path = engine->path; /* keeps `mapping` valid */

	finish_engine(engine);
	path_put(&path);
	module_put_and_kthread_exit(0);
}

/* If io_uring or a socket's queue had the last reference, the file is closed by
 * the kernel's delayed fput worker. Closing may take as long as a page fault
 * that the program serves, and other files must not wait for that, so a worker
 * of the module does it. */
static int device_release(struct inode *inode, struct file *file)
{
	struct o2g_engine *engine = engine_of(file);

	if (!engine)
		return 0;
	if (current->flags & PF_KTHREAD) {
		engine->path = file->f_path;
		path_get(&engine->path);
		__module_get(THIS_MODULE);
		if (!IS_ERR(kthread_run(finish_apart, engine, "o2g_finish")))
			return 0;
		module_put(THIS_MODULE); /* no memory: close it here */
		path_put(&engine->path);
	}
	finish_engine(engine);
	return 0;
}

static const struct file_operations device_operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
	.mmap = device_mmap,
	.poll = device_poll,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = O2G_DEVICE_NAME,
	.mode = 0666,
	.fops = &device_operations,
};

int o2g_device_register(void)
{
	return misc_register(&device);
}

void o2g_device_unregister(void)
{
	misc_deregister(&device);
}
