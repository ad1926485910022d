// SPDX-License-Identifier: MIT
/* The map between Linux and Windows file names: cases, then random names. */
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include "abi/include/name.h"
#include "tests/tap.h"

static u16 out[4096];

/* The units of `name` equal the UTF-16 text `want`. */
static int name_equals(const char *name, const u16 *want, u64 len)
{
	s64 n = abi_name_encode(name, strlen(name), out, 255);

	return n == (s64)len && !memcmp(out, want, len * 2);
}

#define IS(name, text)                                                         \
	name_equals(name, (const u16 *)text, sizeof(text) / 2 - 1)

static int is_device(const char *name)
{
	s64 n = abi_name_encode(name, strlen(name), out, 255);

	return n > 0 && out[0] == 0xf000 + (u8)name[0];
}

static void test_cases(void)
{
	tap_ok(IS("plain.txt", u"plain.txt"), "a plain name is unchanged");
	tap_ok(IS("a:b", u"a\xf03a"
			 u"b"),
	       "a colon is escaped");
	tap_ok(IS("<>|?*\"\\", u"\xf03c\xf03e\xf07c\xf03f\xf02a\xf022\xf05c"),
	       "refused punctuation is escaped");
	tap_ok(IS("\x01\x1f", u"\xf001\xf01f"), "control bytes are escaped");
	tap_ok(IS("a.", u"a\xf02e") && IS("a ", u"a\xf020"),
	       "a dot or space at the end is escaped");
	tap_ok(IS("a..", u"a.\xf02e"),
	       "only the last of several dots is escaped");
	tap_ok(IS("\xff", u"\xf0ff"), "a byte that is not UTF-8 is escaped");
	tap_ok(IS("\xc3\xa4\xf0\x9f\x98\x80", u"\u00e4\xd83d\xde00"),
	       "UTF-8 becomes UTF-16");
	tap_ok(IS("\xef\x80\xba", u"\xf0ef\xf080\xf0ba"),
	       "a character of the escape range is escaped itself");
	tap_ok(IS("\xed\xa0\x80", u"\xf0ed\xf0a0\xf080"),
	       "a surrogate encoded in UTF-8 is escaped byte by byte");
	tap_ok(is_device("CON") && is_device("nul.txt") && is_device("Com1") &&
		       is_device("lpt9.a.b") && is_device("aux .c") &&
		       is_device("con.") && is_device("COM\xc2\xb9") &&
		       is_device("CONIN$"),
	       "device names are escaped");
	tap_ok(!is_device("CONSOLE") && !is_device("COM") &&
		       !is_device("COM10") && !is_device("nulx") &&
		       !is_device("x.con"),
	       "names that only resemble devices are not escaped");
	tap_ok(abi_name_encode(".", 1, out, 255) == -LINUX_EINVAL &&
		       abi_name_encode("..", 2, out, 255) == -LINUX_EINVAL &&
		       abi_name_encode("a/b", 3, out, 255) == -LINUX_EINVAL &&
		       abi_name_encode("", 0, out, 255) == -LINUX_EINVAL,
	       "an empty name is refused");
	tap_ok(abi_name_encode("abc", 3, out, 2) == -LINUX_ENAMETOOLONG,
	       "a full buffer is an error");
}

static int is_foreign(const u16 *name, u64 len)
{
	char back[256];

	return abi_name_decode(name, len, back, 255) == -LINUX_EILSEQ;
}

static void test_decoding(void)
{
	tap_ok(is_foreign(u"\xf041", 1),
	       "an unnecessary escape is refused as foreign");
	tap_ok(is_foreign(u"CON", 3),
	       "a device name on disk is refused as foreign");
	tap_ok(is_foreign(u"\xd800", 1),
	       "a single surrogate is refused as foreign");
	tap_ok(is_foreign(u"a.", 2), "a final dot is refused as foreign");
	tap_ok(is_foreign(u"\xf02f", 1),
	       "an escaped slash is refused as foreign");
}

static u64 rng = 88172645463325252ull;

static u32 random_below(u32 n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (u32)(rng % n);
}

/* Names made from what is special, and from any bytes. */
static u64 random_name(char *name)
{
	static const char *const parts[] = {"CON",
					    "nul",
					    ".",
					    " ",
					    ":",
					    "a",
					    "\xef\x80\x80",
					    "\xef\x83\xbf",
					    "\xed\xa0\x80",
					    "\xc2\xb2",
					    "COM",
					    "\xf0\x9f\x98\x80"};
	u64 len = 0, want = 1 + random_below(20);

	while (len < want) {
		if (random_below(2)) {
			name[len++] = (char)(1 + random_below(255));
			if (name[len - 1] == '/')
				len--;
			continue;
		}
		strcpy(name + len, parts[random_below(12)]);
		len = strlen(name);
	}
	name[len] = 0;
	return len;
}

