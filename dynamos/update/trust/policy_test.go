// SPDX-License-Identifier: MIT

//go:build linux

package trust

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"skep/internal/uapi"
)

var testPaths = map[uint64]string{1: "/", 2: "/jobs", 3: "/jobs/a", 4: "/jobs2"}

func pathOf(id uint64) string { return testPaths[id] }

// kernelPolicy makes a policy of the kernel from lines as "allow uid=1 cgroup=2 pid=5",
// "except comm=sh", "others".
func kernelPolicy(t testing.TB, text string) *uapi.DynamosPolicy {
	t.Helper()
	p := &uapi.DynamosPolicy{}
	for part := range strings.SplitSeq(text, ", ") {
		if part == "others" {
			p.Otherwise = 1
			continue
		}
		r := &p.Rule[p.Rules]
		p.Rules++
		for i, w := range strings.Fields(part) {
			name, value, _ := strings.Cut(w, "=")
			var n uint32
			_, _ = fmt.Sscan(value, &n) // the value of comm is not a number
			switch {
			case i == 0 && w == "allow":
				r.Choice = 1
			case i == 0 && w == "except":
			case name == "comm":
				r.Terms |= uapi.DynamosComm
				copy(r.Comm[:], value)
			case name == "uid":
				r.Terms, r.UID = r.Terms|uapi.DynamosUID, n
			case name == "gid":
				r.Terms, r.GID = r.Terms|uapi.DynamosGID, n
			case name == "pid":
				r.Terms, r.PID = r.Terms|uapi.DynamosPID, int32(n)
			case name == "share":
				r.Terms, r.Share = r.Terms|uapi.DynamosShare, n
				_, r.Per = CutPer(value)
			case name == "cgroup":
				r.Terms, r.Cgroup = r.Terms|uapi.DynamosCgroup, uint64(n)
			default:
				t.Fatalf("%q is not a term of the test", w)
			}
		}
	}
	return p
}

func TestWidestPolicy(t *testing.T) {
	for _, c := range []struct {
		widest, asked string
		contains      bool
	}{
		{"all", "others", true},
		{"all", "allow uid=1", true},
		{"all", "except uid=1, others", true},
		{"uid=1", "allow uid=1", true},
		{"uid=1", "allow uid=2", false},
		{"uid=1", "others", false},
		{"uid=1", "allow uid=1, others", false},
		{"uid=1", "allow uid=1 pid=7", true},
		{"uid=1", "allow pid=7", false},
		{"uid=1", "allow comm=sh", false},
		{"uid=1", "allow uid=1, allow uid=2", false},
		{"uid=1, uid=2", "allow uid=1, allow uid=2", true},
		{"uid=1 comm=sh", "allow uid=1", false},
		{"uid=1 comm=sh", "allow uid=1 comm=sh", true},
		{"cgroup=/jobs", "allow cgroup=2", true},
		{"cgroup=/jobs", "allow cgroup=3", true},
		{"cgroup=/jobs", "allow cgroup=4", false},
		{"cgroup=/jobs", "allow cgroup=1", false},
		{"cgroup=/jobs", "allow cgroup=9", false},
		{"cgroup=/", "allow cgroup=4", true},
		{"share=10%", "allow share=6553", true},
		{"share=10%", "allow share=6554", false},
		{"share=10%", "allow uid=1", false},
		{"all", "allow share=6553:uid", true},
		{"share=10%", "allow share=6553:uid", false},
		{"share=10%:uid", "allow share=6553", false},
		{"share=10%:cgroup", "allow share=6553:uid", false},
		{"share=10%:cgroup", "allow share=6553:cgroup", true},
		{"share=10%:cgroup", "allow share=6554:cgroup", false},
		{"uid=1", "allow uid=1 share=6553:cgroup", true},
		{"uid=1 share=10%", "allow uid=1 share=100", true},
		{"all, except comm=sshd", "others", false},
		{"all, except comm=sshd", "allow comm=sshd", false},
		{"all, except comm=sshd", "except comm=sshd, others", true},
		{"all, except comm=sshd", "except comm=sshd uid=1, others", false},
		{"all, except comm=sshd uid=1", "except comm=sshd, others", true},
		{"all, except comm=sshd", "allow uid=1, except comm=sshd", false},
		{"all, except comm=sshd", "except comm=sshd pid=4, others", false},
		{"all, except uid=1, except comm=sh", "except uid=1, others", false},
		{"all, except uid=1", "except uid=1 share=100, others", false},
	} {
		p, err := ParsePolicy(c.widest)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Contains(kernelPolicy(t, c.asked), pathOf); got != c.contains {
			t.Errorf("%q contains %q: %v", c.widest, c.asked, got)
		}
	}
	p := Policy{Others: true}
	if p.Contains(&uapi.DynamosPolicy{Rules: uapi.DynamosRules + 1}, pathOf) {
		t.Error("a policy of too many rules is contained")
	}
	if nobody := new(uapi.DynamosPolicy); !(&Policy{Allow: []Rule{{Terms: uapi.DynamosUID}}}).Contains(nobody, pathOf) {
		t.Error("a policy for nobody is not contained")
	}
}

