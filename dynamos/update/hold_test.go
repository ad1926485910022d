// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/dynamos/update/trust"
	"skep/internal/uapi"
)

// A folderTree is a hierarchy of ordinary folders. A file "procs" means that a process is
// in the cgroup.
type folderTree struct {
	mu   sync.Mutex
	root string
	uid  uint32 // who owns them
}

func (f *folderTree) ID(dir string) (uint64, error) { return inodeOf(dir) }

func (f *folderTree) Owner(string) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.uid, nil
}

func (f *folderTree) Populated(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "procs"))
	return err == nil
}

func (f *folderTree) Enter(pid int, name string) (string, error) {
	dir := filepath.Join(f.root, "session", name)
	return dir, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "procs"), []byte(fmt.Sprint(pid)), 0o600))
}

func (f *folderTree) Leave(_ int, dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, "procs")), os.Remove(dir))
}

func (f *folderTree) Each(visit func(dir string)) {
	_ = eachCgroup(f.root, func(dir string, _ uint64) bool { visit(dir); return true })
}

// A holdCase is a node on which an update is committed for nobody.
type holdCase struct {
	*rollCase
	holds *Holds
	tree  *folderTree
	now   uint64
	logs  []string
}

func newHoldCase(t *testing.T) *holdCase {
	t.Helper()
	c := &holdCase{rollCase: newRollCase(t), tree: &folderTree{root: t.TempDir(), uid: 1000}, now: 1e9}
	c.spec.Policy, c.widest = "all", "all"
	u := c.open()
	if err := errors.Join(u.Stage(), u.Load(), u.Commit()); err != nil {
		t.Fatal(err)
	}
	c.kernel.set(uapi.DynamosPolicy{})
	c.holds = &Holds{node: c.node, tree: c.tree, now: func() uint64 { return c.now }, list: map[string]map[uint64]*hold{},
		log: func(format string, args ...any) { c.logs = append(c.logs, fmt.Sprintf(format, args...)) }}
	return c
}

// set is a policy that root gives the update.
func (k *steppedKernel) set(p uapi.DynamosPolicy) { k.policy, k.infos[0].Policy = p, p }

