// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/source"
)

// sabotageVar names the kernel whose source is spoilt; the suite of make sets
// it, because preparing the source takes minutes and a network.
const sabotageVar = "SKEP_SABOTAGE_KERNEL"

// A spoilt file is refused by the symbol that was hit, or by its path.
type spoilt struct{ what, path, from, to, refused string }

// sabotage is done to a file that is then given out as the original.
var sabotage = []spoilt{
	{"the source of a newer version", "net/ipv4/arp.c",
		"sizeof(struct arpreq));\n\t\tif (err)\n\t\t\treturn -EFAULT;\n", "sizeof(struct arpreq));\n\t\tif (err)\n\t\t\treturn -EFAULT;\n\t\tr.arp_dev[IFNAMSIZ - 1] = '\\0';\n", "arp.c"},
	{"another initial value", "fs/pipe.c", "pipe_max_size = 1048576;", "pipe_max_size = 1048577;", "pipe_max_size"},
	{"one static local more", "fs/drop_caches.c", "\t\tstatic int stfu;\n", "\t\tstatic int more;\n\t\tstatic int stfu;\n\n\t\tmore++;\n", "drop_caches.c"},
	{"an inlined function without its condition", "fs/statfs.c", "\tif (mnt_flags & MNT_READONLY)\n", "", "statfs.c"},
	{"an option of the kernel", "mm/mincore.c", "#include <linux/pagemap.h>", "#undef CONFIG_HARDENED_USERCOPY\n#include <linux/pagemap.h>", "mincore.c"},
	{"a compiler that optimises otherwise", "fs/utimes.c", "#include <linux/file.h>", "#pragma GCC optimize (\"O1\")\n#include <linux/file.h>", "utimes.c"},
	{"another text", "fs/eventfd.c", "\"[eventfd]\"", "\"[eventfe]\"", "text"},
	{"another constant in a table", "fs/fcntl.c", "\tEPOLLERR,\t\t\t\t/* POLL_ERR */", "\tEPOLLHUP,\t\t\t\t/* POLL_ERR */", "band_table"},
	{"a call of another function", "mm/msync.c", "vfs_fsync_range(file, fstart, fend, 1)", "vfs_fsync(file, 1)", "msync"},
	{"another size of a struct", "ipc/msgutil.c", "#define DATALEN_MSG\t((size_t)PAGE_SIZE-sizeof(struct msg_msg))", "#define DATALEN_MSG\t((size_t)PAGE_SIZE-sizeof(struct msg_msg)-8)", "msgutil.c"},
	{"another release for old programs", "kernel/sys.c", "const char *rest = UTS_RELEASE;", "const char *rest = \"6.1.0-50-amd65\";", "text"},
	{"a function more", "kernel/groups.c", "void groups_free(struct", "noinline int groups_more(int n);\nnoinline int groups_more(int n)\n{\n\treturn n + 1;\n}\n\nvoid groups_free(struct", "groups_more: the image has no such function"},
}

// otherReleases are two more files with the release's name, for make test-full.
var otherReleases = []spoilt{
	{"the name of another release", "net/ethtool/ioctl.c", "rsp->info.version, UTS_RELEASE,", "rsp->info.version, \"6.1.176\",", "text"},
	{"a trace of another release", "kernel/trace/trace.c", "name, UTS_RELEASE);", "name, \"6.1.176\");", "text"},
}

// sabotageKernel returns the version of the kernel whose source is built; without one it skips.
func sabotageKernel(t *testing.T) string {
	t.Helper()
	kernel := os.Getenv(sabotageVar)
	if kernel == "" {
		t.Skipf("set %s to a kernel's version", sabotageVar)
	}
	return kernel
}

func arpPatch(t *testing.T) []byte {
	t.Helper()
	patch, err := os.ReadFile("../../tests/vm/updates/arp.patch")
	if err != nil {
		t.Fatal(err)
	}
	return patch
}

// The gate takes each of these files as it is, and none of them spoilt.
func TestSabotagedSourcesAreRefused(t *testing.T) {
	b := &builder{plan: &Plan{Says: io.Discard}}
	if err := b.fetchTree(t.Context(), sabotageKernel(t)); err != nil {
		t.Fatal(err)
	}
	t.Run(grown.what, func(t *testing.T) { checkGrowthRefused(t, b) })
	t.Run("names that the kernel has twice", func(t *testing.T) { checkTwins(t, b) })
	checkSabotage(t, b, sabotage)
}

func TestSabotagedReleases(t *testing.T) {
	b := &builder{plan: &Plan{Says: io.Discard}}
	if err := b.fetchTree(t.Context(), sabotageKernel(t)); err != nil {
		t.Fatal(err)
	}
	checkSabotage(t, b, otherReleases)
}

func checkSabotage(t *testing.T, b *builder, list []spoilt) {
	t.Helper()
	byPath := assembleSpoilt(t, b.tree, list...)
	for _, s := range list {
		t.Run(s.what, func(t *testing.T) {
			u, ok := byPath[s.path]
			if !ok {
				t.Fatalf("%s was not compiled", s.path)
			}
			if _, err := b.gateUnit(t.Context(), u); err != nil {
				t.Fatalf("the original: %v", err)
			}
			_, err := b.gateUnit(t.Context(), source.Unit{Path: u.Path, Before: u.After})
			var mismatch *image.Mismatch
			if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), s.refused) {
				t.Errorf("got %v, want a refusal that names %s", err, s.refused)
			}
			t.Log(err)
		})
	}
}

