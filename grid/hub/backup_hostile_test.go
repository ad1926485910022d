// SPDX-License-Identifier: MIT

package hub

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/grid/engine"
)

// packParts makes a backup with right sums.
func packParts(t testing.TB, list []part) []byte {
	t.Helper()
	var b, sums bytes.Buffer
	w := tar.NewWriter(&b)
	for _, p := range list {
		if p.name == backupSums && p.text == "" {
			p.text = sums.String()
		}
		h := &tar.Header{Typeflag: p.kind, Name: p.name, Size: int64(len(p.text)), Mode: 0o600}
		if p.kind == tar.TypeSymlink {
			h.Linkname, h.Size, p.text = p.text, 0, ""
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(w, p.text)
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(p.text)), p.name)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// change returns a copy of a backup's parts, with right sums, in which the part of this name
// has another text; a part that is not there is put before the sums.
func change(list []part, name, text string) []part {
	list = slices.Clone(list)
	at := slices.IndexFunc(list, func(p part) bool { return p.name == name })
	if at < 0 {
		at = len(list) - 1
		list = slices.Insert(list, at, part{name, text, tar.TypeReg})
	}
	list[at].text = text
	if name != backupSums {
		list[len(list)-1].text = ""
	}
	return list
}

func without(list []part, name string) []part {
	list = slices.DeleteFunc(slices.Clone(list), func(p part) bool { return p.name == name })
	if name != backupSums {
		list[len(list)-1].text = ""
	}
	return list
}

func aboutOf(t *testing.T, list []part, change func(*BackupInfo)) string {
	t.Helper()
	var v BackupInfo
	if err := json.Unmarshal([]byte(list[0].text), &v); err != nil {
		t.Fatal(err)
	}
	change(&v)
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What is not a whole backup of one hub is refused with the reason, and nothing is left of it.
func TestHostileBackups(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.hub.engine.Record(t.Context(), engine.Entry{Call: 1, State: engine.Done}); err != nil {
		t.Fatal(err)
	}
	w.join()
	whole := w.backUp()
	list := partsOf(t, whole)
	other := newWorld(t, nil).backUp()
	digest := strings.Repeat("0", 64)
	link := change(list, "rolls/harmed", "/etc/passwd")
	link[len(link)-2].kind = tar.TypeSymlink
	folder := change(list, "rolls/harmed", "")
	folder[len(folder)-2].kind = tar.TypeDir
	early := without(list, "ledger/00000001")
	early = slices.Insert(early, 1, part{"ledger/00000001", `{"call":1,"state":"done"}`, tar.TypeReg})
	late := append(slices.Clone(list), part{"rolls/harmed", "{}", tar.TypeReg})
	cases := map[string]struct {
		backup []byte
		want   string
	}{
		"empty":              {nil, "cut off"},
		"text":               {[]byte(strings.Repeat("text ", 1000)), "damaged"},
		"another archive":    {packParts(t, []part{{"a", "b", tar.TypeReg}}), "not a backup"},
		"no JSON":            {packParts(t, change(list, backupAbout, "x")), "not a backup"},
		"another format":     {packParts(t, change(list, backupAbout, aboutOf(t, list, func(v *BackupInfo) { v.Format++ }))), "has format 2, and this skep reads 1"},
		"another CA":         {packParts(t, change(list, backupAbout, aboutOf(t, list, func(v *BackupInfo) { v.CA = digest }))), "its CA is not the one"},
		"the half":           {whole[:len(whole)/2], "cut off"},
		"no sums":            {packParts(t, without(list, backupSums)), "cut off"},
		"other sums":         {packParts(t, change(list, backupSums, digest+"  ca.key\n")), "its sums are not"},
		"a changed file":     {packParts(t, append(change(list, rosterFile, "{}\n")[:len(list)-1], list[len(list)-1])), "its sums are not"},
		"an entry behind":    {packParts(t, late), "something follows its sums"},
		"bytes behind":       {append(slices.Clone(whole), 0), "something follows its end"},
		"two backups":        {append(slices.Clone(whole), other...), "something follows its end"},
		"a name that climbs": {packParts(t, change(list, "rolls/../../x.json", "")), "does not expect"},
		"an absolute name":   {packParts(t, change(list, "/etc/passwd", "")), "does not expect"},
		"a name of Windows":  {packParts(t, change(list, `rolls\..\x.json`, "")), "does not expect"},
		"an unknown name":    {packParts(t, change(list, "hub.sock", "")), "does not expect"},
		"the same name":      {packParts(t, slices.Insert(change(list, "ca.crt", list[2].text), 2, list[2])), "does not expect"},
		"a link":             {packParts(t, link), "that no backup has"},
		"a folder":           {packParts(t, folder), "that no backup has"},
		"a large file":       {largeHeader(t, list[:1]), "that no backup has"},
		"no CA":              {packParts(t, without(list, "ca.key")), "lacks ca.key"},
		"no engine":          {packParts(t, without(without(list, "ledger/00000001"), "engine/keys.json")), "lacks engine/keys.json"},
		"no numbers":         {packParts(t, without(list, numbersFile)), "lacks fences"},
		"wrong numbers":      {packParts(t, change(list, numbersFile, "-1")), "no number of a last lease"},
		"a damaged CA":       {packParts(t, change(list, "ca.key", "x")), "ca.key is damaged"},
		"the CA of another":  {packParts(t, change(list, "ca.key", partsOf(t, other)[1].text)), "does not belong to"},
		"a damaged engine":   {packParts(t, change(list, "engine/keys.json", "{")), "keys.json is damaged"},
		"damaged tokens":     {packParts(t, change(list, tokensFile, "{")), "tokens.json is damaged"},
		"damaged nodes":      {packParts(t, change(list, rosterFile, "{")), "nodes.json is damaged"},
		"a damaged log":      {packParts(t, change(list, "rolls/audit.log", "x\n")), "audit.log is damaged"},
		"a damaged roll":     {packParts(t, change(list, "rolls/fix.json", "x")), "fix.json is damaged"},
		"a damaged ledger":   {packParts(t, change(list, "ledger/00000001", "{")), "cannot be read"},
		"an unknown state":   {packParts(t, change(list, "ledger/00000001", `{"call":1,"state":"x"}`)), "not a state"},
		"a ledger too early": {packParts(t, early), "before the engine's keys"},
		"another package":    {packParts(t, change(list, "packages/"+digest, "x")), "the package " + digest + " has the digest"},
	}
	for what, c := range cases {
		parent := t.TempDir()
		_, err := unpackTo(t, c.backup, filepath.Join(parent, "hub"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", what, left, err)
		}
	}
	if info, err := unpackTo(t, packParts(t, change(list, "rolls/harmed", "{}")), filepath.Join(t.TempDir(), "hub")); err != nil || info.Version != "test" {
		t.Errorf("a backup that was packed anew: %+v, %v", info, err)
	}
}

// largeHeader returns a backup that announces an entry larger than any.
func largeHeader(t *testing.T, list []part) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "ca.key", Size: partMax + 1}); err != nil {
		t.Fatal(err)
	}
	first := packParts(t, list)
	return append(first[:len(first)-1024], b.Bytes()...)
}

