// SPDX-License-Identifier: MIT

// Release makes archives of the staged folders, third-party notices, a bill of
// materials and checksums. An archive's bytes depend only on its contents.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type release struct {
	version, stage, out string
	when                time.Time
}

func main() {
	r := &release{}
	epoch := flag.Int64("epoch", 0, "the `TIME` of all files, in seconds since 1970")
	flag.StringVar(&r.version, "version", "", "the `VERSION`")
	flag.StringVar(&r.stage, "stage", "", "the `FOLDER` with one folder for each archive: NAME.tar.gz or NAME.zip")
	flag.StringVar(&r.out, "out", "", "write into `FOLDER`")
	flag.Parse()
	r.when = time.Unix(*epoch, 0)
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// programs are the Go programs that the archives contain.
var programs = []string{"./cmd/skep", "./lab/guest"}

func (r *release) make() error {
	linked, err := goModules([]string{"linux", "windows"}, programs...)
	if err != nil {
		return err
	}
	library, err := goLibrary()
	if err != nil {
		return err
	}
	linked = append(linked, library)
	libraries, err := staticLibraries("packaging/release/linked.tbl")
	if err != nil {
		return err
	}
	notices, err := noticesText(linked, libraries)
	if err != nil {
		return err
	}
	tools, err := buildTools("mk/packages.list")
	if err != nil {
		return err
	}
	for _, name := range []string{"gcc", "x86_64-w64-mingw32-gcc"} {
		c, err := compilerVersion(name)
		if err != nil {
			return err
		}
		tools = append(tools, c)
	}
	name := "skep-" + r.version
	sbom, err := sbomText(name, r.version, r.when, linked, libraries, tools)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, name+".spdx.json"), sbom, 0o644); err != nil {
		return err
	}
	if err := r.pack(map[string][]byte{"THIRD-PARTY-NOTICES": []byte(notices), name + ".spdx.json": sbom}); err != nil {
		return err
	}
	return r.writeSums()
}

// pack adds the texts to each staged folder, and makes its archive.
func (r *release) pack(texts map[string][]byte) error {
	folders, err := os.ReadDir(r.stage)
	if err != nil {
		return err
	}
	if len(folders) == 0 {
		return errors.New("nothing is staged")
	}
	for _, f := range folders {
		dir := filepath.Join(r.stage, f.Name())
		base, zipped := strings.CutSuffix(f.Name(), ".zip")
		base = strings.TrimSuffix(base, ".tar.gz")
		for name, text := range texts {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				return err
			}
		}
		items, err := listItems(dir, base)
		if err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		if zipped {
			err = writeZip(out, items, r.when)
		} else {
			err = writeTar(out, items, r.when)
		}
		if err := errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return nil
}

// writeSums writes SHA256SUMS in the format of sha256sum.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" || e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(text), e.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
