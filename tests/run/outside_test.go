// SPDX-License-Identifier: MIT

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// filesOutsideBuild lists the files below a folder with their sizes, except those below its build/.
func filesOutsideBuild(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(dir, "build") {
			return filepath.SkipDir
		}
		if info, err := d.Info(); err == nil && !d.IsDir() {
			files[strings.TrimPrefix(path, dir+"/")] = info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// homeFolders returns the folders in the home directory to which, as docs/running.md says, a
// build writes.
func homeFolders(t *testing.T) (list []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("(?m)^The build writes nothing outside `build/`.*$").FindString(string(page))
	for _, m := range regexp.MustCompile("`~/([^`]+)`").FindAllStringSubmatch(line, -1) {
		list = append(list, m[1]+"/")
	}
	if len(list) < 3 {
		t.Fatalf("docs/running.md names only %q in %q", list, line)
	}
	return list
}

// A build in a copy of this tree changes no file outside build/, and writes to the home
// directory only what docs/running.md names. The caches of Go are those of this computer, so
// that little is compiled; make test-full T='source-*' builds all of it.
func TestBuildWritesOnlyToBuild(t *testing.T) {
	if _, err := os.Stat("../../.git"); err != nil {
		t.Skip("this tree is no clone")
	}
	dir, home := t.TempDir(), t.TempDir()
	if out, err := exec.Command("sh", "-c", "cd ../.. && git ls-files -z | tar --null -T - --ignore-failed-read -cf - | tar -C '"+dir+"' -xf -").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	caches := strings.Fields(string(out))
	if err != nil || len(caches) != 2 {
		t.Fatalf("%v: %q", err, out)
	}
	before := filesOutsideBuild(t, dir)
	c := exec.Command("make", "build/bin/skep", "build/obj/gcc/bee/host/linux/main.o")
	c.Dir = dir
	for _, e := range cleanEnv() {
		if !strings.HasPrefix(e, "HOME=") {
			c.Env = append(c.Env, e)
		}
	}
	c.Env = append(c.Env, "HOME="+home, "GOCACHE="+caches[0], "GOMODCACHE="+caches[1])
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "build/bin/skep")); err != nil {
		t.Fatal(err)
	}
	after := filesOutsideBuild(t, dir)
	for name, size := range after {
		if old, there := before[name]; !there || old != size {
			t.Errorf("the build wrote %s", name)
		}
	}
	named := homeFolders(t)
	for name := range filesOutsideBuild(t, home) {
		covered := false
		for _, folder := range named {
			covered = covered || strings.HasPrefix(name, folder)
		}
		if !covered {
			t.Errorf("the build wrote ~/%s, which docs/running.md does not name", name)
		}
	}
}
