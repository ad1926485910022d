// SPDX-License-Identifier: MIT
/*
 * BPF programs as terms of policies: they choose by a call's arguments and by a
 * map, in each class; what is no such program is refused; and each is freed
 * with the policy that asks it.
 *
 *   dynamos_program MODULE
 *   dynamos_program pin FOLDER    mounts a BPF file system there, with the
 *                                 program "choose", which says yes, its map
 *                                 "labels", and "other", of another type
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dynamos_use.h"
#include "tests/tap.h"

#define CHANGED 4242
#define FIRST_ARGUMENT 112 /* struct pt_regs: di */

#define OP(op, to, from, offset, value)                                        \
	(struct bpf_insn)                                                      \
	{                                                                      \
		op, to, from, offset, value                                    \
	}
#define COPY(to, from) OP(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0)
#define SET(to, value) OP(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value)
#define ADD(to, value) OP(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value)
#define LOAD(to, from, offset)                                                 \
	OP(BPF_LDX | BPF_MEM | BPF_DW, to, from, offset, 0)
#define STORE(to, offset, value)                                               \
	OP(BPF_ST | BPF_MEM | BPF_W, to, 0, offset, value)
#define CALL(what) OP(BPF_JMP | BPF_CALL, 0, 0, 0, what)
#define SKIP_IF_NOT(a, value, count)                                           \
	OP(BPF_JMP | BPF_JNE | BPF_K, a, 0, count, value)
#define SKIP_IF_DIFFERENT(a, b, count)                                         \
	OP(BPF_JMP | BPF_JNE | BPF_X, a, b, count, 0)
#define EXIT OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define MAP(to, fd)                                                            \
	OP(BPF_LD | BPF_IMM | BPF_DW, to, BPF_PSEUDO_MAP_FD, 0, fd),           \
		OP(0, 0, 0, 0, 0)

static struct dynamos_apply apply;
static int map;

static int bpf_call(int command, union bpf_attr *attr)
{
	int n = syscall(SYS_bpf, command, attr, sizeof(*attr));

	return n < 0 ? -errno : n;
}

static int program_load(u32 type, const struct bpf_insn *code, u32 count)
{
	static char log[65536];
	union bpf_attr attr = {.prog_type = type,
			       .insns = (unsigned long)code,
			       .insn_cnt = count,
			       .license = (unsigned long)"GPL",
			       .log_buf = (unsigned long)log,
			       .log_size = sizeof(log),
			       .log_level = 1};
	int fd;

	strcpy(attr.prog_name, "choose");
	fd = bpf_call(BPF_PROG_LOAD, &attr);
	if (fd < 0)
		printf("# bpf: %s: %.2000s\n", strerror(-fd), log);
	return fd;
}

#define PROGRAM(...)                                                           \
	program_load(BPF_PROG_TYPE_RAW_TRACEPOINT,                             \
		     (const struct bpf_insn[]){__VA_ARGS__},                   \
		     sizeof((const struct bpf_insn[]){__VA_ARGS__}) /          \
			     sizeof(struct bpf_insn))

static int map_create(void)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY,
			       .key_size = 4,
			       .value_size = 8,
			       .max_entries = 1};

	return bpf_call(BPF_MAP_CREATE, &attr);
}

static int map_update(u64 value)
{
	u32 key = 0;
	union bpf_attr attr = {.map_fd = map,
			       .key = (unsigned long)&key,
			       .value = (unsigned long)&value};

	return bpf_call(BPF_MAP_UPDATE_ELEM, &attr);
}

static void map_set(u64 value)
{
	TAP(!map_update(value));
}

/* The map's value is in register 7. */
#define READ_MAP                                                               \
	STORE(10, -4, 0), MAP(1, map), COPY(2, 10), ADD(2, -4),                \
		CALL(BPF_FUNC_map_lookup_elem), SKIP_IF_NOT(0, 0, 1), EXIT,    \
		LOAD(7, 0, 0)

/* For system calls: 1 if the first argument is the map's value, and the
 * function the first one of its update. */
