// SPDX-License-Identifier: MIT
/*
 * The first program of a kernel on a partition. It loads the module that makes
 * the console, and becomes the user's own /init. Where that fails there is no
 * console to say so: it says so in the mailbox, and waits to be stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <skep/linux.h>

#define WORD "shimos_guest.mail="

static char mail[32];

static _Noreturn void end_here(const char *what)
{
	int error = errno, fd = open("/dev/mem", O_RDWR | O_SYNC);
	struct skep_linux *m = MAP_FAILED;

	if (fd >= 0 && *mail)
		m = mmap(NULL, (sizeof(*m) + 4095) & ~4095ul,
			 PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			 (off_t)(strtoull(mail, NULL, 10) + SKEP_LINUX_MAIL));
	if (m != MAP_FAILED) {
		snprintf(m->why, sizeof(m->why), "in the kernel: %s: %s", what,
			 strerror(error));
		__atomic_store_n(&m->state, SKEP_LINUX_REFUSED,
				 __ATOMIC_RELEASE);
	}
	printf("skep: %s: %s\n", what, strerror(error));
	fflush(stdout);
	for (;;)
		pause();
}

static void read_words(void)
{
	char line[8192], *at;
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (n < 0)
		end_here("/proc/cmdline");
	close(fd);
	line[n] = 0;
	/* the last one is ours */
	for (at = line; (at = strstr(at, WORD)); at++)
		snprintf(mail, sizeof(mail), "%.20s", at + strlen(WORD));
	mail[strspn(mail, "0123456789")] = 0;
	if (!*mail) {
		errno = EINVAL;
		end_here("the kernel's words have no mailbox");
	}
}

static void load_console(void)
{
	char words[64];
	int fd = open("/skep/shimos_guest.ko", O_RDONLY);

	snprintf(words, sizeof(words), "mail=%s", mail);
	if (fd < 0 || syscall(SYS_finit_module, fd, words, 0))
		end_here("the module shimos_guest");
	close(fd);
	fd = open("/dev/ttyL0", O_RDWR);
	if (fd < 0)
		end_here("/dev/ttyL0");
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	if (fd > 2)
		close(fd);
}

int main(int argc, char **argv, char **environment)
{
	(void)argc;
	if (getpid() != 1) {
		fprintf(stderr, "this is the first program of a kernel that "
				"'skep part linux' boots, and nothing else\n");
		return 2;
	}
	mkdir("/dev", 0755);
	mkdir("/proc", 0755);
	if (mount("none", "/dev", "devtmpfs", 0, NULL) ||
	    mount("none", "/proc", "proc", 0, NULL))
		end_here("/dev and /proc");
	read_words();
	load_console();
	umount2("/proc", MNT_DETACH);
	umount2("/dev", MNT_DETACH);
	argv[0] = "/init";
	execve("/init", argv, environment);
	end_here("/init of the initial file system");
}
