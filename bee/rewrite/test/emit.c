/* SPDX-License-Identifier: MIT */
/*
 * The bytes of stubs, and what each stretch says of the guest's state. native.c
 * shows that such stubs do what the instruction did; here a byte cannot change
 * unseen, also where a CPU would do the same with another one.
 */
#include <string.h>

#include "bee/rewrite/internal.h"
#include "tests/tap.h"

enum { ADDR = 0x401000, STUB = 0x500000 };

/* Slot n is at 0x10 * (n + 1). A note: offset, guest's offset, registers whose
 * values are in the slots, plus one, and P after a push. */
static const struct {
	const char *name, *code;
	u32 len;
	const char *stub, *notes;
} c[] = {
#define CASE(name, code, stub, notes)                                          \
	{                                                                      \
		name, code, sizeof(code) - 1, stub, notes                      \
	}
	CASE("mov byte store of dh", "\x64\x88\x34\x25\x10\x00\x00\x00",
	     "6548892c255000000065488b2c251000000088b4251000000065488b2c2510000"
	     "000488b6c25286548892c252000000065488b2c2550000000",
	     "0:0,0,0 9:0,6,0 25:8,6,0 57:8,0,0"),
	CASE("mov byte load to ah", "\x64\x8a\x24\x25\x10\x00\x00\x00",
	     "6548892c255000000065488b2c25100000008aa4251000000065488b2c2550000"
	     "000",
	     "0:0,0,0 9:0,6,0 25:8,6,0 34:8,0,0"),
	CASE("add byte of ch", "\x64\x00\x2c\x25\x10\x00\x00\x00",
	     "6548892c255000000065488b2c251000000000ac251000000065488b2c2510000"
	     "000488b6c25286548892c252000000065488b2c2550000000",
	     "0:0,0,0 9:0,6,0 25:8,6,0 57:8,0,0"),
	CASE("add byte to bh", "\x64\x02\x3c\x25\x10\x00\x00\x00",
	     "6548892c255000000065488b2c251000000002bc251000000065488b2c2550000"
	     "000",
	     "0:0,0,0 9:0,6,0 25:8,6,0 34:8,0,0"),
	CASE("cmp byte of bh", "\x64\x38\x3c\x25\x10\x00\x00\x00",
	     "6548892c255000000065488b2c251000000038bc251000000065488b2c2550000"
	     "000",
	     "0:0,0,0 9:0,6,0 25:8,6,0 34:8,0,0"),
	CASE("test byte of ah", "\x64\x84\x24\x25\x10\x00\x00\x00",
	     "6548892c255000000065488b2c251000000084a4251000000065488b2c2550000"
	     "000",
	     "0:0,0,0 9:0,6,0 25:8,6,0 34:8,0,0"),
	CASE("xchg byte with dh", "\x64\x86\x34\x25\x10\x00\x00\x00",
	     "6548892c255000000065488b2c251000000086b4251000000065488b2c2510000"
	     "000488b6c25286548892c252000000065488b2c2550000000",
	     "0:0,0,0 9:0,6,0 25:8,6,0 57:8,0,0"),
	CASE("cmpxchg byte of ch", "\xf0\x64\x0f\xb0\x2c\x25\x10\x00\x00\x00",
	     "6548892c255000000065488b2c2510000000f00fb0ac251000000065488b2c251"
	     "0000000488b6c25286548892c252000000065488b2c2550000000",
	     "0:0,0,0 9:0,6,0 27:10,6,0 59:10,0,0"),
	CASE("xadd byte of bh", "\x64\x0f\xc0\x3c\x25\x10\x00\x00\x00",
	     "6548892c255000000065488b2c25100000000fc0bc251000000065488b2c25100"
	     "00000488b6c25286548892c252000000065488b2c2550000000",
	     "0:0,0,0 9:0,6,0 26:9,6,0 58:9,0,0"),
	CASE("mov byte of sil", "\x64\x40\x88\x34\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b0425100000004188b42010000000654c8b0425100"
	     "000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 26:9,9,0 58:9,0,0"),
	CASE("add word of sp", "\x64\x66\x01\x24\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b042510000000664101a42010000000654c8b04251"
	     "00000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 27:9,9,0 59:9,0,0"),
	CASE("mov of bl", "\x64\x88\x1c\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b04251000000041889c2010000000654c8b0425100"
	     "000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 26:8,9,0 58:8,0,0"),
	CASE("movzx of a byte", "\x64\x0f\xb6\x3c\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b042510000000410fb6bc2010000000654c8b04255"
	     "0000000",
	     "0:0,0,0 9:0,9,0 27:9,9,0 36:9,0,0"),
	CASE("movups", "\x64\x0f\x10\x3c\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b042510000000410f10bc2010000000654c8b04251"
	     "00000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 27:9,9,0 59:9,0,0"),
	CASE("mov to r8", "\x64\x4c\x8b\x04\x25\x10\x00\x00\x00",
	     "654c890c2550000000654c8b0c25100000004d8b842110000000654c8b0c25500"
	     "00000",
	     "0:0,0,0 9:0,10,0 26:9,10,0 35:9,0,0"),
	CASE("mov through r8 and r9", "\x64\x4b\x8b\x04\x48",
	     "654c89142550000000654c8b1425100000004f8d5410004b8b444a00654c8b142"
	     "550000000",
	     "0:0,0,0 9:0,11,0 28:5,11,0 37:5,0,0"),
	CASE("mov through rsp", "\x64\x48\x8b\x44\x24\x08",
	     "654c89042550000000654c8b0425100000004a8b440408654c8b042550000000",
	     "0:0,0,0 9:0,9,0 23:6,9,0 32:6,0,0"),
	CASE("mov through rsp with a scale and no index",
	     "\x64\x48\x8b\x44\x64\x08",
	     "654c89042550000000654c8b0425100000004a8b440408654c8b042550000000",
	     "0:0,0,0 9:0,9,0 23:6,9,0 32:6,0,0"),
	CASE("mov through rbx with a scale and no index",
	     "\x64\x48\x8b\x44\x63\x08",
	     "654c89042550000000654c8b042510000000498b441808654c8b042550000000",
	     "0:0,0,0 9:0,9,0 23:6,9,0 32:6,0,0"),
	CASE("mov through rsp and an index", "\x64\x48\x8b\x44\x8c\x08",
	     "654c89042550000000654c8b0425100000004e8d440400498b448808654c8b042"
	     "550000000",
	     "0:0,0,0 9:0,9,0 28:6,9,0 37:6,0,0"),
	CASE("mov through rbp", "\x64\x48\x8b\x45\x00",
	     "654c89042550000000654c8b042510000000498b442800654c8b042550000000",
	     "0:0,0,0 9:0,9,0 23:5,9,0 32:5,0,0"),
	CASE("mov through an index alone",
	     "\x64\x48\x8b\x04\xcd\x10\x00\x00\x00",
	     "654c89042550000000654c8b042510000000498b84c810000000654c8b0425500"
	     "00000",
	     "0:0,0,0 9:0,9,0 26:9,9,0 35:9,0,0"),
	CASE("mov through rax", "\x64\x48\x8b\x18",
	     "654c89042550000000654c8b042510000000498b5c0000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 23:4,9,0 32:4,0,0"),
	CASE("mov relative to rip", "\x64\x48\x8b\x05\x10\x00\x00\x00",
	     "654c89042550000000654c890c25600000004c8d0dff0ff0ff654c8b042510000"
	     "0004b8b440800654c8b0c2560000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 18:0,9,10 39:8,9,10 48:8,9,0 57:8,0,0"),
	CASE("mov of an immediate relative to rip",
	     "\x64\x48\xc7\x05\x10\x00\x00\x00\x78\x56\x34\x12",
	     "654c89042550000000654c890c25600000004c8d0d0310f0ff654c8b042510000"
	     "0004bc744080078563412654c8b0c2560000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 18:0,9,10 43:12,9,10 52:12,9,0 61:12,0,0"),
	CASE("mov with a 64-bit offset to eax",
	     "\x64\xa1\x10\x00\x00\x00\x00\x00\x00\x00",
	     "654c89042550000000654c8b042510000000418b842010000000654c8b0425500"
	     "00000",
	     "0:0,0,0 9:0,9,0 26:10,9,0 35:10,0,0"),
	CASE("mov with a 64-bit offset from al",
	     "\x64\xa2\x10\x00\x00\x00\x00\x00\x00\x00",
	     "654c89042550000000654c8b0425100000004188842010000000654c8b0425500"
	     "00000",
	     "0:0,0,0 9:0,9,0 26:10,9,0 35:10,0,0"),
	CASE("push", "\x64\xff\x34\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b04251000000041ffb42010000000654c8b0425500"
	     "00000",
	     "0:0,0,0 9:0,9,0 26:8,9,0 35:8,0,0"),
	CASE("call", "\x64\xff\x14\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b0425100000004d8b842010000000654c890425600"
	     "000004c8d05de0ff0ff4150654c8b04255000000065ff242560000000",
	     "0:0,0,0 9:0,9,0 44:0,9,0P 53:0,0,0P"),
	CASE("jmp", "\x64\xff\x24\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b0425100000004d8b842010000000654c890425600"
	     "00000654c8b04255000000065ff242560000000",
	     "0:0,0,0 9:0,9,0 44:0,0,0"),
	CASE("jmp through r9", "\x64\x41\xff\x21",
	     "654c89042550000000654c8b0425100000004f8b440800654c890425600000006"
	     "54c8b04255000000065ff242560000000",
	     "0:0,0,0 9:0,9,0 41:0,0,0"),
	CASE("lock inc", "\xf0\x64\xff\x04\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b042510000000f041ff842010000000654c8b04251"
	     "00000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 27:9,9,0 59:9,0,0"),
	CASE("repeated prefix: crc32",
	     "\x64\xf2\x48\x0f\x38\xf1\x04\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b042510000000f2490f38f1842010000000654c8b0"
	     "425100000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 29:12,9,0 61:12,0,0"),
	CASE("movdqu", "\x64\xf3\x0f\x6f\x04\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b042510000000f3410f6f842010000000654c8b042"
	     "5100000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 28:10,9,0 60:10,0,0"),
	CASE("palignr", "\x64\x66\x0f\x3a\x0f\x04\x25\x10\x00\x00\x00\x05",
	     "654c89042550000000654c8b04251000000066410f3a0f84201000000005654c8"
	     "b0425100000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 30:12,9,0 62:12,0,0"),
	CASE("store of the canary", "\x64\x48\x89\x04\x25\x28\x00\x00\x00",
	     "654c89042550000000654c8b0425100000004989842028000000654c8b0425100"
	     "000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 26:9,9,0 58:9,0,0"),
	CASE("store of a dirty canary through rdx", "\x64\x48\x89\x42\x28",
	     "654c89042550000000654c8b0425100000004989441028654c8b042550000000",
	     "0:0,0,0 9:0,9,0 23:5,9,0 32:5,0,0"),
	CASE("load of the canary", "\x64\x48\x8b\x04\x25\x28\x00\x00\x00",
	     "65488b042520000000", "0:0,0,0"),
	CASE("load of the thread pointer",
	     "\x64\x48\x8b\x04\x25\x00\x00\x00\x00", "65488b042510000000",
	     "0:0,0,0"),
	CASE("load of the thread pointer to r9",
	     "\x64\x4c\x8b\x0c\x25\x00\x00\x00\x00", "654c8b0c2510000000",
	     "0:0,0,0"),
	CASE("cmp with the canary", "\x64\x48\x3b\x04\x25\x28\x00\x00\x00",
	     "65483b042520000000", "0:0,0,0"),
	CASE("sub of the canary in r9", "\x64\x4c\x2b\x0c\x25\x28\x00\x00\x00",
	     "654c2b0c2520000000", "0:0,0,0"),
	CASE("cmp of the canary and 0",
	     "\x64\x48\x83\x3c\x25\x28\x00\x00\x00\x00", "6548833c252000000000",
	     "0:0,0,0"),
	CASE("vaddpd", "\x64\xc5\xf5\x58\x04\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b042510000000c4c17558842010000000654c8b042"
	     "5100000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 28:10,9,0 60:10,0,0"),
	CASE("vaddpd of ymm9 and r9", "\x64\xc4\x41\x35\x58\x09",
	     "654c89042550000000654c8b042510000000c40135584c0800654c8b042550000"
	     "000",
	     "0:0,0,0 9:0,9,0 25:6,9,0 34:6,0,0"),
	CASE("andn with r8", "\x64\xc4\xe2\x38\xf2\x02",
	     "654c890c2550000000654c8b0c2510000000c4c238f2441100654c8b0c2550000"
	     "000",
	     "0:0,0,0 9:0,10,0 25:6,10,0 34:6,0,0"),
	CASE("shlx by r8", "\x64\xc4\xe2\x39\xf7\x02",
	     "654c890c2550000000654c8b0c2510000000c4c239f7441100654c8b0c2550000"
	     "000",
	     "0:0,0,0 9:0,10,0 25:6,10,0 34:6,0,0"),
	CASE("vpgatherdd by ymm9", "\x64\xc4\xa2\x75\x90\x04\x08",
	     "654c89042550000000654c8b0425100000004e8d440000c4827590440800654c8"
	     "b042550000000",
	     "0:0,0,0 9:0,9,0 30:7,9,0 39:7,0,0"),
	CASE("evex vmovups", "\x64\x62\xf1\x7c\x48\x10\x04\x25\x10\x00\x00\x00",
	     "654c89042550000000654c8b04251000000062d17c4810842010000000654c8b0"
	     "425100000004d8b442028654c89042520000000654c8b042550000000",
	     "0:0,0,0 9:0,9,0 29:12,9,0 61:12,0,0"),
	CASE("evex vaddps of zmm17", "\x64\x62\xe1\x74\x48\x58\x0a",
	     "654c89042550000000654c8b04251000000062c17448584c1000654c8b0425500"
	     "00000",
	     "0:0,0,0 9:0,9,0 26:7,9,0 35:7,0,0"),
	CASE("rdfsbase rax", "\xf3\x48\x0f\xae\xc0", "65488b042510000000",
	     "0:0,0,0"),
	CASE("rdfsbase r9", "\xf3\x49\x0f\xae\xc1", "654c8b0c2510000000",
	     "0:0,0,0"),
	CASE("rdfsbase ecx", "\xf3\x0f\xae\xc1", "65408b0c2510000000",
	     "0:0,0,0"),
	CASE("syscall", "\x0f\x05", "488d0d0800000065ff242530000000",
	     "0:0,0,0 15:2,0,0"),
	CASE("cpuid", "\x0f\xa2",
	     "654c891c256000000041bb000000006548890c2550000000488d0d0800000065f"
	     "f242570000000",
	     "0:0,0,0 9:0,0,12 24:0,2,12 39:2,0,0"),
	CASE("xgetbv", "\x0f\x01\xd0",
	     "654c891c256000000041bb010000006548890c2550000000488d0d0800000065f"
	     "f242570000000",
	     "0:0,0,0 9:0,0,12 24:0,2,12 39:3,0,0"),
	CASE("moved: nop", "\x90", "90", "0:0,0,0"),
	CASE("moved: lea relative to rip", "\x48\x8d\x05\x10\x00\x00\x00",
	     "488d051010f0ff", "0:0,0,0"),
	CASE("moved: cmp of an immediate relative to rip",
	     "\x81\x3d\x10\x00\x00\x00\x78\x56\x34\x12", "813d1010f0ff78563412",
	     "0:0,0,0"),
	CASE("moved: jne", "\x75\x10", "0f850c10f0ff", "0:0,0,0"),
	CASE("moved: long jge", "\x0f\x8d\x10\x00\x00\x00", "0f8d1010f0ff",
	     "0:0,0,0"),
	CASE("moved: jmp", "\xeb\x10", "e90d10f0ff", "0:0,0,0"),
	CASE("moved: long jmp", "\xe9\x10\x00\x00\x00", "e91010f0ff",
	     "0:0,0,0"),
};

