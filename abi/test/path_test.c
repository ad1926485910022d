// SPDX-License-Identifier: MIT
/* The text of paths: joining and normalising. */
#include "abi/fs/path.h"
#include "abi/test/internal.h"
#include "tests/tap.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char out[ABI_PATH_MAX];
static u32 flags;

static int path_equals(const char *base, const char *path, const char *want,
		       u32 dir)
{
	s64 n = abi_path_join(NULL, base, path, out, &flags);

	return n == (s64)strlen(want) && !strcmp(out, want) &&
	       (flags & ABI_PATH_MUST_DIR) == dir;
}

static int ends_with(const char *path, u32 end)
{
	return abi_path_join(NULL, "/", path, out, &flags) >= 0 && flags == end;
}

/* What the normalised text no longer shows. */
static void test_ends(void)
{
	tap_ok(ends_with("a", 0) && ends_with("a/./b", 0) &&
		       ends_with("a/../b", 0) && ends_with("a/.b", 0) &&
		       ends_with("a/..b", 0),
	       "a name at the end");
	tap_ok(ends_with("a/", ABI_PATH_MUST_DIR) &&
		       ends_with("../a//", ABI_PATH_MUST_DIR),
	       "slashes at the end");
	tap_ok(ends_with("a/.", ABI_PATH_MUST_DIR | ABI_PATH_DOT) &&
		       ends_with("a/.././/", ABI_PATH_MUST_DIR | ABI_PATH_DOT),
	       "a dot at the end");
	tap_ok(ends_with("a/..", ABI_PATH_MUST_DIR | ABI_PATH_DOTS) &&
		       ends_with("a/./../", ABI_PATH_MUST_DIR | ABI_PATH_DOTS),
	       "two dots at the end");
}

/* A world of folders and these links; "gone" is missing, "file" no folder. */
static const struct {
	const char *at, *text;
} links[] = {
	{"/mid", "a/b"},    {"/abs", "/a/b"},  {"/up", "../../x/y"},
	{"/chain", "mid"},  {"/loop", "loop"}, {"/two", "/chain/."},
	{"/slash", "a/b/"},
};

static s64 look_link(void *arg, const char *path, char *text)
{
	const char *leaf = strrchr(path, '/') + 1;
	u32 i, *looks = arg;

	++*looks;
	if (!strcmp(leaf, "gone"))
		return -LINUX_ENOENT;
	if (!strcmp(leaf, "file"))
		return -LINUX_ENOTDIR;
	if (!strcmp(leaf, "long")) {
		memset(text, 'l', ABI_PATH_MAX - 1);
		return ABI_PATH_MAX - 1;
	}
	for (i = 0; i < sizeof(links) / sizeof(*links); i++)
		if (!strcmp(path, links[i].at))
			return (s64)strlen(strcpy(text, links[i].text));
	if (!strncmp(path, "/n", 2) && atoi(path + 2) > 0)
		return sprintf(text, "n%d", atoi(path + 2) - 1);
	return 0;
}

static u32 looks;

static s64 walk_path(const char *base, const char *path, u32 all)
{
	const struct abi_path_walk how = {look_link, &looks, all};

	looks = 0;
	return abi_path_join(&how, base, path, out, &flags);
}

/* Whether the walk from `base` ends at `want` after `count` looks. */
static int walk_equals(const char *base, const char *path, const char *want,
		       u32 count)
{
	return walk_path(base, path, 0) == (s64)strlen(want) &&
	       !strcmp(out, want) && looks == count;
}

static void test_parents(void)
{
	tap_ok(walk_equals("/", "mid/../f", "/a/f", 2),
	       "dot dot leaves what a link leads to");
	tap_ok(walk_equals("/", "abs/../f", "/a/f", 2), "an absolute link");
	tap_ok(walk_equals("/x", "/up/../f", "/x/f", 2),
	       "a link above the root");
	tap_ok(walk_equals("/", "chain/../f", "/a/f", 3), "a link to a link");
	tap_ok(walk_equals("/", "two/../f/..", "/a", 5) && flags & 1,
	       "links whose text has dots");
	tap_ok(walk_equals("/", "slash/..", "/a", 2) && flags & 1,
	       "a link whose text ends in a slash");
	tap_ok(walk_equals("/", "mid/../..", "/", 3), "several levels");
	tap_ok(walk_equals("/", "mid/c/../f", "/mid/f", 1),
	       "only the folder that is left is looked at");
	tap_ok(walk_equals("/mid", "..", "/a", 2), "a base that is a link");
	tap_ok(walk_equals("/", "mid/f", "/mid/f", 0),
	       "without dot dot nothing is looked at");
	tap_ok(walk_equals("/", "../../f", "/f", 0), "nor above the root");
	tap_ok(walk_path("/", "gone/../f", 0) == -LINUX_ENOENT,
	       "a missing folder cannot be left");
	tap_ok(walk_path("/", "file/../f", 0) == -LINUX_ENOTDIR,
	       "a file cannot be left");
	tap_ok(walk_path("/", "loop/..", 0) == -LINUX_ELOOP && looks == 41,
	       "a loop ends");
	tap_ok(walk_equals("/", "n40/..", "/", 41), "40 links");
	tap_ok(walk_path("/", "n41/..", 0) == -LINUX_ELOOP, "41 links");
	tap_ok(walk_path("/", "long/..", 0) == -LINUX_ENAMETOOLONG,
	       "a text that is too long with what follows it");
}

