// SPDX-License-Identifier: MIT

// Package launch starts unmodified MPI programs over O2G, with the installed MPI.
// It finds the MPI that a program was built for, selects O2G's libfabric provider
// by that MPI's own settings, and counts the messages that went over O2G.
package launch

import (
	"strconv"
	"strings"
)

// A Kind is a family of MPI libraries.
type Kind string

// The families that reach libfabric.
const (
	MPICH    Kind = "MPICH"
	IntelMPI Kind = "Intel MPI" // of the family MPICH
	OpenMPI  Kind = "Open MPI"
)

// family is the kind whose programs it runs and whose launcher it has. MVAPICH
// and other builds of MPICH are that themselves.
func (k Kind) family() Kind {
	if k == IntelMPI {
		return MPICH
	}
	return k
}

// An Install is one MPI on this computer.
type Install struct {
	Kind     Kind
	Version  string
	Prefix   string // it has bin/ and lib/
	Launcher string // path of its mpiexec or mpirun
	Fabric   bool   // it can use libfabric providers
}

// String returns the name and version for messages.
func (i *Install) String() string {
	return string(i.Kind) + " " + i.Version + " in " + i.Prefix
}

// A Job is one run of a program.
type Job struct {
	Ranks    int      // of Program
	Hosts    []string // empty: this computer
	Hostfile string
	Iface    string // network interface or address for messages
	Ports    string // FIRST-LAST
	Encrypt  bool   // all messages between hosts, by O2G
	NoShm    bool   // ranks on one host also use O2G
	TCP      bool   // use the MPI's own TCP instead of O2G
	Engine   string
	Launcher string   // used instead of ssh, with ssh's arguments
	Step     bool     // a batch system starts the ranks
	Options  []Option // of the MPI's launcher, passed on
	Program  []string
	Parts    []Part // further programs of the job

	home string // this computer's address as the hosts see it
}

// portRange returns the ports to listen on, or zeros if any will do. Ports was checked
// before: it is FIRST-LAST, or one port.
func (j *Job) portRange() (first, last int) {
	a, b, more := strings.Cut(j.Ports, "-")
	if !more {
		b = a
	}
	first, _ = strconv.Atoi(a)
	last, _ = strconv.Atoi(b)
	return first, last
}

// isRemote reports whether ranks may run on other computers.
func (j *Job) isRemote() bool { return len(j.Hosts) > 0 || j.Hostfile != "" || j.Step }
