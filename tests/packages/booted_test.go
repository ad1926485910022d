// SPDX-License-Identifier: MIT

//go:build linux

// Package packages boots clean Debian systems in the lab, and types there what users of the
// packages type.
package packages

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/internal/load"
	"skep/lab"
	"skep/tests/vmtest"
	"skep/tests/vmtest/report"
)

func TestBookworm(t *testing.T) { walkSystem(t, "booted", "bookworm", steps) }
func TestTrixie(t *testing.T)   { walkSystem(t, "booted", "trixie", steps) }

// The former release's packages are installed, and upgraded to those of this tree and of the
// release after it.
func TestUpgradedBookworm(t *testing.T) { upgradeSystem(t, "bookworm") }
func TestUpgradedTrixie(t *testing.T)   { upgradeSystem(t, "trixie") }

func upgradeSystem(t *testing.T, suite string) {
	if _, err := os.Stat(filepath.Join(os.Getenv("FORMER"), "made")); err != nil {
		t.Skip("this clone lacks the commit of the former release: git fetch --unshallow")
	}
	walkSystem(t, "upgraded", suite, upgradeSteps)
}

func walkSystem(t *testing.T, name, suite string, steps []step) {
	if os.Geteuid() != 0 {
		t.Skip("making a root of Debian needs root")
	}
	w := startWalk(t, name, suite)
	first := w.first
	boots := steps[first].boots
	for i, s := range steps[first:] {
		for ; boots < s.boots; boots++ {
			w.reboot()
		}
		w.save(first + i)
		name := fmt.Sprintf("%s %d: %s", s.name, s.boots+1, s.promise)
		if !t.Run(name, func(t *testing.T) { w.typeStep(t, s) }) && (w.lost || w.gone()) {
			t.Fatalf("the shell or the system is gone; console: %s", w.system.Console())
		}
	}
	w.end()
}

// A walker types commands in a system.
type walker struct {
	t      *testing.T
	out    string // the folder of the test's files
	system *lab.RunningSystem
	lines  chan string
	count  int
	last   string // boot
	lost   bool   // the shell hangs
	first  int    // step
}

// A walk that failed left its system as it was before the first step that failed. With
// this variable the next walk goes on there, with the packages and steps of this tree.
const again = "SKEP_WALK_AGAIN"

func startWalk(t *testing.T, name, suite string) *walker {
	vmtest.Lock(t)
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	w := &walker{t: t, out: filepath.Join(build, "test", name+"-"+suite), lines: make(chan string, 1000)}
	saves := filepath.Join(w.out, "saves")
	if os.Getenv(again) != "" {
		w.readFirst()
	} else if err := os.RemoveAll(w.out); err != nil {
		t.Fatal(err)
	}
	w.prepare(build, name, suite)
	w.system, err = lab.StartSystem(context.Background(), lab.System{
		Name: name + "-" + suite, Build: build, CPUs: 3, Memory: 2048,
		Kernel: filepath.Join(w.out, "vmlinuz"), Initramfs: filepath.Join(w.out, "initrd"),
		Disk: filepath.Join(w.out, "disk"), Files: filepath.Join(w.out, "files"),
		Saves: saves,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.system.Kill()
		w.judgeConsole()
		if t.Failed() {
			t.Logf("%s keeps the system as it was before the step that failed; with %s=1 the test goes on there", w.out, again)
			return
		}
		if err := os.RemoveAll(w.out); err != nil {
			t.Error(err)
		}
		os.RemoveAll(filepath.Dir(w.system.Console()))
	})
	said, err := os.Create(filepath.Join(w.out, "said"))
	if err != nil {
		t.Fatal(err)
	}
	go w.readLines(said)
	if os.Getenv(again) == "" {
		w.awaitBoot()
	} else {
		w.goOn()
	}
	return w
}

// The file that holds the number of the step before which the system was saved.
func (w *walker) firstPath() string { return filepath.Join(w.out, "first") }

