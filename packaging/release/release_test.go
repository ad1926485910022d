// SPDX-License-Identifier: MIT

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/pe"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/tests/built"
)

// makeFolder makes the same files in another order, with other times and rights.
func makeFolder(t *testing.T, names []string, when time.Time, mode os.FileMode) string {
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("text of "+name), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An archive depends on names and contents alone.
func TestArchivesHaveEqualBytes(t *testing.T) {
	names := []string{"a/b", "a.c", "z", "B"}
	when := time.Unix(1700000000, 0)
	var archives [2][2]bytes.Buffer
	for i, mode := range []os.FileMode{0o600, 0o664} {
		dir := makeFolder(t, names, time.Unix(int64(i)*1e8, 0), mode)
		slices.Reverse(names)
		items, err := listItems(dir, "skep-1")
		if err != nil {
			t.Fatal(err)
		}
		if err := writeTar(&archives[i][0], items, when); err != nil {
			t.Fatal(err)
		}
		if err := writeZip(&archives[i][1], items, when); err != nil {
			t.Fatal(err)
		}
	}
	for k, name := range []string{"a.tar.gz", "a.zip"} {
		if !bytes.Equal(archives[0][k].Bytes(), archives[1][k].Bytes()) {
			t.Errorf("two of %s differ", name)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, archives[0][k].Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range readArchive(t, path) {
			got = append(got, f.name)
			if !f.when.Equal(when) {
				t.Errorf("%s: %s is of %v", name, f.name, f.when)
			}
		}
		if strings.Join(got, " ") != "skep-1/B skep-1/a.c skep-1/a/b skep-1/z" {
			t.Errorf("%s has %v", name, got)
		}
	}
}

// A licence that nobody knows is not published by accident.
func TestUnknownLicenceIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LICENSE")
	if err := os.WriteFile(path, []byte("You may look at it."), 0o600); err != nil {
		t.Fatal(err)
	}
	c := component{name: "example.org/m", version: "v1", texts: []string{path}}
	if err := c.identify(); err == nil || !strings.Contains(err.Error(), "example.org/m v1") {
		t.Errorf("%v", err)
	}
}

// Libraries that a rule links statically are in linked.tbl, and those of it are
// linked by a rule or by the compilers.
func TestStaticLibrariesAreListed(t *testing.T) {
	rooms, err := filepath.Glob("../../*/*/room.mk")
	if err != nil || len(rooms) == 0 {
		t.Fatal(rooms, err)
	}
	more, _ := filepath.Glob("../../*/room.mk")
	linked := map[string]bool{"c": true, "gcc": true, "mingw": true, "pthread": true}
	library := regexp.MustCompile(`(?:^|\s)-l([a-z0-9_]+)`)
	for _, path := range append(rooms, more...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			if strings.HasPrefix(path, "../../tests/") || !strings.Contains(line, "_STATIC :=") && !strings.Contains(line, " -static ") {
				continue
			}
			for _, m := range library.FindAllStringSubmatch(line, -1) {
				linked[m[1]] = true
			}
		}
	}
	delete(linked, "skepworker") // ours
	table, err := os.ReadFile("linked.tbl")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			listed[words[0]] = true
		}
	}
	for name := range linked {
		if !listed[name] {
			t.Errorf("-l%s is linked statically, and linked.tbl lacks it", name)
		}
	}
	for name := range listed {
		if !linked[name] {
			t.Errorf("linked.tbl has %s, which nothing links", name)
		}
	}
}

// A packed is a file of an archive as others read it.
type packed struct {
	name string
	when time.Time
	text []byte
}

func readArchive(t *testing.T, path string) (all []packed) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, packed{f.Name, f.Modified, b})
		}
		return all
	}
	g, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(g); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s: %s belongs to %d:%d %q", path, h.Name, h.Uid, h.Gid, h.Uname)
		}
		all = append(all, packed{h.Name, h.ModTime, b})
	}
}

// archives are those that make release made.
func archives(t *testing.T) (build string, paths []string) {
	build = built.Folder(t, "make test T=release")
	all, err := filepath.Glob(filepath.Join(build, "release", "skep-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if !strings.HasSuffix(path, ".json") {
			paths = append(paths, path)
		}
	}
	if len(paths) != 3 {
		t.Fatalf("there are %v, not one for Linux, one for Windows and one of sources", paths)
	}
	return build, paths
}

