// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"skep/dynamos/update/trust"
	"skep/internal/atomicfile"
	"skep/internal/cli"
)

func keysWords() []command {
	return []command{
		{name: "update keys new", usage: "update keys new FILE [--name NAME] [--passphrase-file FILE | --no-passphrase]", runner: &keysNew{},
			summary: "make an operator's key"},
		{name: "update keys show", usage: "update keys show [FILE]", runner: &keysShow{},
			summary: "show the keys that this node trusts, or those in a file"},
		{name: "update keys rotate", usage: "update keys rotate [FILE] -o FILE [--fleet NAME] [--add KEY.pub] [--remove ID] [--revoke ID] [--threshold K] [--expires TIME] [--floor LINE=N]", runner: &keysRotate{},
			summary: "write the first or the next document of keys, to be signed"},
		{name: "update keys trust", usage: "update keys trust FILE [--replace] [--forget-time]", runner: &keysTrust{},
			summary: "pin a signed document of keys on this node"},
		{name: "update keys revoke", usage: "update keys revoke ID", runner: &keysRevoke{},
			summary: "trust a key no more on this node"},
	}
}

type keysNew struct {
	name string
	pass passphrase
	none bool
}

func (k *keysNew) options(f *cli.Flags) {
	f.StringVar(&k.name, "name", "", "the operator's `NAME`, which is shown with the key (default: the name of FILE)")
	k.pass.options(f)
	f.BoolVar(&k.none, "no-passphrase", false, "do not encrypt the key")
}

func (k *keysNew) run(_ context.Context, f *cli.Flags, words []string) error {
	path, err := oneFile(f, words, "a file for the key")
	if err != nil {
		return err
	}
	if k.none && k.pass.file != "" {
		return f.Usagef("--no-passphrase and --passphrase-file exclude each other")
	}
	name := k.name
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	var secret []byte
	if !k.none {
		if secret, err = k.pass.choose(); err != nil {
			return err
		}
	}
	key, err := trust.CreateKey(path, name, secret)
	if err != nil {
		return updateError(err)
	}
	_, err = fmt.Printf("%s: keep it where no hub can read it\n%s.pub: %s\n", path, path, key.Label())
	return err
}

type keysShow struct{}

func (k *keysShow) options(*cli.Flags) {}

func (k *keysShow) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) > 0 {
		if err := f.RefuseArgs(words[1:]); err != nil {
			return err
		}
		return showKeysFile(os.Stdout, words[0])
	}
	s, err := newTrust().Load()
	if err != nil {
		return updateError(err)
	}
	if s.Pinned == "" {
		_, err := fmt.Println("this machine has no operators' keys: root may apply any update")
		return err
	}
	return showTrust(os.Stdout, &s)
}

// showKeysFile prints a public key, or a document of keys.
func showKeysFile(w io.Writer, path string) error {
	if key, err := trust.ReadKey(path); err == nil {
		_, err = fmt.Fprintln(w, key.Label())
		return err
	}
	doc, k, err := readKeys(path)
	if err != nil {
		return updateError(err)
	}
	if err := printKeys(w, &k, nil); err != nil {
		return err
	}
	for _, sig := range doc.Signatures {
		if _, err := fmt.Fprintf(w, "signed with %s\n", sig.ID()); err != nil {
			return err
		}
	}
	return nil
}

// readKeys reads a document of keys.
func readKeys(path string) (*trust.Signed, trust.Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, trust.Keys{}, err
	}
	doc, err := trust.ParseSigned(text)
	if err != nil {
		return nil, trust.Keys{}, refusedFile(path, err)
	}
	k, err := trust.ParseKeys(doc.Text)
	if err != nil {
		return nil, k, refusedFile(path, err)
	}
	return doc, k, nil
}