func (w *walker) readFirst() {
	w.t.Helper()
	text, err := os.ReadFile(w.firstPath())
	if err != nil {
		w.t.Fatalf("%s: no walk failed before: %v", again, err)
	}
	if w.first, err = strconv.Atoi(string(text)); err != nil {
		w.t.Fatal(err)
	}
}

// save saves the system before a step, unless one before it failed.
func (w *walker) save(step int) {
	w.t.Helper()
	if w.t.Failed() {
		return
	}
	if err := w.system.Save(); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.firstPath(), []byte(strconv.Itoa(step)), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// goOn gives a saved system this test's files.
func (w *walker) goOn() {
	w.t.Helper()
	said, err := w.typeCommand("blockdev --flushbufs /dev/vdb && "+getFiles+" && echo && cat /proc/sys/kernel/random/boot_id", time.Minute)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, said)
	}
	lines := strings.Fields(said)
	w.last = lines[len(lines)-1]
}

// getFiles fetches the test's files.
const getFiles = "mkdir -p /opt/test && tar -C /opt/test -xf /dev/vdb"

// prepare makes the disk, and an archive with the packages of the versions and the files of
// the test. The first version of an upgraded system is the former release.
func (w *walker) prepare(build, name, suite string) {
	w.t.Helper()
	files := filepath.Join(w.out, "test")
	script := `set -eu
mkdir -p "$OUT/test/job"
[ -e "$OUT/saves" ] || sh tests/packages/system.sh "$BUILD" "$SUITE" "$OUT" >&2
make_packages() # folder version
{
	DEB_LEVEL=0 sh packaging/deb.sh "$BUILD" "$OUT/test/$1" "$2"
}
if [ "$NAME" = upgraded ]; then
	rm -rf "$OUT/test/first"
	cp -r "$FORMER/first" "$OUT/test"
	make_packages second "$VERSION"
	make_packages third "$VERSION.1"
else
	make_packages first "$VERSION"
	make_packages second "$VERSION.1"
fi
printf 'hello: 10 20 30 40, together 100\nbee: ran\npython: 34\ndoctor: bee ok\nlab: 1\n' >"$OUT/test/walk.want"
cp tests/packages/*.sh tests/mpi/program.c "$OUT/test"
cp tests/packages/job/* "$OUT/test/job"
pack_files()
{
	tar -C "$OUT/test" -cf "$OUT/files" .
	# A saved system knows the size of its disk.
	truncate -s 1G "$OUT/files"
}
[ ! -e "$OUT/saves" ] || {
	pack_files
	exit 0
}
# The update is built on that Debian.
. tests/packages/apart.sh
within()
{
	timeout "$@"
}
apart=$BUILD/_root/$SUITE-update
mkdir -p "$apart/build"
cp tests/packages/apart.sh tests/packages/update.sh dynamos/updates/links/links.patch \
	"$BUILD/bin/skep" "$apart"
run_apart 3600 "$BUILD/_root/$SUITE-system" "$PWD" "$apart" update.sh
mv "$apart/links.skepup" "$OUT/test"
pack_files
`
	c := exec.Command("sh", "-c", script)
	c.Dir = filepath.Join("..", "..")
	c.Env = append(os.Environ(), "BUILD="+build, "OUT="+w.out, "NAME="+name, "SUITE="+suite, "VERSION="+os.Getenv("SKEP_VERSION"))
	if said, err := c.CombinedOutput(); err != nil {
		w.t.Fatalf("preparing %s: %v\n%s", files, err, said)
	}
}

// readLines reads what the shell prints until the machine ends, and copies it to a file: a
// step that takes long can be watched.
func (w *walker) readLines(said *os.File) {
	defer close(w.lines)
	defer said.Close()
	in := bufio.NewReader(io.TeeReader(w.system.Port, said))
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		w.lines <- strings.TrimRight(line, "\r\n")
	}
}

