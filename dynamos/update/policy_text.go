// SPDX-License-Identifier: MIT

package update

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"skep/internal/uapi"
)

// Names converts numbers to names; each function may be nil and may return "".
type Names struct {
	User, Group func(id uint32) string
	Cgroup      func(id uint64) string
	Program     func(id uint32) string
	Now         uint64 // of CLOCK_BOOTTIME, ns
}

func (n Names) userName(id uint32) string   { return nameOr(n.User, id) }
func (n Names) groupName(id uint32) string  { return nameOr(n.Group, id) }
func (n Names) cgroupName(id uint64) string { return nameOr(n.Cgroup, id) }
func (n Names) progName(id uint32) string   { return nameOr(n.Program, id) }

func nameOr[T uint32 | uint64](look func(T) string, id T) string {
	if look != nil {
		if name := look(id); name != "" {
			return name
		}
	}
	return strconv.FormatUint(uint64(id), 10)
}

// DescribePolicy formats a policy in one line, such as 'tgid 12 and uid www, or comm sh'.
func DescribePolicy(p *uapi.DynamosPolicy, names Names) string {
	var b strings.Builder
	for i := range p.Used() {
		r := &p.Rule[i]
		switch {
		case r.Choice == 0 && i > 0:
			b.WriteString(", except ")
		case r.Choice == 0:
			b.WriteString("except ")
		case i > 0:
			b.WriteString(", or ")
		}
		b.WriteString(describeRule(r, names))
	}
	switch {
	case p.Otherwise == 1 && p.Rules == 0:
		return "all"
	case p.Otherwise == 1:
		b.WriteString(", all others")
	case p.Rules == 0:
		return "nobody"
	}
	return b.String()
}

func describeRule(r *uapi.DynamosRule, names Names) string {
	var list []string
	for _, t := range []struct {
		bit  uint32
		text func() string
	}{
		{uapi.DynamosPID, func() string { return fmt.Sprintf("pid %d", r.PID) }},
		{uapi.DynamosTGID, func() string { return fmt.Sprintf("tgid %d", r.TGID) }},
		{uapi.DynamosComm, func() string { return "comm " + uapi.Text(r.Comm[:]) }},
		{uapi.DynamosUID, func() string { return "uid " + names.userName(r.UID) }},
		{uapi.DynamosGID, func() string { return "gid " + names.groupName(r.GID) }},
		{uapi.DynamosCgroup, func() string { return "cgroup " + names.cgroupName(r.Cgroup) }},
		{uapi.DynamosCPUSet, func() string { return "cpus " + describeCPUs(&r.CPUs) }},
		{uapi.DynamosShare, func() string { return "share " + describeShare(r.Share, r.Per) }},
		{uapi.DynamosWindow, func() string { return describeWindow(r, names.Now) }},
		{uapi.DynamosProgram, func() string { return "program " + names.progName(uint32(r.PID)) }},
	} {
		if r.Terms&t.bit != 0 {
			list = append(list, t.text())
		}
	}
	if len(list) == 0 {
		return "anybody"
	}
	return strings.Join(list, " and ")
}

func describeShare(share, per uint32) string {
	of := map[uint32]string{uapi.DynamosPerUID: " of users", uapi.DynamosPerCgroup: " of cgroups"}
	return strconv.FormatFloat(float64(share)*100/uapi.DynamosShareMax, 'g', 3, 64) + "%" + of[per]
}

func describeCPUs(words *[uapi.DynamosCPUs / 64]uint64) string {
	has := func(c int) bool { return c < uapi.DynamosCPUs && words[c/64]>>(c%64)&1 == 1 }
	var list []string
	for c := 0; c < uapi.DynamosCPUs; c++ {
		if !has(c) {
			continue
		}
		first := c
		for has(c + 1) {
			c++
		}
		text := strconv.Itoa(first)
		if c > first {
			text += "-" + strconv.Itoa(c)
		}
		list = append(list, text)
	}
	return strings.Join(list, ",")
}

func describeWindow(r *uapi.DynamosRule, now uint64) string {
	until := time.Duration(r.Until - now).Round(time.Second)
	switch {
	case now < r.From:
		return fmt.Sprintf("from %v on for %v", time.Duration(r.From-now).Round(time.Second),
			time.Duration(r.Until-r.From).Round(time.Second))
	case now >= r.Until:
		return "a time that is over"
	}
	return fmt.Sprintf("for %v more", until)
}
