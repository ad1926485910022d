// SPDX-License-Identifier: MIT

package part

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"golang.org/x/sys/unix"

	"skep/internal/uapi"
)

// fakeModule replaces the kernel module by a function.
func fakeModule(t *testing.T, answer func(number uintptr, arg unsafe.Pointer) error) {
	t.Helper()
	kept := module
	module = answer
	t.Cleanup(func() { module = kept })
}

// fakePartitions replaces the kernel module by one that has these partitions.
func fakePartitions(t *testing.T, list ...uapi.ShimosInfo) {
	t.Helper()
	asked := 0
	fakeModule(t, func(number uintptr, arg unsafe.Pointer) error {
		if asked++; number != uapi.ShimosIocInfo || asked > 2*len(list)+2 {
			return unix.EIO
		}
		v := (*uapi.ShimosInfo)(arg)
		for _, i := range list {
			if i.ID >= v.ID {
				*v = i
				return nil
			}
		}
		return unix.ENOENT
	})
}

func makeInfo(id uint32, name string) uapi.ShimosInfo {
	i := uapi.ShimosInfo{ID: id, Pool: uint64(id) + 100}
	copy(i.Name[:], name)
	i.CPUs[0] = 6
	return i
}

func isRefused(err error, why string) bool {
	var r *RefusedError
	return errors.As(err, &r) && strings.Contains(r.Why, why)
}

func TestInvalidDeviceIsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(path string, number uintptr, arg unsafe.Pointer, why string) error {
		fakeModule(t, func(number uintptr, arg unsafe.Pointer) error { return ioctl(path, number, arg) })
		return call(number, arg, []byte(why))
	}
	if err := at(filepath.Join(dir, "none"), unix.TIOCINQ, nil, ""); !isRefused(err, "is not loaded") {
		t.Errorf("no device: %v", err)
	}
	if err := at(dir, unix.TIOCINQ, nil, ""); !errors.Is(err, unix.EISDIR) {
		t.Errorf("one that cannot be opened: %v", err)
	}
	if err := at("/dev/null", uapi.ShimosIocInfo, nil, ""); !isRefused(err, "of another version") {
		t.Errorf("another device: %v", err)
	}
	if err := at("/dev/null", uapi.ShimosIocInfo, nil, "CPU 3 is in use\x00..."); !isRefused(err, "CPU 3 is in use") || strings.Contains(err.Error(), ".") {
		t.Errorf("one that says why: %v", err)
	}
	fifo, n := filepath.Join(dir, "fifo"), int32(-1)
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := at(fifo, unix.TIOCINQ, unsafe.Pointer(&n), "not heeded"); err != nil || n != 0 {
		t.Errorf("a call that is carried out: %v, %d", err, n)
	}
}

func TestCallLeavesNoFileOpen(t *testing.T) {
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := files()
	for range 20 {
		if err := ioctl("/dev/null", uapi.ShimosIocInfo, nil); !errors.Is(err, unix.ENOTTY) {
			t.Fatal(err)
		}
	}
	if after := files(); after >= before+10 {
		t.Errorf("%d files are open, and %d were", after, before)
	}
}

func TestPartitionsAreListedToTheLast(t *testing.T) {
	const last = ^uint32(0)
	fakePartitions(t, makeInfo(0, "a"), makeInfo(2, "b"), makeInfo(3, ""), makeInfo(last-1, ""), makeInfo(last, "end"))
	list, err := List()
	var ids []uint32
	for _, i := range list {
		ids = append(ids, i.ID)
	}
	if want := []uint32{0, 2, 3, last - 1, last}; err != nil || !slices.Equal(ids, want) {
		t.Fatalf("%v, %v; want %v", ids, err, want)
	}
	if list[1].Name != "b" || list[1].CPUs != "1-2" || list[1].Pool != 102 {
		t.Errorf("%+v", list[1])
	}
	fakePartitions(t)
	if list, err := List(); len(list) != 0 || err != nil {
		t.Errorf("of none: %v, %v", list, err)
	}
	fakeModule(t, func(uintptr, unsafe.Pointer) error { return unix.EACCES })
	if list, err := List(); list != nil || !errors.Is(err, unix.EACCES) {
		t.Errorf("that cannot be asked: %v, %v", list, err)
	}
}

func TestPartitionIsFoundByNumberOrName(t *testing.T) {
	for word, want := range map[string]uint32{"1": 1, "two": 2, "7": 7, "33": 33} {
		fakePartitions(t, makeInfo(1, "one"), makeInfo(2, "two"), makeInfo(7, "seven"), makeInfo(33, ""))
		if i, err := FindPartition(word); err != nil || i.ID != want {
			t.Errorf("%s is %d, %v", word, i.ID, err)
		}
	}
	fakePartitions(t, makeInfo(1, "one"))
	if i, err := FindPartition("three"); !isRefused(err, `there is no partition "three"`) {
		t.Errorf("%+v, %v", i, err)
	}
	fakePartitions(t, makeInfo(1, ""))
	if i, err := FindPartition(""); !isRefused(err, `there is no partition ""`) {
		t.Errorf("an empty word is the one without a name: %+v, %v", i, err)
	}
	fakeModule(t, func(uintptr, unsafe.Pointer) error { return unix.EACCES })
	if i, err := FindPartition("1"); !errors.Is(err, unix.EACCES) {
		t.Errorf("a list that cannot be had: %+v, %v", i, err)
	}
}