func (w *walker) gone() bool {
	select {
	case <-w.system.Done():
		return true
	default:
		return false
	}
}

const bootLimit = 10 * time.Minute

// awaitBoot waits for the shell of another boot, and gives it the files.
func (w *walker) awaitBoot() {
	w.t.Helper()
	late := load.NewTimer(bootLimit, load.Scale)
	defer late.Stop()
	for {
		select {
		case line, ok := <-w.lines:
			if !ok {
				w.t.Fatalf("the system is gone; console: %s", w.system.Console())
			}
			id, up := strings.CutPrefix(line, "@@up ")
			if !up || id == w.last {
				continue
			}
			w.last = id
			if said, err := w.typeCommand(getFiles, time.Minute); err != nil {
				w.t.Fatalf("%v\n%s", err, said)
			}
			return
		case <-late.C:
			w.t.Fatalf("it has not booted; console: %s", w.system.Console())
		}
	}
}

func (w *walker) reboot() {
	w.t.Helper()
	fmt.Fprintln(w.system.Port, "systemctl reboot")
	w.awaitBoot()
}

var errHangs = errors.New("it has not ended within its limit")

// typeCommand types a command, and returns what it printed.
func (w *walker) typeCommand(command string, limit time.Duration) (string, error) {
	w.count++
	mark := fmt.Sprintf("@@end %d ", w.count)
	fmt.Fprintf(w.system.Port, "{ %s\n} </dev/null 2>&1; code=$?; echo; echo \"%s$code\"\n", command, mark)
	late := load.NewTimer(limit, load.Scale)
	defer late.Stop()
	var said bytes.Buffer
	for {
		select {
		case line, ok := <-w.lines:
			if !ok {
				return said.String(), fmt.Errorf("the system is gone")
			}
			if code, over := strings.CutPrefix(line, mark); over {
				if n, err := strconv.Atoi(code); err != nil || n != 0 {
					return said.String(), fmt.Errorf("it ended with %s", code)
				}
				return said.String(), nil
			}
			fmt.Fprintln(&said, line)
		case <-late.C:
			return said.String(), errHangs
		}
	}
}

// typeStep runs a step. After a step that hangs the shell is lost, so the test ends.
func (w *walker) typeStep(t *testing.T, s step) {
	began := time.Now()
	said, err := w.typeCommand("cat >/opt/step <<'STEP'\n. /opt/test/booted.sh\n"+s.commands+"STEP\nsh -eux /opt/step", s.limit)
	took := time.Since(began).Round(time.Second)
	switch {
	case errors.Is(err, errHangs):
		w.lost = true
		t.Errorf("%v\n%s", err, said[max(0, len(said)-shownMax):])
	case err != nil:
		t.Errorf("%v, after %v\n%s", err, took, said[max(0, len(said)-shownMax):])
	default:
		t.Logf("%v\n%s", took, said[max(0, len(said)-shownMax):])
	}
}

// shownMax is how much of a step's output is shown.
const shownMax = 6000

// end turns the system off.
func (w *walker) end() {
	w.t.Helper()
	fmt.Fprintln(w.system.Port, "systemctl poweroff")
	late := load.NewTimer(bootLimit, load.Scale)
	defer late.Stop()
	select {
	case <-w.system.Done():
	case <-late.C:
		w.t.Errorf("it does not turn itself off; console: %s", w.system.Console())
	}
}

// judgeConsole fails the test for each report of the kernel.
func (w *walker) judgeConsole() {
	f, err := os.Open(w.system.Console())
	if err != nil {
		w.t.Error(err)
		return
	}
	defer f.Close()
	seen, err := report.Scan(f)
	if err != nil {
		w.t.Error(err)
	}
	for _, r := range seen {
		w.t.Errorf("the kernel reported: %v: %s; console: %s", r, r.Line, f.Name())
	}
}