// FuzzReadBackup: whatever a backup has, it is refused, or it has what each needs, under names
// that lead nowhere else, and what was taken has the sums of the backup. names are those of the
// entries, one a line; a byte of the archive is changed, and its end is missing.
func FuzzReadBackup(f *testing.F) {
	good := strings.Join(append(slices.Clone(needed), "rolls/fix.json", "ledger/00000001", backupSums), "\n")
	f.Add(good, "text", uint16(0), byte(0), uint16(0))
	f.Add(good, "text", uint16(512), byte(1), uint16(0))
	f.Add(good, "text", uint16(0), byte(0), uint16(3000))
	f.Add("rolls/../x.json\n"+good, "", uint16(0), byte(0), uint16(0))
	f.Fuzz(func(t *testing.T, names, text string, at uint16, flip byte, cut uint16) {
		list := []part{{backupAbout, `{"format":1}`, tar.TypeReg}}
		for name := range strings.Lines(names) {
			p := part{strings.TrimRight(name, "\n"), text, tar.TypeReg}
			if p.name == backupSums {
				p.text = ""
			}
			if p.name == "" || strings.ContainsRune(p.name, 0) || strings.HasSuffix(p.name, "/") || len(list) == 20 {
				return // the writer refuses such names, or takes them for a folder's
			}
			list = append(list, p)
		}
		b := packParts(t, list)
		b[int(at)%len(b)] ^= flip
		b = b[:len(b)-int(cut)%len(b)]
		sums := map[string]string{}
		_, err := ReadBackup(bytes.NewReader(b), func(name string, body io.Reader) error {
			text, err := io.ReadAll(body)
			if !filepath.IsLocal(name) || strings.Contains(name, "/../") || sums[name] != "" {
				t.Errorf("an entry is called %q", name)
			}
			sums[name] = fmt.Sprintf("%x", sha256.Sum256(text))
			return err
		})
		if err != nil {
			return
		}
		for _, name := range needed {
			if sums[name] == "" {
				t.Errorf("%s is missing", name)
			}
		}
		written := partsOf(t, b)
		for name, sum := range sums {
			if !strings.Contains(written[len(written)-1].text, sum+"  "+name+"\n") {
				t.Errorf("%s has not its sum", name)
			}
		}
	})
}
