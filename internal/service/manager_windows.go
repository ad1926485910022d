// SPDX-License-Identifier: MIT

package service

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"
)

// The time in which the system ends does not wait longer for a service.
const preshutdownLimit = time.Minute

// How long a start or a stop may take, as long as the service goes on.
const controlLimit = 3 * time.Minute

// Entry is a service as the service control manager keeps it.
type Entry struct {
	Name, Display, Description string
	Command                    string // program and words, as WindowsCommandLine writes them
	Mark                       string // begins the words of each command of ours
}

// A ManagerError has the text and the cure of a number of the manager.
type ManagerError struct {
	text string
	err  error
}

func (e *ManagerError) Error() string { return e.text }
func (e *ManagerError) Unwrap() error { return e.err }

func explain(err error, service string) error {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return err
	}
	if text := ManagerText(uint32(number), service); text != "" {
		return &ManagerError{text, err}
	}
	return fmt.Errorf("%s: %w", service, err)
}

// open gives a service with the rights that a command needs, and no more: an
// ordinary user may see how one does.
func openService(name string, rights uint32) (*mgr.Service, error) {
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return nil, explain(err, name)
	}
	defer windows.CloseServiceHandle(manager)
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	handle, err := windows.OpenService(manager, text, rights)
	if err != nil {
		return nil, explain(err, name)
	}
	return &mgr.Service{Name: name, Handle: handle}, nil
}

// IsMissing says whether an error is that of a service that is not there.
func IsMissing(err error) bool { return errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) }

// MayInstall refuses who is no administrator before anything is changed.
func MayInstall(name string) error {
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CREATE_SERVICE)
	if err != nil {
		return explain(err, name)
	}
	return windows.CloseServiceHandle(manager)
}

// Install makes or changes a service. Changed says whether there was another one,
// and unkept names the settings that this system does not know: Wine lacks some.
func (e *Entry) Install() (changed bool, unkept []string, err error) {
	s, err := openService(e.Name, windows.SERVICE_ALL_ACCESS)
	if IsMissing(err) {
		changed = true
		s, err = e.create()
	}
	if err != nil {
		return changed, nil, err
	}
	defer s.Close()
	if !changed {
		if changed, err = e.checkOld(s); err != nil || !changed {
			return false, nil, err
		}
	}
	if unkept, err = e.configure(s); err != nil {
		return changed, nil, explain(err, e.Name)
	}
	return changed, unkept, addEventSource(e.Name)
}

func (e *Entry) create() (*mgr.Service, error) {
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CREATE_SERVICE)
	if err != nil {
		return nil, explain(err, e.Name)
	}
	defer windows.CloseServiceHandle(manager)
	var words [4]*uint16
	for i, text := range []string{e.Name, e.Display, e.Command, VirtualAccount(e.Name)} {
		if words[i], err = windows.UTF16PtrFromString(text); err != nil {
			return nil, err
		}
	}
	handle, err := windows.CreateService(manager, words[0], words[1], windows.SERVICE_ALL_ACCESS, windows.SERVICE_WIN32_OWN_PROCESS,
		windows.SERVICE_AUTO_START, windows.SERVICE_ERROR_NORMAL, words[2], nil, nil, nil, words[3], nil)
	if err != nil {
		return nil, explain(err, e.Name)
	}
	return &mgr.Service{Name: e.Name, Handle: handle}, nil
}

// checkOld refuses a service of this name that is not ours, and says whether
// ours differs.
func (e *Entry) checkOld(s *mgr.Service) (differs bool, err error) {
	old, err := readConfig(s)
	if err != nil {
		return false, explain(err, e.Name)
	}
	if !strings.Contains(old.command, e.Mark) {
		return false, &ManagerError{fmt.Sprintf("there is a service %s that skep did not install, which starts %s: remove it with 'sc delete %[1]s'", e.Name, old.command), windows.ERROR_SERVICE_EXISTS}
	}
	return old.command != e.Command || old.startType != mgr.StartAutomatic, nil
}

type config struct {
	command, account string
	startType        uint32
}

func readConfig(s *mgr.Service) (config, error) {
	var need uint32
	const most = 8 << 10 // bytes; Windows gives no more
	var b [most / 8]uint64
	c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&b[0]))
	if err := windows.QueryServiceConfig(s.Handle, c, most, &need); err != nil {
		return config{}, err
	}
	return config{windows.UTF16PtrToString(c.BinaryPathName), windows.UTF16PtrToString(c.ServiceStartName), c.StartType}, nil
}

// isDelayed says whether a service starts after the others. Wine does not know.
func isDelayed(s *mgr.Service) bool {
	var need uint32
	var info [2]windows.SERVICE_DELAYED_AUTO_START_INFO
	err := windows.QueryServiceConfig2(s.Handle, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, (*byte)(unsafe.Pointer(&info[0])), uint32(unsafe.Sizeof(info)), &need)
	return err == nil && info[0].IsDelayedAutoStartUp != 0
}

// configure sets account, start and recovery of a service.
func (e *Entry) configure(s *mgr.Service) (unkept []string, err error) {
	var words [3]*uint16
	for i, text := range []string{e.Command, VirtualAccount(e.Name), e.Display} {
		if words[i], err = windows.UTF16PtrFromString(text); err != nil {
			return nil, err
		}
	}
	err = windows.ChangeServiceConfig(s.Handle, windows.SERVICE_WIN32_OWN_PROCESS, windows.SERVICE_AUTO_START, windows.SERVICE_ERROR_NORMAL,
		words[0], nil, nil, nil, words[1], nil, words[2])
	if err != nil {
		return nil, err
	}
	for _, setting := range e.settings(s) {
		err := setting.set()
		if errors.Is(err, windows.ERROR_INVALID_LEVEL) {
			unkept = append(unkept, setting.name)
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", setting.name, err)
		}
	}
	return unkept, nil
}

