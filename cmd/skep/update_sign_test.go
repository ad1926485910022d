// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/grid/hub"
	"skep/internal/cli"
	"skep/internal/uapi"
)

// An office is a folder with the keys of operators, a package, and a node without keys.
type office struct {
	t   *testing.T
	dir string
	now time.Time
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t, t.TempDir(), time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)}
	oldStore, oldNow := newTrust, trustNow
	newTrust = func() *trust.Store { return &trust.Store{Dir: o.path("node")} }
	trustNow = func() time.Time { return o.now }
	t.Cleanup(func() { newTrust, trustNow = oldStore, oldNow })
	keepIn(t, o.path("kept"))
	p := &pack.Package{Manifest: pack.Manifest{Revision: pack.Revision, Name: "fix", Class: pack.Any, Proposed: pack.Any,
		Files: []string{"net/ipv4/arp.c"}, Kernels: []pack.Kernel{{BuildID: strings.Repeat("01", 20), Release: "6.1.0-50-amd64", Version: "6.1.176-1",
			Functions: []pack.Function{{Symbol: pack.Symbol{Name: "arp_ioctl"}, File: "net/ipv4/arp.c", Type: "int arp_ioctl(void)",
				Args: 3, Result: pack.Int, OldSize: 100, Size: 120, Original: strings.Repeat("0", 64)}}}}},
		Patch: []byte("--- a\n+++ b\n"), Modules: map[string][]byte{strings.Repeat("01", 20): []byte("\x7fELF and more")}}
	if err := pack.WriteFile(o.path("fix.skepup"), p); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alice", "bob", "carol"} {
		o.skep(0, "update keys new %s --no-passphrase", name)
	}
	return o
}

func (o *office) path(name string) string { return filepath.Join(o.dir, name) }

// skep runs a command line in which words with a percent sign before them are paths of the office.
func (o *office) skep(want int, line string, names ...string) (out, text string) {
	o.t.Helper()
	for _, name := range names {
		line = strings.Replace(line, "%s", o.path(name), 1)
	}
	out, code, text := outputOf(o.t, strings.Fields(line)...)
	if code != want {
		o.t.Fatalf("%s: %d, want %d: %s\n%s", line, code, want, text, out)
	}
	return out, text
}

// id returns the identity of an operator's key.
func (o *office) id(name string) string {
	o.t.Helper()
	k, err := trust.ReadKey(o.path(name + ".pub"))
	if err != nil {
		o.t.Fatal(err)
	}
	return k.ID()
}

// pin makes the first document of keys, and the node trusts it.
func (o *office) pin() {
	o.t.Helper()
	o.skep(0, "update keys rotate --fleet lab --threshold 2 --add %s --add %s --add %s -o %s", "alice.pub", "bob.pub", "carol.pub", "keys")
	o.skep(0, "update sign %s --key %s", "keys", "alice")
	o.skep(0, "update sign %s --key %s", "keys", "bob")
	o.skep(0, "update keys trust %s", "keys")
}

// approve asks the node whether it would apply the package for all tasks.
func (o *office) approve(confirm time.Duration) error {
	o.t.Helper()
	p, _, err := readPackage(o.path("fix.skepup"))
	if err != nil {
		o.t.Fatal(err)
	}
	var got error
	printedBy(o.t, &os.Stdout, func() { got = approvePackage(p, &uapi.DynamosPolicy{Otherwise: 1}, confirm) })
	return got
}

