// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/internal/load"
)

// debugRecipe returns a debug kernel whose build.sh is script.
func debugRecipe(t *testing.T, script string) *debugKernel {
	t.Helper()
	recipe, cache := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"build.sh": script, "debug.config": "CONFIG_KASAN=y\n"} {
		if err := os.WriteFile(filepath.Join(recipe, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(cache, "6.1-debug")
	return &debugKernel{series: "6.1-debug", dir: dir, work: dir + ".build", recipe: recipe, says: io.Discard}
}

// goodBuild creates every part of a kernel's folder.
const goodBuild = `set -eu
tree=$3/tree
mkdir -p $tree/lib/modules/6.1.9-test $tree/headers
: >$tree/vmlinuz; : >$tree/config; : >$tree/headers/Makefile
: >$tree/lib/modules/6.1.9-test/modules.dep
: >$tree/lib/modules/6.1.9-test/modules.builtin
echo 6.1.9-test >$tree/release
`

func TestDebugKernelIsInstalledAtomically(t *testing.T) {
	k := debugRecipe(t, goodBuild)
	digest, err := k.digestInputs("6.1.9-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.prepareDir(digest); err != nil {
		t.Fatal(err)
	}
	if err := k.run(context.Background(), "none"); err != nil {
		t.Fatal(err)
	}
	if exists(k.dir) {
		t.Error("there is a kernel before it is finished")
	}
	if err := k.install(digest); err != nil {
		t.Fatal(err)
	}
	found, err := openKernel(k.dir, k.series)
	if err != nil || found.Release != "6.1.9-test" || !contains(filepath.Join(k.dir, "digest"), digest) {
		t.Errorf("found %+v, %v", found, err)
	}
	if exists(k.work) {
		t.Error("what it was made of is still there")
	}
}

func TestIncompleteDebugKernelIsRefused(t *testing.T) {
	k := debugRecipe(t, strings.Replace(goodBuild, ": >$tree/vmlinuz;", "", 1))
	if err := k.prepareDir("digest"); err != nil {
		t.Fatal(err)
	}
	if err := k.run(context.Background(), "none"); err != nil {
		t.Fatal(err)
	}
	if err := k.install("digest"); err == nil || exists(k.dir) {
		t.Errorf("a kernel without an image: %v", err)
	}
}

func TestDebugKernelIsRebuiltOnlyForNewInput(t *testing.T) {
	k := debugRecipe(t, goodBuild)
	first, err := k.digestInputs("6.1.9-1")
	if err != nil {
		t.Fatal(err)
	}
	if other, _ := k.digestInputs("6.1.9-2"); other == first {
		t.Error("another source has the same digest")
	}
	if same, _ := k.digestInputs("6.1.9-1"); same != first {
		t.Error("the same source has another digest")
	}
	if err := os.WriteFile(filepath.Join(k.recipe, "debug.config"), []byte("CONFIG_UBSAN=y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if other, _ := k.digestInputs("6.1.9-1"); other == first {
		t.Error("another configuration has the same digest")
	}

	begun := filepath.Join(k.work, "begun")
	for _, step := range []struct {
		digest string
		kept   bool
	}{{first, false}, {first, true}, {"another", false}} {
		if err := k.prepareDir(step.digest); err != nil {
			t.Fatal(err)
		}
		if exists(begun) != step.kept {
			t.Errorf("for digest %.8s what was begun is kept: %v", step.digest, exists(begun))
		}
		if err := os.WriteFile(begun, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFailedDebugBuildSaysWhy(t *testing.T) {
	k := debugRecipe(t, "echo no compiler today >&2; exit 3\n")
	if err := k.prepareDir("digest"); err != nil {
		t.Fatal(err)
	}
	err := k.run(context.Background(), "none")
	if err == nil || !strings.Contains(err.Error(), "no compiler today") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("run: %v", err)
	}
}

func TestStoppedDebugBuildEndsItsChildren(t *testing.T) {
	k := debugRecipe(t, `mkfifo "$3/never"
(trap 'echo >"$3/ended"; exit' TERM; echo >"$3/up"; read -r line <"$3/never") &
wait
`)
	if err := k.prepareDir("digest"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- k.run(ctx, "none") }()
	waitFor(t, filepath.Join(k.work, "up"))
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	waitFor(t, filepath.Join(k.work, "ended"))
}

// waitFor waits for a file that another process creates.
func waitFor(t *testing.T, path string) {
	t.Helper()
	end := time.After(load.Stretch(30 * time.Second))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !exists(path) {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s did not appear", path)
		}
	}
}
