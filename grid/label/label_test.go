// SPDX-License-Identifier: MIT

package label

import (
	"strings"
	"testing"
)

func TestSelectors(t *testing.T) {
	n := Node{Name: "pc7", ID: "AB12", OS: "windows", Substrate: "bee-windows", CPUs: 8, Memory: 16 << 30,
		Labels: []string{"room=b.12", "gpu=h100", "gpu=a30"}}
	for text, want := range map[string]bool{
		"any": true, "all": true, "os=windows": true, "os=linux": false, "os!=linux": true, "os!=windows": false,
		"node=pc7": true, "node=AB12": true, "node=pc8": false, "node!=pc7": false, "node!=AB12": false, "node!=pc8": true,
		"substrate=bee-windows": true, "substrate!=bee-windows": false, "substrate=linux": false,
		"cpus>=8": true, "cpus>=9": false, "cpus>=0": true, "memory>=16G": true, "memory>=17G": false, "memory>=17179869184": true, "memory>=17179869185": false,
		"room=b.12": true, "room=b.1": false, "room!=b.12": false, "room!=b.1": true, "gpu=h100": true, "gpu=a30": true, "gpu!=a30": false, "gpu=h10": false,
		"other=1": false, "other!=1": true,
		"os=windows,gpu=h100,cpus>=4": true, "os=windows,gpu=h100,cpus>=40": false, "os=linux,gpu=h100": false, "gpu=h100,gpu=a30": true,
	} {
		s, err := Parse(text)
		if err != nil || s.Matches(&n) != want || s.String() != text {
			t.Errorf("%s: %v, %v; want %v", text, s.Matches(&n), err, want)
		}
		if s.IsAll() != (text == "any" || text == "all") {
			t.Errorf("%s chooses all nodes: %v", text, s.IsAll())
		}
	}
	if s := (Selector{}); !s.IsAll() || !s.Matches(&n) || s.String() != "all" {
		t.Error("the zero selector does not choose all nodes")
	}
	if s, _ := Parse("cpus>=0"); s.Matches(&Node{}) {
		t.Error("a node of unknown CPUs has enough of them")
	}
}

func TestSelectorsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "give any", "linux": "give any", "all,os=linux": "give any", "os=": "give any", "=linux": "give any", "os==linux": "give any", "os=linux,": "give any",
		" os=linux": "give any", "os= linux": "give any", "Os=linux": "give any", "os=li nux": "give any", "os=linux\n": "give any", "a=b;c": "give any",
		"os>=linux": "compared by >=", "cpus=4": "compared by >=", "memory!=4G": "compared by >=", "room>=4": "compared by >=",
		"cpus>=x": "want a number", "cpus>=4G": "want a number", "cpus>=99999999999": "want a number", "memory>=much": "not a size", "memory>=99999999999G": "not a size",
		strings.Repeat("a=b,", termsMax) + "a=b": "at most 32 terms", "a=" + strings.Repeat("x", 257): "give any",
	} {
		s, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || !s.IsAll() {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func TestLabels(t *testing.T) {
	if err := Check([]string{"room=b.12", "gpu=h100", "gpu=a30", "a_b-1=X-Y_Z.9", "k=" + strings.Repeat("x", 64)}); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"room": "no label", "=b": "no label", "room=": "no label", "Room=b": "no label", "1=b": "no label", "room=b c": "no label", "room=b,c": "no label", "room=b\n": "no label",
		"room=\u00e9": "no label", "k=" + strings.Repeat("x", 65): "no label", strings.Repeat("k", 33) + "=x": "no label",
		"os=linux": "has os by itself", "node=a": "by itself", "substrate=a": "by itself", "cpus=1": "by itself", "memory=1": "by itself",
	} {
		if err := Check([]string{"a=b", text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if err := Check(make([]string, Max+1)); err == nil || !strings.Contains(err.Error(), "at most 32") {
		t.Error(err)
	}
}

// What Check permits, a selector can name.
func FuzzSelector(f *testing.F) {
	f.Add("room=b.12")
	f.Add("os=linux,cpus>=4,memory>=1G,gpu!=a30")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err == nil {
			s.Matches(&Node{})
		}
		if Check([]string{text}) == nil && (err != nil || !s.Matches(&Node{Labels: []string{text}})) {
			t.Errorf("%q is a label, and as a selector: %v", text, err)
		}
	})
}