// grown is a structure of which the kernel has older ones.
var grown = spoilt{"a structure that grows", "ipc/msgutil.c", "struct msg_msgseg {\n", "struct msg_msgseg {\n\tunsigned long sum;\n",
	"ipc/msgutil.c:37: struct msg_msgseg: it has another layout (sum is new; 16 bytes, was 8)"}

// checkGrowthRefused checks that a larger structure is refused until the author says why it is harmless.
func checkGrowthRefused(t *testing.T, b *builder) {
	var err error
	if b.work, err = b.tree.Patch(t.Context(), makeSpoiltPatch(t.Context(), t, b.tree.Dir, grown)); err != nil {
		t.Fatal(err)
	}
	list, err := b.work.Layouts(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	err = b.checkLayouts(t.Context(), list)
	var change *asm.Refusal
	if !errors.As(err, &change) || !strings.HasPrefix(err.Error(), grown.refused) {
		t.Fatalf("got %v, want %s", err, grown.refused)
	}
	b.plan.Layouts = map[string]string{"struct msg_msgseg": "none is there"}
	if err := b.checkLayouts(t.Context(), list); err != nil || len(b.layouts) != 1 || b.layouts[0].Because != "none is there" {
		t.Errorf("with its author's word: %v, %+v", err, b.layouts)
	}
	b.plan.Layouts["struct msg_msg"] = "it stays"
	if err := b.checkLayouts(t.Context(), list); err == nil || !strings.Contains(err.Error(), "layout of struct msg_msg") {
		t.Errorf("a word of what stays: %v", err)
	}
}

// assembleSpoilt compiles all changed files as they are and spoilt, and returns them by path.
// They stay until the end of the test.
func assembleSpoilt(t *testing.T, tree *source.Tree, list ...spoilt) map[string]source.Unit {
	t.Helper()
	work, err := tree.Patch(t.Context(), makeSpoiltPatch(t.Context(), t, tree.Dir, list...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { work.Close() })
	units, err := work.Assemble(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]source.Unit{}
	for _, u := range units {
		byPath[u.Path] = u
	}
	return byPath
}

// makeSpoiltPatch makes one patch of all changes to the files.
func makeSpoiltPatch(ctx context.Context, t *testing.T, tree string, list ...spoilt) []byte {
	t.Helper()
	var patch bytes.Buffer
	for _, s := range list {
		path := filepath.Join(tree, s.path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Replace(text, []byte(s.from), []byte(s.to), 1)
		if bytes.Equal(changed, text) {
			t.Fatalf("%s: %s has no %q", s.what, s.path, s.from)
		}
		diff := exec.CommandContext(ctx, "diff", "-u", "--label", "a/"+s.path, "--label", "b/"+s.path, path, "-")
		diff.Stdin = bytes.NewReader(changed)
		out, err := diff.Output()
		var differs *exec.ExitError
		if !errors.As(err, &differs) || differs.ExitCode() != 1 {
			t.Fatalf("diff: %v", err)
		}
		patch.Write(out)
	}
	return patch.Bytes()
}

// What operators sign of a kernel comes from its source: one change is there, another is not.
func TestSabotageFreeSourceContains(t *testing.T) {
	kernel, patch := sabotageKernel(t), arpPatch(t)
	if _, _, err := CheckIncluded(t.Context(), &pack.Package{Patch: patch}, kernel, io.Discard); !isRefused(err, "the source of "+kernel+" lacks the change") {
		t.Error(err)
	}
	patch = []byte("--- a/net/ipv4/arp.c\n+++ b/net/ipv4/arp.c\n@@ -1222,2 +1222,3 @@\n \t\tif (err)\n+\t\t\treturn -EFAULT;\n \t\tbreak;\n")
	id, version, err := CheckIncluded(t.Context(), &pack.Package{Patch: patch}, kernel, io.Discard)
	if err != nil || len(id) != 40 || version != kernel {
		t.Errorf("%q, %q, %v", id, version, err)
	}
}

// A function that gives back what only another function's new text takes is refused, in a
// build of the kernel's source.
func TestSabotagedStateIsRefused(t *testing.T) {
	kernel := sabotageKernel(t)
	b := &builder{plan: &Plan{Says: io.Discard}}
	if err := b.fetchTree(t.Context(), kernel); err != nil {
		t.Fatal(err)
	}
	const path = "fs/eventfd.c"
	text, err := os.ReadFile(filepath.Join(b.tree.Dir, path))
	if err != nil {
		t.Fatal(err)
	}
	both := strings.Replace(string(text), "\teventfd_ctx_put(ctx);\n\treturn 0;\n", "\teventfd_ctx_put(ctx);\n\teventfd_ctx_put(ctx);\n\treturn 0;\n", 1)
	b.plan.Patch = makeSpoiltPatch(t.Context(), t, b.tree.Dir, spoilt{"a count that open takes and release gives back", path, string(text),
		strings.Replace(both, "\tkref_init(&ctx->kref);\n", "\tkref_init(&ctx->kref);\n\tkref_get(&ctx->kref);\n", 1), ""})
	_, err = Build(t.Context(), Plan{Name: "state", Patch: b.plan.Patch, Kernels: []string{kernel}, Says: io.Discard})
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "eventfd_release relies on") || !strings.Contains(err.Error(), "--state 'REASON'") {
		t.Errorf("%v", err)
	}
}
