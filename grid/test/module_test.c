// SPDX-License-Identifier: MIT
/* Manifests, size code and arguments, in memory only. */
#include <errno.h>
#include <grid/core/marshal.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <tests/tap.h>

#include "manifest.h"

static struct manifest m;
static struct grid_module module;
static const char *why;

static int reopen_module(void)
{
	return grid_module_open(&module, m.bytes, manifest_done(&m), &why);
}

/* f(IN int n, IN int at[n], IN double x[4]) */
static void make_simple(void)
{
	manifest_init(&m, "simple");
	manifest_function(&m, "f", 0);
	manifest_param(&m, "n", SKEP_INT, SKEP_IN);
	manifest_param(&m, "at", SKEP_INT, SKEP_IN)->dims = 1;
	m.param[1].dim[0].size = manifest_scalar(&m, 0);
	manifest_param(&m, "x", SKEP_DOUBLE, SKEP_IN)->dims = 1;
	m.param[2].dim[0].size = manifest_const(&m, 4);
}

static int is_refused(const char *words)
{
	return reopen_module() == -EINVAL && strstr(why, words);
}

static void test_refusals(void)
{
	u64 len;

	make_simple();
	tap_ok(!reopen_module(), "a valid manifest is accepted");
	tap_ok(grid_module_find(&module, "f") == 0 &&
		       grid_module_find(&module, "g") == -ENOENT,
	       "functions are found by name");
	len = manifest_done(&m);
	tap_ok(grid_module_open(&module, m.bytes, len - 1, &why) == -EINVAL &&
		       strstr(why, "tables"),
	       "a truncated manifest is refused");
	m.head.revision++;
	tap_ok(is_refused("revision"), "another revision is refused");
	make_simple();
	m.function[0].first = 1;
	tap_ok(is_refused("outside"),
	       "a function outside the tables is refused");
	make_simple();
	m.function[0].params = ~0u;
	tap_ok(is_refused("outside"), "too many parameters are refused");
	make_simple();
	m.function[0].flags = SKEP_FUNCTION_STATE << 1;
	tap_ok(is_refused("flags"), "unknown flags are refused");
	make_simple();
	m.function[0].flags = SKEP_FUNCTION_RANKS;
	tap_ok(!reopen_module(), "a function that takes ranks is accepted");
	m.param[0].mode = SKEP_OUT;
	m.param[1].dims = 0;
	tap_ok(is_refused("ranks"), "one that takes no number is refused");
	make_simple();
	m.param[1].dim[0].size = 4000;
	tap_ok(is_refused("size"), "size code outside the code is refused");
	make_simple();
	m.code[m.param[1].dim[0].size + 1] = 2;
	tap_ok(is_refused("size"), "a size that reads no integer is refused");
	make_simple();
	m.code[m.param[1].dim[0].size] = SKEP_OP_ADD;
	tap_ok(is_refused("size"), "size code that lacks operands is refused");
	make_simple();
	m.head.code -= 1;
	tap_ok(is_refused("size"), "size code without an end is refused");
	make_simple();
	m.param[0].type = SKEP_MASTER_FUNCTION + 1;
	tap_ok(is_refused("type"), "an unknown type is refused");
	make_simple();
	m.param[0].mode = 5;
	tap_ok(is_refused("mode"), "an unknown mode is refused");
	make_simple();
	memset(m.param[0].name, 'a', SKEP_NAME_MAX);
	tap_ok(is_refused("name"), "a name without an end is refused");
}

/* solve(IN int n, step(IN int n, IN double x[n])), where both n are one. */
static void make_callback(void)
{
	manifest_init(&m, "back");
	manifest_function(&m, "solve", 0);
	manifest_param(&m, "n", SKEP_INT, SKEP_IN);
	manifest_param(&m, "step", SKEP_MASTER_FUNCTION, SKEP_IN)->refers = 1;
	manifest_function(&m, "solve", SKEP_FUNCTION_CALLBACK);
	manifest_param(&m, "n", SKEP_INT, SKEP_IN)->refers = 1;
	manifest_param(&m, "x", SKEP_DOUBLE, SKEP_IN)->dims = 1;
	m.param[3].dim[0].size = manifest_scalar(&m, 0);
}

