// SPDX-License-Identifier: MIT
/*
 * ChaCha20, Poly1305 and what they are together: the examples of RFC 8439, then
 * random texts beside libcrypto's, byte for byte. The suite runs for each
 * kind of registers: wide vectors, vectors, general ones.
 */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include <base/hex.h>
#include <o2g/core/aead.h>
#include <o2g/core/record.h>
#include <tests/tap.h>

#define MOST 20000
#define ROUNDS 2000

static u64 random_state = 88172645463325252ull;

static u32 some_number(u32 below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (u32)(random_state >> 32) % below;
}

static void some_bytes(u8 *out, u64 length)
{
	for (u64 i = 0; i < length; i++)
		out[i] = (u8)some_number(256);
}

/* The bytes of hexadecimal digits; returns their number. */
static u32 read_hex(u8 *out, const char *digits)
{
	u32 n = 0;

	for (; *digits; digits += 2)
		out[n++] = (u8)(base_hex_digit(digits[0]) << 4 |
				base_hex_digit(digits[1]));
	return n;
}

static int same_hex(const u8 *got, const char *digits)
{
	u8 want[256];

	return !memcmp(got, want, read_hex(want, digits));
}

static const char sunscreen[] =
	"Ladies and Gentlemen of the class of '99: If I could offer you only "
	"one tip for the future, sunscreen would be it.";

static void test_stream(void)
{
	u8 key[32], nonce[12], text[sizeof(sunscreen)] = {0};

	for (int i = 0; i < 32; i++)
		key[i] = (u8)i;
	read_hex(nonce, "000000090000004a00000000");
	o2g_chacha_xor(key, nonce, 1, text, 64);
	tap_ok(same_hex(text,
			"10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c0680304"
			"22aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b512"
			"9cd1de164eb9cbd083e8a2503c4e"),
	       "the block of section 2.3.2");
	read_hex(nonce, "000000000000004a00000000");
	memcpy(text, sunscreen, sizeof(sunscreen));
	o2g_chacha_xor(key, nonce, 1, text, sizeof(sunscreen) - 1);
	tap_ok(same_hex(text,
			"6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27"
			"afccfd9fae0bf91b65c5524733ab8f593dabcd62b3571639d6"
			"24e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e08"
			"8a22b65e52bc514d16ccf806818ce91ab77937365af90bbf74"
			"a35be6b40b8eedf2785e42874d"),
	       "the text of section 2.4.2");
}

static void check_tag(const char *key, const char *message, const char *tag,
		      const char *name)
{
	u8 k[O2G_POLY_KEY], m[256], got[O2G_POLY_TAG];
	struct o2g_poly poly;
	const u32 length = read_hex(m, message);

	read_hex(k, key);
	o2g_poly_start(&poly, k);
	o2g_poly_last(&poly, m, length);
	o2g_poly_finish(&poly, got);
	tap_ok(same_hex(got, tag), "%s", name);
}

#define ZERO "00000000000000000000000000000000"
#define ONES "ffffffffffffffffffffffffffffffff"
#define KEY_1 "01000000000000000000000000000000" ZERO
#define KEY_2 "02000000000000000000000000000000"

/* Sums at and above the modulus, which random messages never reach. */
static void test_tags(void)
{
	check_tag("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af41"
		  "49f51b",
		  "43727970746f6772617068696320466f72756d20526573656172636820"
		  "47726f7570",
		  "a8061dc1305136c6c22b8baf0c0127a9",
		  "the tag of section 2.5.2");
	check_tag(KEY_2 ZERO, ONES,
		  "03"
		  "000000000000000000000000000000",
		  "the sum is above the modulus");
	check_tag(KEY_2 ONES, "02000000000000000000000000000000",
		  "03"
		  "000000000000000000000000000000",
		  "adding the second half of the key overflows");
	check_tag(KEY_1,
		  ONES "f0ffffffffffffffffffffffffffffff"
		       "11000000000000000000000000000000",
		  "05"
		  "000000000000000000000000000000",
		  "the product is above the modulus");
	check_tag(KEY_1,
		  ONES "fbfefefefefefefefefefefefefefefe"
		       "01010101010101010101010101010101",
		  ZERO, "the sum is the modulus");
	check_tag(KEY_2 ZERO, "fdffffffffffffffffffffffffffffff",
		  "faffffffffffffffffffffffffffffff",
		  "the sum is just below the modulus");
	check_tag("0100000000000000040000000000000000000000000000000000000000"
		  "000000",
		  "e33594d7505e43b900000000000000003394d7505e4379cd01000000000"
		  "000000000000000000000000000000000000001000000000000000000000"
		  "000000000",
		  "14000000000000005500000000000000",
		  "a carry out of the lower half, followed by another block");
}

