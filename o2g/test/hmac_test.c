// SPDX-License-Identifier: MIT
/* HMAC-SHA-256 against the examples of RFC 4231. */
#include <o2g/lib/hmac.h>
#include <tests/tap.h>

#include <string.h>

static void format_hex(char out[65], const u8 digest[SKEP_SHA256_SIZE])
{
	for (int i = 0; i < SKEP_SHA256_SIZE; i++)
		sprintf(out + 2 * i, "%02x", digest[i]);
}

static void check_hmac(int number, const void *key, u64 key_length,
		       const void *data, u64 length, const char *want)
{
	struct o2g_hmac h;
	u8 out[SKEP_SHA256_SIZE];
	char got[65];

	o2g_hmac_init(&h, key, key_length);
	o2g_hmac_update(&h, data, length / 2);
	o2g_hmac_update(&h, (const u8 *)data + length / 2, length - length / 2);
	o2g_hmac_final(&h, out);
	format_hex(got, out);
	tap_ok(strcmp(got, want) == 0, "hmac-sha-256, rfc 4231 case %d",
	       number);
}

static void test_hmacs(void)
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

	test_hmacs();
	TAP(o2g_mac_equal(a, b, 32));
	b[31] = 1;
	TAP(!o2g_mac_equal(a, b, 32));
	b[31] = 0;
	a[0] = 0x80;
	TAP(!o2g_mac_equal(a, b, 32));
	return tap_done();
}