type setting struct {
	name string
	set  func() error
}

func (e *Entry) settings(s *mgr.Service) []setting {
	change := func(level uint32, info unsafe.Pointer) error {
		return windows.ChangeServiceConfig2(s.Handle, level, (*byte)(info))
	}
	var actions []mgr.RecoveryAction
	for _, delay := range RecoveryDelays {
		actions = append(actions, mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: delay})
	}
	return []setting{
		{"description", func() error {
			text, err := windows.UTF16PtrFromString(e.Description)
			if err != nil {
				return err
			}
			return change(windows.SERVICE_CONFIG_DESCRIPTION, unsafe.Pointer(&windows.SERVICE_DESCRIPTION{Description: text}))
		}},
		{"delayed start", func() error {
			return change(windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, unsafe.Pointer(&windows.SERVICE_DELAYED_AUTO_START_INFO{IsDelayedAutoStartUp: 1}))
		}},
		{"restart after a failure", func() error { return s.SetRecoveryActions(actions, uint32(RecoveryReset/time.Second)) }},
		{"restart after an exit code", func() error { return s.SetRecoveryActionsOnNonCrashFailures(true) }},
		{"time to stop in", func() error {
			limit := uint32(preshutdownLimit / time.Millisecond)
			return change(windows.SERVICE_CONFIG_PRESHUTDOWN_INFO, unsafe.Pointer(&limit))
		}},
	}
}

// addEventSource lets Windows show the service's events as text.
func addEventSource(name string) error {
	removeEventSource(name)
	if err := eventlog.InstallAsEventCreate(name, eventlog.Error|eventlog.Warning|eventlog.Info); err != nil {
		return explain(err, name)
	}
	return nil
}

// removeEventSource says whether there was one.
func removeEventSource(name string) bool { return eventlog.Remove(name) == nil }

// StartEntry starts a service and waits until it is ready.
func StartEntry(name string) error {
	s, err := openService(name, windows.SERVICE_START|windows.SERVICE_QUERY_STATUS)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Start(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
		return explain(err, name)
	}
	return awaitState(s, svc.Running)
}

// StopEntry asks a service to stop, and waits until it has.
func StopEntry(name string) error {
	s, err := openService(name, windows.SERVICE_STOP|windows.SERVICE_QUERY_STATUS)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Control(svc.Stop)
	if errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_BROKEN_PIPE) {
		return nil // it died, which Wine sees only now
	}
	if err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return explain(err, name)
	}
	return awaitState(s, svc.Stopped)
}

// awaitState waits for a state. A service that stops instead of getting there has
// failed.
func awaitState(s *mgr.Service, want svc.State) error {
	late := time.NewTimer(controlLimit)
	defer late.Stop()
	for tick := time.Tick(100 * time.Millisecond); ; {
		status, err := s.Query()
		switch {
		case err != nil:
			return explain(err, s.Name)
		case status.State == want:
			return nil
		case status.State == svc.Stopped:
			return &ManagerError{ManagerText(errorSpecific, s.Name), windows.ERROR_SERVICE_SPECIFIC_ERROR}
		}
		select {
		case <-late.C:
			return &ManagerError{fmt.Sprintf("%s takes longer than %v; %s", s.Name, controlLimit, EventsHint(s.Name)), windows.ERROR_SERVICE_REQUEST_TIMEOUT}
		case <-tick:
		}
	}
}

// RemoveEntry stops and removes a service and its source of events. Found is
// false where there was none.
func RemoveEntry(name, mark string) (found bool, err error) {
	s, err := openService(name, windows.SERVICE_ALL_ACCESS)
	if IsMissing(err) {
		return removeEventSource(name), nil
	}
	if err != nil {
		return false, err
	}
	defer s.Close()
	if _, err := (&Entry{Name: name, Mark: mark}).checkOld(s); err != nil {
		return true, err
	}
	if err := StopEntry(name); err != nil {
		return true, err
	}
	if err := s.Delete(); err != nil {
		return true, explain(err, name)
	}
	removeEventSource(name)
	return true, nil
}

// An EntryState is what the manager says of a service.
type EntryState struct {
	State, AtBoot string
	PID           uint32
}

var stateNames = map[svc.State]string{svc.Stopped: "stopped", svc.StartPending: "starting", svc.StopPending: "stopping", svc.Running: "running",
	svc.ContinuePending: "continuing", svc.PausePending: "pausing", svc.Paused: "paused"}

// QueryEntry asks how a service does.
func QueryEntry(name string) (*EntryState, error) {
	s, err := openService(name, windows.SERVICE_QUERY_STATUS|windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	status, err := s.Query()
	if err != nil {
		return nil, explain(err, name)
	}
	config, err := readConfig(s)
	if err != nil {
		return nil, explain(err, name)
	}
	state := &EntryState{State: stateNames[status.State], PID: status.ProcessId, AtBoot: "no"}
	if config.startType == mgr.StartAutomatic {
		state.AtBoot = "yes"
		if isDelayed(s) {
			state.AtBoot = "delayed"
		}
	}
	return state, nil
}