static void test_all(void)
{
	tap_ok(walk_path("", "/mid/f", 1) == 6 && !strcmp(out, "/a/b/f"),
	       "all links are followed");
	tap_ok(walk_path("", "/chain", 1) == 4 && !strcmp(out, "/a/b"),
	       "one at the end too");
	tap_ok(walk_path("", "/up/f", 1) == 6 && !strcmp(out, "/x/y/f"),
	       "and one above the root");
	tap_ok(walk_path("", "/a/gone", 1) == -LINUX_ENOENT, "a missing one");
	tap_ok(walk_path("", "/loop", 1) == -LINUX_ELOOP, "a loop of all");
}

int main(void)
{
	char longest[ABI_PATH_MAX + 2], name[300];

	tap_ok(path_equals("/a", "b", "/a/b", 0), "relative");
	tap_ok(path_equals("/a", "/b", "/b", 0), "absolute");
	tap_ok(path_equals("", "b", "/b", 0), "below an empty base");
	tap_ok(path_equals("/", "b", "/b", 0), "below the root");
	tap_ok(path_equals("/a", ".", "/a", 1), "dot");
	tap_ok(path_equals("/a/b", "../c", "/a/c", 0),
	       "dot dot leads to the parent");
	tap_ok(path_equals("/a", "../../../x", "/x", 0),
	       "dot dot does not lead above the root");
	tap_ok(path_equals("/a", "..", "/", 1), "dot dot leads up to the root");
	tap_ok(path_equals("/", "//b///c", "/b/c", 0),
	       "several slashes count as one");
	tap_ok(path_equals("/", "b/", "/b", 1),
	       "a slash at the end means directory");
	tap_ok(path_equals("/", "b/.", "/b", 1),
	       "a dot at the end means directory");
	tap_ok(path_equals("/", "b/c/..", "/b", 1),
	       "two dots at the end mean directory");
	tap_ok(path_equals("/", "/", "/", 1), "the root itself");
	tap_ok(path_equals("/", "...", "/...", 0), "three dots are a name");
	tap_ok(abi_path_join(NULL, "/", "", out, &flags) == -LINUX_ENOENT,
	       "empty");
	memset(name, 'n', sizeof(name));
	name[255] = 0;
	tap_ok(abi_path_join(NULL, "/", name, out, &flags) == 256,
	       "a component of 255 bytes");
	name[255] = 'n';
	name[256] = 0;
	tap_ok(abi_path_join(NULL, "/", name, out, &flags) ==
		       -LINUX_ENAMETOOLONG,
	       "a component of 256 bytes");
	for (int i = 0; i < ABI_PATH_MAX; i += 2)
		memcpy(longest + i, "/a", 2);
	longest[4095] = 0;
	tap_ok(abi_path_join(NULL, "/", longest, out, &flags) == 4094,
	       "a path of 4095 bytes");
	longest[4095] = 'a';
	longest[4096] = 0;
	tap_ok(abi_path_join(NULL, "/", longest, out, &flags) ==
		       -LINUX_ENAMETOOLONG,
	       "a path of 4096 bytes");
	tap_ok(abi_path_join(NULL, longest, "b", out, &flags) ==
		       -LINUX_ENAMETOOLONG,
	       "a base that is too long");
	tap_ok(!strcmp(abi_path_below("/a/b", "/a"), "b"), "below");
	tap_ok(!abi_path_below("/ab", "/a") && !abi_path_below("/a", "/a"),
	       "a path that is not below the base");
	test_ends();
	test_parents();
	test_all();
	return tap_done();
}
