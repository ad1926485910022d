// SPDX-License-Identifier: MIT

package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// A Logon starts a program when this user logs on, from the list Run of the
// user's registry. A task of the Task Scheduler that starts at logon, and a
// service, need an administrator; the list does not.
type Logon struct {
	Name    string
	Command string
	State   string // folder of its state
}

const (
	runKey   = `Software\Microsoft\Windows\CurrentVersion\Run`
	pidFile  = "service.pid" // process, and how often it was started again
	logFile  = "service.log"
	logLimit = 1 << 20
)

// Install enters the program. Changed says whether another line was there.
func (l *Logon) Install() (changed bool, err error) {
	key, _, err := registry.CreateKey(registry.CURRENT_USER, runKey, registry.QUERY_VALUE|registry.SET_VALUE)
	if err != nil {
		return false, fmt.Errorf("the list of programs that start at logon: %w", err)
	}
	defer key.Close()
	old, _, err := key.GetStringValue(l.Name)
	if err == nil && old == l.Command {
		return false, nil
	}
	return true, key.SetStringValue(l.Name, l.Command)
}

// Installed gives the line of the program, or an error of registry.ErrNotExist.
func (l *Logon) Installed() (string, error) {
	key, err := registry.OpenKey(registry.CURRENT_USER, runKey, registry.QUERY_VALUE)
	if err != nil {
		return "", err
	}
	defer key.Close()
	line, _, err := key.GetStringValue(l.Name)
	return line, err
}

// Remove stops the program and takes it from the list.
func (l *Logon) Remove() (found bool, err error) {
	if err := l.Stop(); err != nil {
		return false, err
	}
	key, err := registry.OpenKey(registry.CURRENT_USER, runKey, registry.SET_VALUE)
	if err == nil {
		defer key.Close()
		err = key.DeleteValue(l.Name)
	}
	if errors.Is(err, registry.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// eventName names the event that stops the program of this user: one in all of
// the user's sessions.
func (l *Logon) eventName() (*uint16, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, err
	}
	return windows.UTF16PtrFromString(`Global\` + l.Name + "-" + user.User.Sid.String())
}

// Runs says whether the program runs.
func (l *Logon) Runs() (bool, error) {
	event, err := l.openEvent()
	if event != 0 {
		windows.CloseHandle(event)
	}
	return event != 0, err
}

func (l *Logon) openEvent() (windows.Handle, error) {
	name, err := l.eventName()
	if err != nil {
		return 0, err
	}
	event, err := windows.OpenEvent(windows.EVENT_MODIFY_STATE, false, name)
	if errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
		return 0, nil
	}
	return event, err
}

// Start starts the program without a console, and waits until it runs.
func (l *Logon) Start() error {
	if runs, err := l.Runs(); runs || err != nil {
		return err
	}
	line, err := l.Installed()
	if err != nil {
		return err
	}
	words, err := windows.DecomposeCommandLine(line)
	if err != nil {
		return err
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return l.await(true, ended)
}

// Stop asks the program to stop, and waits until it has.
func (l *Logon) Stop() error {
	event, err := l.openEvent()
	if err != nil || event == 0 {
		return err
	}
	err = windows.SetEvent(event)
	windows.CloseHandle(event)
	if err != nil {
		return err
	}
	return l.await(false, nil)
}

func (l *Logon) await(running bool, ended <-chan error) error {
	late := time.NewTimer(controlLimit)
	defer late.Stop()
	for tick := time.Tick(100 * time.Millisecond); ; {
		if runs, err := l.Runs(); err != nil || runs == running {
			return err
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%s is installed, but does not start (%v); its log: %s", l.Name, err, l.LogPath())
		case <-late.C:
			return fmt.Errorf("%s takes longer than %v; its log: %s", l.Name, controlLimit, l.LogPath())
		case <-tick:
		}
	}
}

// LogPath is the file with what the program printed.
func (l *Logon) LogPath() string { return filepath.Join(l.State, logFile) }

// Serve starts the program and starts it again after a failure, until Stop.
func (l *Logon) Serve(ctx context.Context, lasting func(code int) bool) (int, error) {
	name, err := l.eventName()
	if err != nil {
		return 0, err
	}
	event, err := windows.CreateEvent(nil, 1, 0, name)
	if err != nil {
		if event != 0 {
			windows.CloseHandle(event)
		}
		return 0, fmt.Errorf("%s runs already: 'skep service restart --user' starts it anew", l.Name)
	}
	defer windows.CloseHandle(event)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		windows.WaitForSingleObject(event, windows.INFINITE)
		stop()
	}()
	log := &LogFile{Path: l.LogPath(), Limit: logLimit}
	defer log.Close()
	defer os.Remove(filepath.Join(l.State, pidFile))
	code := Supervise(ctx, func(restarts int) int { return l.runOnce(ctx, restarts, log) }, lasting)
	windows.SetEvent(event) // ends the goroutine
	return code, nil
}

// runOnce runs the program until it ends. Its standard input ends when it is to
// stop, and also when this process dies.
func (l *Logon) runOnce(ctx context.Context, restarts int, log io.Writer) int {
	failed := func(err error) int {
		fmt.Fprintf(log, "it cannot be started: %v\n", err)
		return 1
	}
	words, err := windows.DecomposeCommandLine(l.Command)
	if err != nil {
		return failed(err)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW}
	cmd.Stdout, cmd.Stderr = log, log
	input, err := cmd.StdinPipe()
	if err != nil {
		return failed(err)
	}
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	defer context.AfterFunc(ctx, func() { input.Close() })()
	text := fmt.Sprintf("%d %d\n", cmd.Process.Pid, restarts)
	if err := os.WriteFile(filepath.Join(l.State, pidFile), []byte(text), 0o600); err != nil {
		fmt.Fprintf(log, "%v\n", err)
	}
	cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// Process gives the number of the running program and how often it was started
// again, or nothing.
func (l *Logon) Process() (pid, restarts int) {
	text, err := os.ReadFile(filepath.Join(l.State, pidFile))
	words := strings.Fields(string(text))
	if err != nil || len(words) != 2 {
		return 0, 0
	}
	pid, _ = strconv.Atoi(words[0])
	restarts, _ = strconv.Atoi(words[1])
	return pid, restarts
}

// RunToEndOfInput runs a program that Serve started.
func RunToEndOfInput(ctx context.Context, state string, run func(ctx context.Context) int) int {
	ctx, stop := context.WithCancel(WithNotifier(ctx, &newsWriter{state: state}))
	defer stop()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	code := run(ctx)
	noteEnd(state, code)
	return code
}

// HideConsole gives up the console that Windows made for this program alone.
func HideConsole() {
	windows.NewLazySystemDLL("kernel32.dll").NewProc("FreeConsole").Call()
}
