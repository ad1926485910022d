// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/grid/rolls"
)

// The lines that the text format of Prometheus permits, of those that we write.
var (
	helpLine   = regexp.MustCompile(`^# HELP ([a-z_]+) [A-Z0-9][^\\\n]*\.$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-z_]+) (gauge|counter)$`)
	sampleLine = regexp.MustCompile(`^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? ([0-9]+)$`)
)

// readMetrics checks the format, and returns the values by name and labels.
func readMetrics(t testing.TB, text string) map[string]uint64 {
	t.Helper()
	values, types := map[string]uint64{}, map[string]string{}
	var family string
	for _, line := range strings.SplitAfter(text, "\n") {
		if line == "" {
			continue
		}
		if !strings.HasSuffix(line, "\n") {
			t.Fatalf("%q: the line does not end", line)
		}
		line = strings.TrimSuffix(line, "\n")
		if m := helpLine.FindStringSubmatch(line); m != nil {
			family = m[1]
			continue
		}
		if m := typeLine.FindStringSubmatch(line); m != nil && m[1] == family && types[family] == "" {
			types[family] = m[2]
			if (m[2] == "counter") != strings.HasSuffix(family, "_total") {
				t.Errorf("%s is a %s", family, m[2])
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || m[1] != family || types[family] == "" {
			t.Errorf("this is no line of the format: %q", line)
			continue
		}
		key := m[1] + m[2]
		if _, twice := values[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		values[key], _ = strconv.ParseUint(m[3], 10, 64)
	}
	return values
}

func (o *Overview) metricsText(t testing.TB) string {
	t.Helper()
	var b bytes.Buffer
	if err := o.WriteMetrics(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMetrics(t *testing.T) {
	at := time.Unix(5000, 0)
	o := Overview{
		Status: Status{Version: "1.2.3", Started: time.Unix(1000, 0), Sessions: 3, Stored: 77, StoredMax: 100},
		Calls:  Counts{Waiting: 1, Running: 2, Done: 3, Failed: 4, Again: 5, Dropped: 6},
		Nodes: []NodeInfo{
			{Name: "pc", State: NodeUp, Substrate: "linux", OS: "linux", Version: "1.2.3", Slots: 4, Free: 1, Done: 10, Failed: 11, Sent: 12, Received: 13, LastSeen: at,
				Kernel: proto.Kernel{Updates: []string{"a", "b"}}},
			{Name: "away", State: NodeDown, Drained: true},
		},
		Rolls: []rolls.Status{{Spec: rolls.Spec{Name: "fix"}, State: "running"}},
	}
	got := readMetrics(t, o.metricsText(t))
	want := map[string]uint64{
		`skep_hub_infoversion="1.2.3"`: 1, "skep_hub_start_time_seconds": 1000, "skep_hub_stored_bytes": 77, "skep_hub_stored_bytes_max": 100,
		"skep_sessions": 3, "skep_audit_log_usable": 1, "skep_calls_waiting": 1, "skep_calls_running": 2, "skep_calls_done_total": 3,
		"skep_calls_failed_total": 4, "skep_calls_rerun_total": 5, "skep_calls_dropped_total": 6,
		`skep_node_infonode="pc",substrate="linux",os="linux",version="1.2.3",state="up"`: 1, `skep_node_infonode="away",substrate="",os="",version="",state="down"`: 1,
		`skep_node_upnode="pc"`: 1, `skep_node_upnode="away"`: 0, `skep_node_drainednode="pc"`: 0, `skep_node_drainednode="away"`: 1,
		`skep_node_slotsnode="pc"`: 4, `skep_node_slotsnode="away"`: 0, `skep_node_slots_busynode="pc"`: 3, `skep_node_slots_busynode="away"`: 0,
		`skep_node_calls_done_totalnode="pc"`: 10, `skep_node_calls_done_totalnode="away"`: 0, `skep_node_runs_failed_totalnode="pc"`: 11, `skep_node_runs_failed_totalnode="away"`: 0,
		`skep_node_sent_bytes_totalnode="pc"`: 12, `skep_node_sent_bytes_totalnode="away"`: 0, `skep_node_received_bytes_totalnode="pc"`: 13, `skep_node_received_bytes_totalnode="away"`: 0,
		`skep_node_last_seen_secondsnode="pc"`: 5000, `skep_node_last_seen_secondsnode="away"`: 0, `skep_node_kernel_updatesnode="pc"`: 2, `skep_node_kernel_updatesnode="away"`: 0,
		`skep_roll_infoupdate="fix",state="running"`: 1, `skep_roll_nodesupdate="fix",stage="trial"`: 0, `skep_roll_nodesupdate="fix",stage="committed"`: 0, `skep_roll_nodesupdate="fix",stage="left_out"`: 0,
	}
	for key, value := range want {
		if have, ok := got[key]; !ok || have != value {
			t.Errorf("%s is %d (%v), want %d", key, have, ok, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d samples, want %d", len(got), len(want))
	}
	o.NoAudit = "it is damaged"
	if got := readMetrics(t, o.metricsText(t)); got["skep_audit_log_usable"] != 0 {
		t.Error("a damaged audit log counts as usable")
	}
}

// Names of nodes and updates cannot add a line, a label or a value.
func TestMetricsEscapeTexts(t *testing.T) {
	for _, text := range append(slices.Clone(hostileTexts), `a"} 1`, "a\nskep_sessions 9", `\`, `\n"`, "\u2028", strings.Repeat("x", 1<<16)) {
		checkMetrics(t, text)
	}
	o := Overview{Nodes: []NodeInfo{{Name: "a\\b\"c"}}}
	if text := o.metricsText(t); !strings.Contains(text, `skep_node_up{node="a\\b\"c"} 0`) {
		t.Errorf("the name is not there as it is:\n%s", text)
	}
}

func checkMetrics(t testing.TB, text string) {
	t.Helper()
	plain := Overview{Nodes: make([]NodeInfo, 1), Rolls: make([]rolls.Status, 1)}
	o := Overview{Nodes: []NodeInfo{{Name: text, State: text, Substrate: text, OS: text, Version: text}},
		Rolls: []rolls.Status{{Spec: rolls.Spec{Name: text}, State: text}}, Status: Status{Version: text}}
	if got, want := len(readMetrics(t, o.metricsText(t))), len(readMetrics(t, plain.metricsText(t))); got != want {
		t.Errorf("%.80q: %d samples, want %d", text, got, want)
	}
}

func FuzzMetrics(f *testing.F) {
	for _, text := range hostileTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkMetrics(t, text) })
}

// The hub serves them beside its page.
func TestMetricsOfTheHub(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	failCalls(m, a)
	resp, text := w.getPage("/metrics")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != metricsType {
		t.Fatalf("%s, %s\n%s", resp.Status, resp.Header.Get("Content-Type"), text)
	}
	got := readMetrics(t, text)
	for key, want := range map[string]uint64{"skep_calls_done_total": 1, "skep_calls_failed_total": 1, "skep_calls_running": 1, "skep_sessions": 1,
		`skep_node_upnode="pc"`: 1, `skep_node_calls_done_totalnode="pc"`: 1, `skep_node_runs_failed_totalnode="pc"`: 1} {
		if have, ok := got[key]; !ok || have != want {
			t.Errorf("%s is %d (%v), want %d", key, have, ok, want)
		}
	}
	if got["skep_hub_stored_bytes_max"] == 0 || got["skep_hub_start_time_seconds"] < 1e9 {
		t.Errorf("the quota is %d, the start %d", got["skep_hub_stored_bytes_max"], got["skep_hub_start_time_seconds"])
	}
}
