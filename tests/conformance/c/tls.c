/* SPDX-License-Identifier: MIT */
/*
 * Thread-local variables of every size and access form, per thread. Built a
 * second time with position-independent code and the dynamic model (tls_pic).
 */
#include <pthread.h>
#include <stdint.h>
#include "say.h"

#define THREADS 8

struct mix {
	char c;
	short s;
	int i;
	long l;
	float f;
	double d;
	long double x;
	__int128 q;
	int bits : 5;
};

__thread int tls_global = 11;
static __thread int local = 12;
static __thread char bytes[5000] = {1, 2, 3};
static __thread long zero[100];
static __thread double doubles[64];
static __thread struct mix mix = {1, 2, 3, 4, 5.5f, 6.5, 7.5L, 8, -3};
static __thread _Alignas(64) unsigned char aligned[64] = {9};
static __thread void *self;
static __thread uint64_t counter;
extern __thread int tls_extern;
__thread int tls_extern __attribute__((tls_model("initial-exec"))) = 13;

static int first_values(void)
{
	int i, zeros = 0;

	for (i = 0; i < 100; i++)
		zeros += zero[i] == 0;
	return tls_global == 11 && local == 12 && tls_extern == 13 &&
	       bytes[0] == 1 && bytes[2] == 3 && bytes[4999] == 0 &&
	       zeros == 100 && mix.c == 1 && mix.s == 2 && mix.i == 3 &&
	       mix.l == 4 && mix.f == 5.5f && mix.d == 6.5 && mix.x == 7.5L &&
	       mix.q == 8 && mix.bits == -3 && aligned[0] == 9 &&
	       ((uintptr_t)aligned & 63) == 0;
}

__attribute__((noinline)) static void touch_tls(int id, int round)
{
	int i;

	tls_global += id;
	local ^= id << 3;
	tls_extern -= id;
	mix.c++;
	mix.s += id;
	mix.i *= 3;
	mix.l |= 1l << id;
	mix.f += 0.5f;
	mix.d *= 1.25;
	mix.x -= 0.25L;
	mix.q = mix.q * 3 + id;
	mix.bits += 1;
	bytes[(id * 613 + round * 7) % 5000]++;
	for (i = 0; i < 100; i++)
		zero[i] += i * id;
	for (i = 0; i < 64; i++)
		doubles[i] = doubles[i] * 0.5 + i + id;
	__atomic_add_fetch(&counter, id + 1, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(&counter, &(uint64_t){1}, 2, 0,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&aligned[5], 1 << (id & 7), __ATOMIC_SEQ_CST);
	__atomic_exchange_n(&zero[99], zero[99] + 1, __ATOMIC_SEQ_CST);
}

struct result {
	int id, first, own, spread;
	unsigned long long sum;
};

static unsigned long long digest_tls(void)
{
	unsigned long long sum = tls_global * 31ull + local * 17ull;
	int i;

	for (i = 0; i < 5000; i++)
		sum = sum * 3 + (unsigned char)bytes[i];
	for (i = 0; i < 100; i++)
		sum = sum * 5 + zero[i];
	for (i = 0; i < 64; i++)
		sum = sum * 7 + (unsigned long long)(doubles[i] * 1024);
	sum += tls_extern + mix.c + mix.s + mix.i + mix.l + counter;
	sum += (unsigned long long)(mix.f * 4 + mix.d * 4 + mix.x * 4);
	return sum + (unsigned long long)mix.q + mix.bits + aligned[5];
}

static void *run_thread(void *arg)
{
	struct result *r = arg;
	int round;

	r->first = first_values();
	self = r;
	for (round = 0; round < 50; round++) {
		touch_tls(r->id, round);
		if (round % 10 == 0)
			sched_yield();
	}
	r->own = self == r;
	r->spread = (char *)&doubles[63] - (char *)&doubles[0] == 63 * 8;
	r->sum = digest_tls();
	return r;
}

int main(void)
{
	struct result results[THREADS] = {0};
	pthread_t threads[THREADS];
	int i;

	CHECK(first_values());
	for (i = 0; i < THREADS; i++) {
		results[i].id = i;
		pthread_create(&threads[i], NULL, run_thread, &results[i]);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		printf("thread %d first %d own %d spread %d sum %llx\n", i,
		       results[i].first, results[i].own, results[i].spread,
		       results[i].sum);
	}
	CHECK(first_values());
	return say_done();
}
