// SPDX-License-Identifier: MIT
/*
 * Has the kernel keep pointers of each kind, and use them later.
 *
 *   dynamos_keep changed FOLDER   updates/keeps.patch: a timer, a
 * high-resolution timer, work and a socket's callback dynamos_keep new FOLDER
 * updates/gives.patch: all that it gives away
 *
 * It makes FOLDER/ready when the kernel has them, waits until FOLDER/go is
 * there, has the kernel use them, and makes FOLDER/used. Both need root.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 120000
#define HOUR 3600

static void exit_failed(const char *what)
{
	perror(what);
	exit(1);
}

static void in_folder(const char *name)
{
	int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0)
		exit_failed(name);
	close(fd);
}

static void wait_until(bool (*is)(void), const char *what)
{
	struct timespec t = {.tv_nsec = 1000 * 1000};
	int i;

	for (i = 0; !is(); i++) {
		if (i == TIMEOUT_MS)
			exit_failed(what);
		nanosleep(&t, NULL);
	}
}

static bool may_go(void)
{
	return !access("go", F_OK);
}

static void wait_for_input(int fd, const char *what)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, TIMEOUT_MS) != 1)
		exit_failed(what);
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		exit_failed(path);
	close(fd);
}

/* The timer is due in an hour. */
static int arm_timer(void)
{
	struct itimerspec at = {};
	int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC);

	if (clock_gettime(CLOCK_REALTIME, &at.it_value))
		exit_failed("clock_gettime");
	at.it_value.tv_sec += HOUR;
	if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL))
		exit_failed("timerfd");
	return fd;
}

static void pass_hours(int hours)
{
	struct timespec t;

	if (clock_gettime(CLOCK_REALTIME, &t))
		exit_failed("clock_gettime");
	t.tv_sec += hours * HOUR;
	if (clock_settime(CLOCK_REALTIME, &t))
		exit_failed("clock_settime");
}

/* A child in a user namespace of its own, or 0 if there may be no other. */
static pid_t start_in_namespace(void)
{
	char ok = 0;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		exit_failed("pipe");
	pid = fork();
	if (pid < 0)
		exit_failed("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ok = unshare(CLONE_NEWUSER) ? 'n' : 'y';
		if (write(ends[1], &ok, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(ends[0], &ok, 1) != 1)
		exit_failed("a child");
	close(ends[0]);
	close(ends[1]);
	if (ok == 'y')
		return pid;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	if (waitpid(pid, NULL, 0) != pid)
		exit_failed("waitpid");
}

static bool has_place(void)
{
	pid_t pid = start_in_namespace();

	if (pid)
		end_child(pid);
	return pid;
}

static void start_loopback(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo))
		exit_failed("lo");
	close(fd);
}

/* One end of a connection whose other end stays open. */
static int open_connection(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof(at);
	int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (one < 0 || other < 0 || bind(other, (void *)&at, size) ||
	    listen(other, 1) || getsockname(other, (void *)&at, &size) ||
	    connect(one, (void *)&at, size))
		exit_failed("a connection");
	return one;
}

/* How many packets all connections' timers have sent to see who is there. */
static long count_probes(void)
{
	char names[8192], values[8192], *n = NULL, *v = NULL, *name, *value;
	FILE *file = fopen("/proc/net/netstat", "re");

	if (!file || !fgets(names, sizeof(names), file) ||
	    !fgets(values, sizeof(values), file))
		exit_failed("/proc/net/netstat");
	fclose(file);
	name = strtok_r(names, " \n", &n);
	value = strtok_r(values, " \n", &v);
	while (name && value && strcmp(name, "TCPKeepAlive")) {
		name = strtok_r(NULL, " \n", &n);
		value = strtok_r(NULL, " \n", &v);
	}
	if (!name || !value)
		exit_failed("TCPKeepAlive");
	return strtol(value, NULL, 10);
}

static long probes;

static bool has_probed(void)
{
	return count_probes() > probes;
}

static void set_option(int fd, int level, int option)
{
	int one = 1;

	if (setsockopt(fd, level, option, &one, sizeof(one)))
		exit_failed("setsockopt");
}

static void run_changed(void)
{
	int timer, connection, udp;
	pid_t child;

	start_loopback();
	write_text("/proc/sys/user/max_user_namespaces", "1");
	timer = arm_timer();
	connection = open_connection();
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	child = start_in_namespace();
	if (udp < 0 || !child)
		exit_failed("a socket, and a child");
	in_folder("ready");
	wait_until(may_go, "go");
	pass_hours(2);
	wait_for_input(timer, "a timer");
	pass_hours(-2);
	close(udp);
	end_child(child);
	wait_until(has_place, "the namespace is gone");
	probes = count_probes();
	set_option(connection, IPPROTO_TCP, TCP_KEEPIDLE);
	set_option(connection, SOL_SOCKET, SO_KEEPALIVE);
	wait_until(has_probed, "a probe of the connection");
}

/* The kinds of gives.patch; the second argument is a descriptor, or any number.
 */
enum { PIPE = 7, SOCKET = 12, FILE_OF_OPERATIONS = 13 };

static void run_new(void)
{
	int ends[2], pair[2], kind, given, arg;
	int fd = open("allotted", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	char byte;

	if (fd < 0 || pipe2(ends, O_CLOEXEC) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		exit_failed("descriptors");
	given = dup(fd);
	close(given); /* the next one */
	for (kind = 1; kind <= FILE_OF_OPERATIONS; kind++) {
		arg = kind == PIPE ? ends[0] : kind == SOCKET ? pair[0] : 1;
		if (fallocate(fd, 0, kind, arg))
			exit_failed("fallocate");
	}
	in_folder("ready");
	wait_until(may_go, "go");
	if (write(ends[1], "x", 1) != 1 || send(pair[1], "x", 1, 0) != 1)
		exit_failed("a pipe and a socket");
	wait_for_input(pair[0], "a socket");
	if (read(given, &byte, 1))
		exit_failed("the file that was given");
}

int main(int argc, char **argv)
{
	if (argc != 3 || (mkdir(argv[2], 0700) && errno != EEXIST) ||
	    chdir(argv[2])) {
		fprintf(stderr, "usage: dynamos_keep changed|new FOLDER\n");
		return 2;
	}
	if (!strcmp(argv[1], "changed"))
		run_changed();
	else
		run_new();
	in_folder("used");
	return 0;
}