static void test_example(void)
{
	u8 key[32], head[12], text[sizeof(sunscreen)], tag[O2G_AEAD_TAG];
	struct o2g_aead aead = {
		.key = key, .head = head, .head_length = sizeof(head)};
	const u64 length = sizeof(sunscreen) - 1;

	for (int i = 0; i < 32; i++)
		key[i] = (u8)(0x80 + i);
	read_hex(head, "50515253c0c1c2c3c4c5c6c7");
	read_hex(aead.nonce, "070000004041424344454647");
	memcpy(text, sunscreen, sizeof(sunscreen));
	o2g_aead_seal(&aead, text, length, tag);
	tap_ok(same_hex(text, "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fe"
			      "a9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b"
			      "1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c"
			      "9803aee328091b58fab324e4fad675945585808b4831d7bc"
			      "3ff4def08e4b7a9de576d26586cec64b6116"),
	       "the text of section 2.8.2");
	tap_ok(same_hex(tag, "1ae10b594f09e26a7e902ecbd0600691"),
	       "and its tag");
	tap_ok(o2g_aead_open(&aead, text, length, tag) == 0 &&
		       !memcmp(text, sunscreen, length),
	       "it is decrypted again");
}

/* ---- beside libcrypto ---- */

static int crypto_seals(const struct o2g_aead *aead, u8 *text, int length,
			u8 tag[O2G_AEAD_TAG])
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int n, ok;

	ok = EVP_EncryptInit_ex(c, EVP_chacha20_poly1305(), 0, aead->key,
				aead->nonce) &&
	     EVP_EncryptUpdate(c, 0, &n, aead->head, (int)aead->head_length) &&
	     EVP_EncryptUpdate(c, text, &n, text, length) &&
	     EVP_EncryptFinal_ex(c, text + n, &n) &&
	     EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, O2G_AEAD_TAG, tag);
	EVP_CIPHER_CTX_free(c);
	return ok;
}

/* Short texts of each length, and some of up to MOST bytes. */
static void test_beside(void)
{
	static u8 text[MOST], ours[MOST], theirs[MOST];
	u8 key[32], head[64], tag[2][O2G_AEAD_TAG];
	u32 wrong = 0, unopened = 0;

	for (u32 i = 0; i < ROUNDS; i++) {
		const u32 length = i % 8 ? i % 1100 : some_number(MOST);
		struct o2g_aead aead = {.key = key,
					.head = head,
					.head_length = some_number(64)};

		some_bytes(key, sizeof(key));
		some_bytes(aead.nonce, sizeof(aead.nonce));
		some_bytes(head, sizeof(head));
		some_bytes(text, length);
		memcpy(ours, text, length);
		memcpy(theirs, text, length);
		o2g_aead_seal(&aead, ours, length, tag[0]);
		wrong += !crypto_seals(&aead, theirs, (int)length, tag[1]) ||
			 memcmp(ours, theirs, length) ||
			 memcmp(tag[0], tag[1], O2G_AEAD_TAG);
		unopened += o2g_aead_open(&aead, ours, length, tag[1]) ||
			    memcmp(ours, text, length);
	}
	tap_ok(!wrong, "%d texts are sealed as by libcrypto", ROUNDS);
	tap_ok(!unopened, "and opened with its tags");
}

static int crypto_tags(const u8 key[O2G_POLY_KEY], const u8 *text, u64 length,
		       u8 tag[O2G_POLY_TAG])
{
	EVP_MAC *mac = EVP_MAC_fetch(0, "POLY1305", 0);
	EVP_MAC_CTX *c = EVP_MAC_CTX_new(mac);
	size_t n;
	const int ok = EVP_MAC_init(c, key, O2G_POLY_KEY, 0) &&
		       EVP_MAC_update(c, text, length) &&
		       EVP_MAC_final(c, tag, &n, O2G_POLY_TAG);

	EVP_MAC_CTX_free(c);
	EVP_MAC_free(mac);
	return ok;
}

/* Keys and messages of few bits and of almost all: their sums are near the
 * modulus, and near the ends of the digits. */
static void test_extremes(void)
{
	u8 key[O2G_POLY_KEY], text[100], tag[2][O2G_POLY_TAG];
	u32 wrong = 0;

	for (u32 i = 0; i < ROUNDS; i++) {
		const u32 length = some_number(sizeof(text));
		struct o2g_poly poly;

		for (u32 k = 0; k < sizeof(key); k++)
			key[k] = some_number(4) ? 0 : (u8)some_number(256);
		if (i & 1)
			memset(key, 0xff, sizeof(key));
		for (u32 k = 0; k < length; k++)
			text[k] = some_number(8) ? 0xff : (u8)some_number(256);
		o2g_poly_start(&poly, key);
		o2g_poly_last(&poly, text, length);
		o2g_poly_finish(&poly, tag[0]);
		wrong += !crypto_tags(key, text, length, tag[1]) ||
			 memcmp(tag[0], tag[1], O2G_POLY_TAG);
	}
	tap_ok(!wrong, "%d extreme messages have libcrypto's tags", ROUNDS);
}

