// SPDX-License-Identifier: MIT

package main

import (
	"io"
	"testing"

	"skep/grid/proto"
	"skep/internal/cli"
)

func TestLimitOptions(t *testing.T) {
	parse := func(prefix string, args ...string) (proto.Limits, error) {
		var l proto.Limits
		f := cli.NewFlags("test", "test")
		f.SetOutput(io.Discard)
		limitOptions(f, prefix, "it", &l)
		_, err := f.Parse(args)
		return l, err
	}
	want := proto.Limits{Memory: 50 << 20, CPU: 600, Wall: 0.5, Processes: 8, Disk: 1 << 30}
	got, err := parse("limit-", "--limit-memory", "50M", "--limit-cpu-time=10m", "--limit-wall-time", "500ms", "--limit-processes", "8", "--limit-disk", "1G")
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][]string{{"--memory", "0"}, {"--memory", "much"}, {"--disk", "-1"}, {"--cpu-time", "10"}, {"--wall-time", "-1s"}, {"--processes", "0"}, {"--processes", "x"}} {
		if got, err := parse("", bad...); err == nil {
			t.Errorf("%v: %+v", bad, got)
		}
	}
	if got := (proto.Limits{Memory: 1, Wall: 3}).Or(want); got != (proto.Limits{Memory: 1, CPU: 600, Wall: 3, Processes: 8, Disk: 1 << 30}) {
		t.Errorf("%+v", got)
	}
	small := proto.Limits{Memory: 1, Wall: 3}
	if w := want.Within(small); w.Memory != 1 || w.Wall != 0.5 || w.CPU != 600 || small.Within(want) != w {
		t.Errorf("%+v", w)
	}
}
