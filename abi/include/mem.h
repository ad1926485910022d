/* SPDX-License-Identifier: MIT */
/*
 * Bytes and strings without a C library. Compilers emit calls to memcpy,
 * memmove, memset and memcmp; the build renames those to the functions here,
 * because a libc's vector versions would overwrite the guest's vector
 * registers.
 */
#ifndef ABI_MEM_H
#define ABI_MEM_H

#include <skep/types.h>

void *abi_memcpy(void *to, const void *from, __SIZE_TYPE__ n);
void *abi_memmove(void *to, const void *from, __SIZE_TYPE__ n);
void *abi_memset(void *to, int byte, __SIZE_TYPE__ n);
int abi_memcmp(const void *a, const void *b, __SIZE_TYPE__ n);

u64 abi_strlen(const char *s);
int abi_streq(const char *a, const char *b);
/* Whether a string ends within its field of `size` bytes. */
static inline int abi_is_string(const char *s, u64 size)
{
	u64 i;

	for (i = 0; i < size; i++)
		if (!s[i])
			return 1;
	return 0;
}

/* Copies at most size - 1 bytes and adds a NUL; returns the bytes copied. */
u64 abi_strcpy(char *to, const char *from, u64 size);

/* A text that is built in parts, and cut if it does not fit. */
struct abi_text {
	char *buf;
	u64 size; /* of buf, at least 1 */
	u64 len;  /* without the NUL that always follows */
};

void abi_text_init(struct abi_text *t, char *buf, u64 size);
void abi_text_str(struct abi_text *t, const char *s);
void abi_text_chr(struct abi_text *t, char c);
void abi_text_dec(struct abi_text *t, u64 n);
/* At least `least` hexadecimal digits, no prefix. */
void abi_text_hex(struct abi_text *t, u64 n, u32 least);

#endif