static u8 stubs[256];
static struct bee_stub_pc pc[16];
static struct bee_rewrite rw;
static u32 stub_room = sizeof(stubs), note_room = 16, far;

/* The stub of one instruction; its error. */
static int emit_code(const char *code, u32 len)
{
	struct bee_emitter e = {.rw = &rw};
	struct bee_insn insn;
	u8 text[16] = {0};
	u32 i;

	rw = (struct bee_rewrite){.stubs = stubs,
				  .stubs_addr = STUB + ((u64)far << 31),
				  .stubs_len = stub_room,
				  .pc = pc,
				  .pcs_max = note_room};
	for (i = 0; i < SKEP_SLOT_COUNT; i++)
		rw.slot[i] = (s32)(0x10 * (i + 1));
	memcpy(text, code, len);
	if (bee_decode(text, 16, &insn) != (int)len)
		return 1;
	bee_emit_insn(&e, text, &insn, ADDR);
	return e.error;
}

static void write_stub(char *text)
{
	u64 i;

	*text = 0;
	for (i = 0; i < rw.stubs_used; i++)
		text += sprintf(text, "%02x", stubs[i]);
}

static void write_notes(char *text)
{
	u64 i;

	*text = 0;
	for (i = 0; i < rw.pcs; i++)
		text += sprintf(text, "%s%d:%d,%d,%d%s", i ? " " : "",
				(int)(pc[i].stub - STUB),
				(int)(pc[i].guest - ADDR), pc[i].scratch,
				pc[i].scratch2, pc[i].pushed ? "P" : "");
}

