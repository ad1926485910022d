// SPDX-License-Identifier: MIT

package launch

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestPorts: the MPI's launcher gets the range of --ports in its own words, on several
// hosts only, unless the user has set another.
func TestPorts(t *testing.T) {
	both := Job{Ports: "7700-7731", Hosts: []string{"a", "b"}}
	open := "OMPI_MCA_oob_tcp_dynamic_ipv4_ports=7700-7731 PRTE_MCA_oob_tcp_dynamic_ipv4_ports=7700-7731 OMPI_MCA_btl_tcp_port_min_v4=7700 OMPI_MCA_btl_tcp_port_range_v4=32"
	for _, c := range []struct {
		name string
		kind Kind
		job  Job
		want string
	}{
		{"mpich", MPICH, both, "MPIEXEC_PORT_RANGE=7700:7731"},
		{"intel", IntelMPI, both, "I_MPI_PORT_RANGE=7700:7731"},
		{"open mpi", OpenMPI, both, open + " " + strings.NewReplacer("v4", "v6").Replace(open)},
		{"one port", MPICH, Job{Ports: "7700", Hostfile: "f"}, "MPIEXEC_PORT_RANGE=7700:7700"},
		{"one computer", MPICH, Job{Ports: "7700-7731"}, ""},
		{"any", MPICH, Job{Hosts: []string{"a", "b"}}, ""},
	} {
		var got []string
		i := Install{Kind: c.kind}
		i.addPorts(&c.job, func(name, value string) { got = append(got, name+"="+value) })
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.name, text, c.want)
		}
	}
	t.Setenv("MPIEXEC_PORT_RANGE", "1:2")
	(&Install{Kind: MPICH}).addPorts(&both, func(name, value string) { t.Errorf("%s=%s although the user has set it", name, value) })
}

// TestCollectorPorts: skep itself listens within --ports, from the last one down.
func TestCollectorPorts(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	c, err := startCollector(&Job{Ports: fmt.Sprintf("%d-%d", port-50, port), Hosts: []string{"a"}}, strings.Repeat("0", 64))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if c.Port() >= port || c.Port() < port-50 {
		t.Errorf("port %d, want one of 50 below %d", c.Port(), port)
	}
	_, err = startCollector(&Job{Ports: fmt.Sprint(port), Hosts: []string{"a"}}, strings.Repeat("0", 64))
	if err == nil || !strings.Contains(err.Error(), "give more") {
		t.Errorf("a range without a free port: %v", err)
	}
}
