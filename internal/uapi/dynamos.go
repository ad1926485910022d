// SPDX-License-Identifier: MIT

package uapi

// Numbers of dynamos.h.
const (
	DynamosDevice    = "/dev/dynamos"
	DynamosRevision  = 3
	DynamosName      = 64
	DynamosSymbol    = 128
	DynamosWhy       = 256
	DynamosRules     = 16
	DynamosCPUs      = 4096
	DynamosFunctions = 64
	DynamosBuckets   = 40 // bucket i of a latency begins at 2^i ns
	DynamosSupersede = 1  // flag of APPLY: COMMIT drains older updates of the same functions
	DynamosBack      = 2  // with DynamosSupersede: they may change more functions
	// DynamosObjectsExist is a flag of APPLY and REVERT: the update is applied or reverted
	// although there may be objects that lack what the code relies on that follows.
	DynamosObjectsExist = 4
	// DynamosObjectsLeft is a flag of APPLY with DynamosBack: what leaves may so be reverted.
	DynamosObjectsLeft = 8
	DynamosCommits     = 1 // flag of POLICY: it is a COMMIT too, in one step

	DynamosIocApply  = 0xe5f04460
	DynamosIocPolicy = 0xe5d04461
	DynamosIocCommit = 0xc1484462
	DynamosIocRevert = 0xc1484463
	DynamosIocInfo   = 0xe7484464
	DynamosIocCount  = 0xc2a04465
	DynamosIocProbe  = 0xc1984466
)

// A DynamosClass is how far the versions of an update may mix.
type DynamosClass uint32

// Classes, from the widest.
const (
	DynamosAny DynamosClass = iota + 1
	DynamosTask
	DynamosObject
	DynamosTogether
)

var dynamosClasses = [...]string{"unknown", "any", "task", "object", "together"}

func (c DynamosClass) String() string { return nameAt(dynamosClasses[:], uint32(c)) }

// A DynamosState is the state of an update.
type DynamosState uint32

// States of an update.
const (
	DynamosLoaded DynamosState = iota + 1
	DynamosEntering
	DynamosTrial
	DynamosCommitted
	DynamosLeaving
)

var dynamosStates = [...]string{"unknown", "loaded", "entering", "trial", "committed", "leaving"}

func (s DynamosState) String() string { return nameAt(dynamosStates[:], uint32(s)) }

// A DynamosHeld says whether an update's module can be unloaded when no task is
// inside.
type DynamosHeld uint32

// Free: it can; HeldOnce: not after its first APPLY; IsHeld: never.
const (
	DynamosFree DynamosHeld = iota
	DynamosHeldOnce
	DynamosIsHeld
)

// A DynamosInstaller is the mechanism that redirects calls of a function to a version.
type DynamosInstaller uint32

// Installers.
const (
	DynamosNone DynamosInstaller = iota
	DynamosDirect
	DynamosIpmodify
	DynamosLivepatch
	DynamosLivepatchOnly // without a wrapper: calls are not counted
)

var dynamosInstallers = [...]string{"none", "direct", "ipmodify", "livepatch", "livepatch"}

func (i DynamosInstaller) String() string {
	if i == DynamosNone {
		return "none"
	}
	return nameAt(dynamosInstallers[:], uint32(i))
}

// A DynamosCause is the cause of an event.
type DynamosCause uint32

// Causes.
const (
	DynamosAsked DynamosCause = iota + 1
	DynamosWarned
	DynamosDied
	DynamosErrors
	DynamosSlow
	DynamosStuck
	DynamosUnconfirmed
	DynamosUndone
	DynamosSuperseded
	DynamosDropped
	DynamosGone
)

var dynamosCauses = [...]string{"unknown", "asked", "warned", "died", "errors", "slow", "stuck",
	"unconfirmed", "undone", "superseded", "dropped", "gone"}

func (c DynamosCause) String() string { return nameAt(dynamosCauses[:], uint32(c)) }

// nameAt returns a name of a list. The first name stands for unknown numbers.
func nameAt(names []string, n uint32) string {
	if n == 0 || n >= uint32(len(names)) {
		return "unknown"
	}
	return names[n]
}