/* add(IN int n), which two classes and the module have; the second class has
 * no state. */
static void make_classes(void)
{
	manifest_init(&m, "class");
	manifest_function(&m, "add", 0);
	m.function[0].of = 5;
	manifest_function(&m, "add", 0);
	m.function[1].of = 4;
	manifest_function(&m, "get", SKEP_FUNCTION_RANKS);
	manifest_param(&m, "ranks", SKEP_INT, SKEP_IN);
	m.function[2].of = 5;
	manifest_function(&m, "sum", SKEP_FUNCTION_CLASS | SKEP_FUNCTION_STATE);
	manifest_function(&m, "sum", SKEP_FUNCTION_CLASS);
}

#define NO_CLASS_IF(change)                                                    \
	do {                                                                   \
		make_classes();                                                \
		change;                                                        \
		tap_ok(is_refused("class"), "refused: " #change);              \
	} while (0)

static void test_classes(void)
{
	make_classes();
	tap_ok(!reopen_module() && grid_module_class(&module, "sum") == 3 &&
		       grid_module_class(&module, "add") == -ENOENT,
	       "a class is found by its name, a function is none");
	tap_ok(grid_module_method(&module, 3, "add") == 1 &&
		       grid_module_method(&module, 4, "add") == 0 &&
		       grid_module_method(&module, 3, "get") == -ENOENT,
	       "each class finds its own methods");
	tap_ok(grid_module_find(&module, "add") == 0 &&
		       grid_module_find(&module, "sum") == -ENOENT &&
		       !grid_module_state(&module, &module.function[0]) &&
		       grid_module_state(&module, &module.function[1]) ==
			       &module.function[3],
	       "a method is a function unless its class has state");
	m.function[0].of = 4;
	tap_ok(!reopen_module() && grid_module_find(&module, "add") == -ENOENT,
	       "no function has the name of such methods");
	NO_CLASS_IF(m.function[1].of = 3);
	NO_CLASS_IF(m.function[1].of = 6);
	NO_CLASS_IF(m.function[1].flags = SKEP_FUNCTION_INIT);
	NO_CLASS_IF(m.function[1].flags = SKEP_FUNCTION_CALLBACK);
	NO_CLASS_IF(m.function[2].of = 4);
	NO_CLASS_IF(m.function[3].flags = SKEP_FUNCTION_STATE);
	NO_CLASS_IF(m.function[3].of = 5);
	NO_CLASS_IF(m.function[3].flags |= SKEP_FUNCTION_INIT);
	NO_CLASS_IF((m.function[3].first = 0, m.function[3].params = 1));
}

#define REFUSED_IF(change, words)                                              \
	do {                                                                   \
		make_callback();                                               \
		change;                                                        \
		tap_ok(is_refused(words), "refused: " #change);                \
	} while (0)

static void test_callbacks(void)
{
	u64 length;
	struct grid_call c;
	int n = 3;

	make_callback();
	tap_ok(!reopen_module() && grid_module_find(&module, "solve") == 0,
	       "a function of the master is not found by its name");
	grid_call_init(&c, &module, 0);
	c.value[0].bits = 3;
	tap_ok(grid_call_measure(&c, SKEP_IN, &length) == -EINVAL &&
		       c.wrong == 1,
	       "the master gives the function");
	c.value[1].at = &n;
	tap_ok(!grid_call_measure(&c, SKEP_IN, &length) && length == 8 &&
		       !grid_call_measure(&c, SKEP_OUT, &length) && !length,
	       "no bytes of it travel");
	REFUSED_IF(m.param[1].refers = 0, "function of the master");
	REFUSED_IF(m.param[1].refers = 2, "function of the master");
	REFUSED_IF(m.param[1].mode = SKEP_INOUT, "function of the master");
	REFUSED_IF(m.param[1].type |= SKEP_TYPE_UNSIGNED, "type");
	REFUSED_IF(m.function[0].flags = SKEP_FUNCTION_INIT,
		   "function of the master");
	REFUSED_IF(m.function[1].flags |= SKEP_FUNCTION_INIT, "other flags");
	REFUSED_IF(m.function[1].params = ~0u, "function of the master");
	REFUSED_IF(m.function[1].first = ~0u, "function of the master");
	REFUSED_IF(m.param[2].refers = 3, "function of the master");
	REFUSED_IF(m.param[2].refers = 2, "function of the master");
	REFUSED_IF(m.param[2].type = SKEP_LONG, "function of the master");
	REFUSED_IF(m.param[2].mode = SKEP_INOUT, "cannot have");
	REFUSED_IF(m.param[3].refers = 1, "function of the master");
	REFUSED_IF(m.param[3].type = SKEP_FILEPOINTER, "cannot have");
	REFUSED_IF(m.param[3].type = SKEP_DCOMPLEX;
		   m.param[3].dims = 0, "cannot have");
	REFUSED_IF(m.param[3].type = SKEP_FILENAME;
		   m.param[3].dims = 0, "cannot have");
	REFUSED_IF(m.param[3].type = SKEP_MASTER_FUNCTION;
		   m.param[3].dims = 0, "function of the master");
	REFUSED_IF(m.param[0].refers = 1, "refers to something");
	make_callback();
	m.param[3].type = SKEP_STRING;
	m.param[3].mode = SKEP_INOUT;
	tap_ok(!reopen_module(), "a function of the master may have strings");
}

static void test_names(void)
{
	static const char *const bad[] = {"", "a b", "a/b", "a\n", "a\x7f"};
	u32 i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		make_simple();
		strcpy(m.param[0].name, bad[i]);
		tap_ok(is_refused("name"), "invalid name %u is refused", i);
	}
	make_simple();
	strcpy(m.param[0].name, "!~");
	tap_ok(!reopen_module(), "a name may have any visible character");
}

/* Runs `a op b`, both constants. */
static int eval_operation(s64 a, u8 op, s64 b, s64 *result)
{
	struct grid_value value[1] = {{0}};
	u8 code[20] = {SKEP_OP_CONST};

	memcpy(code + 1, &a, 8);
	code[9] = SKEP_OP_CONST;
	memcpy(code + 10, &b, 8);
	code[18] = op;
	code[19] = SKEP_OP_END;
	manifest_init(&m, "op");
	manifest_function(&m, "f", 0);
	manifest_param(&m, "x", SKEP_INT, SKEP_OUT)->dims = 1;
	m.param[0].dim[0].size = manifest_code(&m, code, sizeof(code));
	if (reopen_module())
		return -EINVAL;
	return grid_module_size(&module, module.function, value, 0, result);
}

/* Runs size code of a parameter that needs nothing. */
static int run_code(const void *code, u32 len, s64 *result)
{
	struct grid_value value[1] = {{0}};

	manifest_init(&m, "code");
	manifest_function(&m, "f", 0);
	manifest_param(&m, "x", SKEP_INT, SKEP_OUT)->dims = 1;
	m.param[0].dim[0].size = manifest_code(&m, code, len);
	if (reopen_module())
		return -EINVAL;
	return grid_module_size(&module, module.function, value, 0, result);
}

/* n constants, each 1, and their sum. */
static int add_ones(u32 n, s64 *result)
{
	static u8 code[0x400];
	u32 i, len = 0;

	memset(code, 0, sizeof(code));
	for (i = 0; i < n; i++, len += 9) {
		code[len] = SKEP_OP_CONST;
		code[len + 1] = 1;
	}
	memset(code + len, SKEP_OP_ADD, n - 1);
	return run_code(code, len + n, result);
}

static void test_bounds(void)
{
	static const u8 neg[] = {
		SKEP_OP_CONST, 5,	    0,		0, 0, 0, 0, 0, 0,
		SKEP_OP_CONST, 7,	    0,		0, 0, 0, 0, 0, 0,
		SKEP_OP_NEG,   SKEP_OP_ADD, SKEP_OP_END};
	s64 result;
	u32 i;

	tap_ok(!run_code(neg, sizeof(neg), &result) && result == -2,
	       "size code: the last value alone is negated");
	tap_ok(!add_ones(64, &result) && result == 64 &&
		       add_ones(65, &result) == -EINVAL,
	       "size code has a stack of 64 values");
	for (i = 63; i < 66; i++) {
		manifest_init(&m, "many");
		manifest_function(&m, "f", 0);
		while (m.head.params < i)
			manifest_param(&m, "x", SKEP_INT, SKEP_IN);
		tap_ok(i > 64 ? is_refused("outside") : !reopen_module(),
		       "of %u parameters a function may have 64", i);
	}
	manifest_function(&m, "g", 0);
	m.function[0].params = 64;
	tap_ok(!reopen_module(), "a function without parameters may come last");
}

static void test_size_code(void)
{
	static const struct {
		s64 a, b, want;
		u8 op;
	} good[] =
		{
			{7, 5, 12, SKEP_OP_ADD},
			{7, 5, 2, SKEP_OP_SUB},
			{7, 5, 35, SKEP_OP_MUL},
			{-7, 2, -3, SKEP_OP_DIV},
			{-7, 2, -1, SKEP_OP_MOD},
			{3, 4, 81, SKEP_OP_POW},
			{-2, 62, 1ll << 62, SKEP_OP_POW},
			{1, 2, 1, SKEP_OP_LT},
			{2, 2, 1, SKEP_OP_LE},
			{1, 2, 0, SKEP_OP_GT},
			{1, 2, 0, SKEP_OP_GE},
			{2, 2, 0, SKEP_OP_LT},
			{2, 2, 0, SKEP_OP_GT},
			{2, 2, 1, SKEP_OP_GE},
			{2, 1, 0, SKEP_OP_LE},
			{2, 2, 1, SKEP_OP_EQ},
			{2, 2, 0, SKEP_OP_NE},
			{LLONG_MIN, 1, LLONG_MIN, SKEP_OP_DIV},
		},
	  bad[] = {
		  {LLONG_MAX, 1, 0, SKEP_OP_ADD},
		  {LLONG_MIN, 1, 0, SKEP_OP_SUB},
		  {1ll << 32, 1ll << 31, 0, SKEP_OP_MUL},
		  {1, 0, 0, SKEP_OP_DIV},
		  {1, 0, 0, SKEP_OP_MOD},
		  {LLONG_MIN, -1, 0, SKEP_OP_DIV},
		  {LLONG_MIN, -1, 0, SKEP_OP_MOD},
		  {2, 63, 0, SKEP_OP_POW},
		  {2, -1, 0, SKEP_OP_POW},
		  {1, 63, 0, SKEP_OP_POW},
	  };
	s64 result;
	u32 i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		tap_ok(!eval_operation(good[i].a, good[i].op, good[i].b,
				       &result) &&
			       result == good[i].want,
		       "size code: operator %u, case %u, is computed",
		       good[i].op, i);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		tap_ok(eval_operation(bad[i].a, bad[i].op, bad[i].b, &result) ==
			       -ERANGE,
		       "size code: operator %u, case %u, is an error",
		       bad[i].op, i);
}

/* Moving ------------------------------------------------------------------ */

static u8 wire[0x4000];
static u64 written, taken;

static int mover_put(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	(void)mover;
	(void)own;
	if (len > sizeof(wire) - written)
		return -ENOSPC;
	memcpy(wire + written, bytes, len);
	written += len;
	return 0;
}

static int mover_get(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	(void)mover;
	(void)own;
	if (len > written - taken)
		return -EPIPE;
	memcpy(bytes, wire + taken, len);
	taken += len;
	return 0;
}

static struct grid_mover to = {mover_put}, from = {mover_get};
static u64 live; /* bytes */

static void *memory_alloc(struct grid_memory *memory, u64 len)
{
	if (len > 1 << 20)
		return NULL;
	live += len;
	return grid_memory_heap.alloc(memory, len);
}

static void give_back(struct grid_memory *memory, void *at, u64 len)
{
	live -= len;
	grid_memory_heap.free(memory, at, len);
}

/* Gives item `index` of an array of three. */
static int item_at(s64 index, s64 *result)
{
	int items[] = {7, 8, 9};
	struct grid_value value[2] = {{.at = items, .count = 3}};
	u8 code[12] = {SKEP_OP_CONST};
	u32 at;

	memcpy(code + 1, &index, 8);
	code[9] = SKEP_OP_ITEM;
	code[11] = SKEP_OP_END;
	manifest_init(&m, "item");
	manifest_function(&m, "f", 0);
	manifest_param(&m, "a", SKEP_INT, SKEP_IN)->dims = 1;
	m.param[0].dim[0].size = manifest_const(&m, 3);
	manifest_param(&m, "x", SKEP_INT, SKEP_OUT)->dims = 1;
	at = m.param[1].dim[0].size = manifest_code(&m, code, sizeof(code));
	if (reopen_module())
		return -EINVAL;
	return grid_module_size(&module, module.function, value, at, result);
}

static void test_items(void)
{
	s64 first, last, none;

	tap_ok(!item_at(0, &first) && first == 7 && !item_at(2, &last) &&
		       last == 9,
	       "size code: the first and the last item of an array");
	tap_ok(item_at(3, &none) == -ERANGE && item_at(-1, &none) == -ERANGE,
	       "size code: no item beyond an array");
}

static struct grid_memory memory = {memory_alloc, give_back, 0};

/* A machine of 64 MiB: the C library's heap grants more (proc(5)). */
int sysinfo(struct sysinfo *info)
{
	*info = (struct sysinfo){.totalram = 48, .totalswap = 16};
	info->mem_unit = 1 << 20;
	return 0;
}

static void test_memory(void)
{
	struct grid_memory *heap = &grid_memory_heap;
	void *at;

	tap_ok(!heap->alloc(heap, (64 << 20) + 1) && !heap->alloc(heap, ~0ull),
	       "memory: no more than the machine has");
	at = heap->alloc(heap, 64 << 20);
	tap_ok(at && !heap->alloc(heap, 1),
	       "memory: no more for all arguments together");
	heap->free(heap, at, 64 << 20);
	at = heap->alloc(heap, 64 << 20);
	tap_ok(at != NULL, "memory: the memory of a call is free for the next");
	heap->free(heap, at, 64 << 20);
}

/*
 * g(IN string s, INOUT int n, IN float f, IN int idx[3],
 *   INOUT double a[idx[1]][n : 1, n, 2], OUT short o[n], WORK char w[n])
 */
static void test_mixed(void)
{
	static const u8 item[] = {
		SKEP_OP_CONST, 1, 0,	      0, 0, 0, 0, 0, 0,
		SKEP_OP_ITEM,  3, SKEP_OP_END};

	manifest_init(&m, "mixed");
	manifest_function(&m, "g", 0);
	manifest_param(&m, "s", SKEP_STRING, SKEP_IN);
	manifest_param(&m, "n", SKEP_INT, SKEP_INOUT);
	manifest_param(&m, "f", SKEP_FLOAT, SKEP_IN);
	manifest_param(&m, "idx", SKEP_INT, SKEP_IN)->dims = 1;
	m.param[3].dim[0].size = manifest_const(&m, 3);
	manifest_param(&m, "a", SKEP_DOUBLE, SKEP_INOUT)->dims = 2;
	m.param[4].dim[0].size = manifest_code(&m, item, sizeof(item));
	m.param[4].dim[1].size = manifest_scalar(&m, 1);
	m.param[4].dim[1].low = manifest_const(&m, 1);
	m.param[4].dim[1].stride = manifest_const(&m, 2);
	manifest_param(&m, "o", SKEP_SHORT, SKEP_OUT)->dims = 1;
	m.param[5].dim[0].size = manifest_scalar(&m, 1);
	manifest_param(&m, "w", SKEP_CHAR, SKEP_WORK)->dims = 1;
	m.param[6].dim[0].size = manifest_scalar(&m, 1);
}

static struct grid_call master, worker;
static struct grid_shape shape[2][SKEP_PARAMS_MAX];
static int n = 5, idx[3] = {9, 2, 9};
static double a[2][5];
static short o[5];
static float f = 1.5f;

static void start_mixed(void)
{
	int i;

	test_mixed();
	written = taken = 0;
	n = 5;
	idx[1] = 2;
	for (i = 0; i < 10; i++)
		a[i / 5][i % 5] = i;
	memset(o, 0, sizeof(o));
	memset(shape, 0, sizeof(shape));
	reopen_module();
	grid_call_init(&master, &module, 0);
	grid_call_init(&worker, &module, 0);
	master.shape = shape[0];
	worker.shape = shape[1];
	master.value[0].at = "a word";
	master.value[1].at = &n;
	master.value[1].bits = (u64)n;
	memcpy(&master.value[2].bits, &f, 4);
	master.value[3].at = idx;
	master.value[4].at = a;
	master.value[5].at = o;
}

static void test_in(void)
{
	double(*theirs)[5];
	u64 length;

	start_mixed();
	tap_ok(!reopen_module(),
	       "a manifest with the item of an array is accepted");
	tap_ok(!grid_call_measure(&master, SKEP_IN, &length) &&
		       length == 3 * 8 - 8 + 16 + 16 + 4 * 8,
	       "the size of the arguments is computed");
	tap_ok(!grid_call_send(&master, SKEP_IN, &to) && written == length,
	       "as many bytes are sent as computed");
	tap_ok(!grid_call_take(&worker, &from, &memory, length) &&
		       taken == length,
	       "the receiver reads all bytes");
	tap_ok(!strcmp(worker.value[0].at, "a word") &&
		       *(int *)worker.value[1].at == 5 &&
		       !memcmp(&worker.value[2].bits, &f, 4) &&
		       !memcmp(worker.value[3].at, idx, sizeof(idx)),
	       "strings, scalars and arrays arrive");
	theirs = worker.value[4].at;
	tap_ok(theirs[0][1] == 1 && theirs[1][3] == 8 && theirs[0][0] == 0 &&
		       theirs[1][2] == 0,
	       "of a part of an array only its elements arrive");
	tap_ok(worker.value[5].count == 5 && worker.value[6].count == 5,
	       "OUT and WORK arrays have their sizes");
}

static void test_out(void)
{
	u64 length;
	int i;

	for (i = 0; i < 10; i++)
		((double *)worker.value[4].at)[i] = 100 + i;
	for (i = 0; i < 5; i++)
		((short *)worker.value[5].at)[i] = (short)-i;
	*(int *)worker.value[1].at = 1000; /* must not change any size */
	((int *)worker.value[3].at)[1] = 1000;
	idx[1] = 1000;
	written = taken = 0;
	tap_ok(!grid_call_measure(&worker, SKEP_OUT, &length) &&
		       length == 8 + 4 * 8 + 16,
	       "sizes stay when the function changes what they read");
	tap_ok(!grid_call_send(&worker, SKEP_OUT, &to) && written == length &&
		       !grid_call_accept(&master, &from, length),
	       "a result comes back");
	tap_ok(n == 1000 && a[0][1] == 101 && a[1][3] == 108 && a[0][0] == 0 &&
		       a[1][2] == 7 && o[4] == -4,
	       "a result is written to its arrays only");
	grid_call_drop(&worker, &memory);
	tap_ok(!live, "all memory is freed");
}

/* Without a string, and with arrays that have no element. */
static void test_null(void)
{
	u64 length;

	start_mixed();
	master.value[0].at = NULL;
	idx[1] = 0; /* the rows of the array a */
	written = taken = 0;
	tap_ok(!grid_call_measure(&master, SKEP_IN, &length) &&
		       !grid_call_send(&master, SKEP_IN, &to) &&
		       written == length &&
		       !grid_call_take(&worker, &from, &memory, length),
	       "a null string is sent");
	tap_ok(grid_call_null(&worker, 0) && !worker.value[0].at,
	       "a null string arrives as one");
	tap_ok(!grid_call_null(&worker, 1) && !grid_call_null(&worker, 3) &&
		       grid_call_null(&worker, 4) &&
		       !grid_call_null(&worker, 5),
	       "only arrays without elements are null pointers");
	grid_call_drop(&worker, &memory);
	tap_ok(!live, "no memory of null pointers is left");
}

static void test_wrong(void)
{
	u64 length;

	start_mixed();
	master.value[4].at = NULL;
	tap_ok(grid_call_measure(&master, SKEP_IN, &length) == -EINVAL &&
		       master.wrong == 4,
	       "a null array is refused");
	start_mixed();
	idx[1] = 0;
	master.value[4].at = NULL;
	tap_ok(!grid_call_measure(&master, SKEP_IN, &length),
	       "a null array without elements is accepted");
	start_mixed();
	master.value[1].bits = (u64)-1;
	tap_ok(grid_call_measure(&master, SKEP_IN, &length) == -EINVAL &&
		       master.wrong == 4,
	       "a negative size is refused");
	start_mixed();
	idx[1] = INT_MAX;
	master.value[1].bits = INT_MAX;
	tap_ok(grid_call_measure(&master, SKEP_IN, &length) == -ERANGE,
	       "a size beyond all memory is refused");
	start_mixed();
	grid_call_measure(&master, SKEP_IN, &length);
	grid_call_send(&master, SKEP_IN, &to);
	tap_ok(grid_call_take(&worker, &from, &memory, length - 8) == -EPROTO,
	       "arguments beyond the announced length are refused");
	grid_call_drop(&worker, &memory);
	start_mixed();
	grid_call_measure(&master, SKEP_IN, &length);
	grid_call_send(&master, SKEP_IN, &to);
	tap_ok(grid_call_take(&worker, &from, &memory, length + 8) == -EPROTO,
	       "bytes behind the last argument are refused");
	grid_call_drop(&worker, &memory);
	start_mixed();
	n = -1; /* on the wire; what sizes read stays */
	grid_call_measure(&master, SKEP_IN, &length);
	grid_call_send(&master, SKEP_IN, &to);
	tap_ok(grid_call_take(&worker, &from, &memory, length) == -EINVAL,
	       "a scalar that makes a size negative is refused by the worker");
	grid_call_drop(&worker, &memory);
	tap_ok(!live, "no memory is left after errors");
}

/* f(IN char a, IN double b, INOUT short c) */
static void start_scalars(void)
{
	manifest_init(&m, "scalars");
	manifest_function(&m, "f", 0);
	manifest_param(&m, "a", SKEP_CHAR, SKEP_IN);
	manifest_param(&m, "b", SKEP_DOUBLE, SKEP_IN);
	manifest_param(&m, "c", SKEP_SHORT, SKEP_INOUT);
	reopen_module();
	grid_call_init(&master, &module, 0);
	grid_call_init(&worker, &module, 0);
	written = taken = 0;
}

static void test_scalars(void)
{
	short c = 5;
	u64 length, sent;

	start_scalars();
	master.value[2].at = &c;
	master.value[2].bits = ~0ull;
	tap_ok(!grid_call_measure(&master, SKEP_IN, &length) &&
		       !grid_call_send(&master, SKEP_IN, &to),
	       "scalars are sent");
	memcpy(&sent, wire + 16, 8);
	tap_ok(sent == 5, "an output of two bytes is sent with six zeros");
	tap_ok(!grid_call_take(&worker, &from, &memory, length) && live == 8 &&
		       !worker.value[0].at && !worker.value[1].at &&
		       *(short *)worker.value[2].at == 5,
	       "only scalars that come back need memory");
	grid_call_drop(&worker, &memory);
	tap_ok(!live, "scalars: all memory is freed");
}

/* f(IN string s): its 8 letters are the last bytes of the arguments. */
static void test_last_string(void)
{
	u64 length;

	manifest_init(&m, "last");
	manifest_function(&m, "f", 0);
	manifest_param(&m, "s", SKEP_STRING, SKEP_IN);
	written = taken = 0;
	memset(shape, 0, sizeof(shape));
	reopen_module();
	grid_call_init(&master, &module, 0);
	grid_call_init(&worker, &module, 0);
	master.shape = shape[0];
	worker.shape = shape[1];
	master.value[0].at = "eight of";
	tap_ok(!grid_call_measure(&master, SKEP_IN, &length) && length == 16 &&
		       !grid_call_send(&master, SKEP_IN, &to) &&
		       !grid_call_take(&worker, &from, &memory, length) &&
		       !strcmp(worker.value[0].at, "eight of"),
	       "a string may end with the arguments");
	grid_call_drop(&worker, &memory);
}

/* f(IN string s[2]) */
static void test_texts(void)
{
	struct grid_text texts[2] = {{.at = (u8 *)"one", .len = 3},
				     {.at = (u8 *)"eleven byte", .len = 11}},
			 *theirs;
	u64 length;

	manifest_init(&m, "texts");
	manifest_function(&m, "f", 0);
	manifest_param(&m, "s", SKEP_STRING, SKEP_IN)->dims = 1;
	m.param[0].dim[0].size = manifest_const(&m, 2);
	reopen_module();
	grid_call_init(&master, &module, 0);
	grid_call_init(&worker, &module, 0);
	written = taken = 0;
	master.value[0].at = texts;
	tap_ok(!grid_call_measure(&master, SKEP_IN, &length) &&
		       !grid_call_send(&master, SKEP_IN, &to) &&
		       !grid_call_take(&worker, &from, &memory, length),
	       "an array of strings is sent and taken");
	theirs = worker.value[0].at;
	tap_ok(!strcmp((char *)theirs[0].at, "one") &&
		       !strcmp((char *)theirs[1].at, "eleven byte"),
	       "the strings arrive with their ends");
	grid_call_drop(&worker, &memory);
	tap_ok(!live, "strings: as many bytes are freed as allocated");
}

/* A manifest and a call's arguments, as grid/test/module_fuzz.c takes them. */
static int write_seed(const char *path)
{
	FILE *file = fopen(path, "w");
	u16 len;
	u64 length;

	start_mixed();
	len = (u16)manifest_done(&m);
	if (!file || grid_call_measure(&master, SKEP_IN, &length) ||
	    grid_call_send(&master, SKEP_IN, &to))
		return 1;
	fwrite(&len, 2, 1, file);
	fwrite(m.bytes, len, 1, file);
	fwrite(wire, written, 1, file);
	return fclose(file) != 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return write_seed(argv[1]);
	test_refusals();
	test_names();
	test_callbacks();
	test_classes();
	test_bounds();
	test_size_code();
	test_items();
	test_in();
	test_out();
	test_null();
	test_wrong();
	test_scalars();
	test_texts();
	test_memory();
	test_last_string();
	return tap_done();
}
