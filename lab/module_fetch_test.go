// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// versionScript has apt-cache name one package of version 6.1.9-1.
const versionScript = `case $1 in
search) echo "linux-image-6.1.0-9-amd64 - Linux" ;;
*) echo "Package: linux-image-6.1.0-9-amd64"; echo "Version: 6.1.9-1" ;;
esac
`

// plantPackage plants a kernel without sound, and an archive whose package holds sound.
// Every depmod adds a line to the file that it returns.
func plantPackage(t *testing.T, lib string) (k *Kernel, ran string) {
	if !exists(debianKeys) {
		t.Skip("no keys of Debian here: install debian-archive-keyring")
	}
	k = plantKernel(t, t.TempDir(), "6.1")
	plantFile(t, filepath.Join(k.ModuleDir(), "modules.order"), "kernel/sound/core/snd-pcm.ko\nkernel/drivers/net/dummy.ko\n")
	plantFile(t, filepath.Join(k.ModuleDir(), "kernel/drivers/net/dummy.ko"), "here before")
	files := t.TempDir()
	for _, name := range []string{"boot/vmlinuz-6.1.0-9-amd64", lib + "/modules/6.1.0-9-amd64/kernel/sound/core/snd-pcm.ko",
		lib + "/modules/6.1.0-9-amd64/kernel/drivers/net/dummy.ko"} {
		plantFile(t, filepath.Join(files, name), "of the package")
	}
	ran = filepath.Join(t.TempDir(), "depmod")
	path := os.Getenv("PATH")
	fakeApt(t, map[string]string{
		"apt-get": fetchScript, "apt-cache": versionScript, "apt-config": "",
		"dpkg-deb": "exec tar -c -C '" + files + "' .\n",
		"depmod":   "echo $3 >>'" + ran + "'\ncd \"$2/lib/modules/$3\" && find kernel -name '*.ko' | sed 's/$/:/' >modules.dep\n",
	})
	t.Setenv("PATH", os.Getenv("PATH")+":"+path)
	return k, ran
}

func TestFetchOfAModuleThatWasLeftOut(t *testing.T) {
	for _, lib := range []string{"lib", "usr/lib"} {
		t.Run(lib, func(t *testing.T) {
			k, ran := plantPackage(t, lib)
			sound := filepath.Join(k.ModuleDir(), "kernel/sound")
			plantFile(t, filepath.Join(sound, "half.ko"), "of a fetch that was killed")
			for range 2 { // the second finds it
				file, err := FetchModule(t.Context(), k, "6.1.9-1", "snd_pcm", &bytes.Buffer{})
				text, _ := os.ReadFile(file)
				if err != nil || file != filepath.Join(sound, "core/snd-pcm.ko") || string(text) != "of the package" {
					t.Fatalf("%s with %q, %v", file, text, err)
				}
			}
			if text, _ := os.ReadFile(ran); strings.Count(string(text), "\n") != 1 {
				t.Errorf("depmod ran for %q", text)
			}
			if exists(filepath.Join(sound, "half.ko")) {
				t.Error("a part of a fetch that was killed is still there")
			}
			if text, _ := os.ReadFile(filepath.Join(k.ModuleDir(), "kernel/drivers/net/dummy.ko")); string(text) != "here before" {
				t.Errorf("a module that was there is now %q", text)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(k.Dir), ".*")); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

func TestFetchOfAModuleWaitsForAnother(t *testing.T) {
	k, ran := plantPackage(t, "lib")
	unlock, err := lockFile(t.Context(), filepath.Join(filepath.Dir(k.Dir), "lock"), func() { t.Error("waited for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	waits := make(notice)
	done := make(chan error)
	go func() {
		_, err := FetchModule(t.Context(), k, "6.1.9-1", "snd-pcm", waits)
		done <- err
	}()
	if text := <-waits; !strings.Contains(text, "waiting for another") {
		t.Errorf("it says %q", text)
	}
	plantFile(t, filepath.Join(k.ModuleDir(), "modules.dep"), "kernel/sound/core/snd-pcm.ko:\n")
	unlock()
	if err := <-done; err != nil || exists(ran) {
		t.Errorf("after the other: %v; depmod ran: %v", err, exists(ran))
	}
}

// A notice gets what is written, each in its turn.
type notice chan string

func (n notice) Write(b []byte) (int, error) {
	n <- string(b)
	return len(b), nil
}

func TestFetchOfAModuleIsRefused(t *testing.T) {
	k, ran := plantPackage(t, "lib")
	for _, c := range []struct{ version, module, want string }{
		{"6.1.9-1", "nonsense", "lists no module"},
		{"6.1.8-1", "snd-pcm", "hold no kernel of version 6.1.8-1"},
		{"../x", "snd-pcm", "not a version"},
	} {
		_, err := FetchModule(t.Context(), k, c.version, c.module, &bytes.Buffer{})
		wantError(t, err, c.want)
	}
	k.Release = "6.1.0-8-amd64"
	plantFile(t, filepath.Join(k.ModuleDir(), "modules.order"), "kernel/sound/core/snd-pcm.ko\n")
	plantFile(t, filepath.Join(k.ModuleDir(), "modules.dep"), "")
	_, err := FetchModule(t.Context(), k, "6.1.9-1", "snd-pcm", &bytes.Buffer{})
	wantError(t, err, "linux-image-6.1.0-9-amd64, and the kernel here is 6.1.0-8-amd64")
	if exists(ran) || exists(filepath.Join(k.ModuleDir(), "kernel/sound")) {
		t.Error("something was added")
	}
}
