// SPDX-License-Identifier: MIT

package report

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sample() *Report {
	peer := 0.25
	return &Report{Format: Format, Revision: Revision, Date: "2026-11-23",
		Skep:    Versions{"0.1.0", "abc", "bee 0.1"},
		Machine: Machine{"Linux 6.12", "some CPU", 4}, Seconds: 12.5,
		Figures: []Figure{{"calls", "getpid", "ns", 31.5, "Linux itself", &peer}, {"programs", "passed", "programs", 31, "", nil}},
		Absent:  []Absent{{"noise", "the module shimos is not loaded"}},
		Log:     []string{"calls: 7 figures"}}
}

func text(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A written report is read back unchanged.
func TestWriteAndRead(t *testing.T) {
	first := text(t, sample())
	r, err := Read(strings.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if second := text(t, r); second != first {
		t.Errorf("%s\nbecame\n%s", first, second)
	}
}

// Files with one fault are refused.
func TestRefused(t *testing.T) {
	good := text(t, sample())
	for name, c := range map[string][2]string{
		"another format":     {Format, "skep-other"},
		"another revision":   {`"revision": 1`, `"revision": 2`},
		"an unknown field":   {`"seconds"`, `"more": 1, "seconds"`},
		"a control byte":     {"some CPU", `some\u0007CPU`},
		"turned text":        {"some CPU", `some\u202eCPU`},
		"a long text":        {"some CPU", strings.Repeat("x", textMax+1)},
		"a huge number":      {"12.5", "1e300"},
		"a negative figure":  {"31.5", "-1"},
		"a peer without one": {`"peer_value": 0.25`, `"peer_value": null`},
		"too deep":           {`"some CPU"`, strings.Repeat("[", 100) + strings.Repeat("]", 100)},
		"more text":          {"\n}\n", "\n}\n{}"},
		"too long":           {"\n}\n", "\n}" + strings.Repeat(" ", sizeMax)},
	} {
		bad := strings.Replace(good, c[0], c[1], 1)
		if bad == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if r, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
	many := sample()
	many.Log = make([]string, entryMax+1)
	if err := Write(&bytes.Buffer{}, many); err == nil {
		t.Error("too many entries were written")
	}
}

// The page shows texts of a hostile file as plain text.
func TestPageEscapes(t *testing.T) {
	r := sample()
	evil := `"><script>alert(1)</script>`
	r.Machine.System, r.Machine.Processor, r.Figures[0].Name, r.Figures[0].Peer = evil, evil, evil, evil
	r.Absent[0].Reason, r.Log[0], r.Skep.Commit, r.Date = evil, "</pre>"+evil, evil, evil
	var b bytes.Buffer
	if err := WritePage(&b, []*Report{r}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script") || strings.Count(b.String(), "</pre>") != 1 || strings.Count(b.String(), "alert(1)") != 8 {
		t.Error(b.String())
	}
}

// turned changes some bytes of a file.
func turned(text []byte, random *rand.Rand) []byte {
	text = bytes.Clone(text)
	for range 1 + random.IntN(4) {
		at, n := random.IntN(len(text)), 1+random.IntN(12)
		switch random.IntN(4) {
		case 0:
			text[at] = byte(random.Uint32())
		case 1:
			text = append(text[:at:at], text[min(len(text), at+n):]...)
		case 2:
			from := random.IntN(len(text))
			text = append(text[:at:at], append(bytes.Clone(text[from:min(len(text), from+n)]), text[at:]...)...)
		default:
			words := []string{"1e999", "null", "-0", `"\ud800"`, "<script>", "[[", "}", `\u0000`}
			text = append(text[:at:at], append([]byte(words[random.IntN(len(words))]), text[at:]...)...)
		}
		if len(text) == 0 {
			return []byte("{")
		}
	}
	return text
}

// Read does not panic on any bytes. A report that it accepts can be shown and written
// again.
func readAny(t *testing.T, b []byte) (taken bool) {
	r, err := Read(bytes.NewReader(b))
	if err != nil {
		return false
	}
	var page bytes.Buffer
	if err := WritePage(&page, []*Report{r}); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	if strings.Contains(page.String(), "<script") {
		t.Fatalf("%q is a script on the page", b)
	}
	if _, err := Read(strings.NewReader(text(t, r))); err != nil {
		t.Fatalf("%q: written again: %v", b, err)
	}
	return true
}

func TestHostileFiles(t *testing.T) {
	good := []byte(text(t, sample()))
	random := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 20000 {
		if readAny(t, turned(good, random)) {
			taken++
		}
	}
	if taken < 100 || taken > 19000 {
		t.Errorf("%d of 20000 changed files were taken", taken)
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	Write(&b, sample())
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) { readAny(t, b) })
}

// Planted names are removed from all texts, whatever characters surround them.
func TestScrub(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home", "annika")
	for name, value := range map[string]string{"HOME": home, "USERPROFILE": home, "USER": "annika", "USERNAME": "annika", "LOGNAME": "annika", "COMPUTERNAME": "PC-PLANTED", "USERDOMAIN": "PLANTEDLAB"} {
		t.Setenv(name, value)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	s := NewScrubber("node17.cluster.example", "node18")
	r := sample()
	r.Log = []string{
		"cannot open " + home + "/secret/file: denied", "user annika, Annika and ANNIKA_x",
		"pc-planted said PlantedLab\\annika", "node17: connect 192.0.2.77:4860 and [fe80::1ff:fe23:4567:890a%eth0]:4860, 2001:db8::7",
		"node17.cluster.example node18 node18", "mail annika.b@example.org", "ether 02:42:ac:11:00:02",
		"C:\\Users\\Somebody\\kit and /" + "home/other/kit", "at 12:34:56 it took 3.5 ms",
	}
	r.Machine.System = "Linux of " + host
	r.Absent[0].Reason = "node18 is down"
	s.Scrub(r)
	out := strings.ToLower(text(t, r))
	for _, secret := range []string{"annika", "planted", "node17", "node18", "cluster.example", "192.0.2", "fe80", "2001:db8", "02:42", "somebody", "other", "example.org", " " + host} {
		if strings.Contains(out, strings.ToLower(secret)) {
			t.Errorf("%q is in\n%s", secret, out)
		}
	}
	for _, kept := range []string{"at 12:34:56 it took 3.5 ms", "calls", "getpid", "is down"} {
		if !strings.Contains(out, kept) {
			t.Errorf("%q is lost from\n%s", kept, out)
		}
	}
}
