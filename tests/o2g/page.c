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
static const char *page_path(const char *name)
{
	static char path[4][100];
	static unsigned turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", top, name);
	return p;
}

static int path_exists(const char *name)
{
	struct stat st;

	return lstat(page_path(name), &st) == 0;
}

static int create_file(const char *name)
{
	int fd = open(page_path(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		      0600);

	return fd >= 0 && close(fd) == 0;
}

/* What open_folder() says of it. */
static int folder_verdict(const char *name)
{
	int fd = open_folder(page_path(name));

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void test_folders(void)
{
	int good = mkdir(page_path("own"), 0700) == 0 && create_file("file") &&
		   symlink(page_path("own"), page_path("link")) == 0;

	tap_ok(good && folder_verdict("own") == 0,
	       "a folder of the user is accepted");
	tap_ok(folder_verdict("link") < 0, "a link to a folder is refused");
	tap_ok(folder_verdict("file") == -ENOTDIR, "a file is refused");
	tap_ok(folder_verdict("absent") == -ENOENT,
	       "a missing folder is refused");
	tap_ok(chmod(page_path("own"), 0710) == 0 &&
		       folder_verdict("own") == -EPERM,
	       "a folder that others may enter is refused");
	chmod(page_path("own"), 0700);
	if (getuid())
		tap_skip("a folder of another user is refused",
			 "only root can give one away");
	else
		tap_ok(chown(page_path("own"), 65534, 65534) == 0 &&
			       folder_verdict("own") == -EPERM,
		       "a folder of another user is refused");
}

/* Between two steps its place was taken by a link to a folder of ours. */
static void test_swapped(void)
{
	struct o2g_page page = {.name = "50-victim"};
	int folder, file, good;

	good = mkdir(page_path("pages"), 0700) == 0 &&
	       create_file("pages/1-dead") &&
	       mkdir(page_path("victim"), 0700) == 0 &&
	       create_file("victim/50-victim");
	folder = open_folder(page_path("pages"));
	good = good && folder >= 0 &&
	       rename(page_path("pages"), page_path("moved")) == 0 &&
	       symlink(page_path("victim"), page_path("pages")) == 0;
	sweep_folder(folder);
	tap_ok(good && path_exists("victim/50-victim") &&
		       !path_exists("moved/1-dead"),
	       "a folder that is replaced during cleaning is still cleaned");
	file = make_file(folder, "2-page");
	tap_ok(file >= 0 && path_exists("moved/2-page") &&
		       !path_exists("victim/2-page"),
	       "pages are created in the original folder");
	close(file);
	close(folder);
	snprintf(page.folder, sizeof(page.folder), "%s", page_path("pages"));
	remove_name(&page);
	tap_ok(path_exists("victim/50-victim"),
	       "a page is not removed where a link leads");
}

static void test_foreign(void)
{
	int folder, file, good;

	good = mkdir(page_path("odd"), 0700) == 0 &&
	       mkfifo(page_path("odd/1-fifo"), 0600) == 0 &&
	       mkdir(page_path("odd/2-folder"), 0700) == 0 &&
	       symlink(page_path("victim/50-victim"),
		       page_path("odd/3-link")) == 0 &&
	       create_file("odd/4-live") && create_file("odd/5-dead") &&
	       create_file("odd/notes");
	file = open(page_path("odd/4-live"), O_RDONLY | O_CLOEXEC);
	good = good && flock(file, LOCK_EX) == 0;
	folder = open_folder(page_path("odd"));
	alarm(30); /* the FIFO blocked it for ever */
	sweep_folder(folder);
	alarm(0);
	tap_ok(good && path_exists("odd/1-fifo") &&
		       path_exists("odd/2-folder") &&
		       path_exists("odd/3-link") &&
		       path_exists("victim/50-victim"),
	       "entries that are not files are left alone and do not block");
	tap_ok(path_exists("odd/4-live") && path_exists("odd/notes") &&
		       !path_exists("odd/5-dead"),
	       "only files of dead processes are removed");
	close(file);
	close(folder);
}

int main(void)
{
	char command[100];

	if (!mkdtemp(top))
		return 1;
	test_folders();
	test_swapped();
	test_foreign();
	snprintf(command, sizeof(command), "rm -rf %s", top);
	tap_ok(system(command) == 0, "no other file is left");
	return tap_done();
}
