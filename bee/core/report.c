/* SPDX-License-Identifier: MIT */
/* Messages for users and the report for tests. Reads `bee`, owns nothing. */
#include "bee/core/core.h"

void bee_say(const char *before, const char *subject, const char *after)
{
	struct abi_text text;
	char line[512];

	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, before);
	abi_text_str(&text, subject);
	abi_text_str(&text, after);
	bee_os_message(line);
}

static void put_u64(struct abi_text *text, const char *key, u64 value)
{
	abi_text_str(text, key);
	abi_text_chr(text, ' ');
	abi_text_dec(text, value);
	abi_text_chr(text, '\n');
}

static void put_digest(struct abi_text *text, const char *key, const u8 *p)
{
	u32 i;

	abi_text_str(text, key);
	abi_text_chr(text, ' ');
	for (i = 0; i < 32; i++)
		abi_text_hex(text, p[i], 2);
	abi_text_chr(text, '\n');
}

static void put_sites(struct abi_text *text, const char *key, u32 kind)
{
	abi_text_str(text, key);
	abi_text_chr(text, ' ');
	abi_text_dec(text, bee.sums.found[kind]);
	abi_text_chr(text, ' ');
	abi_text_dec(text, bee.sums.patched[kind]);
	abi_text_chr(text, '\n');
}

/* Calls that the guest made and that are not implemented. */
static void put_refused(struct abi_text *text)
{
	u32 nr, count;

	for (nr = 0; bee.proc && nr < ABI_NR_MAX; nr++) {
		count = abi_count_refused(bee.proc, nr);
		if (!count)
			continue;
		abi_text_str(text, "refused ");
		abi_text_str(text, abi_syscall_name(nr) ? abi_syscall_name(nr)
							: "unknown");
		abi_text_chr(text, ' ');
		abi_text_dec(text, count);
		abi_text_chr(text, '\n');
	}
}

static void list_call(struct abi_text *text, const struct abi_host *host,
		      u32 nr)
{
	const char *limit = abi_syscall_limit(host, nr);

	abi_text_dec(text, nr);
	abi_text_chr(text, '\t');
	abi_text_str(text, abi_syscall_name(nr));
	abi_text_chr(text, '\t');
	abi_text_str(text, abi_syscall_route(nr));
	if (limit) {
		abi_text_chr(text, '\t');
		abi_text_str(text, limit);
	}
	abi_text_chr(text, '\n');
}

const char *bee_list(const struct abi_host *host)
{
	static char lines[0x10000];
	struct abi_text text;
	u32 nr;

	abi_text_init(&text, lines, sizeof(lines));
	for (nr = 0; nr < ABI_NR_MAX; nr++)
		if (abi_syscall_name(nr))
			list_call(&text, host, nr);
	return lines;
}

/* Times and counts are 0 when the guest was never entered. */
u64 bee_report(char *buf, u64 len, u32 status)
{
	const struct bee_image *image = &bee.image;
	u64 entry =
		image->entered_ns ? image->entered_ns - image->started_ns : 0;
	struct abi_text text;

	abi_text_init(&text, buf, len);
	abi_text_str(&text, "nonce ");
	abi_text_hex(&text, bee.options->nonce, 16);
	abi_text_chr(&text, '\n');
	put_u64(&text, "status", status);
	put_u64(&text, "calls", bee.proc ? abi_count_calls(bee.proc) : 0);
	put_u64(&text, "entry_us", entry / 1000);
	put_u64(&text, "load_us", image->load_ns / 1000);
	put_u64(&text, "rewrite_us", bee.sums.rewrite_ns / 1000);
	put_u64(&text, "stub_bytes", bee.sums.stub_bytes);
	put_u64(&text, "images", bee.sums.images);
	put_u64(&text, "images_cached", bee.sums.cached);
	put_sites(&text, "sites_syscall", BEE_SITE_SYSCALL);
	put_sites(&text, "sites_fs_stub", BEE_SITE_FS);
	put_sites(&text, "sites_fs_inplace", BEE_SITE_FS_INPLACE);
	put_sites(&text, "sites_cpuid", BEE_SITE_CPUID);
	put_sites(&text, "sites_xgetbv", BEE_SITE_XGETBV);
	put_digest(&text, "sha256_load", image->sha_load);
	put_digest(&text, "sha256_file", image->sha_file);
	put_refused(&text);
	return text.len;
}
