// SPDX-License-Identifier: MIT
/*
 * Where endpoints leave their pages: a folder that others could have made, or
 * could put another in the place of. The file under test is part of this one,
 * since the moments between its steps are not to be had from outside.
 */
#include "o2g/lib/page.c"

#include "tests/tap.h"

static char top[] = "/tmp/o2g-page-XXXXXX";

/* A path below the top; the last four stay valid. */
static const char *at(const char *name)
{
	static char path[4][100];
	static unsigned turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", top, name);
	return p;
}

static int there(const char *name)
{
	struct stat st;

	return lstat(at(name), &st) == 0;
}

static int make(const char *name)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd >= 0 && close(fd) == 0;
}

/* What open_folder() says of it. */
static int verdict(const char *name)
{
	int fd = open_folder(at(name));

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void folders(void)
{
	int good = mkdir(at("own"), 0700) == 0 && make("file") &&
		   symlink(at("own"), at("link")) == 0;

	tap_ok(good && verdict("own") == 0, "a folder of the user is accepted");
	tap_ok(verdict("link") < 0, "a link to a folder is refused");
	tap_ok(verdict("file") == -ENOTDIR, "a file is refused");
	tap_ok(verdict("absent") == -ENOENT, "a missing folder is refused");
	tap_ok(chmod(at("own"), 0710) == 0 && verdict("own") == -EPERM,
	       "a folder that others may enter is refused");
	chmod(at("own"), 0700);
	if (getuid())
		tap_skip("a folder of another user is refused",
			 "only root can give one away");
	else
		tap_ok(chown(at("own"), 65534, 65534) == 0 &&
			       verdict("own") == -EPERM,
		       "a folder of another user is refused");
}

/* Between two steps its place was taken by a link to a folder of ours. */
static void swapped(void)
{
	struct o2g_page page = {.name = "50-victim"};
	int folder, file, good;

	good = mkdir(at("pages"), 0700) == 0 && make("pages/1-dead") &&
	       mkdir(at("victim"), 0700) == 0 && make("victim/50-victim");
	folder = open_folder(at("pages"));
	good = good && folder >= 0 && rename(at("pages"), at("moved")) == 0 &&
	       symlink(at("victim"), at("pages")) == 0;
	sweep_folder(folder);
	tap_ok(good && there("victim/50-victim") && !there("moved/1-dead"),
	       "a folder that is replaced during cleaning is still cleaned");
	file = make_file(folder, "2-page");
	tap_ok(file >= 0 && there("moved/2-page") && !there("victim/2-page"),
	       "pages are created in the original folder");
	close(file);
	close(folder);
	snprintf(page.folder, sizeof(page.folder), "%s", at("pages"));
	remove_name(&page);
	tap_ok(there("victim/50-victim"),
	       "a page is not removed where a link leads");
}

static void strange(void)
{
	int folder, file, good;

	good = mkdir(at("odd"), 0700) == 0 &&
	       mkfifo(at("odd/1-fifo"), 0600) == 0 &&
	       mkdir(at("odd/2-folder"), 0700) == 0 &&
	       symlink(at("victim/50-victim"), at("odd/3-link")) == 0 &&
	       make("odd/4-live") && make("odd/5-dead") && make("odd/notes");
	file = open(at("odd/4-live"), O_RDONLY | O_CLOEXEC);
	good = good && flock(file, LOCK_EX) == 0;
	folder = open_folder(at("odd"));
	alarm(30); /* the FIFO blocked it for ever */
	sweep_folder(folder);
	alarm(0);
	tap_ok(good && there("odd/1-fifo") && there("odd/2-folder") &&
		       there("odd/3-link") && there("victim/50-victim"),
	       "entries that are not files are left alone and do not block");
	tap_ok(there("odd/4-live") && there("odd/notes") &&
		       !there("odd/5-dead"),
	       "only files of dead processes are removed");
	close(file);
	close(folder);
}

int main(void)
{
	char command[100];

	if (!mkdtemp(top))
		return 1;
	folders();
	swapped();
	strange();
	snprintf(command, sizeof(command), "rm -rf %s", top);
	tap_ok(system(command) == 0, "no other file is left");
	return tap_done();
}
