// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/source"
	"skep/internal/cli"
	"skep/internal/uapi"
)

// builder starts the build service of an office, as its operator types it.
func (o *office) builder() (url string) {
	o.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		o.t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- dispatch(ctx, []string{"update", "serve", "--listen", address, "--dir", o.path("builds")})
	}()
	o.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			o.t.Error(err)
		}
	})
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return "http://" + address
		}
	}
	o.t.Fatal("the service does not listen")
	return ""
}

// From a kernel that was upgraded to a package that operators signed and the node took, as
// operators and the node's root type it.
func TestUpdateServe(t *testing.T) {
	const newBuild = "fedcba9876543210fedcba9876543210fedcba98"
	o := newOffice(t)
	if _, text := o.skep(cli.Refused, "update serve --dir %s", "builds"); !strings.Contains(text, "the service builds only what operators signed") {
		t.Error(text)
	}
	o.pin()
	keepIn(t, o.path("kept"))
	oldBuild, oldKernel := buildPackage, runningKernel
	defer func() { buildPackage, runningKernel = oldBuild, oldKernel }()
	buildPackage = func(_ context.Context, p *pack.Package, kernel string) (*pack.Package, error) {
		if kernel == "6.1.192-2" {
			return nil, &source.IncludedError{Version: kernel}
		}
		out := *p
		k := p.Kernels[0]
		k.BuildID, k.Version = newBuild, kernel
		out.Kernels, out.Modules, out.Signatures = []pack.Kernel{k}, map[string][]byte{newBuild: []byte("\x7fELF for " + kernel)}, nil
		return &out, nil
	}
	runningKernel = func() (string, string, error) { return newBuild, "6.1.190-1", nil }
	o.skep(0, "update sign %s --key %s --line fix --sequence 7 --widest all", "fix.skepup", "alice")
	o.skep(0, "update sign %s --key %s", "fix.skepup", "bob")
	text, err := os.ReadFile(o.path("fix.skepup"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.path("kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := newKeep().Remember("fix", text); err != nil {
		t.Fatal(err)
	}
	if _, err := newKeep().Save(committedFix{}, "fix", strings.Repeat("0", 40)); err != nil {
		t.Fatal(err)
	}
	url := o.builder()
	take := func(want string) {
		t.Helper()
		var out string
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if out, _ = o.skep(0, "update builds --take --at "+url); strings.Contains(out, want) {
				return
			}
		}
		t.Fatalf("no %q in %s", want, out)
	}
	take("fix: built for Linux 6.1.190-1; it waits for operators to sign")
	out, _ := o.skep(0, "update builds --at "+url)
	key := strings.Fields(strings.Split(out, "\n")[1])[3]
	o.skep(0, "update builds --at "+url+" --get "+key+" -o %s", "theirs.skepup")
	o.skep(0, "update build %s --kernel 6.1.190-1 -o %s", "fix.skepup", "ours.skepup")
	if out, err := exec.Command("cmp", o.path("ours.skepup"), o.path("theirs.skepup")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, text := o.skep(cli.Refused, "update builds --at "+url+" --offer %s", "theirs.skepup"); !strings.Contains(text, "nobody signed fix") {
		t.Error(text)
	}
	o.skep(0, "update sign %s --key %s --line fix --sequence 8 --widest all", "theirs.skepup", "alice")
	o.skep(0, "update sign %s --key %s", "theirs.skepup", "carol")
	o.skep(0, "update builds --at "+url+" --offer %s", "theirs.skepup")
	take("fix: taken for Linux 6.1.190-1")
	list, err := newKeep().List()
	if err != nil || len(list) != 1 || list[0].BuildID != newBuild {
		t.Errorf("%+v, %v", list, err)
	}
	o.include(url, &list[0])
	for line, want := range map[string]string{"": "give --at URL", " --at x --take --json": "one of --get", " --at x -o y": "one of --get"} {
		if _, text := o.skep(cli.Usage, "update builds"+line); !strings.Contains(text, want) {
			t.Errorf("%s: %s", line, text)
		}
	}
	if _, text := o.skep(cli.Usage, "update build %s --class any --because x", "fix.skepup"); !strings.Contains(text, "a package says itself what it is") {
		t.Error(text)
	}
	if _, text := o.skep(cli.Failed, "update builds --at http://127.0.0.1:1"); !strings.Contains(text, "does not answer") {
		t.Error(text)
	}

}

// include goes on to a kernel that contains the change: two operators compare and sign that,
// and only then the node believes it.
func (o *office) include(url string, kept *update.Kept) {
	o.t.Helper()
	const build = "abcdabcdabcdabcdabcdabcdabcdabcdabcdabcd"
	oldSource := compareSource
	defer func() { compareSource = oldSource }()
	compareSource = func(_ context.Context, p *pack.Package, kernel string) (string, string, error) {
		if kernel != "6.1.192-2" {
			return "", "", &update.RefusedError{Why: "the source of " + kernel + " lacks the change"}
		}
		return build, kernel, nil
	}
	runningKernel = func() (string, string, error) { return build, "6.1.192-2", nil }
	await := func(want string) {
		o.t.Helper()
		var out string
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if out, _ = o.skep(0, "update builds --take --at "+url); strings.Contains(out, want) {
				return
			}
		}
		o.t.Fatalf("no %q in %s", want, out)
	}
	await("it waits for operators to compare and sign that")
	if _, text := o.skep(cli.Refused, "update sign %s --included 6.1.190-1 --key %s -o %s", "theirs.skepup", "alice", "no.skepincluded"); !strings.Contains(text, "lacks the change") {
		o.t.Error(text)
	}
	for line, want := range map[string]string{" --revert": "two documents", " --sequence 9": "takes --expires only"} {
		if _, text := o.skep(cli.Usage, "update sign %s --included 6.1.192-2 --key %s"+line, "theirs.skepup", "alice"); !strings.Contains(text, want) {
			o.t.Error(text)
		}
	}
	o.skep(0, "update sign %s --included 6.1.192-2 --key %s -o %s", "theirs.skepup", "alice", "fix.skepincluded")
	if _, text := o.skep(cli.Refused, "update builds --at "+url+" --offer %s", "fix.skepincluded"); !strings.Contains(text, "1 of the 2 signatures") {
		o.t.Error(text)
	}
	o.skep(0, "update sign %s --key %s", "fix.skepincluded", "bob")
	if out, _ := o.skep(0, "update verify %s", "fix.skepincluded"); !strings.Contains(out, "this node would do without fix on Linux 6.1.192-2") {
		o.t.Error(out)
	}
	o.skep(0, "update builds --at "+url+" --offer %s", "fix.skepincluded")
	await("fix: Linux 6.1.192-2 contains the change, as ")
	if !newKeep().IncludedIn("fix", build) || newKeep().IncludedIn("fix", kept.BuildID) {
		o.t.Error("it is not recorded")
	}
}

// committedFix is a kernel in which fix is committed for all.
type committedFix struct{}

func (committedFix) Info(n uint32) (i uapi.DynamosInfo, err error) {
	if n > 0 {
		return i, update.ErrNoMore
	}
	copy(i.Name[:], "fix")
	i.State, i.Class, i.Policy.Otherwise = uapi.DynamosCommitted, uapi.DynamosAny, 1
	return i, nil
}

func (committedFix) Count(string, uint32, uint32) (uapi.DynamosCount, error) {
	return uapi.DynamosCount{}, update.ErrNoMore
}