static int load_by_argument(void)
{
	return PROGRAM(COPY(6, 1), READ_MAP, LOAD(3, 6, 0),
		       ADD(3, FIRST_ARGUMENT), COPY(1, 10), ADD(1, -16),
		       SET(2, 8), CALL(BPF_FUNC_probe_read_kernel),
		       LOAD(8, 10, -16), LOAD(9, 6, 48), SET(0, 0),
		       SKIP_IF_DIFFERENT(7, 8, 2), SKIP_IF_NOT(9, 0, 1),
		       SET(0, 1), EXIT);
}

/* The map's value. */
static int load_by_map(void)
{
	return PROGRAM(READ_MAP, COPY(0, 7), EXIT);
}

static int load_filter(void)
{
	const struct bpf_insn filter[] = {SET(0, 0), EXIT};

	return program_load(BPF_PROG_TYPE_SOCKET_FILTER, filter, 2);
}

static u32 program_number(int fd)
{
	struct bpf_prog_info info = {0};
	union bpf_attr attr = {.info = {.bpf_fd = fd,
					.info_len = sizeof(info),
					.info = (unsigned long)&info}};

	return bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr) ? 0 : info.id;
}

static int program_lives(u32 number)
{
	union bpf_attr attr = {.prog_id = number};
	int fd = bpf_call(BPF_PROG_GET_FD_BY_ID, &attr);

	close(fd);
	return fd >= 0;
}

/* The kernel frees it some time after the last reference. */
static int program_ends(u32 number)
{
	int i;

	for (i = 0; i < 600 && program_lives(number); i++)
		usleep(100000);
	return !program_lives(number);
}

static struct dynamos_policy policy_of(int program)
{
	struct dynamos_policy p = {.rules = 1};

	p.rule[0].terms = DYNAMOS_PROGRAM;
	p.rule[0].choice = 1;
	p.rule[0].program = program;
	return p;
}

static void begin_update(const char *kind, int program)
{
	int err = use_load(kind);

	memset(&apply, 0, sizeof(apply));
	apply.policy = policy_of(program);
	if (!err)
		err = use_apply(&apply);
	if (!tap_ok(!err, "program: %s is applied", kind))
		printf("# %s: %s\n", strerror(-err), use_why);
}

static void end_update(const char *kind)
{
	TAP(!use_revert());
	tap_ok(!use_until(DYNAMOS_LOADED), "program: %s has left", kind);
	tap_ok(!use_unload(), "program: %s unloads", kind);
}

static void expect_refusal(const struct dynamos_policy *policy, const char *why)
{
	int err = use_policy(policy);

	if (!tap_ok(err && strstr(use_why, why), "program: refused: %s", why))
		printf("# %s: %s\n", strerror(-err), use_why);
}

/* Each refusal leaves the policy as it is. */
static void test_refusals(void)
{
	struct dynamos_policy p = policy_of(-1);
	int other = load_filter();
	int wide = PROGRAM(LOAD(0, 1, 56), EXIT);

	expect_refusal(&p, "rule 1: the descriptor");
	p = policy_of(999);
	expect_refusal(&p, "rule 1: its program is no BPF program");
	p = policy_of(map);
	expect_refusal(&p, "no BPF program of type raw_tracepoint");
	p = policy_of(other);
	expect_refusal(&p, "no BPF program of type raw_tracepoint");
	p = policy_of(wide);
	expect_refusal(&p, "reads more of its context");
	p.rule[0].terms |= DYNAMOS_PID;
	expect_refusal(&p, "has no pid");
	TAP(getpgid(getpid()) == CHANGED && getpgid(0) != CHANGED);
	close(other);
	close(wide);
}

