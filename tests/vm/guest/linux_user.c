// SPDX-License-Identifier: MIT
/* /init of a Linux kernel on a partition, or a program there. It says what it
 * sees, computes something on every processor, and ends as the word "end="
 * says. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <skep/linux.h>

#define CPUS 8
#define TERMS 300000

static int count_lines(const char *path, const char *begin, char *last,
		       size_t size)
{
	char line[512];
	FILE *f = fopen(path, "r");
	int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, begin, strlen(begin)))
			continue;
		n++;
		snprintf(last, size, "%s", line + strlen(begin));
	}
	if (f)
		fclose(f);
	last[strcspn(last, "\n")] = 0;
	return n;
}

/* Terms of its own: 1, 3, 5, ... on one of two processors. */
static void *add_terms(void *arg)
{
	int cpu = (int)(size_t)arg, i;
	unsigned long sum = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || sched_getcpu() != cpu)
		return NULL;
	for (i = cpu; i < TERMS; i += 2)
		sum += (unsigned long)i * i;
	return (void *)sum;
}

static unsigned long add_on_both(void)
{
	pthread_t thread[2];
	unsigned long sum = 0;
	void *part;
	size_t i;

	for (i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, add_terms, (void *)i);
	for (i = 0; i < 2; i++) {
		pthread_join(thread[i], &part);
		sum += (unsigned long)part;
	}
	return sum;
}

/* The address of the link to the first Linux, if there is one. */
static void print_address(void)
{
	struct ifreq r = {.ifr_name = "eth0"};
	struct sockaddr_in a;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd >= 0 && !ioctl(fd, SIOCGIFADDR, &r)) {
		memcpy(&a, &r.ifr_addr, sizeof(a));
		printf("address: %s\n", inet_ntoa(a.sin_addr));
	}
	if (fd >= 0)
		close(fd);
}

/* Takes the card's queues back, and describes one that is not in its memory. */
static void spoil_link(const char *words)
{
	const char *at = strstr(words, "shimos_guest.mail=");
	struct skep_linux *m;
	int i, fd;

	mkdir("/dev", 0755);
	mount("none", "/dev", "devtmpfs", 0, NULL);
	fd = open("/dev/mem", O_RDWR | O_SYNC);
	m = mmap(NULL, (sizeof(*m) + 4095) & ~4095ul, PROT_READ | PROT_WRITE,
		 MAP_SHARED, fd,
		 (off_t)(strtoull(at ? at + 18 : "0", NULL, 10) +
			 SKEP_LINUX_MAIL));
	if (m == MAP_FAILED) {
		perror("/dev/mem");
		return;
	}
	for (i = 0; i < SKEP_LINUX_DEVICES && m->device[i].kind != 1; i++)
		;
	m->device[i].ready = 0;
	while (__atomic_load_n(&m->device[i].served, __ATOMIC_ACQUIRE))
		;
	m->device[i].queue[1].used = 0x1000;
	__atomic_store_n(&m->device[i].ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static void end_as_told(const char *words)
{
	char line[64];
	int fd;

	if (strstr(words, "end=echo") && fgets(line, sizeof(line), stdin))
		printf("read: %s", line);
	if (strstr(words, "end=crash") || strstr(words, "end=emergency")) {
		fd = open("/proc/sysrq-trigger", O_WRONLY);
		fflush(stdout);
		if (write(fd, strstr(words, "end=crash") ? "c" : "b", 1) < 0)
			perror("sysrq");
	}
	if (strstr(words, "end=spoil"))
		spoil_link(words);
	if (strstr(words, "end=stay"))
		for (;;)
			pause();
	fflush(stdout);
	if (strstr(words, "end=return"))
		return;
	reboot(strstr(words, "end=off") ? RB_POWER_OFF : RB_AUTOBOOT);
}

int main(void)
{
	char words[2048] = "", text[512] = "";
	FILE *f;

	mkdir("/proc", 0755);
	if (mount("none", "/proc", "proc", 0, NULL))
		perror("/proc");
	f = fopen("/proc/cmdline", "r");
	if (!f || !fgets(words, sizeof(words), f))
		perror("/proc/cmdline");
	printf("cpus: %d\n",
	       count_lines("/proc/cpuinfo", "processor", text, sizeof(text)));
	count_lines("/proc/meminfo", "MemTotal:", text, sizeof(text));
	printf("memory: %s\n", text);
	printf("answer: %lu\n", add_on_both());
	print_address();
	fflush(stdout);
	end_as_told(words);
	return 0;
}