// The archive for Windows has both programs, and what PowerShell completes with.
func TestWindowsArchive(t *testing.T) {
	_, paths := archives(t)
	missing := map[string]string{"skep.exe": "MZ", "bee.exe": "MZ", "skep.ps1": "Register-ArgumentCompleter"}
	for _, path := range paths {
		if !strings.HasSuffix(path, ".zip") {
			continue
		}
		for _, f := range readArchive(t, path) {
			name := f.name[strings.LastIndexByte(f.name, '/')+1:]
			if text, wanted := missing[name]; wanted && bytes.Contains(f.text, []byte(text)) {
				delete(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("it lacks %v", missing)
	}
}

// Archives do not say where or when they were made.
func TestArchivesSayNoPlaceAndTime(t *testing.T) {
	build, paths := archives(t)
	top, home := filepath.Dir(build), os.Getenv("HOME")
	for _, path := range paths {
		list := readArchive(t, path)
		if !slices.IsSortedFunc(list, func(a, b packed) int { return strings.Compare(a.name, b.name) }) {
			t.Errorf("%s: names are not sorted", path)
		}
		for _, f := range list {
			if !f.when.Equal(list[0].when) {
				t.Errorf("%s: %s is of %v, and %s of %v", path, f.name, f.when, list[0].name, list[0].when)
			}
			if p, err := pe.NewFile(bytes.NewReader(f.text)); err == nil && p.TimeDateStamp != 0 {
				t.Errorf("%s: %s was linked at %v", path, f.name, time.Unix(int64(p.TimeDateStamp), 0))
			}
			if bytes.Contains(f.text, []byte(top+"/")) {
				t.Errorf("%s: %s names %s", path, f.name, top)
			}
			if home != "/" && bytes.Contains(f.text, []byte(home+"/go/")) {
				t.Errorf("%s: %s names %s/go", path, f.name, home)
			}
		}
	}
}

// Each archive has the licences of ours, and the notices and the bill name each
// module that is linked into a program of it, and each package of linked.tbl.
func TestNoticesAreComplete(t *testing.T) {
	_, paths := archives(t)
	libraries, err := staticLibraries("linked.tbl")
	if err != nil {
		t.Fatal(err)
	}
	programs := 0
	for _, path := range paths {
		list := readArchive(t, path)
		find := func(end string) string {
			at := slices.IndexFunc(list, func(f packed) bool { return strings.HasSuffix(f.name, end) })
			if at < 0 {
				t.Errorf("%s lacks %s", path, end)
				return ""
			}
			return string(list[at].text)
		}
		notices, bill := find("/THIRD-PARTY-NOTICES"), readBill(t, []byte(find(".spdx.json")))
		for _, name := range []string{"/LICENSES/MIT.txt", "/LICENSES/GPL-2.0-only.txt", "/CHANGELOG.md", "/SECURITY.md"} {
			find(name)
		}
		check := func(name, version string) {
			if !strings.Contains(notices, "\n"+name+" "+version+": ") {
				t.Errorf("%s: no notice of %s %s", path, name, version)
			}
			if bill[name] != version {
				t.Errorf("%s: the bill says %q of %s, not %s", path, bill[name], name, version)
			}
		}
		for _, c := range libraries {
			check(c.name, c.version)
		}
		for _, f := range list {
			info, err := buildinfo.Read(bytes.NewReader(f.text))
			if err != nil {
				continue
			}
			programs++
			check("Go standard library", strings.TrimPrefix(info.GoVersion, "go"))
			for _, m := range info.Deps {
				check(m.Path, m.Version)
			}
		}
	}
	if programs < 3 {
		t.Errorf("only %d programs in Go were found in the archives", programs)
	}
}

// readBill gives the versions of its packages.
func readBill(t *testing.T, text []byte) map[string]string {
	t.Helper()
	var d spdxDocument
	if err := json.Unmarshal(text, &d); err != nil || d.Version != "SPDX-2.3" || d.Namespace == "" {
		t.Fatalf("%v: %.200s", err, text)
	}
	versions, ids := map[string]string{}, map[string]bool{d.ID: true}
	for _, p := range d.Packages {
		versions[p.Name] = p.Version
		if ids[p.ID] {
			t.Errorf("two packages are %s", p.ID)
		}
		ids[p.ID] = true
	}
	for _, r := range d.Relationships {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%+v names nothing", r)
		}
	}
	return versions
}

// What docs/installing.md says of an archive, as typed.
func TestArchiveRunsWhereItLies(t *testing.T) {
	build, paths := archives(t)
	cmd := exec.Command("sh", "-ceu", `cp "$1"/release/* .
sha256sum -c --ignore-missing SHA256SUMS
mkdir skep && tar -C skep --strip-components=1 -xzf skep-*-linux-amd64.tar.gz
env -u SKEP_BUILD skep/bin/skep version
skep/bin/bee --version
test -s skep/share/man/man1/skep-up.1 -a -s skep/lib/skep/sms.image`, "sh", build)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nskep ") {
		t.Errorf("%s: %v\n%s", paths[0], err, out)
	}
}

// The checksums are those of all files.
func TestChecksums(t *testing.T) {
	build, _ := archives(t)
	sums, err := os.ReadFile(filepath.Join(build, "release", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(build, "release"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == "SHA256SUMS" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(build, "release", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(sums), fmt.Sprintf("%x  %s\n", sha256.Sum256(text), f.Name())) {
			t.Errorf("no right checksum of %s", f.Name())
		}
	}
}

// The change log begins with the version that the programs say, and its day.
func TestChangeLogIsCurrent(t *testing.T) {
	source, err := os.ReadFile("../../cmd/skep/version.go")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`const version = "(.*)"`).FindSubmatch(source)
	day := regexp.MustCompile(`const released = "(.*)"`).FindSubmatch(source)
	first := regexp.MustCompile(`(?m)^## .*$`).Find(log)
	if version == nil || day == nil || string(first) != fmt.Sprintf("## %s, %s", version[1], day[1]) {
		t.Errorf("%q is not of version %s, %s", first, version[1], day[1])
	}
}

func TestBuildTools(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	text := "# a comment\n[demo]\ngcc    C\n\n[test]\none-14|one the one or the other\n"
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := buildTools(list)
	var got []string
	for _, c := range all {
		got = append(got, c.name+" "+c.purl)
	}
	want := []string{"gcc pkg:deb/debian/gcc", "one-14 pkg:deb/debian/one-14", "one pkg:deb/debian/one"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := buildTools(list + ".missing"); err == nil {
		t.Error("a list that is missing is read")
	}
}