func TestCreateAsksForWhatIsWanted(t *testing.T) {
	for _, split := range []bool{false, true} {
		var got uapi.ShimosCreate
		fakeModule(t, func(number uintptr, arg unsafe.Pointer) error {
			c := (*uapi.ShimosCreate)(arg)
			got, c.ID = *c, 5
			return nil
		})
		want := uapi.ShimosCreate{Revision: uapi.ShimosRevision, CPUs: CPUs{12}, Bytes: Memory{1 << 30}}
		copy(want.Name[:], "x")
		if split {
			want.Flags = uapi.ShimosSplit
		}
		id, err := CreatePartition(t.Context(), Request{Name: "x", CPUs: CPUs{12}, Memory: Memory{1 << 30}, Split: split})
		if id != 5 || err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("split %v: %d, %v: %+v", split, id, err, got)
		}
	}
	if id, err := CreatePartition(t.Context(), Request{Name: strings.Repeat("x", 32)}); id != 0 || !isRefused(err, "longer than 31 bytes") {
		t.Errorf("a long name: %d, %v", id, err)
	}
}

// Who no longer waits gets no number: the end of the process undoes the call.
func TestCancelledCreateReturnsNoNumber(t *testing.T) {
	done, ended := make(chan bool), make(chan bool)
	fakeModule(t, func(number uintptr, arg unsafe.Pointer) error {
		defer close(ended)
		<-done
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if id, err := CreatePartition(ctx, Request{}); id != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", id, err)
	}
	close(done)
	<-ended
}

func TestNodesOfCPUs(t *testing.T) {
	root := fstest.MapFS{}
	for _, name := range []string{"cpu1/node0/x", "cpu2/node3/x", "cpu3/node3/x", "cpu4/node64/x", "cpu5/node1x/x", "cpu6/topology/x"} {
		root[name] = &fstest.MapFile{}
	}
	for text, want := range map[string][]int{"1": {0}, "2": {3}, "1-3": {0, 3}, "2-3": {3}, "4": {0}, "5": {0}, "6-9": {0}} {
		c, err := ParseCPUs(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := nodesBelow(root, c); !slices.Equal(got, want) {
			t.Errorf("those of %s are %v, not %v", text, got, want)
		}
	}
}

// What cannot be read is not named; what merely looks odd is.
func TestBoundThreadsWithOddFiles(t *testing.T) {
	root := fstest.MapFS{}
	const ours, list = " S 1 1 1 0 -1 4194560 7 7\n", "Cpus_allowed_list:\t2-3\n"
	for name, text := range map[string]string{
		"21/task/21/status":      list,
		"22/task/22/stat":        "22 no name" + ours,
		"22/task/22/status":      list,
		"23/task/23/stat":        "23 (ends)",
		"23/task/23/status":      list,
		"24/task/24/stat":        "24 (no status)" + ours,
		"25/task/25/stat":        "25 (no list)" + ours,
		"25/task/25/status":      "Name:\tx\n",
		"26/task/26/stat":        "26 (unreadable list)" + ours,
		"26/task/26/status":      "Cpus_allowed_list:\t3-2\n",
		"31/task/31/stat":        "31 ()" + ours,
		"31/task/31/status":      list,
		"32/task/32/stat":        "32 (a virtual CPU)" + strings.Replace(ours, "4194560", "4194561", 1),
		"32/task/32/status":      list,
		"33/task/33/stat":        "33 (in old groups)" + ours,
		"33/task/33/status":      list,
		"33/task/33/cgroup":      "1:memory:/x\n",
		"34/task/34/stat":        "34 (to its flags) S 1 1 1 0 -1 4194560\n",
		"34/task/34/status":      list,
		"35/task/35/stat":        "35 (in a group without a set)" + ours,
		"35/task/35/status":      list,
		"35/task/35/cgroup":      "0::/bare\n",
		"self/mounts":            "none\n\nnone /short cgroup\nnone /odd tmpfs rw,cpuset 0 0\nnone /four cgroup rw,cpuset\n",
		"../odd/a/cpuset.cpus":   "2-3\n",
		"../short/a/cpuset.cpus": "2-3\n",
		"../four/a/cpuset.cpus":  "2-3\n",
	} {
		root[filepath.Join("proc", name)] = &fstest.MapFile{Data: []byte(text)}
	}
	threads, groups := FindBound(root, CPUs{12})
	if want := []string{" (31)", "a virtual CPU (32)", "in old groups (33)", "to its flags (34)",
		"in a group without a set (35)"}; !slices.Equal(threads, want) {
		t.Errorf("threads %q, want %q", threads, want)
	}
	if want := []string{"/four/a"}; !slices.Equal(groups, want) {
		t.Errorf("groups %q, want %q", groups, want)
	}
}

func TestModuleThatIsNotLoadedIsNamed(t *testing.T) {
	if _, err := os.Stat(uapi.ShimosDevice); err == nil {
		t.Skip("the module shimos is loaded here")
	}
	if a, err := GetAllowance(); !isRefused(err, "is not loaded") {
		t.Errorf("%+v, %v", a, err)
	}
}
