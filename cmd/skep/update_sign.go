// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/internal/atomicfile"
	"skep/internal/cli"
)

// Ends of the names of an order to revert, and of a statement that a kernel contains a change.
const (
	revertSuffix   = ".skeprevert"
	includedSuffix = ".skepincluded"
)

type updateSign struct {
	key, add, line, widest, out string
	exist, included             string
	sequence                    uint64
	expires, trial              time.Duration
	revert, print, replace      bool
	pass                        passphrase
	module                      moduleKey
}

func (u *updateSign) options(f *cli.Flags) {
	f.StringVar(&u.key, "key", "", "sign with the private key in `FILE`")
	u.pass.options(f)
	f.StringVar(&u.add, "add", "", "add the signature in `FILE`, which ssh-keygen -Y sign wrote")
	f.BoolVar(&u.print, "print", false, "print the text that is signed, and sign nothing")
	f.StringVar(&u.line, "line", "", "the `NAME` of the line of updates (the update's name)")
	f.Uint64Var(&u.sequence, "sequence", 0, "the number `N` in its line; nodes accept no lower one afterwards")
	f.StringVar(&u.widest, "widest", "", "the widest `POLICY`, as 'all, except comm=sshd' or 'uid=1000, cgroup=/jobs share=10%'")
	f.DurationVar(&u.expires, "expires", 30*24*time.Hour, "nodes accept it for this `TIME`")
	f.DurationVar(&u.trial, "trial", 10*time.Minute, "the longest `TIME` of a trial without commit")
	f.StringVar(&u.exist, "objects-exist", "", existHelp)
	f.BoolVar(&u.revert, "revert", false, "write an order to revert this package, to the file of -o")
	f.StringVar(&u.included, "included", "", "write a statement that the kernel of this `VERSION` contains the change of this package, after comparing its source")
	f.StringVar(&u.out, "o", "", "the `FILE` of the order (NAME.skeprevert) or statement (NAME-VERSION.skepincluded)")
	f.BoolVar(&u.replace, "replace", false, "drop the signatures that are there, and state anew")
	u.module.options(f)
}

// stated reports whether an option of a new statement was given.
func (u *updateSign) stated(f *cli.Flags) bool {
	for _, name := range []string{"line", "sequence", "widest", "expires", "trial", "objects-exist"} {
		if f.Given(name) {
			return true
		}
	}
	return false
}

func (u *updateSign) run(ctx context.Context, f *cli.Flags, words []string) error {
	path, err := oneFile(f, words, "a package, an order or a document of keys")
	if err != nil {
		return err
	}
	ways := 0
	for _, name := range []string{"key", "add", "print", "sign-module"} {
		if f.Given(name) {
			ways++
		}
	}
	if ways != 1 {
		return f.Expectf("one of --key, --add, --print and --sign-module is expected")
	}
	if u.module.file != "" {
		return updateError(u.module.signPackage(path))
	}
	if !strings.HasSuffix(path, pack.Suffix) {
		if u.revert || u.included != "" || u.stated(f) {
			return f.Usagef("%s says already what is signed", path)
		}
		return updateError(u.signDocument(path))
	}
	p, _, err := readPackage(path)
	if err != nil {
		return err
	}
	switch {
	case u.revert && u.included != "":
		return f.Usagef("--revert and --included are two documents: give one")
	case u.revert:
		return updateError(u.signRevert(f, p))
	case u.included != "":
		return updateError(u.signIncluded(ctx, f, p))
	}
	return updateError(u.signPackage(f, path, p))
}

// signDocument adds a signature to an order or a document of keys.
func (u *updateSign) signDocument(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	doc, err := trust.ParseSigned(text)
	if err == nil {
		_, err = trust.Describe(text, trustNow())
	}
	if err != nil {
		return refusedFile(path, err)
	}
	return u.finish(doc, path, func() error { return atomicfile.Write(path, doc.Encode(), 0o644) })
}

// signPackage states what a package is, unless that was done, and adds a signature.
func (u *updateSign) signPackage(f *cli.Flags, path string, p *pack.Package) error {
	doc, err := u.statement(f, p)
	if err != nil {
		return err
	}
	return u.finish(doc, path, func() error {
		p.Signatures = doc.Encode()
		return pack.WriteFile(path, p)
	})
}

// statement returns the statement in a package, or a new one.
func (u *updateSign) statement(f *cli.Flags, p *pack.Package) (*trust.Signed, error) {
	content, err := p.Content()
	if err != nil {
		return nil, err
	}
	if p.Signatures != nil && !u.replace {
		if u.stated(f) {
			return nil, f.Usagef("the package has a statement: sign it as it is, or give --replace to drop its signatures")
		}
		doc, err := trust.ParseSigned(p.Signatures)
		if err != nil {
			return nil, err
		}
		said, err := trust.ParsePackage(doc.Text)
		if err == nil && (said.Content != content || said.Name != p.Name || said.Class != p.Class) {
			err = &trust.Refusal{Name: trust.Changed, Why: "the contents of the package are not those of its statement"}
		}
		return doc, err
	}
	if u.sequence == 0 || u.widest == "" {
		return nil, f.Expectf("the first signature states what the package is: --sequence N and --widest POLICY are expected")
	}
	widest, err := trust.ParsePolicy(u.widest)
	if err != nil {
		return nil, f.Usagef("--widest: %v", err)
	}
	if u.exist != "" && !p.ReliesOnState() {
		return nil, f.Usagef("the package relies on nothing that existing objects lack: leave --objects-exist out")
	}
	line := u.line
	if line == "" {
		line = p.Name
	}
	now := trustNow().UTC().Truncate(time.Second)
	said := trust.Package{Line: line, Sequence: u.sequence, Name: p.Name, Class: p.Class, Content: content,
		Signed: now, Expires: now.Add(u.expires).Truncate(time.Second), Trial: u.trial.Truncate(time.Second), Widest: widest, ObjectsExist: u.exist}
	_, err = trust.ParsePackage(said.Encode())
	return &trust.Signed{Text: said.Encode()}, err
}

