// SPDX-License-Identifier: MIT
/* SHA-256 against FIPS 180-4's examples, HMAC against RFC 4231's. */
#include <o2g/lib/digest.h>
#include <tests/tap.h>

#include <string.h>

static void hex(char out[65], const u8 digest[O2G_DIGEST_SIZE])
{
	for (int i = 0; i < O2G_DIGEST_SIZE; i++)
		sprintf(out + 2 * i, "%02x", digest[i]);
}

static void check_digest(const char *name, const char *text, int times,
			 const char *want)
{
	struct o2g_digest d;
	u8 out[O2G_DIGEST_SIZE];
	char got[65];

	o2g_digest_start(&d);
	for (int i = 0; i < times; i++)
		o2g_digest_add(&d, text, strlen(text));
	o2g_digest_end(&d, out);
	hex(got, out);
	tap_ok(strcmp(got, want) == 0, "sha-256 of %s", name);
}

static void check_hmac(int number, const void *key, u64 key_length,
		       const void *data, u64 length, const char *want)
{
	struct o2g_hmac h;
	u8 out[O2G_DIGEST_SIZE];
	char got[65];

	o2g_hmac_start(&h, key, key_length);
	o2g_hmac_add(&h, data, length / 2);
	o2g_hmac_add(&h, (const u8 *)data + length / 2, length - length / 2);
	o2g_hmac_end(&h, out);
	hex(got, out);
	tap_ok(strcmp(got, want) == 0, "hmac-sha-256, rfc 4231 case %d",
	       number);
}

static void digests(void)
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
	check_digest("a million a", "aaaaaaaaaa", 100000,
		     "cdc76e5c9914fb9281a1c7e284d73e67"
		     "f1809a48a497200e046d39ccc7112cd0");
}

static void hmacs(void)
{
	u8 key[131], data[64];
	const char *large = "Test Using Larger Than Block-Size Key - Hash Key "
			    "First";

	memset(key, 0x0b, 20);
	check_hmac(1, key, 20, "Hi There", 8,
		   "b0344c61d8db38535ca8afceaf0bf12b"
		   "881dc200c9833da726e9376c2e32cff7");
	check_hmac(2, "Jefe", 4, "what do ya want for nothing?", 28,
		   "5bdcc146bf60754e6a042426089575c7"
		   "5a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof(key));
	memset(data, 0xdd, 50);
	check_hmac(3, key, 20, data, 50,
		   "773ea91e36800e46854db8ebd09181a7"
		   "2959098b3ef8c122d9635514ced565fe");
	check_hmac(6, key, 131, large, strlen(large),
		   "60e431591ee0b67f0d8a26aacbf5b77f"
		   "8e0bc6213728c5140546040f0ee37f54");
}

int main(void)
{
	u8 a[32] = {0}, b[32] = {0};

	digests();
	hmacs();
	TAP(o2g_digest_equal(a, b, 32));
	b[31] = 1;
	TAP(!o2g_digest_equal(a, b, 32));
	b[31] = 0;
	a[0] = 0x80;
	TAP(!o2g_digest_equal(a, b, 32));
	return tap_done();
}
