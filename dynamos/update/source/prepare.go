// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"skep/internal/atomicfile"
	"skep/lab"
)

// space is what a prepared tree takes, with the archive that it comes from.
const space = 3 << 30

// flags make gcc write a section for each function and variable.
const flags = "KCFLAGS=-ffunction-sections -fdata-sections -g0"

// PrepareTree returns the tree of a kernel, and makes it first if need be. Two calls
// at once, in any two processes, do the work once; one that was killed is done
// again. The cache is a folder such as lab.CacheDir gives.
func PrepareTree(ctx context.Context, cache string, k Kernel, says io.Writer) (*Tree, error) {
	digest, err := k.digestInputs()
	if err != nil {
		return nil, err
	}
	cc, err := findCompiler(ctx, k.Config)
	if err != nil {
		return nil, err
	}
	t := &Tree{Kernel: k, Dir: filepath.Join(cache, "source", k.Version), Compiler: cc}
	if t.isReady(digest) {
		return t, nil
	}
	if err := os.MkdirAll(filepath.Dir(t.Dir), 0o755); err != nil {
		return nil, err
	}
	unlock, err := lab.Lock(ctx, t.Dir+".lock", func() {
		fmt.Fprintf(says, "source %s: waiting for another process that prepares it\n", k.Version)
	})
	if err != nil {
		return nil, err
	}
	defer unlock()
	if t.isReady(digest) {
		return t, nil
	}
	if err := t.build(ctx, digest, says); err != nil {
		return nil, fmt.Errorf("source %s: %w", k.Version, err)
	}
	return t, nil
}

// digestInputs is of what decides how a tree is prepared.
func (k Kernel) digestInputs() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "1 %s %s\n", k.Version, flags)
	for _, path := range []string{k.Config, k.Symvers} {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%d\n", len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)) + "\n", nil
}

// FetchSource returns the source of a version of a kernel's package as text: it is not
// prepared, and needs no other package of the kernel. The cache keeps it.
func FetchSource(ctx context.Context, cache, version string, says io.Writer) (*Tree, error) {
	t := &Tree{Kernel: Kernel{Version: version}, Dir: filepath.Join(cache, "source", version+".text")}
	if _, err := os.Stat(t.Dir); err == nil {
		return t, nil
	}
	part := t.Dir + ".part"
	defer os.RemoveAll(part)
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755), checkSpace(filepath.Dir(part))); err != nil {
		return nil, err
	}
	deb, err := lab.FetchPackage(ctx, filepath.Join(part, "apt"), "linux-source-"+seriesOf(version), version, says)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(says, "source %s: unpacking, about 20 s\n", version)
	if err := unpackSource(ctx, deb, filepath.Join(part, "tree")); err != nil {
		return nil, err
	}
	return t, os.Rename(filepath.Join(part, "tree"), t.Dir)
}

const readyFile = ".skep-ready"

func (t *Tree) isReady(digest string) bool {
	text, err := os.ReadFile(filepath.Join(t.Dir, readyFile))
	return err == nil && string(text) == digest
}

func (t *Tree) build(ctx context.Context, digest string, says io.Writer) error {
	part := t.Dir + ".part"
	defer os.RemoveAll(part)
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	removeStale(filepath.Dir(t.Dir))
	if err := checkSpace(filepath.Dir(t.Dir)); err != nil {
		return err
	}
	if err := needTools(ctx); err != nil {
		return err
	}
	name := "linux-source-" + seriesOf(t.Kernel.Version)
	deb, err := lab.FetchPackage(ctx, filepath.Join(part, "apt"), name, t.Kernel.Version, says)
	if err != nil {
		return err
	}
	tree := Tree{Kernel: t.Kernel, Dir: filepath.Join(part, "tree"), Compiler: t.Compiler}
	for _, step := range []struct {
		says string
		do   func() error
	}{
		{"unpacking, about 20 s", func() error { return unpackSource(ctx, deb, tree.Dir) }},
		{"checking the configuration", func() error { return tree.configure(ctx) }},
		{"preparing, about 30 s on an idle computer", func() error { return t.settle(ctx, tree.Dir, digest) }},
	} {
		fmt.Fprintf(says, "source %s: %s\n", t.Kernel.Version, step.says)
		if err := step.do(); err != nil {
			return err
		}
	}
	return nil
}

// settle moves the unpacked tree to the folder where it stays, and prepares it there. The
// kernel's make compiles its tools anew if their paths have changed, and two that do so
// at once disturb one another: later calls are to find everything made.
func (t *Tree) settle(ctx context.Context, from, digest string) error {
	if err := errors.Join(os.RemoveAll(t.Dir), os.Rename(from, t.Dir)); err != nil {
		return err
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(t.Dir, readyFile), []byte(digest), 0o644)
}

// seriesOf is what a version's kernel is called by: 6.1 of 6.1.176-1.
func seriesOf(version string) string {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}

func checkSpace(dir string) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return err
	}
	if free := s.Bavail * uint64(s.Bsize); free < space {
		return fmt.Errorf("%s has %d MB free and a prepared source takes %d MB: make room, or set XDG_CACHE_HOME to a folder elsewhere",
			dir, free>>20, space>>20)
	}
	return nil
}

