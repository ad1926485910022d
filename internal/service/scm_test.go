// SPDX-License-Identifier: MIT

package service

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// parseCommandLine reads a line as CommandLineToArgvW of Windows does.
func parseCommandLine(line string) (words []string) {
	program, line, _ := strings.Cut(line[1:], `"`)
	words = []string{program}
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" {
			return words
		}
		word, rest := parseWord(line)
		words, line = append(words, word), rest
	}
}

func parseWord(line string) (word, rest string) {
	quoted := false
	for line != "" && (quoted || line[0] != ' ' && line[0] != '\t') {
		slashes := len(line) - len(strings.TrimLeft(line, `\`))
		switch {
		case slashes < len(line) && line[slashes] == '"':
			word += strings.Repeat(`\`, slashes/2)
			if slashes%2 == 1 {
				word += `"`
			} else {
				quoted = !quoted
			}
			slashes++
		case slashes > 0:
			word += line[:slashes]
		default:
			word += line[:1]
			slashes = 1
		}
		line = line[slashes:]
	}
	return word, line
}

func TestWindowsCommandLine(t *testing.T) {
	if got, want := WindowsCommandLine(`C:\Program Files\skep\skep.exe`, "service", `C:\ProgramData\skep`), `"C:\Program Files\skep\skep.exe" service C:\ProgramData\skep`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := WindowsCommandLine(`C:\skep.exe`); got != `"C:\skep.exe"` {
		t.Errorf("a program without spaces: %s", got)
	}
	args := []string{"", "a b", `a\`, `a b\`, `a b\\`, `a"b`, `a\"b`, `a\\"b c`, `\`, `"`, `\\server\share`, "tab\there", `--allow=C:\my docs\`, `"" ""`, "ümlaut ß"}
	line := WindowsCommandLine(`C:\s k\skep.exe`, args...)
	got := parseCommandLine(line)
	if len(got) != len(args)+1 || got[0] != `C:\s k\skep.exe` {
		t.Fatalf("%d words of %s: %q", len(got), line, got)
	}
	for i, want := range args {
		if got[i+1] != want {
			t.Errorf("word %d is %q, not %q, in %s", i, got[i+1], want, line)
		}
	}
}

// The identifier of TrustedInstaller, which every Windows has, is a known one.
func TestVirtualAccount(t *testing.T) {
	if got, want := VirtualSID("TrustedInstaller"), "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if VirtualSID("skep-agent") != VirtualSID("SKEP-Agent") || VirtualSID("skep-agent") == VirtualSID("skep-hub") {
		t.Error("the identifier does not follow the name")
	}
	if got := VirtualAccount("skep-agent"); got != `NT SERVICE\skep-agent` {
		t.Error(got)
	}
}

func TestFolderRights(t *testing.T) {
	sid := VirtualSID("skep-agent")
	private := FolderSDDL(sid)
	if !strings.HasPrefix(private, "D:P(") || !strings.HasSuffix(private, "(A;OICI;FA;;;"+sid+")") || strings.Count(private, "(") != 3 {
		t.Errorf("rights of the service's folder: %s", private)
	}
	for _, sddl := range []string{private, SharedSDDL()} {
		if who := WritableBy(sddl); who != "" {
			t.Errorf("%s may write to %s", who, sddl)
		}
		for _, group := range []string{";WD)", ";AU)"} {
			if strings.Contains(sddl, group) {
				t.Errorf("%s names all users", sddl)
			}
		}
	}
}

func TestWritableBy(t *testing.T) {
	for sddl, want := range map[string]string{
		"D:PAI(A;;FA;;;BA)(A;;FA;;;SY)(A;;0x1200a9;;;BU)":              "",
		"D:AI(A;ID;FA;;;BA)(A;OICIID;0x1200a9;;;BU)(A;;0x1301bf;;;AU)": "all users",
		"D:(A;;FA;;;WD)":                            "everyone",
		"D:(A;;GA;;;S-1-1-0)":                       "everyone",
		"D:(A;OICIIOID;GA;;;AU)(A;;FR;;;AU)":        "",
		"D:(A;;FRFX;;;BU)":                          "",
		"D:(A;;FRFW;;;BU)":                          "all users",
		"D:(A;;0x40;;;IU)":                          "all users",
		"D:(A;;WD;;;BU)":                            "all users",
		"D:(A;;XX;;;BU)":                            "all users",
		"D:(D;;FA;;;WD)(A;;FA;;;BA)":                "",
		"O:BAG:BAD:(A;;FA;;;BA)S:(AU;SAFA;FA;;;WD)": "",
		"O:BAG:BA":                                  "everyone",
		"D:(A;;FA;;;BA":                             "somebody",
		"D:(A;;FA;;BA)":                             "somebody",
		"D:(A;;FA;;;S-1-5-21-1-2-3-1001)":           "",
	} {
		if got := WritableBy(sddl); got != want {
			t.Errorf("%s: %q, want %q", sddl, got, want)
		}
	}
}