// A task of the exhaustive test.
type testTask struct {
	comm   string
	uid    uint32
	pid    int32
	cgroup string
	hash   [3]uint32 // those of its process, user and cgroup decide whether it belongs to a share
}

func (k testTask) takes(r *Rule, pid int32) bool {
	return (r.Terms&uapi.DynamosComm == 0 || r.Comm == k.comm) && (r.Terms&uapi.DynamosUID == 0 || r.UID == k.uid) &&
		(r.Terms&uapi.DynamosPID == 0 || pid == k.pid) && (r.Terms&uapi.DynamosShare == 0 || k.hash[r.Per] < r.Share) &&
		(r.Terms&uapi.DynamosCgroup == 0 || below(k.cgroup, r.Cgroup))
}

// byKernel evaluates a policy as the kernel does: the first rule that holds decides.
func (k testTask) byKernel(p *uapi.DynamosPolicy) bool {
	for i := range p.Rule[:p.Rules] {
		r := kernelRule(&p.Rule[i], pathOf)
		if k.takes(&r, p.Rule[i].PID) {
			return p.Rule[i].Choice != 0
		}
	}
	return p.Otherwise != 0
}

// bySignature says whether operators allowed the update for a task.
func (k testTask) bySignature(p *Policy) bool {
	for i := range p.Except {
		if k.takes(&p.Except[i], 0) {
			return false
		}
	}
	for i := range p.Allow {
		if k.takes(&p.Allow[i], 0) {
			return true
		}
	}
	return p.Others
}

// Whatever policy is contained in a signed one selects no task that the signed one does
// not: 40,000 pairs of policies, each with all tasks of a small world.
func TestContainedPolicySelectsNoMore(t *testing.T) {
	var world []testTask
	for _, comm := range []string{"a", "b"} {
		for uid := range uint32(2) {
			for pid := range int32(2) {
				for _, path := range testPaths {
					for _, hash := range [][3]uint32{{0, 100, 60000}, {100, 60000, 0}, {60000, 0, 100}} {
						world = append(world, testTask{comm, uid, pid, path, hash})
					}
				}
			}
		}
	}
	rng, contained := rand.New(rand.NewPCG(1, 2)), 0
	word := func(list ...string) string { return list[rng.IntN(len(list))] }
	terms := func(more ...string) string {
		text := word("comm=a", "comm=b", "uid=0", "uid=1")
		if rng.IntN(2) == 0 {
			text = strings.TrimSpace(word("", "comm=a", "uid=1") + " " + word(more...))
		}
		return text
	}
	for range 40000 {
		signed, asked := "all", "others"
		if rng.IntN(2) == 0 {
			signed = terms("cgroup=/jobs", "share=1%", "share=1%:uid", "share=1%:cgroup", "cgroup=/")
		}
		for range rng.IntN(3) {
			signed += ", except " + terms("cgroup=/jobs", "cgroup=/jobs/a")
		}
		for range rng.IntN(4) {
			asked = word("allow ", "except ") + terms("cgroup=2", "cgroup=3", "share=50", "share=60001", "share=50:uid", "share=50:cgroup", "pid=1", "cgroup=1") + ", " + asked
		}
		if rng.IntN(2) == 0 {
			asked = strings.TrimSuffix(strings.TrimSuffix(asked, "others"), ", ")
		}
		p, err := ParsePolicy(signed)
		if err != nil {
			continue // the same term twice
		}
		k := &uapi.DynamosPolicy{}
		if asked != "" {
			k = kernelPolicy(t, asked)
		}
		if !p.Contains(k, pathOf) {
			continue
		}
		contained++
		for _, task := range world {
			if task.byKernel(k) && !task.bySignature(&p) {
				t.Fatalf("%q is contained in %q, and selects %+v", asked, signed, task)
			}
		}
	}
	if contained < 4000 {
		t.Errorf("only %d pairs were contained: the test shows nothing", contained)
	}
}