// From keys to an approved package, as operators and a node's root type it.
func TestSignedPackageFromKeyToNode(t *testing.T) {
	o := newOffice(t)
	said := printedBy(t, &os.Stderr, func() {
		if err := o.approve(time.Minute); err != nil {
			t.Errorf("a node without keys: %v", err)
		}
	})
	if !strings.Contains(said, "nobody but root vouches for fix") {
		t.Errorf("a node without keys says %q", said)
	}
	if _, text := o.skep(cli.Refused, "update verify %s", "fix.skepup"); !strings.Contains(text, "nobody signed it") {
		t.Error(text)
	}
	o.pin()
	if err := o.approve(time.Minute); trust.Name(err) != trust.Unsigned {
		t.Errorf("an unsigned package: %v", err)
	}
	if _, text := o.skep(cli.Usage, "update sign %s --key %s", "fix.skepup", "alice"); !strings.Contains(text, "--sequence N and --widest POLICY are expected") {
		t.Error(text)
	}
	out, _ := o.skep(0, "update sign %s --key %s --sequence 7 --widest all --trial 5m", "fix.skepup", "alice")
	if !strings.Contains(out, "skep-package 1\nline fix\nsequence 7\nname fix\nclass any\n") || !strings.Contains(out, "1 signatures") {
		t.Error(out)
	}
	if _, text := o.skep(cli.Refused, "update verify %s", "fix.skepup"); !strings.Contains(text, "this node would refuse it (threshold): 1 of the 2 signatures") {
		t.Error(text)
	}
	if err := o.approve(time.Minute); trust.Name(err) != trust.Threshold {
		t.Errorf("one signature of two: %v", err)
	}
	if _, text := o.skep(cli.Usage, "update sign %s --key %s --sequence 8", "fix.skepup", "bob"); !strings.Contains(text, "the package has a statement") {
		t.Error(text)
	}
	o.skep(0, "update sign %s --key %s", "fix.skepup", "bob")
	out, _ = o.skep(0, "update verify %s --keys %s", "fix.skepup", "keys")
	for _, want := range []string{o.id("alice") + " (alice): valid", "expires 2026-12-26T12:00:00Z", "allow-others yes", "2 of 2 needed", "on trial for 5m0s at most"} {
		if !strings.Contains(out, want) {
			t.Errorf("verify lacks %q: %s", want, out)
		}
	}
	if err := o.approve(10 * time.Minute); trust.Name(err) != trust.Unlimited {
		t.Errorf("a longer trial: %v", err)
	}
	if err := o.approve(5 * time.Minute); err != nil {
		t.Error(err)
	}
	if out, _ := o.skep(0, "update keys show"); !strings.Contains(out, "2 of 3 keys must sign") || !strings.Contains(out, "fix   7") {
		t.Error(out)
	}
}

// An update that relies on what existing objects lack is rolled out only if its operators state
// why those do no harm.
func TestSignedPackageWithObjectsThatExist(t *testing.T) {
	o := newOffice(t)
	o.pin()
	if _, text := o.skep(cli.Usage, "update sign %s --key %s --sequence 7 --widest all --objects-exist none", "fix.skepup", "alice"); !strings.Contains(text, "leave --objects-exist out") {
		t.Error(text)
	}
	p, err := pack.Open(o.path("fix.skepup"))
	if err != nil {
		t.Fatal(err)
	}
	p.State, p.Kernels[0].Relies = "it is not used", []string{"f relies on x"}
	if err := pack.WriteFile(o.path("fix.skepup"), p); err != nil {
		t.Fatal(err)
	}
	o.skep(0, "update sign %s --key %s --sequence 7 --widest all", "fix.skepup", "alice")
	if _, text := o.skep(cli.Refused, "update roll %s", "fix.skepup"); !strings.Contains(text, "sign it anew with --replace --objects-exist REASON") {
		t.Error(text)
	}
	out, _ := o.skep(0, "update sign %s --key %s --sequence 7 --widest all --replace --objects-exist unused", "fix.skepup", "alice")
	if !strings.Contains(out, "objects-exist unused\nallow-others yes\n") {
		t.Error(out)
	}
	if _, code, text := outputOf(t, "update", "roll", o.path("fix.skepup"), "--state", o.path("none")); code == 0 || strings.Contains(text, "objects") {
		t.Errorf("with a reason: %d, %s", code, text)
	}
}