// Each number with a cure is one line that names the service or what to do.
func TestManagerErrors(t *testing.T) {
	for number, want := range map[uint32]string{5: "--user", 1314: "Run as administrator", 1053: "wevtutil", 1066: "does not start", 1057: `NT SERVICE\skep-agent`,
		1060: "skep service install agent", 1063: "skep service start", 1069: "secpol.msc", 1072: "restart the computer", 1058: "sc config skep-agent", 1078: "rename"} {
		if text := ManagerText(number, "skep-agent"); !strings.Contains(text, want) || strings.Contains(text, "\n") {
			t.Errorf("%d: %q, want %q", number, text, want)
		}
	}
	if text := ManagerText(2, "skep-agent"); text != "" {
		t.Errorf("an unknown number: %q", text)
	}
}

func TestNewsAndPriorities(t *testing.T) {
	if ready, text := ReadNews("READY=1\nSTATUS=looks for the hub"); !ready || text != "looks for the hub" {
		t.Errorf("%v %q", ready, text)
	}
	if ready, text := ReadNews("STATUS=READY=1"); ready || text != "READY=1" {
		t.Errorf("%v %q", ready, text)
	}
	var heard strings.Builder
	n, err := NewNotifier(WithNotifier(t.Context(), &heard))
	if err != nil {
		t.Fatal(err)
	}
	n.Ready("one\ntwo")
	if heard.String() != "READY=1\nSTATUS=one two" {
		t.Errorf("heard %q", heard.String())
	}
	for line, want := range map[string]string{"<3>a": "ERROR a", "<4>b": "WARN b", "<6>c": "INFO c", "<7>d": "DEBUG d", "<9>e": "INFO <9>e", "<3": "INFO <3", "plain": "INFO plain", "": "INFO "} {
		if level, text := CutPriority(line); level.String()+" "+text != want {
			t.Errorf("%q: %v %q, want %q", line, level, text, want)
		}
	}
}

// A program that ends by itself is run again, and not after a code that a restart
// does not cure.
func TestSupervise(t *testing.T) {
	saved := RecoveryDelays
	t.Cleanup(func() { RecoveryDelays = saved })
	RecoveryDelays = []time.Duration{time.Microsecond, time.Millisecond}
	lasting := func(code int) bool { return code == 2 || code == 4 }
	for _, c := range []struct{ codes []int }{{[]int{2}}, {[]int{1, 3, 1, 4}}, {[]int{1, 0, 1, 0, 2}}} {
		var seen []int
		code := Supervise(t.Context(), func(restarts int) int { seen = append(seen, restarts); return c.codes[restarts] }, lasting)
		if code != c.codes[len(c.codes)-1] || len(seen) != len(c.codes) {
			t.Errorf("%v: code %d after runs %v", c.codes, code, seen)
		}
	}
	RecoveryDelays = []time.Duration{time.Hour}
	ctx, stop := context.WithCancel(t.Context())
	first := true
	if code := Supervise(ctx, func(int) int { time.AfterFunc(time.Millisecond, stop); defer func() { first = false }(); return 1 }, lasting); code != 1 || first {
		t.Errorf("a stop while it waits: %d", code)
	}
}

func TestLogFileIsBounded(t *testing.T) {
	l := &LogFile{Path: filepath.Join(t.TempDir(), "log"), Limit: 100}
	line := strings.Repeat("x", 29) + "\n"
	for range 10 {
		if _, err := l.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil { // a later start goes on in the same file
			t.Fatal(err)
		}
	}
	for _, name := range []string{l.Path, l.Path + ".old"} {
		info, err := os.Stat(name)
		if err != nil || info.Size() == 0 || info.Size() > 100 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
