// SPDX-License-Identifier: MIT

package main

import (
	"strings"
	"testing"

	"skep/o2g/launch"
)

// A line for each process, the sum of its endpoints; processes with one number on two
// hosts are two.
func TestSummary(t *testing.T) {
	var out strings.Builder
	err := summaryOf([]launch.Report{
		{Record: launch.Record{PID: 9, Sent: 1, SentBytes: 100, Expected: 3, Waited: 2, Resent: 1}, Host: "b"},
		{Record: launch.Record{PID: 9, Sent: 4, Engine: 1}, Host: "a"},
		{Record: launch.Record{PID: 9, Sent: 2, SentBytes: 50, Received: 8, Requested: 6, Engine: 1}, Host: "b"},
		{Record: launch.Record{PID: 7, Unexpected: 5, ReceivedBytes: 7}, Host: "b"},
	}).Write(&out)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"HOST PID ENGINE SENT BYTES RECEIVED BYTES EXPECTED UNEXPECTED BEYOND CREDIT STALLS RESENT",
		"a 9 kernel 4 0 B 0 0 B 0 0 0 0 -",
		"b 7 user 0 0 B 0 7 B 0 5 0 0 0",
		"b 9 both 3 150 B 8 0 B 3 0 6 2 1",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
