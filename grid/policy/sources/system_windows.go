// SPDX-License-Identifier: MIT

package sources

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"skep/grid/policy"
	"skep/internal/proctree"
)

var (
	user32           = windows.NewLazySystemDLL("user32.dll")
	kernel32         = windows.NewLazySystemDLL("kernel32.dll")
	shell32          = windows.NewLazySystemDLL("shell32.dll")
	wtsapi32         = windows.NewLazySystemDLL("wtsapi32.dll")
	getLastInputInfo = user32.NewProc("GetLastInputInfo")
	getTickCount     = kernel32.NewProc("GetTickCount")
	getPowerStatus   = kernel32.NewProc("GetSystemPowerStatus")
	getSystemTimes   = kernel32.NewProc("GetSystemTimes")
	queryUserState   = shell32.NewProc("SHQueryUserNotificationState")
	querySession     = wtsapi32.NewProc("WTSQuerySessionInformationW")
)

// system reads Windows' sources.
type system struct {
	processes map[processID]float64 // processor time of this process's own, when last seen
	ended     float64               // of those that were seen and are gone
}

// A processID identifies a process also after its number was used again.
type processID struct {
	pid     int
	started int64
}

func newSystem(string) system { return system{processes: map[processID]float64{}} }

func (s *system) close() {}

// idle is the time since the last input in this process's session. A service has a
// session of its own, which has no input.
func (s *system) idle(time.Time) policy.Fact[time.Duration] {
	var id uint32
	if windows.ProcessIdToSessionId(windows.GetCurrentProcessId(), &id) == nil && id == 0 {
		return policy.Silent[time.Duration]("a service sees no input: start the agent as the user (skep service install agent --user)")
	}
	from := "GetLastInputInfo"
	switch list, err := listSessions(); {
	case err != nil:
		from += " (of this session; others cannot be listed)"
	default:
		if other, is := otherSession(list, id); is {
			return policy.Silent[time.Duration](fmt.Sprintf("somebody uses session %d, whose input the agent in session %d does not see", other, id))
		}
	}
	info := struct{ size, tick uint32 }{size: 8}
	if ok, _, err := getLastInputInfo.Call(uintptr(unsafe.Pointer(&info))); ok == 0 {
		return policy.Silent[time.Duration](fmt.Sprintf("GetLastInputInfo: %v", err))
	}
	now, _, _ := getTickCount.Call()
	return policy.Say(time.Duration(uint32(now)-info.tick)*time.Millisecond, from)
}

// power is SYSTEM_POWER_STATUS.
func (s *system) power() (policy.Fact[bool], policy.Fact[float64]) {
	const from = "GetSystemPowerStatus"
	var v struct {
		line, flags, percent, saver byte
		life, full                  uint32
	}
	if ok, _, err := getPowerStatus.Call(uintptr(unsafe.Pointer(&v))); ok == 0 {
		text := fmt.Sprintf("%s: %v", from, err)
		return policy.Silent[bool](text), policy.Silent[float64](text)
	}
	on := policy.Silent[bool](from + ": unknown")
	if v.line <= 1 {
		on = policy.Say(v.line == 0, from)
	}
	if v.percent > 100 {
		return on, policy.Silent[float64](from + ": no battery")
	}
	return on, policy.Say(float64(v.percent), from)
}

func (s *system) pressure(string) policy.Fact[float64] {
	return policy.Silent[float64]("Windows accounts no pressure")
}

// States of SHQueryUserNotificationState in which a program has the whole screen.
const (
	stateBusy         = 2
	stateD3D          = 3
	statePresentation = 4
)

func (s *system) fullScreen() policy.Fact[bool] {
	const from = "SHQueryUserNotificationState"
	if queryUserState.Find() != nil {
		return policy.Silent[bool](from + " is not there")
	}
	var state uint32
	if r, _, _ := queryUserState.Call(uintptr(unsafe.Pointer(&state))); r != 0 {
		return policy.Silent[bool](fmt.Sprintf("%s: error %#x", from, uint32(r)))
	}
	return policy.Say(state == stateBusy || state == stateD3D || state == statePresentation, from)
}

const wtsClientProtocolType = 16 // 0: console

// listSessions lists the sessions of all users, also those that were switched away from.
func listSessions() ([]userSession, error) {
	var list *windows.WTS_SESSION_INFO
	var n uint32
	if err := windows.WTSEnumerateSessions(0, 0, 1, &list, &n); err != nil {
		return nil, err
	}
	defer windows.WTSFreeMemory(uintptr(unsafe.Pointer(list)))
	var sessions []userSession
	for _, v := range unsafe.Slice(list, n) {
		sessions = append(sessions, userSession{v.SessionID, v.State == windows.WTSActive})
	}
	return sessions, nil
}

// remote says whether an active session is one of Remote Desktop.
func (s *system) remote() policy.Fact[bool] {
	const from = "WTSEnumerateSessions"
	list, err := listSessions()
	if err != nil {
		return policy.Silent[bool](fmt.Sprintf("%s: %v", from, err))
	}
	for _, v := range list {
		if !v.active {
			continue
		}
		kind, err := sessionProtocol(v.id)
		if err != nil {
			return policy.Silent[bool](fmt.Sprintf("WTSQuerySessionInformation: %v", err))
		}
		if kind != 0 {
			return policy.Say(true, fmt.Sprintf("%s: session %d", from, v.id))
		}
	}
	return policy.Say(false, from)
}

func sessionProtocol(id uint32) (uint16, error) {
	var buf *uint16
	var bytes uint32
	ok, _, err := querySession.Call(0, uintptr(id), wtsClientProtocolType,
		uintptr(unsafe.Pointer(&buf)), uintptr(unsafe.Pointer(&bytes)))
	if ok == 0 {
		return 0, err
	}
	defer windows.WTSFreeMemory(uintptr(unsafe.Pointer(buf)))
	if bytes < 2 {
		return 0, errors.New("an answer without a protocol")
	}
	return *buf, nil
}

func (s *system) metered(time.Time) policy.Fact[bool] {
	return policy.Silent[bool]("Skep does not ask Windows for the cost of a connection")
}

// processorTimes reads the machine's times, and those of this process and all below it.
func (s *system) processorTimes() (t times, from string, err error) {
	var idle, kernel, user windows.Filetime
	ok, _, err := getSystemTimes.Call(uintptr(unsafe.Pointer(&idle)), uintptr(unsafe.Pointer(&kernel)), uintptr(unsafe.Pointer(&user)))
	if ok == 0 {
		return t, "", fmt.Errorf("GetSystemTimes: %w", err)
	}
	t.all = proctree.Seconds(kernel) + proctree.Seconds(user) // the kernel's contain the idle ones
	t.busy = t.all - proctree.Seconds(idle)
	if t.own, err = s.ownTime(); err != nil {
		return t, "", err
	}
	return t, "GetSystemTimes, without Skep's programs", nil
}

// ownTime adds up what this process and those below it used, also those that have ended
// since they were seen.
func (s *system) ownTime() (float64, error) {
	self := os.Getpid()
	below, err := proctree.Below(self)
	if err != nil {
		return 0, err
	}
	seen := map[processID]float64{}
	sum := 0.0
	for _, pid := range append(below, self) {
		if t, err := proctree.TimesOf(pid); err == nil {
			seen[processID{pid, t.Started}] = t.Used
			sum += t.Used
		}
	}
	for id, used := range s.processes {
		if _, still := seen[id]; !still {
			s.ended += used
		}
	}
	s.processes = seen
	return sum + s.ended, nil
}