// needTools names what is missing before anything is fetched.
func needTools(ctx context.Context) error {
	var missing []string
	for _, tool := range []string{"make", "flex", "bison", "bc", "xz", "patch", "dpkg-deb", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if _, err := runOutput(ctx, "", strings.NewReader("#include <gelf.h>\n"), "gcc", "-E", "-"); err != nil {
		missing = append(missing, "libelf-dev")
	}
	if len(missing) > 0 {
		return fmt.Errorf("to compile a kernel's files, install %s", strings.Join(missing, ", "))
	}
	return nil
}

// unpackSource takes the kernel's source out of its package, without what only
// readers and its own tests need.
func unpackSource(ctx context.Context, deb, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	const script = `dpkg-deb --fsys-tarfile "$1" |
	tar -x -O --wildcards './usr/src/linux-source-*.tar.xz' | xz -dc |
	tar -x -C "$2" --strip-components=1 --no-same-owner --exclude='*/Documentation/*/*' --exclude='*/tools/testing/*'
[ -e "$2/Kbuild" ]`
	_, err := runOutput(ctx, "", nil, "sh", "-euc", script, "sh", deb, dir)
	return err
}

// configure lets the source complete the image's configuration, and wants
// nothing to come out another way.
func (t *Tree) configure(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(t.Dir, "Makefile"))
	if err != nil {
		return err
	}
	if got := makefileVersion(string(text)); !strings.HasPrefix(t.Kernel.Version, got+"-") {
		return fmt.Errorf("the package holds the source of %s", got)
	}
	config, err := os.ReadFile(t.Kernel.Config)
	if err != nil {
		return err
	}
	symvers, err := os.ReadFile(t.Kernel.Symvers)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{".config": config, "Module.symvers": symvers} {
		if err := os.WriteFile(filepath.Join(t.Dir, name), text, 0o644); err != nil {
			return err
		}
	}
	if err := t.run(ctx, "olddefconfig"); err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(t.Dir, ".config"))
	if err != nil {
		return err
	}
	if d := diffOptions(string(config), string(got)); len(d) > 0 {
		return fmt.Errorf("this source does not take the image's configuration as it is: %s; the file is another kernel's, or a tool is missing here",
			strings.Join(d[:min(len(d), 5)], ", "))
	}
	return nil
}

// makefileVersion reads the kernel's version, as 6.1.176.
func makefileVersion(makefile string) string {
	var v [3]string
	for _, line := range strings.Split(makefile, "\n") {
		key, value, ok := strings.Cut(line, " =")
		if i := slices.Index([]string{"VERSION", "PATCHLEVEL", "SUBLEVEL"}, key); ok && i >= 0 && v[i] == "" {
			v[i] = strings.TrimSpace(value)
		}
	}
	return strings.Join(v[:], ".")
}

// elsewhere begin options that tell what the building computer has, or with
// which keys modules are signed. None changes the code of the image.
var elsewhere = []string{"CONFIG_CC_VERSION_TEXT", "CONFIG_PAHOLE_", "CONFIG_RUST", "CONFIG_HAVE_RUST", "CONFIG_BINDGEN_",
	"CONFIG_BUILD_SALT", "CONFIG_MODULE_SIG_ALL", "CONFIG_MODULE_SIG_KEY", "CONFIG_SYSTEM_TRUSTED_KEYS"}

// diffOptions are the options whose value is not the same.
func diffOptions(want, got string) []string {
	a, b := parseOptions(want), parseOptions(got)
	var out []string
	for name, value := range a {
		if b[name] != value {
			out = append(out, fmt.Sprintf("%s is %s and would be %s", name, orNot(value), orNot(b[name])))
		}
	}
	for name, value := range b {
		if _, ok := a[name]; !ok {
			out = append(out, fmt.Sprintf("%s is not set and would be %s", name, value))
		}
	}
	slices.Sort(out)
	return out
}

func orNot(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}

func parseOptions(text string) map[string]string {
	out := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		name, value, ok := strings.Cut(line, "=")
		if !ok || !strings.HasPrefix(name, "CONFIG_") {
			continue
		}
		if !slices.ContainsFunc(elsewhere, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out[name] = value
		}
	}
	return out
}

func (t *Tree) prepare(ctx context.Context) error {
	if err := t.run(ctx, "modules_prepare"); err != nil {
		return err
	}
	return t.listObjects(ctx)
}

// run has the tree's make do targets, in an environment that no make above
// this process changes.
func (t *Tree) run(ctx context.Context, targets ...string) error {
	_, err := runOutput(ctx, t.Dir, nil, "make", t.makeArgs(targets...)...)
	return err
}

// arguments: without the option about folders make would start itself again
// and lose what it was told of old targets.
func (t *Tree) makeArgs(targets ...string) []string {
	args := []string{"-s", "-j2", "--no-print-directory", "ARCH=x86_64", "CC=" + t.Compiler, "HOSTCC=gcc", flags}
	if t.Kernel.Release != "" {
		args = append(args, "KERNELRELEASE="+t.Kernel.Release)
	}
	return append(args, targets...)
}

// A NoCompilerError says which compiler is missing.
type NoCompilerError struct{ Want string }

func (e *NoCompilerError) Error() string {
	return fmt.Sprintf("the image was compiled with %s, and another compiler makes other code: install that one", e.Want)
}

// findCompiler finds the one that the image was compiled with, by its own words.
func findCompiler(ctx context.Context, config string) (string, error) {
	text, err := os.ReadFile(config)
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(text), "\nCONFIG_CC_VERSION_TEXT=\"")
	want, _, _ := strings.Cut(rest, "\"")
	name, version, ok := strings.Cut(want, " ")
	if !ok || strings.ContainsAny(name, "/\t$`") {
		return "", fmt.Errorf("%s does not say which compiler the image was made with", config)
	}
	for _, try := range []string{name, strings.TrimPrefix(name, "x86_64-linux-gnu-"), "gcc"} {
		out, err := runOutput(ctx, "", nil, try, "--version")
		first, _, _ := strings.Cut(string(out), "\n")
		if _, v, _ := strings.Cut(first, " "); err == nil && v == version {
			return try, nil
		}
	}
	return "", &NoCompilerError{want}
}
