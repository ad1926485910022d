// SPDX-License-Identifier: MIT

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Setting is one variable of the ranks' environment. A secret one must not
// appear on a command line.
type Setting struct{ Name, Value string }

// Settings returns the variables that the ranks need in their environment.
// provider is the folder of libo2g-fi.so.
func (i *Install) Settings(j *Job, provider string) []Setting {
	var list []Setting
	add := func(name, value string) { list = append(list, Setting{name, value}) }
	if j.Launcher != "" && i.Kind == OpenMPI {
		add("OMPI_MCA_plm_rsh_agent", j.Launcher)
		add("PRTE_MCA_plm_ssh_agent", j.Launcher) // the name since Open MPI 5.0
	}
	if j.TCP {
		i.addTCP(j, add)
		return list
	}
	add("FI_PROVIDER_PATH", provider)
	add("FI_PROVIDER", "o2g")
	switch i.Kind {
	case MPICH:
		add("MPIR_CVAR_CH4_NETMOD", "ofi")
	case IntelMPI:
		i.addIntel(j, add, "o2g")
	case OpenMPI:
		add("OMPI_MCA_pml", "cm")
		add("OMPI_MCA_mtl", "ofi")
		add("OMPI_MCA_mtl_ofi_provider_include", "o2g")
		add("OMPI_MCA_opal_common_ofi_provider_include", "o2g")
	}
	if j.NoShm && i.Kind == MPICH {
		add("MPIR_CVAR_NOLOCAL", "1")
	}
	if i.onlyO2G(j) && os.Getenv(napVar) == "" {
		add(napVar, napMax)
	}
	iface := j.Iface
	if iface == "" && !j.isRemote() {
		iface = "127.0.0.1"
	}
	i.addPorts(j, add)
	// The provider's variables (FI_O2G_*) override those of libo2g (O2G_*). Set
	// both, so that options typed here override the shell's variables.
	for _, s := range []Setting{{"IFACE", iface}, {"PORTS", j.Ports}, {"ENGINE", j.Engine}} {
		if s.Value != "" {
			add("SKEP_O2G_"+s.Name, s.Value)
			add("FI_O2G_"+s.Name, s.Value)
		}
	}
	// A variable of the shell can't switch it off, and a rank that does not get
	// this one is refused by the others.
	if j.Encrypt {
		add("SKEP_O2G_ENCRYPT", "yes")
		i.addNoTCP(add)
	}
	return list
}

// addNoTCP forbids Open MPI its own TCP, which one-sided operations of some versions use
// beside the network of messages, and which does not encrypt.
func (i *Install) addNoTCP(add func(name, value string)) {
	if i.Kind == OpenMPI {
		add("OMPI_MCA_btl", "^tcp")
	}
}

// addIntel adds the settings by which Intel MPI uses a provider, and no other
// transport between hosts.
func (i *Install) addIntel(j *Job, add func(name, value string), provider string) {
	fabrics := "shm:ofi"
	if j.NoShm {
		fabrics = "ofi"
	}
	add("I_MPI_ROOT", i.Prefix)
	add("I_MPI_FABRICS", fabrics)
	add("I_MPI_OFI_PROVIDER", provider)
}

// addPorts restricts the launcher's own listening sockets, too, to the ports that a
// firewall leaves open. A range that the user has set stays.
func (i *Install) addPorts(j *Job, add func(name, value string)) {
	first, last := j.portRange()
	if first == 0 || !j.isRemote() || j.Step {
		return
	}
	set := func(name, value string) {
		if os.Getenv(name) == "" {
			add(name, value)
		}
	}
	switch i.Kind {
	case MPICH:
		set("MPIEXEC_PORT_RANGE", fmt.Sprintf("%d:%d", first, last))
	case IntelMPI:
		set("I_MPI_PORT_RANGE", fmt.Sprintf("%d:%d", first, last))
	case OpenMPI:
		for _, family := range []string{"v4", "v6"} {
			ports := fmt.Sprintf("%d-%d", first, last)
			set("OMPI_MCA_oob_tcp_dynamic_ip"+family+"_ports", ports)
			set("PRTE_MCA_oob_tcp_dynamic_ip"+family+"_ports", ports)
			set("OMPI_MCA_btl_tcp_port_min_"+family, strconv.Itoa(first))
			set("OMPI_MCA_btl_tcp_port_range_"+family, strconv.Itoa(last-first+1))
		}
	}
}

// The longest sleep of a waiting rank, in microseconds.
const (
	napVar = "SKEP_O2G_NAP_US"
	napMax = "2000"
)

// onlyO2G reports whether all messages between the job's ranks go over O2G.
// Otherwise ranks must not sleep while they wait: the MPI polls its shared
// memory in the same loop, and a sleep would delay messages there.
func (i *Install) onlyO2G(j *Job) bool {
	if j.NoShm || i.Kind == OpenMPI { // Open MPI's cm uses no shared memory
		return true
	}
	names := map[string]bool{}
	for _, host := range j.Hosts {
		if strings.Contains(host, ":") || names[host] {
			return false // several ranks may run on this host
		}
		names[host] = true
	}
	return len(names) > 0 && j.TotalRanks() <= len(names)
}