static void test_stubs(void)
{
	char stub[600], notes[400];
	u32 i;

	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		int rc = emit_code(c[i].code, c[i].len);

		write_stub(stub);
		write_notes(notes);
		if (!tap_ok(!rc && !strcmp(stub, c[i].stub) &&
				    !strcmp(notes, c[i].notes),
			    "%s", c[i].name))
			printf("# %d \"%s\",\n# \"%s\"),\n", rc, stub, notes);
	}
}

/* What cannot be moved: its target is a byte, or where it returns to counts. */
static void test_moves(void)
{
	static const struct {
		const char *name, *code;
		u32 len, moves, rsp;
	} m[] = {
#define MOVE(name, code, moves, rsp) {name, code, sizeof(code) - 1, moves, rsp}
		MOVE("nop", "\x90", 1, 0),
		MOVE("loopne", "\xe0\x10", 0, 0),
		MOVE("jrcxz", "\xe3\x10", 0, 0),
		MOVE("in al, 16", "\xe4\x10", 1, 0),
		MOVE("fcom", "\xdf\xc0", 1, 0),
		MOVE("call", "\xe8\x10\0\0\0", 0, 0),
		MOVE("jmp", "\xe9\x10\0\0\0", 1, 0),
		MOVE("xbegin", "\xc7\xf8\x10\0\0\0", 0, 0),
		MOVE("mov eax, 16", "\xc7\xc0\x10\0\0\0", 1, 0),
		MOVE("call rax", "\xff\xd0", 0, 0),
		MOVE("far call", "\xff\x18", 0, 0),
		MOVE("dec eax", "\xff\xc8", 1, 0),
		MOVE("inc rax", "\x48\xff\xc0", 1, 0),
		MOVE("vmovss to xmm2", "\xc5\xfa\x10\xd0", 1, 0),
		MOVE("mov from rsp", "\x48\x8b\x04\x24", 1, 1),
		MOVE("mov from r12", "\x49\x8b\x04\x24", 1, 0),
		MOVE("mov from rax", "\x48\x8b\x04\x08", 1, 0),
		MOVE("mov to rsp", "\x48\x8b\x20", 1, 1),
		MOVE("mov to r12", "\x4c\x8b\x20", 1, 0),
		MOVE("vmovups from rsp", "\xc5\xf8\x10\x04\x24", 1, 1),
		MOVE("vmovups from rax", "\xc5\xf8\x10\x04\x08", 1, 0),
		MOVE("push of memory", "\xff\x30", 1, 1),
		MOVE("pop to memory", "\x8f\0", 1, 1),
		MOVE("jmp to memory", "\xff\x28", 1, 0),
	};
	struct bee_insn insn;
	u8 text[16];
	u32 i;

	for (i = 0; i < sizeof(m) / sizeof(m[0]); i++) {
		memset(text, 0, sizeof(text));
		memcpy(text, m[i].code, m[i].len);
		tap_ok(bee_decode(text, 16, &insn) == (int)m[i].len &&
			       (u32)bee_can_move(&insn) == m[i].moves &&
			       (u32)bee_uses_rsp(&insn) == m[i].rsp,
		       "%s: can move, uses the stack pointer", m[i].name);
	}
}

