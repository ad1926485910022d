// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/internal/cli"
)

type updateVerify struct{ keys string }

func (u *updateVerify) options(f *cli.Flags) {
	f.StringVar(&u.keys, "keys", "", "by the document of keys in `FILE` instead of the keys of this machine")
}

func (u *updateVerify) run(_ context.Context, f *cli.Flags, words []string) error {
	path, err := oneFile(f, words, "a package, an order or a document of keys")
	if err != nil {
		return err
	}
	s, err := u.state()
	if err != nil {
		return updateError(err)
	}
	if !strings.HasSuffix(path, pack.Suffix) {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return updateError(verifyDocument(path, text, s))
	}
	p, _, err := readPackage(path)
	if err != nil {
		return err
	}
	if p.Signatures == nil {
		return cli.Errorf(cli.Refused, "%s: nobody signed it", path)
	}
	doc, err := showSigned(p.Signatures, &s)
	if err != nil {
		return refusedFile(path, err)
	}
	said, err := trust.ParsePackage(doc.Text)
	if err != nil {
		return refusedFile(path, err)
	}
	content, err := p.Content()
	if err != nil {
		return err
	}
	if said.Content != content || said.Name != p.Name || said.Class != p.Class {
		return cli.Errorf(cli.Refused, "%s: this node would refuse it: the contents are not those that were signed", path)
	}
	if s.Pinned == "" {
		return noKeysHere(path)
	}
	f2 := &trust.Facts{Name: p.Name, Class: p.Class, Content: content}
	_, v, err := s.CheckPackage(p.Signatures, f2, trustNow())
	return tellVerdict(path, v, err, fmt.Sprintf("apply it within this policy, on trial for %v at most", said.Trial))
}

// state returns the keys to verify by. Nothing is stored.
func (u *updateVerify) state() (trust.State, error) {
	if u.keys == "" {
		return newTrust().Load()
	}
	text, err := os.ReadFile(u.keys)
	if err != nil {
		return trust.State{}, err
	}
	s, _, err := trust.State{}.Pin(text, trustNow(), false)
	if err != nil {
		return s, refusedFile(u.keys, err)
	}
	return s, nil
}

// verifyDocument checks an order to revert, or a document of keys.
func verifyDocument(path string, text []byte, s trust.State) error {
	doc, err := showSigned(text, &s)
	if err != nil {
		return refusedFile(path, err)
	}
	if s.Pinned == "" {
		return noKeysHere(path)
	}
	if k, err := trust.ParseKeys(doc.Text); err == nil {
		_, _, err = s.CheckKeys(text, trustNow())
		return tellVerdict(path, trust.Verdict{Threshold: k.Threshold}, err, "put these keys in force")
	}
	if i, err := trust.ParseIncluded(doc.Text); err == nil {
		v, err := s.CheckIncluded(text, &trust.Facts{Name: i.Name, Content: i.Content}, i.BuildID, trustNow())
		return tellVerdict(path, v, err, "do without "+i.Name+" on Linux "+i.Version)
	}
	r, err := trust.ParseRevert(doc.Text)
	if err != nil {
		return refusedFile(path, err)
	}
	_, v, err := s.CheckRevert(text, &trust.Facts{Name: r.Name, Content: r.Content}, trustNow())
	return tellVerdict(path, v, err, "revert "+r.Name)
}

// showSigned prints a document, and of each signature whether it is valid and counts.
func showSigned(text []byte, s *trust.State) (*trust.Signed, error) {
	doc, err := trust.ParseSigned(text)
	if err != nil {
		return nil, err
	}
	if _, err := trust.Describe(text, trustNow()); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.Write(doc.Text)
	for _, line := range s.Opinions(doc) {
		fmt.Fprintf(&b, "signature %s\n", line)
	}
	_, err = os.Stdout.WriteString(b.String())
	return doc, err
}

func noKeysHere(path string) error {
	_, err := fmt.Printf("%s: this machine has no operators' keys, so nothing says whether these signers may sign; root may apply it\n", path)
	return err
}

// tellVerdict says what this node would do.
func tellVerdict(path string, v trust.Verdict, err error, do string) error {
	if name := trust.Name(err); name != "" {
		return cli.Errorf(cli.Refused, "%s: this node would refuse it (%s): %v", path, name, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s: enough keys signed it (%d of %d needed): this node would %s\n", path, max(len(v.Signers), v.Threshold), v.Threshold, do)
	return err
}
