// SPDX-License-Identifier: MIT

package launch

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/tests/watch"
)

// makeFakeMPI creates a prefix whose launcher prints text for --version.
func makeFakeMPI(t *testing.T, name, text, info string) string {
	t.Helper()
	dir := t.TempDir()
	writeScript(t, filepath.Join(dir, "bin", name), text)
	if info != "" {
		writeScript(t, filepath.Join(dir, "bin", "ompi_info"), info)
	}
	if err := os.MkdirAll(filepath.Join(dir, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, lib := range []string{"libmpi.so.12", "libmpi.so.40"} {
		writeFile(t, filepath.Join(dir, "lib", lib), "")
	}
	return dir
}

func writeScript(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "#!/bin/sh\ncat <<'END'\n"+text+"\nEND\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const hydra = "HYDRA build details:\n    Version:     5.0.2\n    Configure options:    "

func TestProbe(t *testing.T) {
	for _, c := range []struct {
		name, launcher, text, info string
		kind                       Kind
		version                    string
		fabric                     bool
	}{
		{"wheel", "mpiexec", hydra + "--with-device=ch4:ucx,ofi", "", MPICH, "5.0.2", true},
		{"debian", "mpiexec.mpich", hydra + "'--with-device=ch4:ucx' 'FFLAGS=-O2'", "", MPICH, "5.0.2", false},
		{"default device", "mpiexec", hydra + "'--prefix=/opt'", "", MPICH, "5.0.2", true},
		{"any netmod", "mpiexec", hydra + "--with-device=ch4", "", MPICH, "5.0.2", true},
		{"ch3", "mpiexec", hydra + "--with-device=ch3:nemesis", "", MPICH, "5.0.2", false},
		{"mvapich 4", "mpiexec", "HYDRA build details:\n    Version:     4.0\n    Configure options:    '--with-device=ch4:ofi'", "", MPICH, "4.0", true},
		{"mvapich 2", "mpiexec", "HYDRA build details:\n    Version:     2.3.7\n    Configure options:    '--with-device=ch3:mrail'", "", MPICH, "2.3.7", false},
		{"intel mpi", "mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20251017 (id: 1234)\nCopyright 2003-2025, Intel Corporation.", "", IntelMPI, "2021.18", true},
		{"open mpi 5", "mpirun", "mpirun (Open MPI) 5.0.11", `mca:mtl:ofi:version:"mca:2.1.0"`, OpenMPI, "5.0.11", true},
		{"open mpi 4", "orterun", "mpirun.openmpi (OpenRTE) 4.1.4", "mca:mtl:psm2:version", OpenMPI, "4.1.4", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := makeFakeMPI(t, c.launcher, c.text, c.info)
			i, err := ProbeLauncher(t.Context(), filepath.Join(dir, "bin", c.launcher))
			if err != nil {
				t.Fatal(err)
			}
			if i.Kind != c.kind || i.Version != c.version || i.Fabric != c.fabric {
				t.Errorf("got %+v", i)
			}
		})
	}
	dir := makeFakeMPI(t, "mpiexec", hydra, "")
	link := filepath.Join(t.TempDir(), "bin")
	if err := os.Symlink(filepath.Join(dir, "bin"), link); err != nil {
		t.Fatal(err)
	}
	if i, err := ProbeLauncher(t.Context(), filepath.Join(link, "mpiexec")); err != nil || i.Prefix != dir {
		t.Errorf("through a link to its folder: %+v, %v; want the MPI in %s", i, err, dir)
	}
	dir = makeFakeMPI(t, "mpirun", "something else 1.0", "")
	if _, err := ProbeLauncher(t.Context(), filepath.Join(dir, "bin", "mpirun")); err == nil {
		t.Error("a launcher of no MPI was taken")
	}
}

// TestIntelLauncher: its mpirun takes any Hydra that comes first in PATH, so the
// one beside it is used.
func TestIntelLauncher(t *testing.T) {
	dir := makeFakeMPI(t, "mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 1", "")
	own := filepath.Join(dir, "bin", "mpiexec.hydra")
	writeScript(t, own, "")
	i, err := ProbeLauncher(t.Context(), filepath.Join(dir, "bin", "mpirun"))
	if err != nil || i.Launcher != own {
		t.Fatalf("%+v, %v; want %s", i, err, own)
	}
	if why := i.unfitReason(Need{"libmpi.so.12"}, false); why != "" {
		t.Errorf("a program of its ABI: %s", why)
	}
	if why := i.unfitReason(Need{"libmpi.so.40"}, false); why == "" {
		t.Error("it was taken for a program of Open MPI")
	}
	job := &Job{Ranks: 2, Hosts: []string{"a", "b"}, Launcher: "/rsh", Program: []string{"./app"}}
	want := own + " -n 2 -hosts a,b -bootstrap ssh -bootstrap-exec /rsh ./app"
	if got := strings.Join(i.Command(job, nil), " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestHomeFamily: Hydra can't reach hosts over IPv6, Open MPI's launcher can.
func TestHomeFamily(t *testing.T) {
	const four, six = "10.1.1.1", "fd77::1"
	for _, c := range []struct {
		kind  Kind
		homes map[string]string // by network
		want  string
	}{
		{MPICH, map[string]string{"udp": six, "udp4": four, "udp6": six}, four},
		{MPICH, map[string]string{"udp": six, "udp6": six}, "refused"},
		{IntelMPI, map[string]string{"udp": six, "udp6": six}, "refused"},
		{OpenMPI, map[string]string{"udp": six, "udp6": six}, six},
		{MPICH, nil, ""},
	} {
		i := &Install{Kind: c.kind, Version: "1", Prefix: "/opt"}
		job := &Job{Hosts: []string{"a"}}
		err := i.findHome(job, func(network string) func(string) string {
			return func(string) string { return c.homes[network] }
		})
		got := job.home
		if err != nil {
			got = "refused"
		}
		if got != c.want {
			t.Errorf("%s with %v: %q, %v; want %q", c.kind, c.homes, got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "IPv4 addresses") {
			t.Errorf("the error does not say what to do: %v", err)
		}
	}
}

func TestFind(t *testing.T) {
	good := makeFakeMPI(t, "mpiexec", hydra+"--with-device=ch4:ofi", "")
	poor := makeFakeMPI(t, "mpiexec", hydra+"--with-device=ch4:ucx", "")
	program := filepath.Join(t.TempDir(), "script.py")
	writeFile(t, program, "#!/usr/bin/python3\n")
	t.Setenv("VIRTUAL_ENV", "")
	t.Setenv("PATH", filepath.Join(poor, "bin")+":"+filepath.Join(good, "bin")+":/usr/bin:/bin")

	i, err := FindInstall(t.Context(), "", program, false)
	if err != nil || i.Prefix != good {
		t.Fatalf("chose %v, %v; want the one with libfabric", i, err)
	}
	i, err = FindInstall(t.Context(), "", program, true)
	if err != nil || i.Prefix != poor {
		t.Errorf("for TCP chose %v, %v; want the first", i, err)
	}
	_, err = FindInstall(t.Context(), poor, program, false)
	if err == nil || !strings.Contains(err.Error(), "built without libfabric") || !strings.Contains(err.Error(), "--mpi") {
		t.Errorf("an MPI without libfabric: %v", err)
	}
	if err != nil && !strings.Contains(err.Error(), "no MPI here can use O2G") {
		t.Errorf("of a program that needs no certain MPI: %v", err)
	}
	_, err = FindInstall(t.Context(), t.TempDir(), program, false)
	if err == nil || !strings.Contains(err.Error(), "no MPI in") {
		t.Errorf("an empty prefix: %v", err)
	}
	defer func(d time.Duration) { probeTime = d }(probeTime)
	probeTime = 100 * time.Millisecond
	mute := makeFakeMPI(t, "mpiexec", "", "")
	writeFile(t, filepath.Join(mute, "bin", "mpiexec"), "#!/bin/sh\nexec sleep 60\n")
	writeScript(t, filepath.Join(mute, "bin", "mpirun"), "")
	writeFile(t, filepath.Join(mute, "bin", "mpirun"), "#!/bin/sh\nexit 3\n")
	_, err = FindInstall(t.Context(), mute, program, false)
	if err == nil || !strings.Contains(err.Error(), "mpiexec did not answer --version") || !strings.Contains(err.Error(), "mpirun --version: exit status 3") {
		t.Errorf("launchers that hang and fail: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = FindInstall(t.Context(), "", program, false)
	if err == nil || !strings.Contains(err.Error(), "pip install mpich") {
		t.Errorf("no MPI at all: %v", err)
	}
}

func TestUnfit(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "")
	defer func(f []string) { systemFolders = f }(systemFolders)
	systemFolders = nil
	prefix, complete := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(complete, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(complete, "lib", "libmpi.so.40"), "")
	ompi, mpich := Need{"libmpi.so.40"}, Need{"libmpich.so.12"}
	for _, c := range []struct {
		kind   Kind
		fabric bool
		need   Need
		tcp    bool
		want   string
	}{
		{MPICH, true, Need{}, false, ""},
		{MPICH, true, mpich, false, ""},
		{MPICH, true, ompi, false, "is not the family of libmpi.so.40"},
		{OpenMPI, true, mpich, true, "is not the family of libmpich.so.12"},
		{OpenMPI, true, ompi, false, ""}, // the program finds its library itself
		{OpenMPI, true, Need{}, false, "has no libmpi.so.40"},
		{MPICH, false, Need{}, false, "was built without libfabric"},
		{MPICH, false, Need{}, true, ""},
	} {
		i := &Install{Kind: c.kind, Prefix: prefix, Fabric: c.fabric}
		if got := i.unfitReason(c.need, c.tcp); got != c.want {
			t.Errorf("%v for %q, tcp %v: %q, want %q", c.kind, c.need.Soname, c.tcp, got, c.want)
		}
	}
	i := &Install{Kind: OpenMPI, Prefix: complete, Fabric: true}
	if got := i.unfitReason(Need{}, false); got != "" {
		t.Errorf("with its library: %q", got)
	}
}

func TestNotFoundSaysWhatHelps(t *testing.T) {
	for _, c := range []struct {
		need  Need
		unfit []string
		want  []string
	}{
		{Need{}, nil, []string{"no MPI was found", "pip install mpich"}},
		{Need{"libmpich.so.12"}, []string{"/a is old"}, []string{"runs app, which was built for libmpich.so.12", "; /a is old", "pip install mpich"}},
		{Need{"libmpi.so.40"}, []string{"/a is old", "/b too"}, []string{"built for libmpi.so.40", "; /a is old; /b too", "install Open MPI with its component mtl/ofi"}},
	} {
		err := notFound("", "/x/app", c.need, c.unfit)
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %q lacks %q", c.need.Soname, err, w)
			}
		}
	}
}

func TestNeed(t *testing.T) {
	if n := NeedOf("/bin/sh"); n.Soname != "" {
		t.Errorf("/bin/sh needs %q", n.Soname)
	}
	if n := NeedOf(filepath.Join(t.TempDir(), "absent")); n.Soname != "" {
		t.Errorf("a file that is not there needs %q", n.Soname)
	}
}

// TestLibraries: a program that was linked with Debian's soname finds this MPI.
func TestLibraries(t *testing.T) {
	prefix, cache := makeFakeMPI(t, "mpiexec", hydra, ""), t.TempDir()
	i := &Install{Kind: MPICH, Prefix: prefix}
	for range 2 { // the second time the link exists
		dirs, err := i.Libraries(Need{"libmpich.so.12"}, cache)
		if err != nil || len(dirs) != 2 {
			t.Fatalf("%v, %v", dirs, err)
		}
		target, err := os.Readlink(filepath.Join(dirs[0], "libmpich.so.12"))
		if err != nil || target != filepath.Join(prefix, "lib", "libmpi.so.12") {
			t.Errorf("the name leads to %q, %v", target, err)
		}
	}
	link := filepath.Join(cache, "mpi-abi", strings.ReplaceAll(strings.Trim(prefix, "/"), "/", "-")+"-lib-libmpi.so.12", "libmpich.so.12")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/absent/libmpi.so.12", link); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Libraries(Need{"libmpich.so.12"}, cache); err != nil {
		t.Error(err)
	}
	if target, err := os.Readlink(link); err != nil || target != filepath.Join(prefix, "lib", "libmpi.so.12") {
		t.Errorf("a link to another place now leads to %q, %v", target, err)
	}
	dirs, err := i.Libraries(Need{"libmpi.so.12"}, cache)
	if err != nil || !slices.Equal(dirs, []string{filepath.Join(prefix, "lib")}) {
		t.Errorf("for its own name: %v, %v", dirs, err)
	}
	empty := &Install{Kind: MPICH, Prefix: t.TempDir()}
	if _, err := empty.Libraries(Need{"libmpich.so.12"}, cache); err == nil || !strings.Contains(err.Error(), "--mpi") {
		t.Errorf("an MPI without libmpi.so.12: %v", err)
	}
}

func TestCommand(t *testing.T) {
	job := &Job{Ranks: 4, Hosts: []string{"a", "b"}, Iface: "eth1", NoShm: true, Launcher: "/rsh", home: "10.0.0.9", Program: []string{"./app", "-x"}}
	m := &Install{Kind: MPICH, Launcher: "/m/bin/mpiexec", Prefix: "/m", Fabric: true}
	got := strings.Join(m.Command(job, m.Settings(job, "/p")), " ")
	if want := "/m/bin/mpiexec -n 4 -hosts a,b -localhost 10.0.0.9 -launcher ssh -launcher-exec /rsh ./app -x"; got != want {
		t.Errorf("MPICH: %s\nwant    %s", got, want)
	}
	o := &Install{Kind: OpenMPI, Launcher: "/o/bin/mpirun", Prefix: "/o", Fabric: true}
	got = strings.Join(o.Command(job, append(o.Settings(job, "/p"), Setting{"SKEP_O2G_SECRET", "hidden"})), " ")
	want := "/o/bin/mpirun -n 4 --host a:2,b:2 -x FI_PROVIDER_PATH -x FI_PROVIDER -x SKEP_O2G_NAP_US -x SKEP_O2G_IFACE -x FI_O2G_IFACE -x SKEP_O2G_SECRET ./app -x"
	if got != want {
		t.Errorf("Open MPI: %s\nwant       %s", got, want)
	}
	if strings.Contains(got, "hidden") {
		t.Error("the secret is on the command line, for everybody on this computer to read")
	}
}

// TestCommandOpenMPI: a job with a host file, and a job without hosts.
func TestCommandOpenMPI(t *testing.T) {
	o := &Install{Kind: OpenMPI, Launcher: "/o/bin/mpirun", Prefix: "/o", Fabric: true}
	for _, c := range []struct {
		job  Job
		want string
	}{
		{Job{Ranks: 2, Program: []string{"./app"}}, "/o/bin/mpirun -n 2 --oversubscribe ./app"},
		{Job{Ranks: 2, Hostfile: "list", Program: []string{"./app"}}, "/o/bin/mpirun -n 2 --hostfile list ./app"},
		{Job{Ranks: 2, Hosts: []string{"a", "b"}, Program: []string{"./app"}}, "/o/bin/mpirun -n 2 --host a:1,b:1 ./app"},
		{Job{Ranks: 5, Hosts: []string{"a", "b:9"}, Program: []string{"./app"}}, "/o/bin/mpirun -n 5 --host a:3,b:9 ./app"},
		{Job{Hosts: []string{"a"}, Program: []string{"./app"}}, "/o/bin/mpirun --host a:1 ./app"},
	} {
		if got := strings.Join(o.Command(&c.job, nil), " "); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// TestListAddresses: Open MPI's launcher knows IPv6 addresses in a file alone.
func TestListAddresses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct {
		kind  Kind
		hosts string
		want  string // the file's text; "": none
	}{
		{OpenMPI, "fd77::1,fd77::2", "fd77::1 slots=2\nfd77::2 slots=2\n"},
		{OpenMPI, "a,[fd77::2]:3,[fd77::3],u@fd77::4,b:5", "a slots=1\nfd77::2 slots=3\nfd77::3 slots=1\nu@fd77::4 slots=1\nb slots=5\n"},
		{OpenMPI, "a:2,b", ""},
		{OpenMPI, "10.0.0.1:2", ""},
		{MPICH, "fd77::1", ""},
	} {
		job := &Job{Ranks: 4, Hosts: strings.Split(c.hosts, ",")}
		remove, err := (&Install{Kind: c.kind}).listAddresses(job)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(job.Hostfile) // none is an empty text
		if string(text) != c.want || (c.want == "") != (len(job.Hosts) > 0) {
			t.Errorf("%s: %q, hosts %q", c.hosts, text, job.Hosts)
		}
		remove()
		if left, err := os.ReadDir(os.TempDir()); len(left) > 0 || err != nil {
			t.Errorf("%s: left %v, %v", c.hosts, left, err)
		}
	}
	t.Setenv("TMPDIR", "/nowhere")
	job := &Job{Hosts: []string{"fd77::1"}}
	if _, err := (&Install{Kind: OpenMPI}).listAddresses(job); err == nil || len(job.Hosts) != 1 {
		t.Errorf("no folder for the file: %v", err)
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name string
		i    Install
		j    Job
		want string
	}{
		{"mpich", Install{Kind: MPICH, Fabric: true}, Job{}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g MPIR_CVAR_CH4_NETMOD=ofi SKEP_O2G_IFACE=127.0.0.1 FI_O2G_IFACE=127.0.0.1"},
		{"mpich no shm", Install{Kind: MPICH, Fabric: true}, Job{NoShm: true, Iface: "eth0", Ports: "1-2", Engine: "user"}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g MPIR_CVAR_CH4_NETMOD=ofi MPIR_CVAR_NOLOCAL=1 SKEP_O2G_NAP_US=2000 SKEP_O2G_IFACE=eth0 FI_O2G_IFACE=eth0 SKEP_O2G_PORTS=1-2 FI_O2G_PORTS=1-2 SKEP_O2G_ENGINE=user FI_O2G_ENGINE=user"},
		{"a rank on each host", Install{Kind: MPICH, Fabric: true}, Job{Ranks: 2, Hosts: []string{"a", "b"}}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g MPIR_CVAR_CH4_NETMOD=ofi SKEP_O2G_NAP_US=2000"},
		{"more ranks than hosts", Install{Kind: MPICH, Fabric: true}, Job{Ranks: 3, Hosts: []string{"a", "b"}}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g MPIR_CVAR_CH4_NETMOD=ofi"},
		{"encrypted", Install{Kind: MPICH, Fabric: true}, Job{Encrypt: true}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g MPIR_CVAR_CH4_NETMOD=ofi SKEP_O2G_IFACE=127.0.0.1 FI_O2G_IFACE=127.0.0.1 SKEP_O2G_ENCRYPT=yes"},
		{"ompi encrypted", Install{Kind: OpenMPI}, Job{Ranks: 2, Iface: "eth0", Encrypt: true}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_mtl_ofi_provider_include=o2g OMPI_MCA_opal_common_ofi_provider_include=o2g SKEP_O2G_NAP_US=2000 SKEP_O2G_IFACE=eth0 FI_O2G_IFACE=eth0 SKEP_O2G_ENCRYPT=yes OMPI_MCA_btl=^tcp"},
		{"one engine on all hosts", Install{Kind: MPICH, Fabric: true}, Job{Ranks: 3, Hosts: []string{"a", "b"}, Engine: "user"}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g MPIR_CVAR_CH4_NETMOD=ofi SKEP_O2G_ENGINE=user FI_O2G_ENGINE=user"},
		{"slots", Install{Kind: MPICH, Fabric: true}, Job{Ranks: 2, Hosts: []string{"a:2", "b"}}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g MPIR_CVAR_CH4_NETMOD=ofi"},
		{"one host twice", Install{Kind: MPICH, Fabric: true}, Job{Ranks: 2, Hosts: []string{"a", "a"}}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g MPIR_CVAR_CH4_NETMOD=ofi"},
		{"intel", Install{Kind: IntelMPI, Fabric: true, Prefix: "/i"}, Job{}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g I_MPI_ROOT=/i I_MPI_FABRICS=shm:ofi I_MPI_OFI_PROVIDER=o2g SKEP_O2G_IFACE=127.0.0.1 FI_O2G_IFACE=127.0.0.1"},
		{"intel no shm", Install{Kind: IntelMPI, Fabric: true, Prefix: "/i"}, Job{NoShm: true, Iface: "eth0"}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g I_MPI_ROOT=/i I_MPI_FABRICS=ofi I_MPI_OFI_PROVIDER=o2g SKEP_O2G_NAP_US=2000 SKEP_O2G_IFACE=eth0 FI_O2G_IFACE=eth0"},
		{"intel tcp", Install{Kind: IntelMPI, Fabric: true, Prefix: "/i"}, Job{TCP: true, NoShm: true, Iface: "eth0"}, "I_MPI_ROOT=/i I_MPI_FABRICS=ofi I_MPI_OFI_PROVIDER=tcp FI_PROVIDER=tcp FI_TCP_IFACE=eth0"},
		{"ompi", Install{Kind: OpenMPI}, Job{Ranks: 2, Iface: "eth0"}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_mtl_ofi_provider_include=o2g OMPI_MCA_opal_common_ofi_provider_include=o2g SKEP_O2G_NAP_US=2000 SKEP_O2G_IFACE=eth0 FI_O2G_IFACE=eth0"},
		{"mpich tcp", Install{Kind: MPICH, Fabric: true}, Job{TCP: true, NoShm: true}, "MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp MPIR_CVAR_NOLOCAL=1"},
		{"mpich tcp on a network", Install{Kind: MPICH, Fabric: true}, Job{TCP: true, Iface: "eth1"}, "MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp FI_TCP_IFACE=eth1"},
		{"ompi tcp on a network", Install{Kind: OpenMPI}, Job{TCP: true, Iface: "eth1"}, "OMPI_MCA_pml=ob1 OMPI_MCA_btl=^openib,ofi OMPI_MCA_btl_tcp_if_include=eth1"},
		{"a batch step", Install{Kind: MPICH, Fabric: true}, Job{Step: true}, "FI_PROVIDER_PATH=/p FI_PROVIDER=o2g MPIR_CVAR_CH4_NETMOD=ofi"},
		{"ompi launcher", Install{Kind: OpenMPI}, Job{TCP: true, NoShm: true, Launcher: "/rsh"}, "OMPI_MCA_plm_rsh_agent=/rsh PRTE_MCA_plm_ssh_agent=/rsh OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self"},
		{"ompi tcp", Install{Kind: OpenMPI}, Job{TCP: true, NoShm: true}, "OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self"},
	} {
		var got []string
		for _, s := range c.i.Settings(&c.j, "/p") {
			got = append(got, s.Name+"="+s.Value)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, strings.Join(got, " "), c.want)
		}
	}
}

// TestHosts: host names are found in the formats of both launchers.
func TestHosts(t *testing.T) {
	for _, c := range []struct{ hosts, file, want string }{
		{"a:4,b", "", "a b"},
		{"me@a,b", "", "a b"},
		{"fd00::1,me@fe80::2%eth0,[fd00::3]:4,10.0.0.1:2", "", "fd00::1 fe80::2%eth0 fd00::3 10.0.0.1"},
		{"", "# all of them\n\n  node1:2\nnode2\n", "node1 node2"},
		{"", "node3 slots=4 # fast\n", "node3"},
		{"", "\n", ""},
	} {
		j := Job{}
		if c.hosts != "" {
			j.Hosts = strings.Split(c.hosts, ",")
		} else {
			j.Hostfile = filepath.Join(t.TempDir(), "hosts")
			writeFile(t, j.Hostfile, c.file)
		}
		if got := strings.Join(j.hostNames(), " "); got != c.want {
			t.Errorf("%q %q: %q, want %q", c.hosts, c.file, got, c.want)
		}
	}
}

// TestHome: other hosts are never given a loopback address.
func TestHome(t *testing.T) {
	known := map[string]string{"a": "127.0.0.1", "localhost": "::1", "b": "10.0.0.9", "c": "fd00::9", "later": "10.0.0.8"}
	for _, c := range []struct{ hosts, want string }{
		{"a,b,later", "10.0.0.9"},
		{"localhost,c", "fd00::9"},
		{"unknown,b", "10.0.0.9"},
		{"b,a", "10.0.0.9"},
		{"a", "127.0.0.1"},
		{"a,a,localhost", "::1"},
		{"a,unknown", ""}, // ssh may know the name
		{"", ""},
	} {
		got := homeFor(strings.FieldsFunc(c.hosts, func(r rune) bool { return r == ',' }), func(host string) string { return known[host] })
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.hosts, got, c.want)
		}
	}
	if home := homeFor([]string{"127.0.1.1"}, sourceAddress("udp")); home != "127.0.0.1" {
		t.Errorf("towards itself this computer is %q", home)
	}
	if home := sourceAddress("udp")("no host"); home != "" {
		t.Errorf("towards a host that is none: %q", home)
	}
}

func TestSecretsOfJobsDiffer(t *testing.T) {
	a, b := NewSecret(), NewSecret()
	if len(a) != 64 || len(b) != 64 {
		t.Errorf("%d and %d hexadecimal digits", len(a), len(b))
	}
	if a == b {
		t.Errorf("two jobs got one secret: %s", a)
	}
}

func TestStepSecret(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	a, err := StepSecret(dir, "12.0")
	if err != nil || len(a) != 64 {
		t.Fatalf("%q, %v", a, err)
	}
	if b, err := StepSecret(dir, "12.0"); b != a || err != nil {
		t.Errorf("another rank of the step got another secret: %v", err)
	}
	if b, _ := StepSecret(dir, "12.1"); b == a {
		t.Error("another step got the same secret")
	}
	if b, err := StepSecret(t.TempDir(), "12.0"); b == a || err != nil {
		t.Errorf("another user got the same secret: %v", err)
	}
	path := filepath.Join(dir, "o2g.key")
	for _, folder := range []string{filepath.Join(path, "below"), "/proc/none"} {
		if b, err := StepSecret(folder, "12.0"); err == nil || b != "" {
			t.Errorf("a folder that can't be: %q, %v", b, err)
		}
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o620, 0o610, 0o604, 0o602, 0o601} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := StepSecret(dir, "12.0"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a key of mode %o: %v", mode, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("k", 31), strings.Repeat("k", 33)} {
		os.Remove(path)
		if err := os.WriteFile(path, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := StepSecret(dir, "12.0"); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("a key of %d bytes: %v", len(key), err)
		}
	}
	// Each byte of the key changes the secret.
	seen := map[string]int{a: -1}
	for i := range 32 {
		key := bytes.Repeat([]byte{'k'}, 32)
		key[i]++
		if err := os.WriteFile(path, key, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := StepSecret(dir, "12.0")
		if was, there := seen[s]; there || err != nil {
			t.Errorf("keys that differ in bytes %d and %d alone make one secret: %v", was, i, err)
		}
		seen[s] = i
	}
}

// encodeRecord returns the bytes that an endpoint sends.
func encodeRecord(t *testing.T, r Record, secret []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, r); err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("o2g report"))
	mac.Write(b.Bytes()[:b.Len()-32])
	return mac.Sum(b.Bytes()[:b.Len()-32])
}

// TestCollector: each report of the job is counted once; unauthenticated reports
// are not counted.
func TestCollector(t *testing.T) {
	secret := NewSecret()
	key, _ := hex.DecodeString(secret)
	c, err := NewCollector("127.0.0.1:0", secret)
	if err != nil {
		t.Fatal(err)
	}
	one := Record{Magic: recordMagic, Revision: recordRevision, ID: [16]byte{1}, Sent: 10, SentBytes: 1000, Expected: 4, Self: 3}
	two := Record{Magic: recordMagic, Revision: recordRevision, ID: [16]byte{2}, Sent: 5, SentBytes: 234, Expected: 2, Requested: 7, Engine: 1}
	old := one
	old.Revision, old.ID = 9, [16]byte{3}
	for _, b := range [][]byte{
		encodeRecord(t, one, key), encodeRecord(t, one, key), encodeRecord(t, two, key),
		encodeRecord(t, two, []byte("another job's")), encodeRecord(t, old, key),
		[]byte("garbage"), bytes.Repeat([]byte{0xff}, 1<<16), nil,
	} {
		sendRecord(t, c, b)
	}
	silent, err := net.Dial("tcp", c.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	total := Sum(c.Close())
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("a silent stranger held the end up for %v", took)
	}
	if want := (Total{Processes: 1, Endpoints: 2, Kernel: 1, Sent: 15, SentBytes: 1234, Expected: 6, Requested: 7, Self: 3}); total != want {
		t.Errorf("got %+v, want %+v", total, want)
	}
	for _, c := range []struct {
		list []Report
		want int
	}{
		{[]Report{{one, "a"}, {two, "a"}, {one, "b"}}, 2},
		{[]Report{{Record{PID: 1}, "a"}, {Record{PID: 2}, "a"}, {Record{PID: 2}, "a"}}, 2},
	} {
		if got := Sum(c.list).Processes; got != c.want {
			t.Errorf("%d processes of %+v, want %d", got, c.list, c.want)
		}
	}
	if c.addReport(silent) {
		t.Error("who comes after the end is read, and nobody waits for that")
	}
	if c, err := NewCollector("127.0.0.1:none", secret); err == nil || c != nil {
		t.Errorf("a port that can't be had: %v, %v", c, err)
	}
	if c, err := NewCollector("127.0.0.1:0", "no secret"); err == nil || c != nil {
		t.Errorf("a secret that is none: %v, %v", c, err)
	}
}

// TestRecordMAC: a report is refused if one bit of it was changed, or if its key
// differs in one bit.
func TestRecordMAC(t *testing.T) {
	key, _ := hex.DecodeString(NewSecret())
	good := encodeRecord(t, Record{Magic: recordMagic, Revision: recordRevision, Sent: 10}, key)
	if _, err := parseRecord(good, key); err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := parseRecord(bad, key); err == nil {
			t.Errorf("bit %d of a report was turned over, and it was believed", i)
		}
	}
	for i := range 8 * len(key) {
		other := bytes.Clone(key)
		other[i/8] ^= 1 << (i % 8)
		if _, err := parseRecord(good, other); err == nil {
			t.Errorf("bit %d of the secret was another, and the report was believed", i)
		}
	}
}

// TestCollectorIsFull: a connection beyond the limit is read later.
func TestCollectorIsFull(t *testing.T) {
	defer func(n int) { recordMax = n }(recordMax)
	recordMax = 2
	secret := NewSecret()
	key, _ := hex.DecodeString(secret)
	c, err := NewCollector("127.0.0.1:0", secret)
	if err != nil {
		t.Fatal(err)
	}
	address := c.listener.Addr().String()
	var silent []net.Conn
	for range recordMax {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	err = watch.Poll(30*time.Second, func() error {
		c.lock.Lock()
		defer c.lock.Unlock()
		if len(c.conns) < recordMax {
			return fmt.Errorf("%d silent ones came in", len(c.conns))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rank, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer rank.Close()
	if _, err := rank.Write(encodeRecord(t, Record{Magic: recordMagic, Revision: recordRevision, ID: [16]byte{1}, Sent: 10}, key)); err != nil {
		t.Fatal(err)
	}
	for _, conn := range silent {
		conn.Close()
	}
	rank.SetDeadline(time.Now().Add(30 * time.Second))
	rank.Read(make([]byte, 1)) // end of file: the report was read, or the connection was closed unread
	if total := Sum(c.Close()); total.Endpoints != 1 || total.Sent != 10 {
		t.Errorf("got %+v", total)
	}
}

// A scriptedListener accepts what the test gives it.
type scriptedListener struct {
	net.Listener
	next chan func() (net.Conn, error)
}

func (l *scriptedListener) Accept() (net.Conn, error) {
	if accept, ok := <-l.next; ok {
		return accept()
	}
	return nil, net.ErrClosed
}

// TestCollectorGoesOn: without descriptors for a while, the collector accepts
// later. It closes a connection that is accepted after the end.
func TestCollectorGoesOn(t *testing.T) {
	l := &scriptedListener{next: make(chan func() (net.Conn, error))}
	c := &Collector{listener: l, room: make(chan struct{}, 1), conns: map[net.Conn]bool{}}
	c.work.Add(1)
	go c.accept()
	l.next <- func() (net.Conn, error) { return nil, syscall.EMFILE }
	late, rank := net.Pipe()
	l.next <- func() (net.Conn, error) {
		c.lock.Lock()
		c.closed = true
		c.lock.Unlock()
		return late, nil
	}
	rank.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := rank.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("accepted after the end: %v", err)
	}
	close(l.next)
	c.work.Wait()
}

// sendRecord sends b and waits until the collector has processed it.
func sendRecord(t *testing.T, c *Collector, b []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", c.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	conn.Write(b) // the collector may close the connection before the last byte
	conn.(*net.TCPConn).CloseWrite()
	conn.Read(make([]byte, 1))
}

// TestRecordSize: Record has the size of the C structure.
func TestRecordSize(t *testing.T) {
	if n := binary.Size(Record{}); n != 144 {
		t.Errorf("%d bytes, struct o2g_report has 144", n)
	}
}

// TestRun: the program's exit status and standard streams are passed through, and
// its environment has each setting once.
func TestRun(t *testing.T) {
	prefix := makeFakeMPI(t, "mpiexec", hydra, "")
	writeFile(t, filepath.Join(prefix, "bin", "mpiexec"), "#!/bin/sh\nshift 2\nexec \"$@\"\n")
	r := &Runner{Install: &Install{Kind: MPICH, Prefix: prefix, Launcher: filepath.Join(prefix, "bin", "mpiexec"), Fabric: true}, Provider: "/p", Cache: t.TempDir()}
	t.Setenv("FI_PROVIDER", "mine")
	t.Setenv("SKEP_O2G_CREDIT", "1M")
	t.Setenv("SKEP_O2G_SECRET", "an old one")
	t.Setenv("SKEP_O2G_IFACE", "eth7")
	t.Setenv("FI_O2G_IFACE", "eth8")
	t.Setenv("FI_O2G_NAP_US", "77")
	out := filepath.Join(t.TempDir(), "env")
	res, err := r.Run(t.Context(), &Job{Ranks: 1, Program: []string{"/bin/sh", "-c", "env >" + out + "; exit 7"}})
	if err != nil || res.Status != 7 {
		t.Fatalf("status %d, %v; want 7", res.Status, err)
	}
	env, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(env), "FI_PROVIDER="); n != 1 || !strings.Contains(string(env), "FI_PROVIDER=o2g\n") {
		t.Errorf("FI_PROVIDER is there %d times", n)
	}
	for _, name := range []string{"CREDIT", "SECRET", "REPORT", "IFACE"} {
		if n := strings.Count(string(env), "SKEP_O2G_"+name+"="); n != 1 {
			t.Errorf("SKEP_O2G_%s is there %d times", name, n)
		}
	}
	if strings.Contains(string(env), "an old one") || !strings.Contains(string(env), "SKEP_O2G_CREDIT=1M\n") {
		t.Error("the job has an old secret, or not the credit that was asked for")
	}
	if !strings.Contains(string(env), "SKEP_O2G_SECRET=") || !strings.Contains(string(env), "SKEP_O2G_REPORT=127.0.0.1:") {
		t.Error("the ranks got no secret or nobody to report to")
	}
	checkForwarding(t, r, string(env))
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	began := time.Now()
	if _, err := r.Run(ctx, &Job{Ranks: 1, Program: []string{"/bin/sh", "-c", "trap '' TERM; exec sleep 60"}}); err != nil && !strings.Contains(err.Error(), "did not start") {
		t.Log(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a program that ignores its end lived for %v", took)
	}
}

// checkForwarding checks that options override the shell's settings of the
// provider, that these reach ranks on other hosts too, and that with TCP no
// settings are passed.
func checkForwarding(t *testing.T, r *Runner, env string) {
	t.Helper()
	env = "\n" + env
	if !strings.Contains(env, "\nFI_O2G_IFACE=127.0.0.1\n") || !strings.Contains(env, "\nSKEP_O2G_IFACE=127.0.0.1\n") {
		t.Error("an interface for the provider won over the job's")
	}
	for _, c := range []struct {
		job  Job
		want bool
	}{{Job{Hosts: []string{"a"}}, true}, {Job{Hosts: []string{"a"}, TCP: true}, false}} {
		settings, err := r.collectSettings(&c.job)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []Setting{{"FI_O2G_NAP_US", "77"}, {"FI_O2G_IFACE", "eth8"}, {"SKEP_O2G_CREDIT", "1M"}} {
			if slices.Contains(settings, s) != c.want {
				t.Errorf("TCP %v: %s is forwarded: %v", c.job.TCP, s.Name, !c.want)
			}
		}
	}
}
