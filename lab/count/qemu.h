/* SPDX-License-Identifier: MIT */
/*
 * The part of QEMU's plugin interface that the counter uses. Debian packages
 * QEMU without its header, so the functions are declared here, from the
 * documented interface; QEMU itself defines them and resolves them at load.
 *
 * COUNT_PLUGIN_API is the revision built for: 1 is QEMU 7.2's, from 3 on
 * (QEMU 9.1) an instruction's bytes are copied out. QEMU refuses a plugin of
 * a revision that it does not serve.
 */
#ifndef LAB_COUNT_QEMU_H
#define LAB_COUNT_QEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef COUNT_PLUGIN_API
#define COUNT_PLUGIN_API 1
#endif

#define COUNT_EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;

struct qemu_info_t {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	struct { /* only of system emulation */
		int smp_vcpus;
		int max_vcpus;
	} system;
};

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

/* What the plugin exports. */
COUNT_EXPORT extern int qemu_plugin_version;
COUNT_EXPORT int qemu_plugin_install(uint64_t id,
				     const struct qemu_info_t *info, int argc,
				     char **argv);

/* What QEMU exports. */
void qemu_plugin_register_vcpu_tb_trans_cb(
	uint64_t id, void (*cb)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*cb)(unsigned int vcpu,
						       void *userdata),
					    enum qemu_plugin_cb_flags flags,
					    void *userdata);
void qemu_plugin_register_atexit_cb(uint64_t id,
				    void (*cb)(uint64_t id, void *userdata),
				    void *userdata);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
#if COUNT_PLUGIN_API >= 3
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest,
			     size_t size);
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#endif

#endif
