// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestDrawIsInTheOrderOfASeededHash(t *testing.T) {
	var all []fix
	for _, p := range []string{"mm/a.c", "mm/b.c", "fs/c.c", "drivers/d.c", "net/e.c", "sound/f.c"} {
		all = append(all, fix{"", []string{p, "include/" + p + ".h"}})
	}
	kinds := map[string]string{"mm/a.c": "image", "mm/b.c": "nothing", "fs/c.c": "module", "drivers/d.c": "module", "net/e.c": "image", "sound/f.c": "nothing"}
	kindOf := func(p string) (string, error) { return kinds[p], nil }
	done := pathsOf("# 1 a image mm/a.c\n7 0000 image net/e.c include/x.h\n\n8 broken\n")
	for _, seed := range []string{"one", "two", "three"} {
		list, err := drawFixes(all, seed, 2, done, kindOf)
		if err != nil {
			t.Fatal(err)
		}
		compiled, last := 0, ""
		for _, d := range list {
			sum := sha256.Sum256([]byte(seed + d.files[0]))
			if hash := hex.EncodeToString(sum[:4]); hash != d.hash || hash < last {
				t.Errorf("%s: %s has the hash %s, not %s after %s", seed, d.files[0], d.hash, hash, last)
			}
			last = d.hash
			if d.kind != kinds[d.files[0]] || len(d.files) != 2 || d.files[0] == "net/e.c" {
				t.Errorf("%s: %+v", seed, d)
			}
			if d.kind != kindNothing {
				compiled++
			}
		}
		if compiled != 2 || list[len(list)-1].kind == kindNothing {
			t.Errorf("%s: %d of %+v are compiled", seed, compiled, list)
		}
	}
	if list, err := drawFixes(all, "one", 9, nil, kindOf); err != nil || len(list) != len(all) {
		t.Errorf("all of them: %+v, %v", list, err)
	}
	broken := errors.New("broken")
	if list, err := drawFixes(all, "one", 9, nil, func(string) (string, error) { return "", broken }); err != broken || list != nil {
		t.Errorf("without a kind: %+v, %v", list, err)
	}
}

func TestRunPicksNumbersAndKinds(t *testing.T) {
	for _, c := range []struct {
		picks string
		want  []string
	}{{"", []string{"1", "3"}}, {"image", []string{"1"}}, {"module", []string{"3"}}, {"3", []string{"3"}}, {"2", nil}, {"1 module", []string{"1", "3"}}} {
		var got []string
		for _, line := range []string{"# 1 x image a.c", "1 x image a.c", "2 x nothing b.c", "3 x module c.c", "", "4 x image"} {
			if f := strings.Fields(line); isPicked(f, strings.Fields(c.picks)) {
				got = append(got, f[0])
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q picks %v, not %v", c.picks, got, c.want)
		}
	}
}
