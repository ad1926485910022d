/* SPDX-License-Identifier: MIT */
/* The digest in both ways: examples of FIPS 180-4, then each way's word
 * against the other's for every length and cut. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bee/core/core.h"
#include "tests/tap.h"

static u8 bytes[1 << 20];

static void digest_message(u64 len, u64 cut, u8 out[32])
{
	struct skep_sha256 s;

	bee_sha256_init(&s);
	skep_sha256_update(&s, bytes, cut);
	skep_sha256_update(&s, bytes + cut, len - cut);
	skep_sha256_final(&s, out);
}

static int digest_equals(const char *text, const char *hex)
{
	char got[65];
	u8 out[32];

	memcpy(bytes, text, strlen(text));
	digest_message(strlen(text), 0, out);
	for (int i = 0; i < 32; i++)
		sprintf(got + 2 * i, "%02x", out[i]);
	return !strcmp(got, hex);
}

static int digest_examples(void)
{
	return digest_equals("", "e3b0c44298fc1c149afbf4c8996fb924"
				 "27ae41e4649b934ca495991b7852b855") &&
	       digest_equals("abc", "ba7816bf8f01cfea414140de5dae2223"
				    "b00361a396177a9cb410ff61f20015ad") &&
	       digest_equals("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnom"
			     "nopnopq",
			     "248d6a61d20638b8e5c026930c3e6039"
			     "a33ce45964ff2167f6ecedd419db06c1");
}

static int ways_agree(void)
{
	u8 plain[32], quick[32];

	for (u64 i = 0; i < 4096; i++)
		bytes[i] = (u8)rand();
	for (u64 len = 0; len < 600; len++) {
		bee_sha256_way = BEE_SHA256_PLAIN;
		digest_message(len, 0, plain);
		bee_sha256_way = BEE_SHA256_NI;
		digest_message(len, (u64)rand() % (len + 1), quick);
		if (memcmp(plain, quick, 32))
			return 0;
	}
	return 1;
}

/* As Linux names what the CPU can do; -1: it does not. */
static int has_sha(void)
{
	static const char *const flag[] = {" ssse3", " sse4_1", " sha_ni"};
	FILE *f = fopen("/proc/cpuinfo", "r");
	static char line[1 << 16];
	int all = -1;
	u32 i;

	while (f && all < 0 && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "flags", 5))
			continue;
		for (i = 0, all = 1; i < 3; i++)
			all &= strstr(line, flag[i]) != NULL;
	}
	if (f)
		fclose(f);
	return all;
}

static void show_speed(const char *name)
{
	struct timespec a, b;
	u8 out[32];

	clock_gettime(CLOCK_MONOTONIC, &a);
	digest_message(sizeof(bytes), 0, out);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("# %s: %.2f ms per MiB\n", name,
	       (double)(b.tv_sec - a.tv_sec) * 1e3 +
		       (double)(b.tv_nsec - a.tv_nsec) / 1e6);
}

int main(void)
{
	bee_sha256_way = BEE_SHA256_PLAIN;
	tap_ok(digest_examples(), "plain: the standard's examples");
	show_speed("plain");
	bee_sha256_way = BEE_SHA256_UNKNOWN;
	tap_ok(digest_examples(), "chosen by cpuid: the standard's examples");
	show_speed("chosen");
	if (has_sha() < 0)
		tap_skip("cpuid chooses the implementation",
			 "no /proc/cpuinfo");
	else
		tap_ok((bee_sha256_way == BEE_SHA256_NI) == has_sha(),
		       "cpuid chooses the implementation");
	if (bee_sha256_way == BEE_SHA256_NI)
		tap_ok(ways_agree(),
		       "both implementations agree at every length");
	else
		tap_skip("both implementations agree at every length",
			 "no SHA-NI here");
	return tap_done();
}