func TestPolicyTexts(t *testing.T) {
	for _, text := range []string{"all", "all, except comm=sshd uid=0", "uid=1000, cgroup=/jobs share=6553", "comm=a uid=1 gid=2 cgroup=/x share=65536", "share=6553:uid, comm=a share=1:cgroup"} {
		p, err := ParsePolicy(text)
		if err != nil || p.String() != text {
			t.Errorf("%q: %q, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "except uid=1", "all, uid=1", "pid=1", "uid=-1", "uid=1 uid=2", "cgroup=jobs", "cgroup=/a/", "cgroup=/a/../b",
		"share=0%", "share=101%", "share=10%:pid", "share=:uid", "share=10%:", "share=10%:uid:cgroup", "share=10% share=10%:uid", "share=65537", "share=0", "comm=", "comm=1234567890123456", "all, except share=10%", "uid=4294967296", "uid",
		"all" + strings.Repeat(", except uid=1", maxRules+1)} {
		if p, err := ParsePolicy(text); err == nil {
			t.Errorf("%q: taken as %+v", text, p)
		}
	}
}

// A policy in the kernel's format is not wider than itself, ends when it should, and
// selects the tasks that it names.
func TestPolicyForTheKernel(t *testing.T) {
	number := func(name string) (uint64, error) {
		for id, path := range testPaths {
			if path == name {
				return id, nil
			}
		}
		return 0, fmt.Errorf("%s is gone", name)
	}
	for _, c := range []struct{ text, want string }{
		{"all", "others"},
		{"all, except comm=sshd, except uid=0", "except comm=sshd, except uid=0, others"},
		{"uid=5 comm=sh, gid=6 share=10%, cgroup=/jobs", "allow uid=5 comm=sh, allow gid=6 share=6553, allow cgroup=2"},
		{"share=10%:uid, cgroup=/jobs share=1%:cgroup", "allow share=6553:uid, allow share=655:cgroup cgroup=2"},
	} {
		p, err := ParsePolicy(c.text)
		if err != nil {
			t.Fatal(err)
		}
		k, err := p.Kernel(0, number)
		if want := kernelPolicy(t, c.want); err != nil || k != *want {
			t.Errorf("%s: %+v, %v", c.text, k, err)
		}
		timed, err := p.Kernel(77, number)
		if err != nil || timed.Otherwise != 0 || !p.Contains(&timed, pathOf) || !p.Contains(&k, pathOf) {
			t.Errorf("%s: %+v, %v", c.text, timed, err)
		}
		ends := 0
		for _, r := range timed.Rule[:timed.Rules] {
			if got := r.Terms&uapi.DynamosWindow != 0 && r.Until == 77; got != (r.Choice == 1) {
				t.Errorf("%s: a rule ends wrongly: %+v", c.text, r)
			} else if got {
				ends++
			}
		}
		if ends == 0 {
			t.Errorf("%s never ends", c.text)
		}
	}
	p, _ := ParsePolicy("cgroup=/gone")
	if _, err := p.Kernel(1, number); err == nil {
		t.Error("a cgroup that is gone was accepted")
	}
	if _, err := (&Policy{}).Kernel(1, number); err == nil {
		t.Error("a policy for nobody was accepted")
	}
}
