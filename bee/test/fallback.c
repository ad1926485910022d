/* SPDX-License-Identifier: MIT */
/*
 * Only in build/test/bee/bee-fallback: an older CPU and kernel. BEE_VEC says
 * how vector state is saved ("xsave", "fxsave"), BEE_FS "call" that FS is set
 * by system calls, BEE_THREADS "none" that the system gives no thread. With
 * --nonce fa017, bee fails by itself in the guest's cpuid.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "bee/core/core.h"

void __wrap_bee_cpu_init(void);
void __real_bee_cpu_init(void);
void __wrap_bee_cpuid(u32 leaf, u32 sub, u32 out[4]);
void __real_bee_cpuid(u32 leaf, u32 sub, u32 out[4]);
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __real_getauxval(unsigned long type);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*run)(void *), void *arg);
int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*run)(void *), void *arg);

static int env_equals(const char *name, const char *value)
{
	const char *s = getenv(name);

	return s && !strcmp(s, value);
}

void __wrap_bee_cpu_init(void)
{
	__real_bee_cpu_init();
	if (env_equals("BEE_VEC", "xsave"))
		bee_vec_mode = BEE_VEC_XSAVE;
	if (env_equals("BEE_VEC", "fxsave")) {
		bee_vec_mode = BEE_VEC_FXSAVE;
		bee_vec_mask = 0;
	}
}

unsigned long __wrap_getauxval(unsigned long type)
{
	unsigned long value = __real_getauxval(type);

	return type == AT_HWCAP2 && env_equals("BEE_FS", "call") ? value & ~2ul
								 : value;
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*run)(void *), void *arg)
{
	return env_equals("BEE_THREADS", "none")
		       ? EAGAIN
		       : __real_pthread_create(id, attr, run, arg);
}

/* Called with the guest's state live and FS at the guard. */
void __wrap_bee_cpuid(u32 leaf, u32 sub, u32 out[4])
{
	static volatile u32 *nowhere;

	if (bee.options->nonce == 0xfa017)
		*nowhere = leaf;
	__real_bee_cpuid(leaf, sub, out);
}
