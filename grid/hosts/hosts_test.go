// SPDX-License-Identifier: MIT

package hosts

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// All elements that have a meaning, in OmniRPC's form.
func TestRead(t *testing.T) {
	f, err := Read("hosts.xml", []byte(`<?xml version="1.0" ?>
<!-- the cluster -->
<OmniRpcConfig>
  <Host name="one" user="me" arch="x86_64" os="linux">
    <Agent invoker="rsh" mxio="on" path="/opt/skep"/>
    <JobScheduler type="fork" maxjob="4"/>
    <Registry path="/opt/stubs"/>
    <Description>a PC</Description>
  </Host>
  <Host name="localhost"><WorkingPath path="/tmp"/><Agent invoker="ssh" mxio="no" port="5"/></Host>
  <Host name="localhost"/>
  <Host name="localhost"><JobScheduler type="slurm" maxjob="3"/></Host>
  <Host name="localhost"><JobScheduler type="sge"/></Host><Host name="localhost"><JobScheduler type="sge"/></Host>
  <Host name="far"><JobScheduler type="pbs" maxjob="5"/></Host>
  <TimeOut second="90"/>
  <Debug/><Log file="x"/><Monitor host="h" port="1"/>
</OmniRpcConfig>
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Host{
		{Place: "hosts.xml:4:3", Name: "one", User: "me", Arch: "x86_64", OS: "linux", Agent: "/opt/skep", Registry: "/opt/stubs", Slots: 4},
		{Place: "hosts.xml:10:3", Name: "localhost", Slots: 2},
		{Place: "hosts.xml:12:3", Name: "localhost", Slots: 3, Batch: "slurm"},
		{Place: "hosts.xml:13:3", Name: "localhost", Slots: 2, Batch: "sge"},
		{Place: "hosts.xml:14:3", Name: "far", Slots: 5, Batch: "pbs"},
	}
	if !reflect.DeepEqual(f.Hosts, want) || f.Timeout != 90*time.Second {
		t.Errorf("got %+v", f)
	}
	for i, w := range []string{"hosts.xml:10:26: WorkingPath has no effect", "hosts.xml:10:52: port", "hosts.xml:16:3: Debug", "hosts.xml:16:11: Log", "hosts.xml:16:26: Monitor"} {
		if len(f.Warnings) != 5 || !strings.HasPrefix(f.Warnings[i], w) {
			t.Errorf("warnings %q, want %q", f.Warnings, w)
		}
	}
}

// Each error names its place and what to write instead.
func TestProblems(t *testing.T) {
	host := func(inside string) string {
		return "<OmniRpcConfig>\n<Host name=\"h\">" + inside + "</Host></OmniRpcConfig>"
	}
	for text, want := range map[string]string{
		"":                                "x:1:1: the file has no element OmniRpcConfig",
		"<Config/>":                       "x:1:1: the element Config is here instead of OmniRpcConfig",
		"<OmniRpcConfig></OmniRpcConfig>": "the file names no host",
		"<OmniRpcConfig>\n <Hosts/></OmniRpcConfig>":                       "x:2:2: there is no element Hosts: write Host",
		"<OmniRpcConfig>\n <Host name=\"a\"":                               "x:2: unexpected EOF",
		"<OmniRpcConfig>one two</OmniRpcConfig>":                           `x:1:16: "one two" stands between elements`,
		"<OmniRpcConfig>\n<Host/></OmniRpcConfig>":                         "x:2:1: Host needs name",
		"<OmniRpcConfig><Host name=\"-oProxyCommand=x\"/></OmniRpcConfig>": `"-oProxyCommand=x" is not the name of a host`,
		"<OmniRpcConfig><Host name=\"a\" user=\"b c\"/></OmniRpcConfig>":   `"b c" is not the name of a host or user`,
		"<OmniRpcConfig><Host name=\"a\" cpu=\"2\"/></OmniRpcConfig>":      "Host has no attribute cpu: write name, user, arch, os",
		"<OmniRpcConfig><TimeOut second=\"soon\"/></OmniRpcConfig>":        "TimeOut needs second",
		host("<Agent/>"):                                  "x:2:16: Agent needs invoker: write ssh",
		host(`<Agent invoker="fax"/>`):                    `there is no invoker "fax": write ssh`,
		host(`<Agent invoker="globus"/>`):                 "the invoker globus is not supported: write ssh",
		host(`<Agent invoker="daemon"/>`):                 "the invoker daemon is not supported: type `skep up`",
		host(`<Agent invoker="ssh" mxio="so"/>`):          `mxio is on or off, not "so"`,
		host(`<JobScheduler type="rr"/>`):                 "write a Host for each computer",
		host(`<JobScheduler type="lottery"/>`):            "there is no type \"lottery\" of JobScheduler: write fork, slurm, sge or pbs",
		host(`<JobScheduler maxjob="0"/>`):                `maxjob is a number from 1 to 4096, not "0"`,
		host(`<JobScheduler maxjob="4097"/>`):             `maxjob is a number from 1 to 4096, not "4097"`,
		host(`<JobScheduler maxjobs="2"/>`):               "JobScheduler has no attribute maxjobs: write type, maxjob",
		host("<Agent invoker=\"ssh\" path=\"a&#9;\"/>"):   "the attribute path has a control character",
		host("<Agent invoker=\"ssh\" path=\"a&#127;\"/>"): "the attribute path has a control character",
		host("<Registry/>"):                               "Registry needs path",
		host("<WorkingPath/>"):                            "WorkingPath needs path",
		host("<Disk/>"):                                   "a Host has no element Disk",
		host("<Agent invoker=\"ssh\" path=\"a\x01\"/>"):   "illegal character code",
	} {
		if _, err := Read("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A time limit is at least one second and at most one day.
func TestTimeOuts(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "-1": 0, "86401": 0, "1.5": 0, "1": time.Second, "86400": 24 * time.Hour,
	} {
		file, err := Read("x", []byte(`<OmniRpcConfig><TimeOut second="`+text+`"/><Host name="a"/></OmniRpcConfig>`))
		if want == 0 && (err == nil || !strings.Contains(err.Error(), "from 1 to 86400")) {
			t.Errorf("%s: %v, want an error", text, err)
		}
		if want != 0 && (err != nil || file.Timeout != want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// The largest number of jobs is taken.
func TestMostJobs(t *testing.T) {
	file, err := Read("x", []byte(`<OmniRpcConfig><Host name="a"><JobScheduler maxjob="4096"/></Host></OmniRpcConfig>`))
	if err != nil || file.Hosts[0].Slots != 4096 {
		t.Errorf("%+v, %v", file, err)
	}
}

// No file makes the reader panic, and what it returns can be passed to ssh.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`<OmniRpcConfig><Host name="a"><Agent invoker="ssh"/></Host></OmniRpcConfig>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Read("x", text)
		if err != nil {
			return
		}
		for _, h := range file.Hosts {
			if h.Name == "" || strings.HasPrefix(h.Name, "-") || strings.HasPrefix(h.User, "-") || h.Slots < 1 {
				t.Errorf("%+v", h)
			}
		}
	})
}
