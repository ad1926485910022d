// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"slices"
	"strconv"

	"skep/internal/cli"
	"skep/o2g/launch"
)

// summaryOf lists what each process of a job reported, sorted by host and process. A
// process may have several endpoints; then its line is their sum.
func summaryOf(records []launch.Report) *cli.Table {
	type process struct {
		host string
		pid  uint32
	}
	of := map[process][]launch.Report{}
	var order []process
	for _, r := range records {
		p := process{r.Host, r.PID}
		if of[p] == nil {
			order = append(order, p)
		}
		of[p] = append(of[p], r)
	}
	slices.SortFunc(order, func(a, b process) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.pid, b.pid))
	})
	table := cli.NewTable("HOST", "PID", "ENGINE", "SENT", "BYTES", "RECEIVED", "BYTES", "EXPECTED", "UNEXPECTED", "BEYOND CREDIT", "STALLS", "RESENT")
	for _, p := range order {
		var sum launch.Record
		kernel := 0
		for _, r := range of[p] {
			sum.Sent += r.Sent
			sum.SentBytes += r.SentBytes
			sum.Received += r.Received
			sum.ReceivedBytes += r.ReceivedBytes
			sum.Expected += r.Expected
			sum.Unexpected += r.Unexpected
			sum.Requested += r.Requested
			sum.Waited += r.Waited
			sum.Resent += r.Resent
			kernel += int(r.Engine)
		}
		engine, resent := "user", strconv.FormatUint(sum.Resent, 10)
		if kernel == len(of[p]) {
			engine, resent = "kernel", "-" // its module has the sockets
		} else if kernel > 0 {
			engine = "both"
		}
		table.Row(p.host, p.pid, engine, sum.Sent, cli.FormatBytes(sum.SentBytes), sum.Received, cli.FormatBytes(sum.ReceivedBytes),
			sum.Expected, sum.Unexpected, sum.Requested, sum.Waited, resent)
	}
	return table
}
