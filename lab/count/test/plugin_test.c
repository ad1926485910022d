// SPDX-License-Identifier: MIT
/*
 * The plugin inside a QEMU that is not one: it hands out a translated block,
 * runs it on two processors, and the file is read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../qemu.h"
#include "tests/tap.h"

struct qemu_plugin_insn {
	uint64_t address;
	size_t size;
	const char *bytes;
	void (*cb)(unsigned int vcpu, void *userdata);
	void *userdata;
};

#define CODE 6
struct qemu_plugin_tb {
	struct qemu_plugin_insn insns[CODE];
};

static struct qemu_plugin_tb code = {
	.insns = {{.address = 0x400000,
		   .size = 7,
		   .bytes = "\x0f\x1f\x80\x03\x00\x4b\x5b"},
		  {.address = 0x400007, .size = 1, .bytes = "\x90"},
		  {.address = 0x400008, .size = 2, .bytes = "\x0f\x05"},
		  {.address = 0xffffffff81a00000, .size = 1, .bytes = "\x90"},
		  {.address = 0x40000a, .size = 2, .bytes = "\xf3\xa4"},
		  {.address = 0x40000c,
		   .size = 7,
		   .bytes = "\x0f\x1f\x80\x13\x00\x4b\x5b"}}};

static void (*translate)(uint64_t id, struct qemu_plugin_tb *tb);
static void (*at_exit)(uint64_t id, void *userdata);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
					   void (*cb)(uint64_t,
						      struct qemu_plugin_tb *))
{
	(void)id;
	translate = cb;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*cb)(unsigned int, void *),
					    enum qemu_plugin_cb_flags flags,
					    void *userdata)
{
	(void)flags;
	insn->cb = cb;
	insn->userdata = userdata;
}

void qemu_plugin_register_atexit_cb(uint64_t id, void (*cb)(uint64_t, void *),
				    void *userdata)
{
	(void)id;
	(void)userdata;
	at_exit = cb;
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
	(void)tb;
	return CODE;
}

struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index)
{
	return (struct qemu_plugin_insn *)&tb->insns[index];
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
	return insn->size;
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->address;
}

#if COUNT_PLUGIN_API >= 3
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest,
			     size_t size)
{
	memcpy(dest, insn->bytes, size);
	return size;
}
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn)
{
	return insn->bytes;
}
#endif

static int install_plugin(const char *target, int argc, char **argv)
{
	struct qemu_info_t info = {.target_name = target,
				   .system_emulation = true,
				   .system = {.max_vcpus = 2}};

	return qemu_plugin_install(1, &info, argc, argv);
}

static void execute_block(unsigned int vcpu, int i)
{
	code.insns[i].cb(vcpu, code.insns[i].userdata);
}

static void expect_refused(const char *arg)
{
	char text[128];
	char *argv[] = {text};

	snprintf(text, sizeof(text), "%s", arg);
	tap_ok(install_plugin("x86_64", 1, argv) != 0,
	       "refuses the argument %s", arg);
}

static void file_equals(const char *path, const char *want)
{
	char got[4096] = "";
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(got, 1, sizeof(got) - 1, f) : 0;

	if (f)
		fclose(f);
	got[n] = '\0';
	if (!tap_ok(!strcmp(got, want), "the file holds the figures"))
		fprintf(stderr, "got:\n%swant:\n%s", got, want);
}

/* What the file holds: of a processor that went through, and of one inside. */
#define THROUGH                                                                \
	"skep-count 1\n"                                                       \
	"0 lost 0\n"                                                           \
	"0 3 times 3\n"                                                        \
	"0 3 open 0\n"                                                         \
	"0 3 user 10\n"                                                        \
	"0 3 kernel 4\n"                                                       \
	"0 3 restarts 1\n"                                                     \
	"0 3 entries 4\n"                                                      \
	"0 3 entry:ffffffff81a00000 4\n"                                       \
	"0 3 entry:other 0\n"                                                  \
	"0 3 range:libc 7\n"                                                   \
	"0 3 restarts:libc 1\n"                                                \
	"0 3 at:ffffffff81a00000 4\n"                                          \
	"1 lost 1\n"
#define INSIDE                                                                 \
	"1 3 times 0\n"                                                        \
	"1 3 open 1\n"                                                         \
	"1 3 user 0\n"                                                         \
	"1 3 kernel 0\n"                                                       \
	"1 3 restarts 0\n"                                                     \
	"1 3 entries 0\n"                                                      \
	"1 3 entry:other 0\n"                                                  \
	"1 3 range:libc 0\n"                                                   \
	"1 3 restarts:libc 0\n"                                                \
	"1 3 at:ffffffff81a00000 0\n"

static void refuses_all(void)
{
	expect_refused("out=");
	expect_refused("range=x:1");
	expect_refused("range=x:2:1");
	expect_refused("range=:1:2");
	expect_refused("range=x:-1:2");
	expect_refused("at=0x10");
	expect_refused("at=11112222333344445");
	expect_refused("colour=red");
}

static void test_counts(const char *path)
{
	translate(1, &code);
	execute_block(0, 1);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < CODE; i++)
			execute_block(0, i);
	for (int i = 0; i < CODE; i++) {
		execute_block(0, i);
		if (i == 3) { /* the kernel has it begun again */
			execute_block(0, 2);
			execute_block(0, 3);
		}
	}
	execute_block(1, 1);
	execute_block(1, 5);
	execute_block(1, 0);
	file_equals(path, THROUGH "end\n");
	at_exit(1, NULL);
	file_equals(path, THROUGH INSIDE "end\n");
}

int main(void)
{
	char path[] = "/tmp/skep-count-XXXXXX";
	char out[64], range[] = "range=libc:400007:40000a";
	char at[] = "at=ffffffff81a00000";
	char *argv[] = {out, range, at};
	int fd = mkstemp(path);

	snprintf(out, sizeof(out), "out=%s", path);
	refuses_all();
	tap_ok(install_plugin("x86_64", 0, NULL) != 0,
	       "refuses a missing file argument");
	tap_ok(install_plugin("aarch64", 1, argv) != 0,
	       "refuses another machine");
	tap_ok(install_plugin("x86_64", 3, argv) == 0, "installs");
	tap_ok(qemu_plugin_version == COUNT_PLUGIN_API, "states its revision");

	test_counts(path);
	close(fd);
	remove(path);
	return tap_done();
}
