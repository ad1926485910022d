// SPDX-License-Identifier: MIT

package service

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// This file has what the service control manager of Windows is told. It calls
// nothing of Windows, so its tests run everywhere.

// After a failure a service of Windows is started again after these times, of
// which the last is repeated. A day without a failure begins anew.
var RecoveryDelays = []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}

// RecoveryReset is that day.
const RecoveryReset = 24 * time.Hour

// WindowsCommandLine writes a program and its words so that Windows reads them as
// they are. The program is always in quotes: of C:\Program Files\skep.exe without
// quotes Windows would start C:\Program.exe.
func WindowsCommandLine(program string, args ...string) string {
	line := `"` + program + `"`
	for _, a := range args {
		line += " " + quoteArgument(a)
	}
	return line
}

// quoteArgument follows CommandLineToArgvW: backslashes count only in front of a
// quote.
func quoteArgument(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\v\"") {
		return word
	}
	var b strings.Builder
	b.WriteByte('"')
	slashes := 0
	for i := range len(word) {
		switch word[i] {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes+1)) // doubles them, and keeps the quote
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteByte(word[i])
	}
	b.WriteString(strings.Repeat(`\`, slashes))
	b.WriteByte('"')
	return b.String()
}

// VirtualAccount is the account that Windows makes for a service. It has no
// password, and only this service logs on with it.
func VirtualAccount(service string) string { return `NT SERVICE\` + service }

// VirtualSID is the security identifier of a virtual account. Windows computes it
// from the service's name, so it is known before there is a service.
func VirtualSID(service string) string {
	units := utf16.Encode([]rune(strings.ToUpper(service)))
	text := make([]byte, 0, 2*len(units))
	for _, u := range units {
		text = binary.LittleEndian.AppendUint16(text, u)
	}
	sum := sha1.Sum(text)
	sid := "S-1-5-80"
	for part := sum[:]; len(part) > 0; part = part[4:] {
		sid += "-" + strconv.FormatUint(uint64(binary.LittleEndian.Uint32(part)), 10)
	}
	return sid
}

// FolderSDDL protects the state of a service: its own account may use it, and the
// system and administrators, who can take any file. Nothing is inherited from above.
func FolderSDDL(sid string) string { return administratorsOnly + "(A;OICI;FA;;;" + sid + ")" }

// SharedSDDL is for the folder in which the services have theirs: all may see the
// names in it, and only administrators change them.
func SharedSDDL() string { return administratorsOnly + "(A;;0x1200a9;;;BU)" }

const administratorsOnly = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"

// Groups that hold every user of a computer, as SDDL writes them.
var everybody = map[string]string{
	"WD": "everyone", "BU": "all users", "AU": "all users", "IU": "all users", "BG": "guests", "AN": "everyone",
	"S-1-1-0": "everyone", "S-1-5-32-545": "all users", "S-1-5-11": "all users", "S-1-5-4": "all users", "S-1-5-32-546": "guests", "S-1-5-7": "everyone",
}

// Rights with which a file, or one in a folder, can be replaced: write and append,
// delete a child, delete, change the list of rights or the owner, all or write.
const replaceRights = 0x2 | 0x4 | 0x40 | 0x10000 | 0x40000 | 0x80000 | 0x10000000 | 0x40000000

var rightsByName = map[string]uint32{
	"GA": 0x10000000, "GW": 0x40000000, "GR": 0x80000000, "GX": 0x20000000, "FA": 0x1f01ff, "FR": 0x120089, "FW": 0x120116, "FX": 0x1200a0,
	"SD": 0x10000, "RC": 0x20000, "WD": 0x40000, "WO": 0x80000, "CC": 0x1, "DC": 0x2, "LC": 0x4, "SW": 0x8, "RP": 0x10, "WP": 0x20, "DT": 0x40, "LO": 0x80, "CR": 0x100,
}

// WritableBy names a group of all users who may replace a file with this list of
// rights, or is empty. A list that cannot be read counts as writable.
func WritableBy(sddl string) string {
	_, list, found := strings.Cut(sddl, "D:")
	if !found {
		return "everyone" // no list: all is allowed
	}
	list, _, _ = strings.Cut(list, "S:")
	for {
		_, rest, more := strings.Cut(list, "(")
		if !more {
			return ""
		}
		entry, after, closed := strings.Cut(rest, ")")
		part := strings.Split(entry, ";")
		if !closed || len(part) < 6 {
			return "somebody"
		}
		list = after
		who := everybody[part[5]]
		if part[0] != "A" || who == "" || strings.Contains(part[1], "IO") {
			continue // a refusal, an entry of another account, or one for files yet to come
		}
		if readRights(part[2])&replaceRights != 0 {
			return who
		}
	}
}

func readRights(text string) (rights uint32) {
	if n, err := strconv.ParseUint(text, 0, 32); err == nil {
		return uint32(n)
	}
	for ; len(text) >= 2; text = text[2:] {
		named, known := rightsByName[text[:2]]
		if !known {
			return ^uint32(0)
		}
		rights |= named
	}
	return rights
}

// Errors of the service control manager that have a cure.
const (
	errorAccess      = 5
	errorTimeout     = 1053
	errorDisabled    = 1058
	errorAccount     = 1057
	errorNoService   = 1060
	errorNoDispatch  = 1063
	errorLogon       = 1069
	errorMarked      = 1072
	errorNameInUse   = 1078
	errorSpecific    = 1066
	errorPrivilege   = 1314
	administratorFix = "open the console with 'Run as administrator', or use --user for a service of your own"
)

// ManagerText says in one sentence what an error number of the service control
// manager means for a service, and what cures it. It is empty for others.
func ManagerText(number uint32, service string) string {
	short := strings.TrimPrefix(service, "skep-")
	switch number {
	case errorAccess, errorPrivilege:
		return "only an administrator may do this to services of the system: " + administratorFix
	case errorNoService:
		return fmt.Sprintf("the service %s is not installed: 'skep service install %[1]s' does it", short)
	case errorMarked:
		return fmt.Sprintf("%s is being removed, but a program still has it open: close the window 'Services' or restart the computer, then repeat the command", service)
	case errorDisabled:
		return fmt.Sprintf("%s is disabled: 'sc config %[1]s start= delayed-auto' enables it", service)
	case errorAccount, errorLogon:
		return fmt.Sprintf("Windows does not let %s log on as a service: give it the right 'Log on as a service' in secpol.msc", VirtualAccount(service))
	case errorNameInUse:
		return fmt.Sprintf("another service is shown as %q: rename that one", service)
	case errorTimeout, errorSpecific:
		return fmt.Sprintf("%s is installed, but does not start; %s", service, EventsHint(service))
	case errorNoDispatch:
		return "this command is for the service control manager only: 'skep service start' has it start a service"
	}
	return ""
}

// EventsHint is the command that shows a service's events.
func EventsHint(service string) string {
	return fmt.Sprintf(`its events: wevtutil qe Application /q:"*[System[Provider[@Name='%s']]]" /f:text /rd:true /c:20`, service)
}
