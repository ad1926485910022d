// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"strings"
	"testing"
)

const goodLedger = "sms-ledger 1\npartition 1\nstatus 0\ncore 0 calls 17\ncore 0 faults 5\ncore 1 calls 3\nend\n"

func TestLedger(t *testing.T) {
	figures, cores, err := readLedger(strings.NewReader(goodLedger))
	if err != nil || cores != 2 || len(figures) != 2 {
		t.Fatalf("%v, %d cores, %v", figures, cores, err)
	}
	calls := figures[0]
	if calls.Name != "calls" || len(calls.Cores) != 2 || calls.Cores[0] != 17 || calls.Cores[1] != 3 {
		t.Errorf("calls are %v", calls)
	}
	if faults := figures[1]; faults.Name != "faults" || faults.Cores[0] != 5 {
		t.Errorf("faults are %v", faults)
	}
	for _, text := range []string{
		"", "end\n", "sms-ledger 2\nend\n", strings.TrimSuffix(goodLedger, "end\n"),
		"sms-ledger 1\ncore 256 calls 1\nend\n", "sms-ledger 1\ncore 0 calls -1\nend\n", "sms-ledger 1\ncore x calls 1\nend\n",
	} {
		if f, _, err := readLedger(strings.NewReader(text)); err == nil {
			t.Errorf("%q gave %v", text, f)
		}
	}
}

func FuzzLedger(f *testing.F) {
	f.Add(goodLedger)
	f.Fuzz(func(t *testing.T, text string) {
		figures, cores, err := readLedger(strings.NewReader(text))
		for _, figure := range figures {
			if err == nil && len(figure.Cores) > cores {
				t.Errorf("%d cores, and %v", cores, figure)
			}
		}
	})
}