// Bits for the terms of a rule.
const (
	DynamosPID = 1 << iota
	DynamosTGID
	DynamosComm
	DynamosUID
	DynamosGID
	DynamosCgroup
	DynamosCPUSet
	DynamosShare
	DynamosWindow
	DynamosProgram
	DynamosTerms = 1<<iota - 1
)

// DynamosShareMax is a share of 100 %.
const DynamosShareMax = 65536

// Of what a share is a share: enum dynamos_per.
const (
	DynamosPerProcess = iota
	DynamosPerUID
	DynamosPerCgroup
)

// DynamosRule is struct dynamos_rule.
type DynamosRule struct {
	Terms, Choice uint32
	PID           int32 // or program: with DynamosProgram, a BPF program
	TGID          int32
	UID, GID      uint32
	Share, Per    uint32
	Cgroup        uint64
	From, Until   uint64
	Comm          [16]byte
	CPUs          [DynamosCPUs / 64]uint64
}

// DynamosPolicy is struct dynamos_policy. The first rule that matches decides.
type DynamosPolicy struct {
	Rules, Otherwise uint32
	Rule             [DynamosRules]DynamosRule
}

// Used returns the rules that the policy has, within it. A count beyond its room, as a broken
// module could give, is cut.
func (p *DynamosPolicy) Used() []DynamosRule { return p.Rule[:min(p.Rules, DynamosRules)] }

// DynamosHealth is struct dynamos_health.
type DynamosHealth struct {
	Least, Errors, Latency, Zero uint32
	Stuck                        uint64
}

// DynamosApply is struct dynamos_apply.
type DynamosApply struct {
	Revision, Flags    uint32
	ConfirmMS, EnterMS uint32
	Name               [DynamosName]byte
	Why                [DynamosWhy]byte
	Health             DynamosHealth
	Policy             DynamosPolicy
}

// DynamosChange is struct dynamos_change.
type DynamosChange struct {
	Revision, Flags uint32
	Name            [DynamosName]byte
	Why             [DynamosWhy]byte
	Policy          DynamosPolicy
}

// DynamosNamed is struct dynamos_name, the argument of COMMIT and REVERT.
type DynamosNamed struct {
	Revision, Flags uint32
	Name            [DynamosName]byte
	Why             [DynamosWhy]byte
}

// DynamosInfo is struct dynamos_info.
type DynamosInfo struct {
	Revision, Index    uint32
	Class              DynamosClass
	State              DynamosState
	Functions, Advised uint32
	ConfirmMS          int64
	Held               DynamosHeld
	Cause              DynamosCause // of End, or 0
	Name               [DynamosName]byte
	BuildID            [64]byte
	End                [DynamosWhy]byte
	WhyHeld            [DynamosWhy]byte
	Policy             DynamosPolicy
	Health             DynamosHealth
}

// DynamosCount is struct dynamos_count: one version of one function.
type DynamosCount struct {
	Revision               uint32
	Name                   [DynamosName]byte
	Function, Version      uint32
	Installer              DynamosInstaller
	Address, Length        uint64
	Wrapper, WrapperLength uint64
	In, Out, Lost          uint64
	Errors                 uint64
	Outside                uint64
	Sampled                uint64
	Latency                [DynamosBuckets]uint64
	Symbol                 [DynamosSymbol]byte
	Owner                  [DynamosName]byte
}

// DynamosProbes is how many probes one file has at most.
const DynamosProbes = 32

// DynamosProbeEach is a flag of PROBE: every call is timed.
const DynamosProbeEach = 1

// DynamosProbe is struct dynamos_probe.
type DynamosProbe struct {
	Revision, Flags uint32
	Result, Zero    uint32
	Sympos          uint64
	Symbol          [DynamosSymbol]byte
	Why             [DynamosWhy]byte
}

// DynamosEvent is struct dynamos_event.
type DynamosEvent struct {
	Time  uint64
	Cause DynamosCause
	State DynamosState
	PID   int32
	Zero  uint32
	Name  [DynamosName]byte
	Comm  [16]byte
	Text  [DynamosWhy]byte
}