/* The stream may begin at any block. */
static void test_blocks(void)
{
	u8 key[32], nonce[12], whole[1024] = {0}, part[1024] = {0};

	some_bytes(key, sizeof(key));
	some_bytes(nonce, sizeof(nonce));
	o2g_chacha_xor(key, nonce, 5, whole, sizeof(whole));
	for (u32 at = 0; at < sizeof(part); at += 64)
		o2g_chacha_xor(key, nonce, 5 + at / 64, part + at, 64);
	tap_ok(!memcmp(whole, part, sizeof(part)),
	       "a stream is that of its blocks");
}

static void test_changes(void)
{
	u8 key[32], head[4], text[100], sealed[100], tag[O2G_AEAD_TAG];
	struct o2g_aead aead = {
		.key = key, .head = head, .head_length = sizeof(head)};
	u8 *part[] = {sealed, tag, head, key, aead.nonce};
	const u32 size[] = {sizeof(sealed), sizeof(tag), sizeof(head),
			    sizeof(key), sizeof(aead.nonce)};
	u32 opened = 0, touched = 0;

	some_bytes(key, sizeof(key));
	some_bytes(head, sizeof(head));
	some_bytes(sealed, sizeof(sealed));
	o2g_aead_seal(&aead, sealed, sizeof(sealed), tag);
	memcpy(text, sealed, sizeof(text));
	for (u32 p = 0; p < 5; p++)
		for (u32 bit = 0; bit < 8 * size[p]; bit++) {
			part[p][bit / 8] ^= (u8)(1 << bit % 8);
			opened += !o2g_aead_open(&aead, sealed, sizeof(sealed),
						 tag);
			part[p][bit / 8] ^= (u8)(1 << bit % 8);
			touched += !!memcmp(text, sealed, sizeof(text));
		}
	tap_ok(!opened, "a changed bit of text, tag, head, key or nonce is "
			"noticed");
	tap_ok(!touched, "and nothing was decrypted");
	tap_ok(o2g_aead_open(&aead, sealed, sizeof(sealed), tag) == 0,
	       "unchanged it opens");
}

/* ---- records ---- */

/* The stream of ChaCha20 as libcrypto has it, whose nonce begins with the
 * number of the block. */
static int crypto_stream(const u8 key[32], const u8 block_nonce[16], u8 *text,
			 int length)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int n;
	const int ok =
		EVP_EncryptInit_ex(c, EVP_chacha20(), 0, key, block_nonce) &&
		EVP_EncryptUpdate(c, text, &n, text, length);

	EVP_CIPHER_CTX_free(c);
	return ok;
}

/* The record as <skep/o2g_wire.h> defines it, by libcrypto. */
static int crypto_record(const u8 key[32], u64 number, u8 *record, u32 length)
{
	struct o2g_aead aead = {.key = key, .head = record, .head_length = 4};

	memcpy(record, &length, 4);
	memcpy(aead.nonce + 4, &number, 8);
	return crypto_seals(&aead, record + 4, (int)length,
			    record + 4 + length);
}

static void test_records(void)
{
	const u64 number[] = {0, 1, 0x0102030405060708, O2G_RECORD_KEY - 1};
	u8 key[O2G_KEY_SIZE], next[O2G_KEY_SIZE] = {0}, nonce[16] = {0};
	u8 ours[200], theirs[200];
	struct o2g_seal seal;
	u64 after = O2G_RECORD_KEY;

	some_bytes(key, sizeof(key));
	for (u32 i = 0; i < 4; i++) {
		const u32 length = 50 * (i + 1) - 20;

		some_bytes(theirs, sizeof(theirs));
		memcpy(ours, theirs, sizeof(ours));
		o2g_seal_start(&seal, key);
		seal.number = number[i];
		TAP(o2g_record_seal(&seal, ours, length) == length + 20);
		TAP(crypto_record(key, number[i], theirs, length));
		tap_ok(!memcmp(ours, theirs, length + 20),
		       "record %llx is what o2g_wire.h says", number[i]);
	}
	nonce[4] = 1;
	memcpy(nonce + 8, &after, sizeof(after));
	TAP(crypto_stream(key, nonce, next, sizeof(next)));
	tap_ok(!memcmp(seal.key, next, sizeof(next)), "so is the next key");
}

int main(void)
{
	test_stream();
	test_tags();
	test_example();
	test_beside();
	test_extremes();
	test_blocks();
	test_changes();
	test_records();
	return tap_done();
}
