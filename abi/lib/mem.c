/* SPDX-License-Identifier: MIT */
/*
 * Bytes and strings. Copies use the string instructions: with fast short rep
 * they are close to vector code, and they touch no vector register.
 */
#include "abi/include/mem.h"

void *abi_memcpy(void *to, const void *from, __SIZE_TYPE__ n)
{
	void *d = to;

	__asm__ volatile("rep movsb"
			 : "+D"(d), "+S"(from), "+c"(n)
			 :
			 : "memory");
	return to;
}

static void copy_down(void *to, const void *from, __SIZE_TYPE__ n)
{
	u8 *d = (u8 *)to + n - 1;
	const u8 *s = (const u8 *)from + n - 1;

	__asm__ volatile("std; rep movsb; cld"
			 : "+D"(d), "+S"(s), "+c"(n)
			 :
			 : "memory", "cc");
}

void *abi_memmove(void *to, const void *from, __SIZE_TYPE__ n)
{
	if ((u64)to - (u64)from >= n)
		return abi_memcpy(to, from, n);
	copy_down(to, from, n);
	return to;
}

void *abi_memset(void *to, int byte, __SIZE_TYPE__ n)
{
	void *d = to;

	__asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(byte) : "memory");
	return to;
}

int abi_memcmp(const void *a, const void *b, __SIZE_TYPE__ n)
{
	const u8 *x = a, *y = b;

	for (; n && *x == *y; n--, x++, y++)
		;
	return n ? *x - *y : 0;
}

u64 abi_strlen(const char *s)
{
	u64 n = 0;

	while (s[n])
		n++;
	return n;
}

int abi_streq(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return *a == *b;
}

u64 abi_strcpy(char *to, const char *from, u64 size)
{
	u64 n;

	for (n = 0; n + 1 < size && from[n]; n++)
		to[n] = from[n];
	if (size)
		to[n] = 0;
	return n;
}

void abi_text_init(struct abi_text *t, char *buf, u64 size)
{
	t->buf = buf;
	t->size = size;
	t->len = 0;
	buf[0] = 0;
}

void abi_text_chr(struct abi_text *t, char c)
{
	if (t->len + 1 >= t->size)
		return;
	t->buf[t->len++] = c;
	t->buf[t->len] = 0;
}

void abi_text_str(struct abi_text *t, const char *s)
{
	for (; *s; s++)
		abi_text_chr(t, *s);
}

static void digits_append(struct abi_text *t, u64 n, u32 base, u32 least)
{
	char d[24];
	u32 i = 0;

	do {
		d[i++] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	while (i < least && i < sizeof(d))
		d[i++] = '0';
	while (i)
		abi_text_chr(t, d[--i]);
}

void abi_text_dec(struct abi_text *t, u64 n)
{
	digits_append(t, n, 10, 1);
}

void abi_text_hex(struct abi_text *t, u64 n, u32 least)
{
	digits_append(t, n, 16, least);
}
