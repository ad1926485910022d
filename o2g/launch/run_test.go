// SPDX-License-Identifier: MIT

package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// linkELF links an ELF file that needs the libraries in its folder.
func linkELF(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	args = append([]string{"-shared", "-nostdlib", "-Wl,--no-as-needed,--allow-shlib-undefined", "-Wl,-soname," + name,
		"-o", path, "-x", "c", "/dev/null", "-x", "none", "-L" + dir}, args...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return path
}

// TestNeedBehindLibraries: the MPI of a program is found if only the program's
// libraries need it. Libraries that need each other do not make the search endless.
func TestNeedBehindLibraries(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LD_LIBRARY_PATH", "")
	linkELF(t, dir, "libmpi.so.12")
	linkELF(t, dir, "libmpichfort.so.12")
	linkELF(t, dir, "libmiddle.so", "-l:libmpichfort.so.12", "-l:libmpi.so.12")
	linkELF(t, dir, "libone.so")
	linkELF(t, dir, "libtwo.so", "-l:libone.so", "-Wl,-rpath,$ORIGIN")
	linkELF(t, dir, "libone.so", "-l:libtwo.so", "-Wl,-rpath,$ORIGIN")
	for _, c := range []struct {
		what, path, want string
		args             []string
	}{
		{"directly", "", "libmpi.so.12", []string{"-l:libmpi.so.12"}},
		{"behind another, beside the program", "", "libmpi.so.12", []string{"-l:libmiddle.so", "-Wl,-rpath,$ORIGIN"}},
		{"by the older tag", "", "libmpi.so.12", []string{"-l:libmiddle.so", "-Wl,--disable-new-dtags,-rpath,/none:${ORIGIN}"}},
		{"where nobody looks", "", "", []string{"-l:libmiddle.so"}},
		{"by the environment", dir, "libmpi.so.12", []string{"-l:libmiddle.so"}},
		{"in the working folder", ":/none", "libmpi.so.12", []string{"-l:libmiddle.so"}},
		{"in a circle", dir, "", []string{"-l:libone.so"}},
	} {
		t.Setenv("LD_LIBRARY_PATH", c.path)
		t.Chdir(dir)
		if got := NeedOf(linkELF(t, dir, "program", c.args...)).Soname; got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// makeRecorder creates an MPI whose launcher writes its arguments and the
// environment of its ranks to a file.
func makeRecorder(t *testing.T) (r *Runner, out string) {
	t.Helper()
	prefix := makeFakeMPI(t, "mpiexec", hydra, "")
	out = filepath.Join(t.TempDir(), "out")
	launcher := filepath.Join(prefix, "bin", "mpiexec")
	writeFile(t, launcher, "#!/bin/sh\n{ echo \"args $*\"; env; } >"+out+"\n")
	return &Runner{Install: &Install{Kind: MPICH, Prefix: prefix, Launcher: launcher, Fabric: true}, Provider: "/p", Cache: t.TempDir()}, out
}

// TestRunPlaces: ranks on other hosts get an address of this computer that they
// can reach; the dynamic linker searches this MPI's folder first; the shell's other
// variables are unchanged.
func TestRunPlaces(t *testing.T) {
	r, out := makeRecorder(t)
	lib := filepath.Join(r.Install.Prefix, "lib")
	t.Setenv("LD_LIBRARY_PATH", "/mine")
	t.Setenv("OF_THE_USER", "kept")
	for _, c := range []struct {
		what string
		job  Job
		want []string
		none string
	}{
		{"here", Job{Ranks: 1}, []string{"args -n 1 ./app\n", "SKEP_O2G_REPORT=127.0.0.1:"}, "-localhost"},
		{"elsewhere", Job{Ranks: 1, Hosts: []string{"127.0.1.1"}}, []string{"-hosts 127.0.1.1 -localhost 127.0.0.1 ./app\n", "SKEP_O2G_REPORT=127.0.0.1:"}, "args -n 1 ./app"},
	} {
		c.job.Program = []string{"./app"}
		res, err := r.Run(t.Context(), &c.job)
		if err != nil || res.Status != 0 {
			t.Fatalf("%s: status %d, %v", c.what, res.Status, err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(c.want, "\nLD_LIBRARY_PATH="+lib+":/mine\n", "\nOF_THE_USER=kept\n") {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s: no %q in\n%s", c.what, want, b)
			}
		}
		if strings.Contains(string(b), c.none) {
			t.Errorf("%s: %q in\n%s", c.what, c.none, b)
		}
	}
}

// TestRunFails: a job that can't start returns an error that says why.
func TestRunFails(t *testing.T) {
	r, _ := makeRecorder(t)
	absent := filepath.Join(t.TempDir(), "mpiexec")
	r.Install.Launcher = absent
	res, err := r.Run(t.Context(), &Job{Ranks: 1, Program: []string{"./app"}})
	if err == nil || res.Status != 0 || !strings.Contains(err.Error(), "the launcher "+absent+" did not start") {
		t.Errorf("a launcher that is not there: status %d, %v", res.Status, err)
	}
	r.Install.Prefix, r.Need = t.TempDir(), Need{"libmpich.so.12"}
	if _, err := r.Run(t.Context(), &Job{Ranks: 1, Program: []string{"./app"}}); err == nil || !strings.Contains(err.Error(), "libmpi.so.12 is missing") {
		t.Errorf("an MPI without its library: %v", err)
	}
}

// TestKilledLauncher: the folder in which a killed launcher of Open MPI kept its sockets goes,
// and nobody else's.
func TestKilledLauncher(t *testing.T) {
	r, _ := makeRecorder(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	older := filepath.Join(tmp, fmt.Sprintf("ompi.host.%d", os.Getuid()))
	for _, c := range []struct {
		what, script string
		left         []string
	}{
		{"Open MPI 5", `mkdir -p ompi.$$/0/0 ompi.1; echo >ompi.$$/hwloc.sm`, []string{"ompi.1"}},
		{"Open MPI 4", `mkdir -p ` + older + `/pid.$$/0; echo >` + older + `/pid.$$/contact.txt`, nil},
		{"Open MPI 4 with another job", `mkdir -p ` + older + `/pid.$$/0 ` + older + `/pid.1`, []string{older[len(tmp)+1:], older[len(tmp)+1:] + "/pid.1"}},
		{"a link", `mkdir other; echo >other/file; ln -s other ompi.$$`, []string{"ompi.LINK", "other", "other/file"}},
	} {
		writeFile(t, r.Install.Launcher, "#!/bin/sh\ncd "+tmp+" && "+c.script+"\nkill -9 $$\n")
		res, err := r.Run(t.Context(), &Job{Ranks: 1, Program: []string{"./app"}})
		if err != nil || res.Status != 128+int(syscall.SIGKILL) || res.Signal != syscall.SIGKILL {
			t.Fatalf("%s: status %d, signal %d, %v", c.what, res.Status, res.Signal, err)
		}
		var left []string
		err = filepath.WalkDir(tmp, func(path string, e os.DirEntry, err error) error {
			if path != tmp && e.Type() == os.ModeSymlink {
				left = append(left, "ompi.LINK")
			} else if path != tmp {
				left = append(left, path[len(tmp)+1:])
			}
			return err
		})
		if err != nil || !slices.Equal(left, c.left) {
			t.Errorf("%s: %q left, want %q, %v", c.what, left, c.left, err)
		}
		for _, name := range left {
			os.RemoveAll(filepath.Join(tmp, name))
		}
	}
}

// TestExec: a rank that a batch system started is replaced by the program, with
// the secret of its step.
func TestExec(t *testing.T) {
	const mark = "SKEP_TEST_EXEC"
	if os.Getenv(mark) != "" {
		r, _ := makeRecorder(t)
		job := &Job{Step: true, Program: []string{"sh", "-c", `echo "secret $SKEP_O2G_SECRET of $FI_PROVIDER"`}}
		t.Fatal(r.Exec(job, "of this step"))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestExec$")
	// The program that the child becomes removes none of the child's folders.
	cmd.Env = append(os.Environ(), mark+"=1", "SKEP_O2G_SECRET=an old one", "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "secret of this step of o2g\n") {
		t.Errorf("%v\n%s", err, out)
	}
	r, _ := makeRecorder(t)
	if err := r.Exec(&Job{Program: []string{"no such program"}}, ""); err == nil {
		t.Error("a program that is not there became this process")
	}
}

// TestProvider: the provider is in ../lib of the program, or of the program that a
// link leads to.
func TestProvider(t *testing.T) {
	for _, lib := range []string{"lib", filepath.Join("lib", "skep")} {
		top := t.TempDir()
		folder := filepath.Join(top, lib)
		for _, dir := range []string{filepath.Join(top, "bin"), folder} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		skep := filepath.Join(top, "bin", "skep")
		writeFile(t, skep, "")
		name := filepath.Join(t.TempDir(), "skep")
		if err := os.Symlink(skep, name); err != nil {
			t.Fatal(err)
		}
		if _, err := providerOf(name); err == nil || !strings.Contains(err.Error(), ProviderName+" is not in ") {
			t.Errorf("without the provider: %v", err)
		}
		writeFile(t, filepath.Join(folder, ProviderName), "")
		if got, err := providerOf(name); err != nil || got != folder {
			t.Errorf("%q, %v; want %q", got, err, folder)
		}
	}
}

// TestStepName: a process is a rank of srun only if all of srun's variables are set.
func TestStepName(t *testing.T) {
	all := map[string]string{"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}
	set := func(change, value string) {
		for name, v := range all {
			t.Setenv(name, v)
		}
		if change != "" {
			t.Setenv(change, value)
		}
	}
	set("", "")
	if got := StepName(); got != "7.2" {
		t.Errorf("a rank of step 2 of job 7 is of %q", got)
	}
	for name := range all {
		set(name, "")
		if got := StepName(); got != "" {
			t.Errorf("without %s it is of %q", name, got)
		}
	}
	for _, step := range []string{"4294967290", "4294967294"} {
		set("SLURM_STEP_ID", step)
		if got := StepName(); got != "" {
			t.Errorf("step %s, which has no ranks, is %q", step, got)
		}
	}
}
