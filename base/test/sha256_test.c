// SPDX-License-Identifier: MIT
/* SHA-256 against the examples of FIPS 180-4, added in parts of every size. */
#include <base/sha256.h>
#include <tests/tap.h>

#include <string.h>

static void write_hex(char out[65], const u8 digest[SKEP_SHA256_SIZE])
{
	for (int i = 0; i < SKEP_SHA256_SIZE; i++)
		sprintf(out + 2 * i, "%02x", digest[i]);
}

static void check_digest(const char *name, const char *text, int times,
			 const char *want)
{
	struct skep_sha256 s;
	u8 out[SKEP_SHA256_SIZE];
	char got[65];

	skep_sha256_init(&s);
	for (int i = 0; i < times; i++)
		skep_sha256_update(&s, text, strlen(text));
	skep_sha256_final(&s, out);
	write_hex(got, out);
	tap_ok(strcmp(got, want) == 0, "sha-256 of %s", name);
}

static void check_examples(void)
{
	check_digest("abc", "abc", 1,
		     "ba7816bf8f01cfea414140de5dae2223"
		     "b00361a396177a9cb410ff61f20015ad");
	check_digest("nothing", "", 1,
		     "e3b0c44298fc1c149afbf4c8996fb924"
		     "27ae41e4649b934ca495991b7852b855");
	check_digest("two blocks",
		     "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmno"
		     "mnopnopq",
		     1,
		     "248d6a61d20638b8e5c026930c3e6039"
		     "a33ce45964ff2167f6ecedd419db06c1");
	check_digest("a million times a", "aaaaaaaaaa", 100000,
		     "cdc76e5c9914fb9281a1c7e284d73e67"
		     "f1809a48a497200e046d39ccc7112cd0");
}

/* The same bytes give the same digest wherever they are cut. */
static void check_cuts(void)
{
	u8 bytes[200], once[SKEP_SHA256_SIZE], parts[SKEP_SHA256_SIZE];
	struct skep_sha256 s;
	int same = 1;

	for (u32 i = 0; i < sizeof(bytes); i++)
		bytes[i] = (u8)(i * 37);
	skep_sha256_init(&s);
	skep_sha256_update(&s, bytes, sizeof(bytes));
	skep_sha256_final(&s, once);
	for (u64 cut = 0; cut <= sizeof(bytes); cut++) {
		skep_sha256_init(&s);
		skep_sha256_update(&s, bytes, cut);
		skep_sha256_update(&s, bytes + cut, sizeof(bytes) - cut);
		skep_sha256_final(&s, parts);
		same &= !memcmp(once, parts, sizeof(once));
	}
	tap_ok(same, "sha-256 of 200 bytes in two parts, cut at every byte");
}

int main(void)
{
	check_examples();
	check_cuts();
	return tap_done();
}
