// SPDX-License-Identifier: GPL-2.0-only
/*
 * The image that every user may boot. It is read when root sets its path, in
 * root's mount namespace, and kept in memory, so a user's namespace does not
 * matter. image_lock guards it.
 *
 * Process context, and may sleep.
 */
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/kernel_read_file.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/tsc.h>

#include "partition.h"
#include <skep/nmi.h>
#include <shimos/core/image.h>

static DECLARE_RWSEM(image_lock);
static struct skep_image *image;
static char *path;

static int check_file(struct file *file)
{
	struct inode *inode = file_inode(file);

	if (S_ISREG(inode->i_mode) && uid_eq(inode->i_uid, GLOBAL_ROOT_UID) &&
	    !(inode->i_mode & 022))
		return 0;
	pr_err("shimos: the image must be a file that root owns and only root "
	       "can write\n");
	return -EPERM;
}

static int read_image(const char *name, struct skep_image **out)
{
	struct file *file = filp_open(name, O_RDONLY, 0);
	struct shimos_text why;
	char text[SHIMOS_WHY];
	void *data = NULL;
	ssize_t length;
	int err;

	if (IS_ERR(file)) {
		pr_err("shimos: the image %s can't be opened\n", name);
		return PTR_ERR(file);
	}
	err = check_file(file);
	length = err
			 ?: kernel_read_file(file, 0, &data, SKEP_IMAGE_MAX,
					     NULL, READING_FIRMWARE);
	fput(file);
	if (length < 0)
		return length;
	shimos_text_begin(&why, text, sizeof(text));
	err = shimos_image_check(data, length, &why);
	if (err) {
		pr_err("shimos: %s: %s\n", name, text);
		vfree(data);
		return err;
	}
	*out = data;
	return 0;
}

static int set_image_param(const char *value, const struct kernel_param *kp)
{
	char *name = kstrdup(value, GFP_KERNEL);
	struct skep_image *fresh = NULL;
	int err;

	if (!name)
		return -ENOMEM;
	name = strim(name);
	err = *name ? read_image(name, &fresh) : 0;
	if (err) {
		kfree(name);
		return err;
	}
	down_write(&image_lock);
	swap(image, fresh);
	swap(path, name);
	up_write(&image_lock);
	vfree(fresh);
	kfree(name);
	return 0;
}

static int get_image_param(char *buffer, const struct kernel_param *kp)
{
	int n;

	down_read(&image_lock);
	n = scnprintf(buffer, PAGE_SIZE, "%s\n", path ?: "");
	up_read(&image_lock);
	return n;
}

static const struct kernel_param_ops ops = {.set = set_image_param,
					    .get = get_image_param};
module_param_cb(image, &ops, NULL, 0644);
MODULE_PARM_DESC(image, "image file that partitions boot; owned by root and "
			"writable by root only");

const struct skep_image *shimos_image_get(void)
{
	down_read(&image_lock);
	return image;
}

void shimos_image_put(void)
{
	up_read(&image_lock);
}

void shimos_image_exit(void)
{
	vfree(image);
	kfree(path);
}

static void fill_partition(struct shimos_partition *p,
			   const struct skep_image *h,
			   const struct shimos_size *size,
			   struct skep_partition *to)
{
	u32 i;

	to->magic = SKEP_PARTITION_MAGIC;
	to->revision = SKEP_PARTITION_REVISION;
	to->id = p->id;
	to->cores = p->cores;
	to->ranges = p->plan.pool.count;
	to->tsc_khz = tsc_khz;
	to->kernel_start = p->plan.kernel.start;
	to->kernel_size = p->plan.kernel.length;
	to->mail_start = p->plan.mail.start;
	to->mail_size = p->plan.mail.length;
	to->free_start = shimos_image_free(h, size);
	to->range_table = shimos_image_ranges(h) - shimos_image_partition(h);
	to->used_pool =
		shimos_image_used(h, size->ranges) - shimos_image_partition(h);
	to->apic_base = shimos_cpu_apic_base();
	to->saved_hwp = p->saved_hwp;
	to->saved_perf = p->saved_perf;
	to->saved_epb = p->saved_epb;
	to->low_start = p->low_start;
	to->low_size = p->low_size;
	shimos_doorbell_where(p, &to->doorbell_apic_id, &to->doorbell_vector);
	get_random_bytes(to->random, sizeof(to->random));
	memcpy(to->core, p->place, p->cores * sizeof(*p->place));
	for (i = 0; i < p->cores; i++)
		to->nmi[i] = SKEP_NMI_CLOSED;
	memcpy(skep_partition_ranges(to), p->plan.pool.at,
	       p->plan.pool.count * sizeof(*p->plan.pool.at));
}

/* The rest of the region is zero: nothing was written to it since it was
 * cleared. */
void shimos_image_fill(struct shimos_partition *p, const struct skep_image *h,
		       const struct shimos_size *size)
{
	void *kernel = phys_to_virt(p->plan.kernel.start);

	memcpy(kernel, h, h->file_size);
	fill_partition(p, h, size, kernel + shimos_image_partition(h));
	p->run.image = true;
	p->run.marks = h->flags & SKEP_IMAGE_MARKS;
	p->run.partition = shimos_image_partition(h);
	p->run.used = shimos_image_used(h, size->ranges);
	p->run.free = shimos_image_free(h, size);
	strscpy(p->image, h->name, sizeof(p->image));
}