func printKeys(w io.Writer, k *trust.Keys, revoked map[string]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "fleet %s, version %d: %d of %d keys must sign; expires %s\n", k.Fleet, k.Version, k.Threshold, len(k.Keys), k.Expires.Format(time.RFC3339))
	for _, key := range k.Keys {
		b.WriteString("  " + key.Label())
		if why := revoked[key.ID()]; why != "" {
			b.WriteString(", revoked " + why)
		}
		b.WriteByte('\n')
	}
	for _, id := range k.Revoked {
		fmt.Fprintf(&b, "  %s, revoked\n", id)
	}
	for _, line := range slices.Sorted(maps.Keys(k.Floors)) {
		fmt.Fprintf(&b, "line %s: sequence %d at least\n", line, k.Floors[line])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func showTrust(w io.Writer, s *trust.State) error {
	k, _, err := s.Keys()
	if err != nil {
		return updateError(err)
	}
	if err := printKeys(w, &k, s.Revoked); err != nil {
		return err
	}
	table := cli.NewTable("LINE", "SEQUENCE SEEN", "WHAT")
	for _, line := range slices.Sorted(maps.Keys(s.Lines)) {
		m, what := s.Lines[line], "a floor"
		switch {
		case m.Reverted:
			what = "an order to revert " + m.Content
		case m.Content != "":
			what = m.Content
		}
		table.Row(line, m.Sequence, what)
	}
	if len(s.Lines) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return table.Write(w)
}

type keysRotate struct {
	out, fleet           string
	add, remove, revoked []string
	floors               []string
	threshold            int
	valid                time.Duration
}

func (k *keysRotate) options(f *cli.Flags) {
	list := func(name, help string, to *[]string) {
		f.Func(name, help, func(text string) error { *to = append(*to, text); return nil })
	}
	f.StringVar(&k.out, "o", "", "write the document to `FILE`")
	f.StringVar(&k.fleet, "fleet", "", "the `NAME` of the fleet, in its first document")
	list("add", "add the public key in `FILE`; may be repeated", &k.add)
	list("remove", "leave out the key with this `ID`", &k.remove)
	list("revoke", "the key with this `ID` is stolen or lost: nodes never trust it again", &k.revoked)
	list("floor", "`LINE=N`: nodes accept no package of this line below sequence N", &k.floors)
	f.IntVar(&k.threshold, "threshold", 0, "`K` keys must sign")
	f.DurationVar(&k.valid, "expires", 90*24*time.Hour, "without a newer document, nodes accept no updates after this `TIME`")
}

func (k *keysRotate) run(_ context.Context, f *cli.Flags, words []string) error {
	keys, err := k.begin(f, words)
	if err != nil {
		return updateError(err)
	}
	if k.threshold != 0 {
		keys.Threshold = k.threshold
	}
	if err := k.change(f, &keys); err != nil {
		return updateError(err)
	}
	keys.Signed = trustNow().UTC().Truncate(time.Second)
	keys.Expires = keys.Signed.Add(k.valid).Truncate(time.Second)
	doc := &trust.Signed{Text: keys.Encode()}
	if _, err := trust.ParseKeys(doc.Text); err != nil {
		return updateError(err)
	}
	if err := atomicfile.Write(k.out, doc.Encode(), 0o644); err != nil {
		return err
	}
	if err := printKeys(os.Stdout, &keys, nil); err != nil {
		return err
	}
	_, err = fmt.Printf("%s: now %d of these keys must sign it: 'skep update sign %s --key KEY'\n", k.out, keys.Threshold, k.out)
	return err
}

// begin returns the document before the changes: an empty one, or the one given.
func (k *keysRotate) begin(f *cli.Flags, words []string) (keys trust.Keys, err error) {
	if k.out == "" {
		return keys, f.Expectf("-o FILE is expected")
	}
	if len(words) == 0 {
		if k.fleet == "" || k.threshold == 0 || len(k.add) == 0 {
			return keys, f.Usagef("the first document needs --fleet, --threshold and --add; for a later one name the document before it")
		}
		return trust.Keys{Fleet: k.fleet, Version: 1, Floors: map[string]uint64{}}, nil
	}
	if err := f.RefuseArgs(words[1:]); err != nil {
		return keys, err
	}
	if k.fleet != "" {
		return keys, f.Usagef("a fleet keeps its name")
	}
	_, keys, err = readKeys(words[0])
	keys.Version++
	return keys, err
}

func (k *keysRotate) change(f *cli.Flags, keys *trust.Keys) error {
	for _, file := range k.add {
		key, err := trust.ReadKey(file)
		if err != nil {
			return err
		}
		keys.Keys = append(keys.Keys, key)
	}
	for _, id := range slices.Concat(k.remove, k.revoked) {
		n := len(keys.Keys)
		keys.Keys = slices.DeleteFunc(keys.Keys, func(key trust.Key) bool { return key.ID() == id })
		if n == len(keys.Keys) {
			return f.Usagef("%.80q is not a key of the document: 'skep update keys show FILE' lists them", id)
		}
	}
	keys.Revoked = append(keys.Revoked, k.revoked...)
	for _, floor := range k.floors {
		line, number, _ := strings.Cut(floor, "=")
		n, err := strconv.ParseUint(number, 10, 53)
		if err != nil || n == 0 || !trust.ValidLine(line) {
			return f.Usagef("--floor takes LINE=N, as arp=7")
		}
		keys.Floors[line] = n
	}
	return nil
}

type keysTrust struct{ replace, forget bool }

func (k *keysTrust) options(f *cli.Flags) {
	f.BoolVar(&k.replace, "replace", false, "as root, pin it although the pinned keys did not sign it")
	f.BoolVar(&k.forget, "forget-time", false, "as root, forget the latest time seen, because the clock was wrong")
}

func (k *keysTrust) run(_ context.Context, f *cli.Flags, words []string) error {
	path, err := oneFile(f, words, "a document of keys")
	if err != nil {
		return err
	}
	return pinKeys(path, k.replace, k.forget)
}

// pinKeys puts a document of keys in force on this machine.
func pinKeys(path string, replace, forget bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var keys trust.Keys
	how := "root pinned it"
	err = newTrust().Change(func(s trust.State) (next trust.State, err error) {
		if s.Pinned == "" || replace || forget {
			next, keys, err = s.Pin(text, trustNow(), forget)
			return next, err
		}
		if text := string(text); text == s.Pinned {
			how = "it was in force already"
			keys, _, err = s.Keys()
			return s, err
		}
		how = "the keys before it signed it"
		next, keys, err = s.CheckKeys(text, trustNow())
		return next, err
	})
	switch {
	case errors.Is(err, fs.ErrPermission):
		return cli.Errorf(cli.Refused, "only root pins keys on this machine: %v", err)
	case trust.Name(err) == trust.Threshold && !replace && how != "root pinned it":
		return cli.Errorf(cli.Refused, "%v; root may put it in force nevertheless with --replace", err)
	case err != nil:
		return updateError(err)
	}
	if err := printKeys(os.Stdout, &keys, nil); err != nil {
		return err
	}
	_, err = fmt.Printf("in force: %s; compare the keys with those of your operators\n", how)
	return err
}

type keysRevoke struct{}

func (k *keysRevoke) options(*cli.Flags) {}

func (k *keysRevoke) run(_ context.Context, f *cli.Flags, words []string) error {
	id, err := oneFile(f, words, "the identity of a key")
	if err != nil {
		return err
	}
	exists, err := newTrust().Exists()
	if err == nil && !exists {
		err = cli.Errorf(cli.Refused, "this machine has no operators' keys")
	}
	left := 0
	var keys trust.Keys
	if err == nil {
		err = newTrust().Change(func(s trust.State) (next trust.State, err error) {
			if keys, _, err = s.Keys(); err != nil {
				return s, err
			}
			next, left, err = s.Revoke(id, trustNow())
			return next, err
		})
	}
	if err != nil {
		return updateError(err)
	}
	text := fmt.Sprintf("%s: revoked on this machine; %d keys are left, and %d must sign\n", id, left, keys.Threshold)
	if left < keys.Threshold {
		text += "nothing is applied here until a document with other keys is pinned: 'skep update keys trust FILE --replace'\n"
	}
	_, err = io.WriteString(os.Stdout, text)
	return err
}