// An older package, a revoked key, a stale document: each is refused by verify and by the node.
func TestNodeRefusesByName(t *testing.T) {
	o := newOffice(t)
	o.pin()
	sign := func(options string) {
		t.Helper()
		o.skep(0, "update sign %s --key %s --replace --widest all "+options, "fix.skepup", "alice")
		o.skep(0, "update sign %s --key %s", "fix.skepup", "bob")
	}
	refused := func(name string) {
		t.Helper()
		if err := o.approve(time.Minute); trust.Name(err) != name {
			t.Errorf("want %s: %v", name, err)
		}
		if _, text := o.skep(cli.Refused, "update verify %s", "fix.skepup"); !strings.Contains(text, "("+name+")") {
			t.Errorf("want %s: %s", name, text)
		}
	}
	sign("--sequence 7")
	if err := o.approve(time.Minute); err != nil {
		t.Fatal(err)
	}
	sign("--sequence 6")
	refused(trust.Older)
	sign("--sequence 8 --expires 1h")
	o.now = o.now.Add(2 * time.Hour)
	refused(trust.Expired)
	sign("--sequence 8")
	o.now = o.now.Add(-3 * time.Hour)
	refused(trust.Clock)
	o.now = o.now.Add(3 * time.Hour)
	o.skep(0, "update keys revoke "+o.id("bob"))
	refused(trust.Threshold)
	if out, _ := o.skep(0, "update keys revoke "+o.id("carol")); !strings.Contains(out, "nothing is applied here until") {
		t.Error(out)
	}
	if c := checkKeys(); c.State != checkBad || !strings.Contains(c.Cure, "too few keys are left") {
		t.Errorf("%+v", c)
	}
	if _, text := o.skep(cli.Refused, "update keys revoke SHA256:x"); !strings.Contains(text, "is not a key of lab") {
		t.Error(text)
	}
	o.now = o.now.Add(91 * 24 * time.Hour)
	refused(trust.Stale)
}

// Keys are rotated by those in force; root may override that.
func TestKeysRotate(t *testing.T) {
	o := newOffice(t)
	o.pin()
	o.skep(0, "update keys rotate %s --revoke "+o.id("alice")+" --floor fix=9 -o %s", "keys", "keys2")
	if _, text := o.skep(cli.Refused, "update keys trust %s", "keys2"); !strings.Contains(text, "nobody signed it") {
		t.Error(text)
	}
	o.skep(0, "update sign %s --key %s", "keys2", "carol")
	if _, text := o.skep(cli.Refused, "update keys trust %s", "keys2"); !strings.Contains(text, "1 of the 2 signatures that are needed count") || !strings.Contains(text, "--replace") {
		t.Error(text)
	}
	o.skep(0, "update sign %s --key %s", "keys2", "bob")
	if out, _ := o.skep(0, "update verify %s", "keys2"); !strings.Contains(out, "this node would put these keys in force") {
		t.Error(out)
	}
	if out, _ := o.skep(0, "update keys trust %s", "keys2"); !strings.Contains(out, "version 2: 2 of 2 keys must sign") || !strings.Contains(out, "the keys before it signed it") {
		t.Error(out)
	}
	if out, _ := o.skep(0, "update keys trust %s", "keys2"); !strings.Contains(out, "it was in force already") {
		t.Error(out)
	}
	if _, text := o.skep(cli.Refused, "update keys trust %s", "keys"); !strings.Contains(text, "version 2 is in force") {
		t.Error(text)
	}
	if out, _ := o.skep(0, "update keys show %s", "keys2"); !strings.Contains(out, o.id("alice")+", revoked") || !strings.Contains(out, "line fix: sequence 9 at least") {
		t.Error(out)
	}
	if c := checkKeys(); c.State != checkOK || !strings.Contains(c.Found, "version 2: 2 of 2 must sign; expires 2027-02-24") {
		t.Errorf("%+v", c)
	}
	o.now = o.now.Add(85 * 24 * time.Hour)
	if c := checkKeys(); c.State != checkNote {
		t.Errorf("%+v", c)
	}
	o.now = o.now.Add(6 * 24 * time.Hour)
	if c := checkKeys(); c.State != checkBad || !strings.Contains(c.Cure, "whether the hub withholds it") {
		t.Errorf("%+v", c)
	}
}

