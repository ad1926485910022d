/* SPDX-License-Identifier: MIT */
/* Pseudo-terminals, their modes and sizes, and the controlling terminal:
 * pty(7), tcsetattr(3), ioctl_tty(2). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include "say.h"

static int read_text(int fd, const char *text)
{
	char buf[64];
	size_t want = strlen(text), have = 0;
	ssize_t n = 1;

	while (have < want && n > 0) {
		n = read(fd, buf + have, want - have);
		have += n > 0 ? (size_t)n : 0;
	}
	return have == want && !memcmp(buf, text, want);
}

static void check_modes(int master, int slave)
{
	struct winsize size = {24, 81, 0, 0}, got;
	struct termios mode, again;

	CHECK(isatty(master) && isatty(slave));
	CHECK(tcgetattr(slave, &mode) == 0 && mode.c_lflag & ICANON &&
	      mode.c_lflag & ECHO);
	CHECK(write(master, "ab\n", 3) == 3 && read_text(slave, "ab\n"));
	CHECK(read_text(master, "ab\r\n")); /* echoed */
	cfmakeraw(&mode);
	CHECK(tcsetattr(slave, TCSANOW, &mode) == 0);
	CHECK(tcgetattr(slave, &again) == 0 && !(again.c_lflag & ICANON) &&
	      again.c_oflag == mode.c_oflag);
	CHECK(write(master, "c", 1) == 1 && read_text(slave, "c"));
	CHECK(write(slave, "d\n", 2) == 2 && read_text(master, "d\n"));
	CHECK(ioctl(master, TIOCSWINSZ, &size) == 0);
	CHECK(ioctl(slave, TIOCGWINSZ, &got) == 0 && got.ws_row == 24 &&
	      got.ws_col == 81);
	CHECK(FAILS(ioctl(slave, TIOCSWINSZ, NULL), EFAULT));
	CHECK(tcflush(slave, TCIOFLUSH) == 0 && tcdrain(slave) == 0);
}

/* The other side without its name: what a name in /dev/pts means here may have
 * changed. */
static void open_peer(int master)
{
	int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	char name[64] = "", twin[64] = "-";

	CHECK(fd >= 0 && isatty(fd) && !(fcntl(fd, F_GETFD) & FD_CLOEXEC));
	CHECK(ttyname_r(fd, name, sizeof(name)) == 0 &&
	      ptsname_r(master, twin, sizeof(twin)) == 0 &&
	      !strcmp(name, twin));
	CHECK(write(fd, "e", 1) == 1 && read_text(master, "e"));
	CHECK(close(fd) == 0);
}

/* Runs in a session of its own. */
static int take_terminal(const char *name)
{
	int fd, tty;

	setsid();
	fd = open(name, O_RDWR | O_NOCTTY);
	if (fd < 0 || open("/dev/tty", O_RDWR) >= 0 || errno != ENXIO)
		return 1;
	close(fd);
	fd = open(name, O_RDWR);
	tty = open("/dev/tty", O_RDWR);
	if (tty < 0 || tcgetpgrp(tty) != getpid())
		return 2;
	if (write(tty, "tty", 3) != 3 || ioctl(tty, TIOCNOTTY))
		return 3;
	if (open("/dev/tty", O_RDWR) >= 0)
		return 4;
	return ioctl(fd, TIOCSCTTY, 0) ? 5 : open("/dev/tty", O_RDWR) < 0;
}

int main(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave, status = -1;
	int null = open("/dev/null", O_RDWR);
	const char *name;
	pid_t child;

	CHECK(master >= 0);
	CHECK(grantpt(master) == 0 && unlockpt(master) == 0);
	name = ptsname(master);
	CHECK(name && !strncmp(name, "/dev/pts/", 9));
	slave = name ? open(name, O_RDWR | O_NOCTTY) : -1;
	CHECK(slave >= 0);
	check_modes(master, slave);
	open_peer(master);
	CHECK(FAILS(ioctl(null, TIOCGPTN, &status), ENOTTY));
	CHECK(FAILS(tcgetattr(null, &(struct termios){0}), ENOTTY));
	fflush(stdout);
	signal(SIGHUP, SIG_IGN);
	child = fork();
	if (child == 0)
		_exit(take_terminal(name));
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(read_text(master, "tty"));
	return say_done();
}
