// SPDX-License-Identifier: MIT
/*
 * The first program of a kernel on a partition. It loads the module that makes
 * the console, and those of its devices if there are any, and gives the network
 * card its address. Then it becomes the user's own /init. If there is a root
 * file system (/skep/root), it mounts that and becomes its /sbin/init, or runs
 * the program of /skep/words there and ends the kernel with its exit code.
 * Where that fails it says so in the mailbox, and waits to be stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <linux/reboot.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <skep/linux.h>

#define WORD "shimos_guest.mail="

static char mail[32], address[32]; /* of this kernel on the link */

static _Noreturn void end_here(const char *what)
{
	int error = errno, fd = open("/dev/mem", O_RDWR | O_SYNC);
	struct skep_linux *m = MAP_FAILED;

	if (fd < 0)
		fd = open("/skep/root/dev/mem", O_RDWR | O_SYNC);
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

/* The last word of the line that begins so: the command's own come last. */
static void read_word(const char *line, const char *begin, const char *all,
		      char *to, size_t size)
{
	const char *at;

	for (at = line; (at = strstr(at, begin)); at++)
		snprintf(to, size, "%.20s", at + strlen(begin));
	to[strspn(to, all)] = 0;
}

static void read_words(void)
{
	char line[8192];
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (n < 0)
		end_here("/proc/cmdline");
	close(fd);
	line[n] = 0;
	read_word(line, WORD, "0123456789", mail, sizeof(mail));
	read_word(line, SKEP_LINUX_ADDRESS_WORD, "0123456789.", address,
		  sizeof(address));
	if (!*mail) {
		errno = EINVAL;
		end_here("the kernel's words have no mailbox");
	}
}

/* Afterwards the file is gone, since it would occupy memory for ever. */
static void load_module(const char *path, const char *words)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0 || syscall(SYS_finit_module, fd, words, 0))
		end_here(path);
	close(fd);
	unlink(path);
}

static void load_console(void)
{
	char words[64];
	int fd;

	snprintf(words, sizeof(words), "mail=%s", mail);
	load_module("/skep/shimos_guest.ko", words);
	fd = open("/dev/ttyL0", O_RDWR);
	if (fd < 0)
		end_here("/dev/ttyL0");
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	if (fd > 2)
		close(fd);
}

static void load_devices(void)
{
	char path[64], words[64];
	int i;

	for (i = 0;; i++) {
		snprintf(path, sizeof(path), "/skep/%d.ko", i);
		if (access(path, F_OK))
			break;
		load_module(path, "");
	}
	snprintf(words, sizeof(words), "mail=%s", mail);
	load_module("/skep/shimos_virtio.ko", words);
}

static void mount_files(void)
{
	if (mount(SKEP_LINUX_TAG, "/skep/root", "9p", 0,
		  "trans=virtio,version=9p2000.L,msize=131072,cache=mmap"))
		end_here("the root file system");
}

static void set_address(int fd, const char *name, unsigned long call,
			in_addr_t to)
{
	struct ifreq r = {};
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {to}};

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	memcpy(&r.ifr_addr, &a, sizeof(a));
	if (ioctl(fd, call, &r))
		end_here(name);
}

static void raise_interface(int fd, const char *name)
{
	struct ifreq r = {.ifr_flags = IFF_UP};

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	if (ioctl(fd, SIOCSIFFLAGS, &r))
		end_here(name);
}

/* The only network card is that of the link: a network of four addresses. */
static void set_up_link(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct in_addr own;

	if (fd < 0 || inet_pton(AF_INET, address, &own) != 1)
		end_here("the address of the link");
	raise_interface(fd, "lo");
	set_address(fd, "eth0", SIOCSIFADDR, own.s_addr);
	set_address(fd, "eth0", SIOCSIFNETMASK, htonl(0xfffffffc));
	raise_interface(fd, "eth0");
	close(fd);
}

/* The words of a program: each ends with 0. None: NULL. */
static char **read_program(void)
{
	static char text[65537]; /* with a 0 behind all */
	static char *words[4096];
	int fd = open("/skep/words", O_RDONLY), count = 0;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *at;

	if (n < 0 || n == sizeof(text) - 1)
		end_here("/skep/words");
	close(fd);
	for (at = text; at < text + n; at += strlen(at) + 1) {
		if (count == 4095)
			end_here("/skep/words");
		words[count++] = at;
	}
	return count ? words : NULL;
}

static void enter_root(void)
{
	if (mount("/dev", "/skep/root/dev", NULL, MS_MOVE, NULL))
		end_here("the folder /dev of the root");
	if (mount("/proc", "/skep/root/proc", NULL, MS_MOVE, NULL))
		end_here("the folder /proc of the root");
	if (chdir("/skep/root") || mount("none", "sys", "sysfs", 0, NULL))
		end_here("the folder /sys of the root");
	if (mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		end_here("the change to the root");
}

static _Noreturn void start_program(char **words)
{
	setsid();
	ioctl(0, TIOCSCTTY, 1);
	setenv("PATH",
	       "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	       0);
	execvp(words[0], words);
	fprintf(stderr, "skep: %s: %s\n", words[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* Runs a program as the only one, and ends the kernel as it ended. */
static _Noreturn void run_program(char **words)
{
	char end[32];
	int status = 0;
	pid_t pid = fork(), got;

	if (pid == 0)
		start_program(words);
	do
		got = wait(&status);
	while (got != pid && (got > 0 || errno == EINTR));
	if (got != pid)
		end_here("the program");
	sync();
	snprintf(end, sizeof(end), SKEP_LINUX_EXIT_WORD "%d",
		 WIFEXITED(status) ? WEXITSTATUS(status)
				   : 128 + WTERMSIG(status));
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_RESTART2, end);
	end_here("the end of the kernel");
}

static _Noreturn void become_init(const char *path, char **argv,
				  char **environment)
{
	argv[0] = (char *)path;
	execve(path, argv, environment);
	end_here(path);
}

int main(int argc, char **argv, char **environment)
{
	char **words;

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
	if (!access("/skep/shimos_virtio.ko", F_OK))
		load_devices();
	if (*address)
		set_up_link();
	if (access("/skep/root", F_OK)) {
		umount2("/proc", MNT_DETACH);
		umount2("/dev", MNT_DETACH);
		become_init("/init", argv, environment);
	}
	words = read_program();
	mount_files();
	enter_root();
	if (words)
		run_program(words);
	become_init("/sbin/init", argv, environment);
}