// An order to revert is signed like a package.
func TestOrderToRevert(t *testing.T) {
	o := newOffice(t)
	o.pin()
	if _, text := o.skep(cli.Usage, "update sign %s --revert --key %s", "fix.skepup", "alice"); !strings.Contains(text, "nobody signed the package") {
		t.Error(text)
	}
	o.skep(0, "update sign %s --key %s --sequence 7 --widest uid=1000", "fix.skepup", "alice")
	o.skep(0, "update sign %s --revert --key %s -o %s", "fix.skepup", "alice", "fix.skeprevert")
	if _, text := o.skep(cli.Refused, "update verify %s", "fix.skeprevert"); !strings.Contains(text, "(threshold)") {
		t.Error(text)
	}
	o.skep(0, "update sign %s --key %s", "fix.skeprevert", "carol")
	if out, _ := o.skep(0, "update verify %s", "fix.skeprevert"); !strings.Contains(out, "this node would revert fix") || !strings.Contains(out, "sequence 8\n") {
		t.Error(out)
	}
	if _, text := o.skep(cli.Refused, "update revert %s", "fix.skeprevert"); !strings.Contains(text, "the package of fix is not known") {
		t.Error(text)
	}
}

// ssh-keygen signs what --print prints, and --add takes only a signature of these bytes.
func TestSignatureOfSSHKeygen(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	o := newOffice(t)
	o.pin()
	o.skep(0, "update sign %s --key %s --sequence 7 --widest all", "fix.skepup", "alice")
	text, _ := o.skep(0, "update sign %s --print", "fix.skepup")
	for _, c := range []struct {
		text string
		code int
	}{{text + " ", cli.Refused}, {text, 0}} {
		os.Remove(o.path("text.sig"))
		if err := os.WriteFile(o.path("text"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("ssh-keygen", "-Y", "sign", "-f", o.path("bob"), "-n", "skep-package", o.path("text")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		o.skep(c.code, "update sign %s --add %s", "fix.skepup", "text.sig")
	}
	o.skep(0, "update verify %s", "fix.skepup")
}

func TestPassphraseOfAKey(t *testing.T) {
	o := newOffice(t)
	o.pin()
	for name, text := range map[string]string{"right": "sesame\n", "wrong": "other\n", "empty": "\n"} {
		if err := os.WriteFile(o.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.skep(cli.Usage, "update keys new %s --passphrase-file %s", "dave", "empty")
	o.skep(cli.Usage, "update keys new %s --passphrase-file %s --no-passphrase", "dave", "right")
	o.skep(0, "update keys new %s --passphrase-file %s", "dave", "right")
	o.skep(cli.Failed, "update sign %s --sequence 1 --widest all --key %s --passphrase-file %s", "fix.skepup", "dave", "wrong")
	o.skep(0, "update sign %s --sequence 1 --widest all --key %s --passphrase-file %s", "fix.skepup", "dave", "right")
	if err := os.Chmod(o.path("dave"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, text := o.skep(cli.Refused, "update sign %s --key %s --passphrase-file %s", "fix.skepup", "dave", "right"); !strings.Contains(text, "must not be accessible to group or others") {
		t.Error(text)
	}
}

// What a user types at a prompt without echo.
func TestSilentLine(t *testing.T) {
	for typed, want := range map[string]string{"abc\n": "abc", "ab\x7fc\r": "ac", "\x08x\x04": "x", "\n": ""} {
		if got, err := readSilent(strings.NewReader(typed)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", typed, got, err)
		}
	}
	if code, _ := cli.ExitCode(func() error { _, err := readSilent(strings.NewReader("ab\x03")); return err }()); code != 130 {
		t.Errorf("Ctrl-C: %d", code)
	}
	if _, err := readSilent(strings.NewReader("ab")); err == nil {
		t.Error("a line that breaks off")
	}
}

// Secure Boot: modules are signed before operators sign, and never after.
func TestModulesAreSignedFirst(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	o := newOffice(t)
	if out, err := exec.Command("openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=MOK/", "-keyout", o.path("mok.key"), "-out", o.path("mok.pem")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o.skep(cli.Refused, "update sign %s --sign-module %s", "fix.skepup", "mok.key")
	if out, _ := o.skep(0, "update sign %s --sign-module %s --certificate %s", "fix.skepup", "mok.key", "mok.pem"); !strings.Contains(out, "1 modules signed by CN=MOK") {
		t.Error(out)
	}
	p, _, err := readPackage(o.path("fix.skepup"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(p.Modules[p.Kernels[0].BuildID]), pack.ModuleMagic) {
		t.Error("the module has no signature")
	}
	o.skep(cli.Refused, "update sign %s --sign-module %s --certificate %s", "fix.skepup", "mok.key", "mok.pem")
	o.skep(0, "update sign %s --sequence 1 --widest all --key %s", "fix.skepup", "alice")
	if _, text := o.skep(cli.Refused, "update sign %s --sign-module %s --certificate %s", "fix.skepup", "mok.key", "mok.pem"); !strings.Contains(text, "sign the modules first") {
		t.Error(text)
	}
}

func TestWrongLinesOfKeys(t *testing.T) {
	o := newOffice(t)
	for line, want := range map[string]string{
		"update keys":                                     "a subcommand is expected",
		"update keys frob":                                "no subcommand",
		"update keys new":                                 "a file for the key is expected",
		"update keys rotate":                              "-o FILE is expected",
		"update keys rotate -o x":                         "the first document needs",
		"update sign":                                     "is expected",
		"update sign x.skepup":                            "one of --key",
		"update sign x --key a --print":                   "one of --key",
		"update sign x --key a --sequence 4":              "says already what is signed",
		"update sign %s --key a --sequence 1 --widest zz": "--widest",
		"update verify":                                   "is expected",
	} {
		if _, text := o.skep(cli.Usage, line, "fix.skepup"); !strings.Contains(text, want) {
			t.Errorf("%s: %q", line, text)
		}
	}
	o.skep(0, "update keys rotate --fleet lab --threshold 1 --add %s -o %s", "alice.pub", "keys")
	o.skep(cli.Usage, "update keys rotate %s --remove SHA256:x -o %s", "keys", "k2")
	o.skep(cli.Usage, "update keys rotate %s --floor arp -o %s", "keys", "k2")
	o.skep(cli.Usage, "update keys rotate %s --fleet other -o %s", "keys", "k2")
	o.skep(cli.Refused, "update keys rotate %s --threshold 2 -o %s", "keys", "k2")
	o.skep(cli.Refused, "update keys revoke SHA256:x")
	o.skep(cli.Failed, "update verify %s", "none.skepup")
	o.skep(cli.Refused, "update keys show %s", "fix.skepup")
}

// A join that pins keys does so before it speaks to a hub.
func TestJoinPinsKeysFirst(t *testing.T) {
	o := newOffice(t)
	if _, text := o.skep(cli.Failed, "join --state %s --update-keys %s", "state", "none"); !strings.Contains(text, "no such file") {
		t.Error(text)
	}
	o.skep(0, "update keys rotate --fleet lab --threshold 1 --add %s -o %s", "alice.pub", "keys")
	o.skep(cli.Refused, "join --state %s --update-keys %s", "state", "keys")
	o.skep(0, "update sign %s --key %s", "keys", "alice")
	if _, text := o.skep(cli.Usage, "join --state %s --update-keys %s", "state", "keys"); !strings.Contains(text, "not joined") {
		t.Error(text)
	}
	c, address := openHub(t, o.path("hub"))
	token, err := c.Token(t.Context(), hub.TokenRequest{Uses: 1, Life: time.Hour})
	if err == nil {
		err = os.WriteFile(o.path("token"), []byte(token.Token+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	runNode(t, "join "+address+" --name pc --slots 1 --token-file "+o.path("token")+" --update-keys "+o.path("keys")+" --state "+o.path("state"))
	awaitNode(t, c, "node=pc")
	if err := o.approve(time.Minute); trust.Name(err) != trust.Unsigned {
		t.Errorf("after the join: %v", err)
	}
}