// signRevert writes an order to revert a package.
func (u *updateSign) signRevert(f *cli.Flags, p *pack.Package) error {
	if p.Signatures == nil {
		return f.Usagef("nobody signed the package: root of a node reverts it without an order")
	}
	doc, err := trust.ParseSigned(p.Signatures)
	if err != nil {
		return err
	}
	said, err := trust.ParsePackage(doc.Text)
	if err != nil {
		return err
	}
	if u.line != "" || u.widest != "" || u.exist != "" || f.Given("trial") {
		return f.Usagef("an order to revert takes --sequence and --expires only")
	}
	now := trustNow().UTC().Truncate(time.Second)
	order := trust.Revert{Line: said.Line, Sequence: max(u.sequence, said.Sequence+1), Name: said.Name, Content: said.Content,
		Signed: now, Expires: now.Add(u.expires).Truncate(time.Second)}
	if _, err := trust.ParseRevert(order.Encode()); err != nil {
		return err
	}
	out := u.out
	if out == "" {
		out = p.Name + revertSuffix
	}
	doc = &trust.Signed{Text: order.Encode()}
	return u.finish(doc, out, func() error { return atomicfile.Write(out, doc.Encode(), 0o644) })
}

// compareSource is update.CheckIncluded. Tests have another one.
var compareSource = func(ctx context.Context, p *pack.Package, kernel string) (buildID, version string, err error) {
	return update.CheckIncluded(ctx, p, kernel, os.Stderr)
}

// signIncluded compares the source of a kernel with a package, and writes the statement that
// it contains the change.
func (u *updateSign) signIncluded(ctx context.Context, f *cli.Flags, p *pack.Package) error {
	if u.line != "" || u.sequence != 0 || u.widest != "" || u.exist != "" || f.Given("trial") {
		return f.Usagef("a statement that a kernel contains a change takes --expires only")
	}
	content, err := p.Content()
	if err != nil {
		return err
	}
	buildID, version, err := compareSource(ctx, p, u.included)
	if err != nil {
		return err
	}
	now := trustNow().UTC().Truncate(time.Second)
	said := trust.Included{Name: p.Name, Content: content, BuildID: buildID, Version: version,
		Signed: now, Expires: now.Add(u.expires).Truncate(time.Second)}
	if _, err := trust.ParseIncluded(said.Encode()); err != nil {
		return err
	}
	out := u.out
	if out == "" {
		out = p.Name + "-" + version + includedSuffix
	}
	doc := &trust.Signed{Text: said.Encode()}
	return u.finish(doc, out, func() error { return atomicfile.Write(out, doc.Encode(), 0o644) })
}

// finish shows what is signed, adds the signature and stores the file.
func (u *updateSign) finish(doc *trust.Signed, path string, store func() error) error {
	if _, err := os.Stdout.Write(doc.Text); err != nil || u.print {
		return err
	}
	id := ""
	if u.key != "" {
		signer, err := trust.OpenSigner(u.key, u.pass.ask)
		if err != nil {
			return err
		}
		doc.Sign(signer)
		id = signer.ID()
	} else {
		armor, err := os.ReadFile(u.add)
		if err != nil {
			return err
		}
		if id, err = doc.Add(armor); err != nil {
			return err
		}
	}
	if err := store(); err != nil {
		return err
	}
	_, err := fmt.Printf("%s: signed with %s, %d signatures\n", path, id, len(doc.Signatures))
	return err
}

// A moduleKey signs the modules in a package for Secure Boot.
type moduleKey struct{ file, certificate, hash string }

func (m *moduleKey) options(f *cli.Flags) {
	f.StringVar(&m.file, "sign-module", "", "sign the modules for Secure Boot, with the RSA key in `FILE` (PEM); before the operators sign")
	f.StringVar(&m.certificate, "certificate", "", "its certificate in `FILE` (PEM or DER; default: in the key's file)")
	f.StringVar(&m.hash, "hash", "sha256", "the `DIGEST` of these signatures: sha256, sha384 or sha512")
}

func (m *moduleKey) signPackage(path string) error {
	p, _, err := readPackage(path)
	if err != nil {
		return err
	}
	if p.Signatures != nil {
		return &trust.Refusal{Name: trust.Changed, Why: "operators signed this package already, and other modules would be other contents: sign the modules first"}
	}
	key, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	certificate := key
	if m.certificate != "" {
		if certificate, err = os.ReadFile(m.certificate); err != nil {
			return err
		}
	}
	signer, err := pack.NewModuleSigner(key, certificate, m.hash)
	if err != nil {
		return refusedFile(m.file, err)
	}
	for id, module := range p.Modules {
		if p.Modules[id], err = signer.Sign(module); err != nil {
			return refusedFile(path, errors.Join(fmt.Errorf("the module for kernel %s", id), err))
		}
	}
	if err := pack.WriteFile(path, p); err != nil {
		return err
	}
	_, err = fmt.Printf("%s: %d modules signed by %s: a kernel loads them if it trusts this certificate (mokutil --import)\n", path, len(p.Modules), signer.Subject)
	return err
}