static void test_arguments(void)
{
	int first = load_by_argument(), second = load_by_map();
	u32 number = program_number(first);
	struct dynamos_policy p;
	struct dynamos_info info;

	map_set(getpid());
	begin_update("fine", first);
	TAP(getpgid(getpid()) == CHANGED && getpgid(0) != CHANGED);
	map_set(0);
	TAP(getpgid(getpid()) != CHANGED && getpgid(0) == CHANGED);
	map_set(getpid());
	TAP(!use_info(&info) && number &&
	    info.policy.rule[0].program == (s32)number);
	test_refusals();
	close(first);
	TAP(getpgid(getpid()) == CHANGED && program_lives(number));
	/* A rule whose other term does not hold; then one whose program says
	 * no, and after it one that excepts nobody. */
	p = policy_of(second);
	p.rule[0].terms |= DYNAMOS_UID;
	p.rule[0].uid = 4000000;
	TAP(!use_policy(&p) && getpgid(getpid()) != CHANGED);
	TAP(program_ends(number));
	p = policy_of(second);
	p.rules = 2;
	p.rule[1] = p.rule[0];
	p.rule[0].choice = 0;
	p.otherwise = 1;
	map_set(0);
	TAP(!use_policy(&p) && getpgid(0) == CHANGED);
	map_set(1);
	TAP(getpgid(0) != CHANGED);
	/* The second rule's program, behind one that has none. */
	p.rule[0].terms = DYNAMOS_UID;
	p.rule[0].uid = 4000000;
	p.rule[1].choice = 0;
	TAP(!use_policy(&p) && getpgid(0) != CHANGED);
	map_set(0);
	TAP(getpgid(0) == CHANGED);
	number = program_number(second);
	close(second);
	TAP(program_lives(number));
	end_update("fine");
	TAP(program_ends(number));
}

static long own_maxrss(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static void test_classes(void)
{
	int program = load_by_map(), fd;

	map_set(1);
	begin_update("task", program);
	TAP(own_maxrss() == CHANGED);
	map_set(0);
	TAP(own_maxrss() != CHANGED);
	end_update("task");
	begin_update("object", program);
	map_set(1);
	fd = open("/tmp/program", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	TAP(fallocate(fd, 0, 0, 1) && errno == EXDEV);
	map_set(0);
	TAP(fallocate(fd, 0, 0, 1) &&
	    errno == EXDEV); /* it keeps its version */
	close(fd);
	fd = open("/tmp/program", O_RDWR | O_CLOEXEC);
	TAP(!fallocate(fd, 0, 0, 1) || errno != EXDEV);
	close(fd);
	end_update("object");
	close(program);
}

/* The program calls the function whose version it chooses. */
static void test_nesting(void)
{
	int program = PROGRAM(COPY(1, 10), ADD(1, -16), SET(2, 16),
			      CALL(BPF_FUNC_get_current_comm), SET(0, 1), EXIT);
	union bpf_attr attr = {.test = {.prog_fd = program}};
	struct dynamos_count old, new;

	begin_update("comm", program);
	TAP(!bpf_call(BPF_PROG_TEST_RUN, &attr));
	TAP(!use_count(0, 0, &old) && !use_count(0, 1, &new));
	TAP(new.in == 1 && new.out == 1 && old.in == 1 && old.out == 1);
	end_update("comm");
	close(program);
}

static void test_apart(void)
{
	int program = load_by_map(), err = use_load("apart");

	memset(&apply, 0, sizeof(apply));
	apply.policy = policy_of(program);
	TAP(!err && use_apply(&apply) == -EOPNOTSUPP &&
	    strstr(use_why, "no program can be asked"));
	apply.policy.rules = 0;
	TAP(!use_apply(&apply));
	err = use_policy(&(struct dynamos_policy){.rules = 0, .otherwise = 1});
	TAP(!err && getpgid(0) == CHANGED);
	end_update("apart");
	close(program);
}

static int pin_object(const char *folder, const char *name, int fd)
{
	char path[256];
	union bpf_attr attr = {.pathname = (unsigned long)path, .bpf_fd = fd};

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return bpf_call(BPF_OBJ_PIN, &attr);
}

static int pin_all(const char *folder)
{
	int err = mount("bpf", folder, "bpf", 0, NULL) ? -errno : 0;

	map = map_create();
	if (!err)
		err = map_update(1);
	if (!err)
		err = pin_object(folder, "labels", map);
	if (!err)
		err = pin_object(folder, "choose", load_by_map());
	if (!err)
		err = pin_object(folder, "other", load_filter());
	if (err)
		fprintf(stderr, "%s: %s\n", folder, strerror(-err));
	return err != 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "pin"))
		return pin_all(argv[2]);
	if (argc != 2)
		return 2;
	use_begin(argv[1]);
	map = map_create();
	TAP(map >= 0);
	test_arguments();
	test_classes();
	test_nesting();
	test_apart();
	TAP(!use_alone());
	return tap_done();
}
