// SPDX-License-Identifier: MIT
/* The text of paths: joining and normalising. */
#include "abi/fs/path.h"
#include "abi/test/internal.h"
#include "tests/tap.h"
#include <string.h>

static char out[ABI_PATH_MAX];
static u32 flags;

static int path_equals(const char *base, const char *path, const char *want,
		       u32 dir)
{
	s64 n = abi_path_join(base, path, out, &flags);

	return n == (s64)strlen(want) && !strcmp(out, want) && flags == dir;
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
	tap_ok(abi_path_join("/", "", out, &flags) == -LINUX_ENOENT, "empty");
	memset(name, 'n', sizeof(name));
	name[255] = 0;
	tap_ok(abi_path_join("/", name, out, &flags) == 256,
	       "a component of 255 bytes");
	name[255] = 'n';
	name[256] = 0;
	tap_ok(abi_path_join("/", name, out, &flags) == -LINUX_ENAMETOOLONG,
	       "a component of 256 bytes");
	for (int i = 0; i < ABI_PATH_MAX; i += 2)
		memcpy(longest + i, "/a", 2);
	longest[4095] = 0;
	tap_ok(abi_path_join("/", longest, out, &flags) == 4094,
	       "a path of 4095 bytes");
	longest[4095] = 'a';
	longest[4096] = 0;
	tap_ok(abi_path_join("/", longest, out, &flags) == -LINUX_ENAMETOOLONG,
	       "a path of 4096 bytes");
	tap_ok(abi_path_join(longest, "b", out, &flags) == -LINUX_ENAMETOOLONG,
	       "a base that is too long");
	tap_ok(!strcmp(abi_path_below("/a/b", "/a"), "b"), "below");
	tap_ok(!abi_path_below("/ab", "/a") && !abi_path_below("/a", "/a"),
	       "a path that is not below the base");
	return tap_done();
}