func (c *holdCase) cgroup(name string) (dir string, id uint64) {
	c.t.Helper()
	dir = filepath.Join(c.tree.root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	id, err := inodeOf(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	return dir, id
}

// heldBy returns the cgroups for which the kernel has the update now.
func (c *holdCase) heldBy() (list []uint64) {
	p := c.kernel.policy
	c.kernel.infos[0].Policy = p // as the kernel would say
	for _, r := range p.Rule[:p.Rules] {
		if isJobRule(&r) && r.Until > c.now {
			list = append(list, r.Cgroup)
		}
	}
	return list
}

func (c *holdCase) want(what string, ids ...uint64) {
	c.t.Helper()
	slices.Sort(ids)
	if got := c.heldBy(); !slices.Equal(got, ids) {
		c.t.Errorf("%s: in force for %v, want %v", what, got, ids)
	}
}

// An update is in force for a job's cgroup while the job lives, and ends with it, and by the
// kernel's clock if this process ends.
func TestHoldLastsAsLongAsTheJob(t *testing.T) {
	c := newHoldCase(t)
	one, id := c.cgroup("one")
	two, other := c.cgroup("two")
	first, err := c.holds.permit(&HoldRequest{Update: "fix", Cgroup: one}, 1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.want("at the answer", id)
	second, err := c.holds.permit(&HoldRequest{Update: "fix", Cgroup: two + "/"}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.want("two jobs", id, other)
	c.now += uint64(holdLease) - 1
	c.holds.tick()
	c.now += uint64(holdLease) - 1
	c.want("the lease was moved", id, other)
	c.now++
	c.want("nobody moves it")
	if err := os.WriteFile(filepath.Join(two, "procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.holds.release(first)
	c.holds.release(second)
	c.holds.tick()
	c.want("only one has processes", other)
	if err := os.RemoveAll(two); err != nil {
		t.Fatal(err)
	}
	c.holds.tick()
	c.want("all are gone")
	if c.kernel.policy != (uapi.DynamosPolicy{}) || len(c.holds.list) != 0 {
		t.Errorf("left: %d rules, %v", c.kernel.policy.Rules, c.holds.list)
	}
}

// What root excepts, and what others have by root's policy, stays as it is.
func TestHoldKeepsThePolicy(t *testing.T) {
	c := newHoldCase(t)
	base := uapi.DynamosPolicy{Rules: 2}
	base.Rule[0].Terms, base.Rule[0].UID = uapi.DynamosUID, 5
	base.Rule[1].Terms, base.Rule[1].Choice, base.Rule[1].UID = uapi.DynamosUID, 1, 7
	c.kernel.set(base)
	dir, id := c.cgroup("one")
	one, err := c.holds.permit(&HoldRequest{Update: "fix", Cgroup: dir}, 1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := c.kernel.policy
	if p.Rules != 3 || p.Rule[0] != base.Rule[0] || p.Rule[1] != base.Rule[1] || p.Rule[2].Cgroup != id {
		t.Errorf("%d rules: %+v", p.Rules, p.Rule[:3])
	}
	if err := os.Mkdir(c.node.Keep.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.want("the job", id)
	if refused, err := c.node.Keep.Save(c.kernel, "fix", keptBuildID); refused != "" || err != nil {
		t.Errorf("a job's rule is in the way of the next boot: %s, %v", refused, err)
	}
	base.Rules = 1 // root changes the policy meanwhile
	base.Rule[1] = uapi.DynamosRule{}
	c.kernel.set(base)
	c.holds.tick()
	c.want("after root's change", id)
	c.holds.release(one)
	c.holds.tick()
	if c.kernel.policy != base {
		t.Errorf("after the job: %+v", c.kernel.policy.Rule[:2])
	}
}

// damage cuts the stored package.
func (c *holdCase) damage() {
	if err := c.node.Keep.Remember("fix", c.bytes[:700]); err != nil {
		c.t.Fatal(err)
	}
}

// Who asks for what he may not have is refused by name, and nothing changes.
func TestHoldRefused(t *testing.T) {
	for what, test := range map[string]struct {
		change func(c *holdCase, r *HoldRequest)
		want   string
	}{
		"a cgroup of another user": {func(c *holdCase, _ *HoldRequest) { c.tree.uid = 0 }, "belongs to user 0, and user 1000 asks"},
		"no cgroup":                {func(_ *holdCase, r *HoldRequest) { r.Cgroup += "x" }, "no such file"},
		"no update":                {func(_ *holdCase, r *HoldRequest) { r.Update = "fox" }, `no update "fox" is loaded`},
		"no name":                  {func(_ *holdCase, r *HoldRequest) { r.Update = "../fix" }, "is not the name of an update"},
		"a trial":                  {func(c *holdCase, _ *HoldRequest) { c.kernel.infos[0].State = uapi.DynamosTrial }, "fix is trial on this node: jobs can take a committed update only"},
		"class together":           {func(c *holdCase, _ *HoldRequest) { c.kernel.infos[0].Class = uapi.DynamosTogether }, "which all tasks take or none"},
		"no keys":                  {func(c *holdCase, _ *HoldRequest) { c.node.Trust = &trust.Store{Dir: c.tree.root + "/none"} }, "no keys of operators, so jobs choose no update"},
		"no package":               {func(c *holdCase, _ *HoldRequest) { os.RemoveAll(c.node.Keep.Run) }, "so its signatures cannot be verified"},
		"a damaged package":        {func(c *holdCase, _ *HoldRequest) { c.damage() }, "what is stored of fix is damaged"},
		"16 rules": {func(c *holdCase, _ *HoldRequest) {
			full := uapi.DynamosPolicy{Rules: 16}
			for i := range full.Rule {
				full.Rule[i].Terms, full.Rule[i].UID = uapi.DynamosUID, uint32(i)
			}
			c.kernel.set(full)
		}, "fix: its policy has 16 rules already"},
	} {
		c := newHoldCase(t)
		dir, _ := c.cgroup("one")
		r := &HoldRequest{Update: "fix", Cgroup: dir}
		test.change(c, r)
		before := c.kernel.policy
		_, err := c.holds.permit(r, 1000, 1)
		var refused *RefusedError
		if what != "no cgroup" && !errors.As(err, &refused) && trust.Name(err) == "" {
			t.Errorf("%s is no refusal: %v", what, err)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || c.kernel.policy != before || len(c.holds.list) != 0 {
			t.Errorf("%s: %v, held %v", what, err, c.holds.list)
		}
	}
}

// What operators signed bounds what jobs get: uid=1000 covers no cgroup.
func TestHoldIsNotWiderThanSigned(t *testing.T) {
	c := newHoldCase(t)
	c.widest = "uid=1000"
	c.open()
	c.kernel.set(uapi.DynamosPolicy{})
	if err := c.node.Keep.Remember("fix", c.bytes); err != nil {
		t.Fatal(err)
	}
	if _, err := c.holds.permit(&HoldRequest{Update: "fix"}, 1000, 4711); trust.Name(err) != trust.Wider {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(c.tree.root, "session", holdPrefix+"fix")); err == nil {
		t.Error("the process stays in the cgroup of a job that was refused")
	}
}

// A process that asks without a cgroup gets one, which keeps the update over restarts of
// the service, also when nobody asks any more.
func TestHoldOfAProcess(t *testing.T) {
	c := newHoldCase(t)
	one, err := c.holds.permit(&HoldRequest{Update: "fix"}, 1000, 4711)
	if err != nil {
		t.Fatal(err)
	}
	id, err := inodeOf(one.dir)
	if err != nil || filepath.Base(one.dir) != "skep-update-fix" {
		t.Fatalf("%s: %v", one.dir, err)
	}
	c.want("the process", id)
	c.holds.release(one)
	c.holds.tick()
	c.want("its processes live", id)
	c.holds.list = map[string]map[uint64]*hold{} // the service is started again
	c.holds.resume()
	c.want("a cgroup that is not root's is not taken up", id)
	if len(c.holds.list) != 0 {
		t.Errorf("held: %v", c.holds.list)
	}
	c.tree.uid = 0
	c.holds.resume()
	c.now += uint64(holdLease)
	c.holds.tick()
	c.want("after the restart", id)
	if err := os.Remove(filepath.Join(one.dir, "procs")); err != nil {
		t.Fatal(err)
	}
	c.holds.tick()
	c.want("all processes ended")
	if _, err := os.Stat(one.dir); err == nil {
		t.Error("the cgroup stays")
	}
}

// An update that is reverted is in force for no job, and the log says so.
func TestHoldOfARevertedUpdate(t *testing.T) {
	c := newHoldCase(t)
	if _, err := c.holds.permit(&HoldRequest{Update: "fix"}, 1000, 4711); err != nil {
		t.Fatal(err)
	}
	c.kernel.infos[0].State = uapi.DynamosLeaving
	c.holds.tick()
	if len(c.holds.list) != 0 || len(c.logs) != 1 || !strings.Contains(c.logs[0], "fix is in force for no job any more") {
		t.Errorf("%v, %q", c.holds.list, c.logs)
	}
}

// Over the socket: the answer comes when the update is in force, and the end of the
// connection ends it.
func TestHoldOverTheSocket(t *testing.T) {
	c := newHoldCase(t)
	c.tree.uid = uint32(os.Getuid())
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- c.holds.Serve(ctx, l) }()
	dir, _ := c.cgroup("one")
	one, err := AskHold(ctx, socket, HoldRequest{Update: "fix", Cgroup: dir})
	if err != nil {
		t.Fatal(err)
	}
	held := func() int { c.holds.mu.Lock(); defer c.holds.mu.Unlock(); return len(c.holds.list["fix"]) }
	if held() != 1 {
		t.Error("it is not in force at the answer")
	}
	var refused *RefusedError
	if _, err := AskHold(ctx, socket, HoldRequest{Update: "fox", Cgroup: dir}); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	if raw, err := net.Dial("unix", socket); err == nil {
		fmt.Fprintln(raw, strings.Repeat("x", holdLine))
		text := make([]byte, 200)
		if n, _ := raw.Read(text); !strings.Contains(string(text[:n]), "cannot be read") {
			t.Errorf("%q", text[:n])
		}
		raw.Close()
	}
	one.Close()
	for end := time.After(time.Minute); held() != 0; {
		select {
		case <-end:
			t.Fatal("it does not end with the connection")
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := AskHold(t.Context(), socket, HoldRequest{Update: "fix"}); err == nil || !strings.Contains(err.Error(), "skep service install kernel") {
		t.Error(err)
	}
}
