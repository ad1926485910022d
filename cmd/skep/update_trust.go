// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/internal/cli"
	"skep/internal/uapi"
)

// trustState holds the operators' keys that this node has pinned, and what it has seen.
const trustState = "/var/lib/skep-trust"

// newTrust returns the store of keys. Tests use other folders, and another clock.
var (
	newTrust = func() *trust.Store { return &trust.Store{Dir: trustState} }
	trustNow = time.Now
)

// readPackage reads a package's file once, so that the bytes that are checked are those
// that are loaded and remembered.
func readPackage(path string) (*pack.Package, []byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := pack.Read(bytes.NewReader(text))
	if err != nil {
		return nil, nil, cli.Errorf(cli.Refused, "%s is not a usable package: %w", path, err)
	}
	return p, text, nil
}

// refusedFile adds a file's name and the exit code to an error about its contents.
func refusedFile(path string, err error) error {
	return cli.WithCode(cli.Refused, fmt.Errorf("%s: %w", path, err))
}

// factsOf returns what this node knows of a package.
func factsOf(p *pack.Package, policy *uapi.DynamosPolicy) (*trust.Facts, error) {
	content, err := p.Content()
	return &trust.Facts{Name: p.Name, Class: p.Class, Content: content, Policy: policy, Cgroup: update.CgroupPath}, err
}

// approvePackage checks the signatures of a package against the keys of this node, and
// records its sequence before anything is loaded. Without keys it says that nobody
// vouches for the package.
func approvePackage(p *pack.Package, policy *uapi.DynamosPolicy, confirm time.Duration) error {
	store := newTrust()
	exists, err := store.Exists()
	if err != nil {
		return err
	}
	if !exists {
		fmt.Fprintf(os.Stderr, "skep: this machine has no operators' keys, so nobody but root vouches for %s: 'skep update keys trust' pins keys\n", p.Name)
		return nil
	}
	f, err := factsOf(p, policy)
	if err != nil {
		return err
	}
	f.Trial, f.Confirm = true, confirm
	if err := store.Change(func(s trust.State) (trust.State, error) { return s.Tick(trustNow()) }); err != nil {
		return err
	}
	var v trust.Verdict
	err = store.Change(func(s trust.State) (next trust.State, err error) {
		next, v, err = s.CheckPackage(p.Signatures, f, trustNow())
		return next, err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s: sequence %d of line %s, signed by %s\n", p.Name, v.Package.Sequence, v.Package.Line, strings.Join(v.Signers, ", "))
	return err
}

// approveIncluded checks a statement that this kernel contains the change of a package.
func approveIncluded(document []byte, f *trust.Facts, buildID string) ([]string, error) {
	store := newTrust()
	if err := store.Change(func(s trust.State) (trust.State, error) { return s.Tick(trustNow()) }); err != nil {
		return nil, err
	}
	s, err := store.Load()
	if err != nil {
		return nil, err
	}
	v, err := s.CheckIncluded(document, f, buildID, trustNow())
	return v.Signers, err
}

// approvePolicy checks another policy for an update that was applied from a package.
func approvePolicy(name string, policy *uapi.DynamosPolicy) error {
	p, s, err := appliedPackage(name)
	if err != nil || p == nil {
		return err
	}
	f, err := factsOf(p, policy)
	if err != nil {
		return err
	}
	return s.CheckPolicy(p.Signatures, f)
}

// approveAgain checks an update that is loaded and is applied once more.
func approveAgain(name string, policy *uapi.DynamosPolicy, confirm time.Duration) error {
	p, _, err := appliedPackage(name)
	if err != nil || p == nil {
		return err
	}
	return approvePackage(p, policy, confirm)
}

// appliedPackage returns the package of a loaded update, or nil if this node has no keys.
func appliedPackage(name string) (*pack.Package, trust.State, error) {
	store := newTrust()
	s, err := store.Load()
	if err != nil || s.Pinned == "" {
		return nil, s, err
	}
	text, err := newKeep().Remembered(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s, &trust.Refusal{Name: trust.Unsigned, Why: fmt.Sprintf("the package of %s is not known, so its signatures cannot be checked: apply its file", name)}
	}
	if err != nil {
		return nil, s, err
	}
	p, err := pack.Read(bytes.NewReader(text))
	if err != nil {
		return nil, s, cli.Errorf(cli.Refused, "what is stored of %s is damaged (%v): apply its file", name, err)
	}
	module, err := update.ModuleFor(p)
	if err != nil {
		return nil, s, err
	}
	same, err := update.IsLoaded(name, module)
	if err == nil && !same {
		err = &trust.Refusal{Name: trust.Changed, Why: fmt.Sprintf("the module %s that is loaded is not that of its package: apply its file", name)}
	}
	return p, s, err
}

// obeyOrder checks an order to revert and records its sequence, after which a package of a
// lower one is not taken again. It returns the update's name.
func obeyOrder(path string) (name string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	doc, err := trust.ParseSigned(text)
	if err != nil {
		return "", refusedFile(path, err)
	}
	order, err := trust.ParseRevert(doc.Text)
	if err != nil {
		return "", refusedFile(path, err)
	}
	p, _, err := appliedPackage(order.Name)
	if err != nil {
		return "", err
	}
	if p == nil {
		return "", &trust.Refusal{Name: trust.Unpinned, Why: "this machine has no operators' keys: name the update to revert"}
	}
	f, err := factsOf(p, nil)
	if err != nil {
		return "", err
	}
	var v trust.Verdict
	err = newTrust().Change(func(s trust.State) (next trust.State, err error) {
		next, v, err = s.CheckRevert(text, f, trustNow())
		return next, err
	})
	if err != nil {
		return "", err
	}
	_, err = fmt.Printf("%s: sequence %d of line %s orders the revert, signed by %s\n", order.Name, order.Sequence, order.Line, strings.Join(v.Signers, ", "))
	return order.Name, err
}