static void fuzz_names(void)
{
	char name[64], back[256];
	u16 units[255];
	u32 i, bad = 0, odd = 0;

	for (i = 0; i < 300000; i++) {
		u64 len = random_name(name);
		s64 n = abi_name_encode(name, len, units, 255), m;

		if (n == -LINUX_EINVAL &&
		    (!strcmp(name, ".") || !strcmp(name, "..")))
			continue;
		m = n > 0 ? abi_name_decode(units, (u64)n, back, 255) : -1;
		bad += m != (s64)len || memcmp(name, back, len);
		for (; n > 0; n--)
			odd += units[n - 1] < 0x20 ||
			       (units[n - 1] < 0x80 &&
				strchr("\"*:<>?|\\/", units[n - 1]));
	}
	tap_ok(!bad, "300000 random names survive escaping and unescaping");
	tap_ok(!odd, "300000 escaped names hold nothing that Windows refuses");
	for (i = bad = 0; i < 300000; i++) {
		u64 len = 1 + random_below(6), k;
		s64 m, n;

		for (k = 0; k < len; k++)
			units[k] = (u16)(random_below(2)
						 ? 0xf000 + random_below(256)
						 : random_below(65536));
		m = abi_name_decode(units, len, back, 255);
		n = m < 0 ? 0 : abi_name_encode(back, (u64)m, out, 255);
		bad += m >= 0 && (n != (s64)len || memcmp(out, units, len * 2));
	}
	tap_ok(!bad,
	       "random Windows names survive the round trip or are refused");
}

static int path_is(const u16 *root, u64 len, const char *path, const u16 *want,
		   u64 want_len)
{
	char back[4096];
	s64 n = abi_name_path(root, len, path, out, 4096), m;

	if (n != (s64)want_len || memcmp(out, want, want_len * 2) || out[n])
		return 0;
	m = abi_name_path_back(root, len, out, (u64)n, back, sizeof(back));
	return m == (s64)strlen(path) && !strcmp(back, path);
}

#define PATH_IS(root, path, want)                                              \
	path_is(root, sizeof(root) / 2 - 1, path, want, sizeof(want) / 2 - 1)

static void test_paths(void)
{
	char back[8];

	tap_ok(PATH_IS(u"Z:\\", "/tmp/x:", u"\\\\?\\Z:\\tmp\\x\xf03a"),
	       "a path below a drive");
	tap_ok(PATH_IS(u"Z:\\", "/", u"\\\\?\\Z:\\"), "the root of a drive");
	tap_ok(PATH_IS(u"C:/box/", "/a", u"\\\\?\\C:\\box\\a"),
	       "a root with slashes");
	tap_ok(PATH_IS(u"\\\\srv\\s", "/a", u"\\\\?\\UNC\\srv\\s\\a"),
	       "a root on a server");
	tap_ok(PATH_IS(u"\\\\?\\C:\\b", "/a/c", u"\\\\?\\C:\\b\\a\\c"),
	       "a root that has the prefix");
	tap_ok(abi_name_path(u"box", 3, "/a", out, 4096) == -LINUX_EINVAL,
	       "a relative root is refused");
	tap_ok(abi_name_path(u"C:\\box", 6, "a", out, 4096) == -LINUX_EINVAL,
	       "a relative path is refused");
	tap_ok(abi_name_path_back(u"C:\\box", 6, u"c:\\Box2\\a", 9, back, 8) ==
		       -LINUX_EXDEV,
	       "a path outside the root is refused");
	tap_ok(abi_name_path_back(u"C:\\box", 6, u"c:\\Box\\a", 8, back, 8) ==
			       2 &&
		       !strcmp(back, "/a"),
	       "the root is compared without case");
	tap_ok(abi_name_path(u"C:\\", 3, "/abc", out, 9) == -LINUX_ENAMETOOLONG,
	       "a path that does not fit is refused");
}

static void test_texts(void)
{
	char back[16];

	tap_ok(abi_utf8_to_utf16("\xf0\x9f\x98\x80", 4, out, 8) == 2 &&
		       abi_utf16_to_utf8(out, 2, back, 16) == 4 &&
		       !memcmp(back, "\xf0\x9f\x98\x80", 4),
	       "text is converted to UTF-16 and back");
	tap_ok(abi_utf8_to_utf16("\xc0\x80", 2, out, 8) == -LINUX_EILSEQ &&
		       abi_utf8_to_utf16("\xe2\x82", 2, out, 8) ==
			       -LINUX_EILSEQ &&
		       abi_utf16_to_utf8(u"\xdc00", 1, back, 16) ==
			       -LINUX_EILSEQ,
	       "invalid text is refused");
}

int main(void)
{
	test_cases();
	test_decoding();
	fuzz_names();
	test_paths();
	test_texts();
	return tap_done();
}