// addTCP adds the settings that select the MPI's own TCP, for comparison.
func (i *Install) addTCP(j *Job, add func(name, value string)) {
	switch {
	case i.Kind == OpenMPI && j.NoShm:
		add("OMPI_MCA_pml", "ob1")
		add("OMPI_MCA_btl", "tcp,self")
	case i.Kind == OpenMPI:
		add("OMPI_MCA_pml", "ob1")
		add("OMPI_MCA_btl", "^openib,ofi")
	case i.Kind == IntelMPI:
		i.addIntel(j, add, "tcp")
		add("FI_PROVIDER", "tcp")
	case i.Fabric:
		add("MPIR_CVAR_CH4_NETMOD", "ofi")
		add("FI_PROVIDER", "tcp")
	}
	if i.Kind == MPICH && j.NoShm {
		add("MPIR_CVAR_NOLOCAL", "1")
	}
	if j.Iface != "" && i.Kind.family() == MPICH {
		add("FI_TCP_IFACE", j.Iface)
	}
	if j.Iface != "" && i.Kind == OpenMPI {
		add("OMPI_MCA_btl_tcp_if_include", j.Iface)
	}
}

// Libraries returns the folders that the ranks' dynamic linker must search first,
// so that the program loads this MPI under any soname that it was linked with.
// For another soname (Debian's libmpich.so.12, Cray's libmpi_cray.so.12) it creates a folder of symbolic
// links in cache, which all hosts of a job must see at the same path.
func (i *Install) Libraries(need Need, cache string) ([]string, error) {
	if i.Prefix == "/usr" {
		return nil, nil // the linker searches this folder anyway
	}
	lib := filepath.Join(i.Prefix, "lib")
	folders := []string{lib}
	if i.Kind.family() != MPICH {
		return folders, nil
	}
	// A Python wheel keeps its dependencies in a subfolder, which its libraries
	// find relative to the path that they are opened by.
	if own := filepath.Join(lib, "mpich"); isDir(own) {
		folders = append(folders, own)
	}
	foreign := need.Soname == "libmpich.so.12" || craySoname().MatchString(need.Soname)
	if !foreign || exists(filepath.Join(lib, need.Soname)) {
		return folders, nil
	}
	swap, err := linkABI(filepath.Join(lib, "libmpi.so.12"), need.Soname, cache)
	if err != nil {
		return nil, err
	}
	return append([]string{swap}, folders...), nil
}

// linkABI creates the symbolic link cache/<name of the target>/<soname> to target.
// Libraries of the MPICH ABI initiative differ only in their sonames.
func linkABI(target, soname, cache string) (string, error) {
	if !exists(target) {
		return "", fmt.Errorf("%s is missing, so programs built for %s can't run there: name another MPICH with --mpi PREFIX", target, soname)
	}
	dir := filepath.Join(cache, "mpi-abi", strings.ReplaceAll(strings.Trim(target, "/"), "/", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	link := filepath.Join(dir, soname)
	if old, err := os.Readlink(link); err == nil && old == target {
		return dir, nil
	}
	fresh := link + "." + strconv.Itoa(os.Getpid())
	if err := os.Symlink(target, fresh); err != nil {
		return "", err
	}
	return dir, os.Rename(fresh, link)
}

// Command returns the launcher's command line. The values of settings are in the
// launcher's environment; Open MPI also needs their names on the command line.
func (i *Install) Command(j *Job, settings []Setting) []string {
	args := []string{i.Launcher}
	if j.Ranks > 0 {
		args = append(args, "-n", strconv.Itoa(j.Ranks))
	}
	switch i.Kind.family() {
	case MPICH:
		if len(j.Hosts) > 0 {
			args = append(args, "-hosts", strings.Join(j.Hosts, ","))
		}
		if j.Hostfile != "" {
			args = append(args, "-f", j.Hostfile)
		}
		// If this computer's host name resolves to a loopback address, as
		// Debian's installer sets it, Hydra's proxies would connect to their
		// own host.
		if j.home != "" {
			args = append(args, "-localhost", j.home)
		}
		if j.Launcher != "" {
			args = append(args, i.sshArgs(j.Launcher)...)
		}
	case OpenMPI:
		if len(j.Hosts) > 0 {
			args = append(args, "--host", strings.Join(slotsPerHost(j), ","))
		}
		if j.Hostfile != "" {
			args = append(args, "--hostfile", j.Hostfile)
		}
		if !j.isRemote() && !j.hasOption("nooversubscribe", "oversubscribe") {
			args = append(args, "--oversubscribe")
		}
	}
	exports := i.exportArgs(settings)
	args = append(args, exports...)
	for _, o := range j.Options {
		args = append(args, o...)
	}
	args = append(args, j.Program...)
	for _, p := range j.Parts {
		args = append(args, p.args(exports)...)
	}
	return args
}

// sshArgs names a program that starts processes on other hosts as ssh does.
func (i *Install) sshArgs(program string) []string {
	if i.Kind == IntelMPI {
		return []string{"-bootstrap", "ssh", "-bootstrap-exec", program}
	}
	return []string{"-launcher", "ssh", "-launcher-exec", program}
}

// exportArgs tells Open MPI, for each part of a job, which variables to pass on.
func (i *Install) exportArgs(settings []Setting) []string {
	var args []string
	for _, s := range settings {
		if i.Kind == OpenMPI && !strings.HasPrefix(s.Name, "OMPI_MCA_") && !strings.HasPrefix(s.Name, "PRTE_MCA_") {
			args = append(args, "-x", s.Name)
		}
	}
	return args
}

// slotsPerHost returns the hosts for Open MPI, each with enough slots for an equal
// share of the ranks.
func slotsPerHost(j *Job) []string {
	n := len(j.Hosts)
	per := max(1, (j.TotalRanks()+n-1)/n)
	list := slices.Clone(j.Hosts)
	for i, h := range list {
		if isIPv6(h) && !strings.Contains(h, "]:") || !strings.Contains(h, ":") {
			list[i] = h + ":" + strconv.Itoa(per)
		}
	}
	return list
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
