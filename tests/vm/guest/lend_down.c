// SPDX-License-Identifier: MIT
/*
 * A machine that goes down while cores are lent and run. Whether they still do
 * when it goes is the witness's to say, a module (tests/vm/kmod/witness).
 *
 * usage: lend_down IMAGE SHIMOS WITNESS          run, then reboot
 *        lend_down IMAGE SHIMOS WITNESS KERNEL   run, then kexec
 *
 * SHIMOS and WITNESS are the modules' files, KERNEL is that of a kernel for
 * which they are. There this program is process 1: it looks at the machine,
 * has cores lent and run once more, and ends all by a panic. It goes down by
 * its own call: whoever ends programs first, ends partitions too.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lend.h"

#define MIB 1048576ull
#define CPUS 0xc
#define LINE                                                                   \
	"console=ttyS0 loglevel=5 panic=-1 nokaslr tsc=reliable "              \
	"no_timer_check init_on_alloc=0 rdinit=/init"

static void expect_true(int ok, const char *what)
{
	if (ok)
		return;
	printf("down: %s: %s; %s\n", what, strerror(errno), lend_why);
	fflush(stdout);
	exit(1);
}

static void load_module(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	expect_true(fd >= 0 && !syscall(SYS_finit_module, fd, "", 0), path);
	close(fd);
}

static void tell_witness(const char *parameter, u64 of0, u64 of1)
{
	char path[64], words[64];

	snprintf(path, sizeof(path), "/sys/module/witness/parameters/%s",
		 parameter);
	snprintf(words, sizeof(words), "%llu,%llu", of0, of1);
	expect_true(!lend_write(path, words), path);
}

/* Both cores run, and the witness knows where. */
static void run_cores(const char *image)
{
	static struct lend l; /* open as long as the process lives */
	int id = lend_create(CPUS, 64 * MIB, "down");
	struct slot *slot[2];
	u64 at;

	expect_true(id > 0 && !lend_open(&l, id) && !lend_load(&l, image) &&
			    !lend_start(&l) && lend_alive(&l),
		    "cores are lent and run");
	slot[0] = lend_slot(&l, 0);
	slot[1] = lend_slot(&l, 1);
	at = slot[0]->mail + offsetof(struct slot, alive);
	tell_witness("at", at + SLOT_AT(0), at + SLOT_AT(1));
	tell_witness("id", slot[0]->apic_id, slot[1]->apic_id);
}

/* A file of the archive that a kernel takes for its first root. */
static void pack_file(FILE *to, const char *name, const char *path,
		      unsigned mode)
{
	FILE *from = path ? fopen(path, "r") : NULL;
	struct stat st = {0};
	long n;
	int c;

	expect_true(!path || (from && !fstat(fileno(from), &st)), name);
	n = fprintf(to, "070701%08x%08x%08x%08x%08x%08x%08lx", 0u, mode, 0u, 0u,
		    1u, 0u, (long)st.st_size);
	n += fprintf(to, "%08x%08x%08x%08x%08zx%08x%s", 0u, 0u, 0u, 0u,
		     strlen(name) + 1, 0u, name);
	do
		n += fputc(0, to) != EOF;
	while (n % 4);
	while (from && (c = fgetc(from)) != EOF)
		n += fputc(c, to) != EOF;
	for (; n % 4; n++)
		fputc(0, to);
	if (from)
		fclose(from);
}

static int pack_initrd(char **argv)
{
	const char *path = "/root/initrd";
	FILE *f = fopen(path, "w");

	expect_true(f != NULL, path);
	pack_file(f, "init", argv[0], S_IFREG | 0755);
	pack_file(f, "image", argv[1], S_IFREG | 0644);
	pack_file(f, "shimos.ko", argv[2], S_IFREG | 0644);
	pack_file(f, "witness.ko", argv[3], S_IFREG | 0644);
	pack_file(f, "dev", NULL, S_IFDIR | 0755);
	pack_file(f, "proc", NULL, S_IFDIR | 0755);
	pack_file(f, "sys", NULL, S_IFDIR | 0755);
	pack_file(f, "TRAILER!!!", NULL, 0);
	expect_true(!fclose(f), path);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void load_next(char **argv)
{
	int kernel = open(argv[4], O_RDONLY | O_CLOEXEC);
	int initrd = pack_initrd(argv);

	expect_true(kernel >= 0 && initrd >= 0 &&
			    !syscall(SYS_kexec_file_load, kernel, initrd,
				     sizeof(LINE), LINE, 0),
		    "the next kernel is loaded");
}

static void first_process(void)
{
	char online[16] = "";
	int fd;

	expect_true(!mount("dev", "/dev", "devtmpfs", 0, NULL) &&
			    !mount("proc", "/proc", "proc", 0, NULL) &&
			    !mount("sys", "/sys", "sysfs", 0, NULL),
		    "mount");
	fd = open("/sys/devices/system/cpu/online", O_RDONLY);
	expect_true(read(fd, online, sizeof(online) - 1) > 0, "online");
	close(fd);
	printf("down: the next kernel has CPUs %s", online);
	load_module("/witness.ko");
	load_module("/shimos.ko");
	run_cores("/image");
	lend_write("/proc/sysrq-trigger", "c");
	expect_true(0, "panic");
}

int main(int argc, char **argv)
{
	if (getpid() == 1)
		first_process();
	if (argc != 4 && argc != 5)
		return 2;
	if (argc == 5)
		load_next(argv);
	load_module(argv[3]);
	run_cores(argv[1]);
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		argc == 5 ? LINUX_REBOOT_CMD_KEXEC : LINUX_REBOOT_CMD_RESTART,
		NULL);
	expect_true(0, "the machine goes down");
}
