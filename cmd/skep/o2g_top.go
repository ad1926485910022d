// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"skep/internal/cli"
	"skep/o2g/launch"
)

// An o2gTop shows the traffic of this user's endpoints again and again.
type o2gTop struct {
	pace
	json bool

	read func() []launch.Endpoint
	out  io.Writer
	display
}

// follow prints until the context is cancelled, which is no error, or count is reached.
// A tick is the time at which it comes.
func (o *o2gTop) follow(ctx context.Context, ticks <-chan time.Time, began time.Time) error {
	before := o.read()
	for n := 0; o.count == 0 || n < o.count; n++ {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticks:
			after := o.read()
			seconds := now.Sub(began).Seconds()
			if err := o.print(launch.Rates(before, after, seconds), now, seconds); err != nil {
				return err
			}
			before, began = after, now
		}
	}
	return nil
}

func (o *o2gTop) print(list []launch.Rate, now time.Time, seconds float64) error {
	if o.json {
		if list == nil {
			list = []launch.Rate{}
		}
		return json.NewEncoder(o.out).Encode(struct {
			Time      int64         `json:"time_ms"`
			Seconds   float64       `json:"seconds"`
			Endpoints []launch.Rate `json:"endpoints"`
		}{now.UnixMilli(), seconds, list})
	}
	var text strings.Builder
	if len(list) == 0 {
		fmt.Fprintln(&text, "no endpoint of this user is open here")
	} else if err := tableOf(list).Write(&text); err != nil {
		return err
	}
	_, err := io.WriteString(o.out, o.fit(text.String()))
	return err
}

// tableOf lists the endpoints, and if there are several, their sum.
func tableOf(list []launch.Rate) *cli.Table {
	table := cli.NewTable("PID", "PROGRAM", "ENGINE", "LINKS", "SENT/S", "BYTES/S", "RECEIVED/S", "BYTES/S", "UNEXPECTED/S", "STALLS/S", "UNMATCHED", "RESENT", "IN KERNEL")
	var sum launch.Rate
	for _, r := range list {
		links, resent := "-", "-"
		if r.Links != nil {
			links = strconv.Itoa(int(*r.Links))
		}
		if r.Resent != nil {
			resent = strconv.FormatUint(*r.Resent, 10)
		}
		if r.Ended {
			links = "ended"
		}
		table.Row(r.PID, r.Program, r.Engine, links, rateText(r.SentRate), byteRate(r.SentByteRate), rateText(r.RecvRate), byteRate(r.RecvByteRate),
			rateText(r.SurpriseRate), rateText(r.StallRate), r.Unmatched, resent, r.KernelMatched)
		sum.SentRate += r.SentRate
		sum.SentByteRate += r.SentByteRate
		sum.RecvRate += r.RecvRate
		sum.RecvByteRate += r.RecvByteRate
		sum.SurpriseRate += r.SurpriseRate
		sum.StallRate += r.StallRate
		sum.Unmatched += r.Unmatched
		sum.KernelMatched += r.KernelMatched
	}
	if len(list) > 1 {
		table.Row("all", "", "", "", rateText(sum.SentRate), byteRate(sum.SentByteRate), rateText(sum.RecvRate), byteRate(sum.RecvByteRate),
			rateText(sum.SurpriseRate), rateText(sum.StallRate), sum.Unmatched, "", sum.KernelMatched)
	}
	return table
}

// rateText prints small rates with a digit behind the point, so that none looks like zero.
func rateText(r float64) string {
	if r > 0 && r < 10 {
		return strconv.FormatFloat(max(r, 0.1), 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}

func byteRate(r float64) string { return cli.FormatBytes(uint64(r + 0.5)) }

func (o *o2g) top(ctx context.Context) error {
	t := &o2gTop{pace: o.pace, json: o.json, out: os.Stdout}
	if !o.json {
		t.display = newDisplay(os.Stdout)
	}
	said := map[string]bool{}
	t.read = func() []launch.Endpoint {
		list, refused := launch.ReadEndpoints(launch.StatusFolders())
		for _, err := range refused {
			if !said[err.Error()] {
				said[err.Error()] = true
				fmt.Fprintln(os.Stderr, "skep:", err)
			}
		}
		return list
	}
	ticker := time.NewTicker(t.every())
	defer ticker.Stop()
	return t.follow(ctx, ticker.C, time.Now())
}
