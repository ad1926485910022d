// SPDX-License-Identifier: MIT

package part

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]string{
		"2": "2", "2-3": "2-3", "3,1,2": "1-3", "0,63-64,4095": "0,63-64,4095", " 1, 5-5": "1,5",
	} {
		if c, err := ParseCPUs(text); err != nil || c.String() != want {
			t.Errorf("%q is %v, %v; want %s", text, c, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "3-2", "4096", "1,,2", "1-", "99999999999"} {
		if c, err := ParseCPUs(text); err == nil {
			t.Errorf("%q is %v", text, c)
		}
	}
}

func parseSizeArg(s string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "M"), 10, 32)
	return n << 20, err
}

func TestParseMemory(t *testing.T) {
	for _, c := range []struct {
		text  string
		nodes []int
		want  string
	}{
		{"512M", []int{0}, "0=512"},
		{"512M", []int{1, 0}, "0=256 1=256"},
		{"6M", []int{0, 2}, "0=4 2=2"},
		{"7M", []int{0, 1}, "0=5 1=2"},
		{"0=64M,3=2M", []int{0}, "0=64 3=2"},
	} {
		m, err := ParseMemory(c.text, c.nodes, parseSizeArg)
		var got []string
		for n, b := range m {
			if b != 0 {
				got = append(got, fmt.Sprintf("%d=%d", n, b>>20))
			}
		}
		if text := strings.Join(got, " "); err != nil || text != c.want {
			t.Errorf("%s on %v is %s, %v; want %s", c.text, c.nodes, text, err, c.want)
		}
	}
	for _, text := range []string{"", "M=1M", "64=1M", "0=x", "0=1M,0=2M", "=1M"} {
		if m, err := ParseMemory(text, []int{0}, parseSizeArg); err == nil {
			t.Errorf("%q is %v", text, m)
		}
	}
}