/* Room for all bytes and notes but one is too little. */
static void test_room(void)
{
	static const char code[] = "\x64\x48\x8b\x18";
	u32 bytes, notes;

	emit_code(code, 4);
	bytes = (u32)rw.stubs_used;
	notes = rw.pcs;
	stub_room = bytes;
	tap_ok(!emit_code(code, 4), "a stub may fill its room");
	stub_room = bytes - 1;
	tap_ok(emit_code(code, 4) == -LINUX_ENOMEM &&
		       rw.stubs_used == bytes - 1,
	       "and not more");
	stub_room = sizeof(stubs);
	note_room = notes;
	tap_ok(!emit_code(code, 4), "so may its notes");
	note_room = notes - 1;
	tap_ok(emit_code(code, 4) == -LINUX_ENOMEM && rw.pcs == notes - 1,
	       "and not more");
	note_room = 16;
}

static void test_refused(void)
{
	tap_ok(emit_code("\x64\xff\x15\x10\0\0\0", 7) == -LINUX_ENOEXEC,
	       "a call through fs relative to rip is refused");
	tap_ok(emit_code("\x64\xa1\0\0\0\x80\0\0\0\0", 10) == -LINUX_ENOEXEC,
	       "an offset of more than 31 bits is refused");
	tap_ok(emit_code("\x65\x8b\0", 3) == -LINUX_ENOEXEC, "gs is refused");
	far = 1;
	tap_ok(emit_code("\xe9\0\0\0\0", 5) == -LINUX_ENOEXEC,
	       "a target more than 2 GiB away is refused");
	far = 0;
}

int main(void)
{
	test_moves();
	test_room();
	test_refused();
	test_stubs();
	return tap_done();
}
