// SPDX-License-Identifier: MIT

// Package launch starts MPI programs, as they are, on the MPI that is installed,
// over O2G: it finds the MPI that a program was built for, gives it the
// libfabric provider through its own settings, and counts at the end which
// way the messages took.
package launch

// A Kind is a family of MPI libraries.
type Kind string

// The families that reach libfabric.
const (
	MPICH   Kind = "MPICH"
	OpenMPI Kind = "Open MPI"
)

// An Install is one MPI on this computer.
type Install struct {
	Kind     Kind
	Version  string
	Prefix   string // it has bin/ and lib/
	Launcher string // path of its mpiexec or mpirun
	Fabric   bool   // it can use libfabric providers
}

// String names it for people.
func (i *Install) String() string {
	return string(i.Kind) + " " + i.Version + " in " + i.Prefix
}

// A Job is one run of a program.
type Job struct {
	Ranks    int      // of Program
	Hosts    []string // none: this computer
	Hostfile string
	Iface    string // network interface or address for messages
	Ports    string // FIRST-LAST
	NoShm    bool   // also ranks of one host talk over O2G
	TCP      bool   // the MPI's own TCP instead of O2G
	Engine   string
	Launcher string   // reaches hosts instead of ssh, called as ssh is
	Step     bool     // a batch system starts the ranks
	Options  []Option // of the MPI's launcher, passed on
	Program  []string
	Parts    []Part // further programs of the job

	home string // this computer's address as the hosts see it
}

// isRemote reports whether ranks may run on other computers.
func (j *Job) isRemote() bool { return len(j.Hosts) > 0 || j.Hostfile != "" || j.Step }
