// SPDX-License-Identifier: MIT

package uapi

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"unicode"
)

// layouts maps names of the contracts' structures to Go structures. Fields are matched by
// their names in lower case.
var layouts = map[string]any{
	"skep_frame": Frame{}, "skep_hello": Hello{}, "skep_error": ErrorHeader{},
	"skep_init": InitHeader{}, "skep_call": Call{}, "skep_proof": Proof{},
	"skep_ready": Ready{}, "skep_result": Result{}, "skep_module_init": ModuleInit{},
	"skep_bound": BoundHeader{}, "skep_datum": Datum{}, "skep_callback": Callback{}, "skep_object": Object{}, "skep_limits": Limits{}, "skep_module": module{}, "skep_function": function{},
	"skep_param": param{}, "skep_dim": Dim{}, "o2g_status": O2GStatus{},
	"o2g_device_open": O2GDeviceOpen{},
	"shimos_allow":    ShimosAllow{}, "shimos_create": ShimosCreate{},
	"shimos_release": ShimosRelease{}, "shimos_info": ShimosInfo{},
	"shimos_open": ShimosOpen{}, "shimos_load": ShimosLoad{}, "shimos_start": ShimosStart{}, "shimos_wait": ShimosWait{},
	"skep_linux": SkepLinux{}, "skep_linux_ring": SkepLinuxCounters{},
	"skep_linux_queue": SkepLinuxQueue{}, "skep_linux_device": SkepLinuxDevice{}, "skep_linux_range": SkepLinuxRange{},
	"dynamos_rule": DynamosRule{}, "dynamos_policy": DynamosPolicy{},
	"dynamos_health": DynamosHealth{}, "dynamos_apply": DynamosApply{},
	"dynamos_change": DynamosChange{}, "dynamos_name": DynamosNamed{},
	"dynamos_info": DynamosInfo{}, "dynamos_count": DynamosCount{},
	"dynamos_event":     DynamosEvent{},
	"skep_snapshot_ask": SnapshotAsk{}, "skep_snapshot_answer": SnapshotAnswer{},
}

var numbers = map[string]uint64{
	"SKEP_SNAPSHOT_GO": SnapshotGo, "SKEP_SNAPSHOT_HOLD": SnapshotHold, "SKEP_SNAPSHOT_HURRY": SnapshotHurry,
	"SKEP_SNAPSHOT_FITS": SnapshotFits, "SKEP_SNAPSHOT_LIVE": SnapshotLive, "SKEP_SNAPSHOT_AWAIT": SnapshotAwait,
	"SKEP_SESSION_REVISION": SessionRevision, "SKEP_SESSION_MAGIC": SessionMagic,
	"SKEP_FRAME_MAX": FrameMax, "SKEP_SESSION_WINDOW": SessionWindow,
	"SKEP_ACK_EVERY": AckEvery, "SKEP_PING_SECONDS": PingSeconds, "SKEP_LAST": FlagLast, "SKEP_AGAIN": FlagAgain,
	"SKEP_HELLO": uint64(TypeHello), "SKEP_BYE": uint64(TypeBye), "SKEP_CALL": uint64(TypeCall),
	"SKEP_RESULT": uint64(TypeResult), "SKEP_CANCEL": uint64(TypeCancel), "SKEP_DONE": uint64(TypeDone),
	"SKEP_KEEP": uint64(TypeKeep), "SKEP_CALL_KEPT": uint64(TypeCallKept), "SKEP_OBJECT": uint64(typeEnd - 1), "SKEP_CALLED": FlagCalled, "SKEP_INNER": FlagInner, "SKEP_METHOD": FlagMethod, "SKEP_CALLBACK_MAX": CallbackMax, "SKEP_ONE_NODE": OneNode,
	"SKEP_E_PROTOCOL": uint64(EProtocol), "SKEP_E_ARGUMENTS": uint64(EArguments), "SKEP_E_INTERNAL": uint64(EInternal),
	"SKEP_SUBSTRATE_BARE": uint64(SubstrateBare),
	"SKEP_MODULE_MAGIC":   ModuleMagic, "SKEP_MODULE_REVISION": ModuleRevision,
	"SKEP_NAME_MAX": NameMax, "SKEP_DIMS_MAX": DimsMax, "SKEP_PARAMS_MAX": ParamsMax, "SKEP_CODE_MAX": CodeMax,
	"SKEP_FUNCTION_INIT": FunctionInit, "SKEP_FUNCTION_RANKS": FunctionRanks, "SKEP_RANKS_MAX": RanksMax, "SKEP_TYPE_UNSIGNED": TypeUnsigned,
	"SKEP_FUNCTION_CALLBACK": FunctionCallback, "SKEP_FUNCTION_CLASS": FunctionClass, "SKEP_FUNCTION_STATE": FunctionState, "SKEP_MASTER_FUNCTION": uint64(MasterFunction), "SKEP_LONG": uint64(Long), "SKEP_STRING": uint64(String),
	"SKEP_WORK": uint64(ModeWork), "SKEP_INOUT": uint64(ModeInOut),
	"SKEP_OP_ITEM": uint64(OpItem), "SKEP_OP_NEG": uint64(OpNeg), "SKEP_OP_SELECT": uint64(OpSelect),
	"SHIMOS_REVISION": ShimosRevision, "SHIMOS_NODES": ShimosNodes, "SHIMOS_CPU_WORDS * 64": ShimosCPUs,
	"SHIMOS_SPLIT": ShimosSplit, "SKEP_PARTITION_ALIGN": ShimosAlign, "SHIMOS_STOPPING": uint64(ShimosStopping),
	"SHIMOS_IOC_ALLOW": ShimosIocAllow, "SHIMOS_IOC_CREATE": ShimosIocCreate, "SHIMOS_IOC_RELEASE": ShimosIocRelease,
	"SHIMOS_IOC_INFO": ShimosIocInfo, "SHIMOS_IOC_ALLOWED": ShimosIocAllowed,
	"SHIMOS_IOC_OPEN": ShimosIocOpen, "SHIMOS_IOC_LOAD": ShimosIocLoad, "SHIMOS_IOC_START": ShimosIocStart,
	"SHIMOS_IOC_WAIT": ShimosIocWait, "SHIMOS_IOC_STOP": ShimosIocStop, "SHIMOS_FILE": ShimosFile,
	"SHIMOS_MAP_MAIL": ShimosMapMail, "SHIMOS_MAP_POOL": ShimosMapPool, "SHIMOS_WAIT_ANY": uint64(ShimosWaitAny),
	"SKEP_LINUX_MAIL": SkepLinuxMail, "SKEP_LINUX_MAGIC": SkepLinuxMagic, "SKEP_LINUX_REVISION": SkepLinuxRevision,
	"SKEP_LINUX_UP": uint64(LinuxUp), "SKEP_LINUX_REFUSED": uint64(LinuxRefused), "SKEP_LINUX_PANIC": uint64(LinuxPanic), "SKEP_LINUX_EXIT": uint64(LinuxExit), "SKEP_LINUX_RANGES": SkepLinuxRanges,
	"SKEP_LINUX_DEVICES": SkepLinuxDevices, "SKEP_LINUX_QUEUES": SkepLinuxQueues, "SKEP_LINUX_CONFIG": SkepLinuxConfig,
	"DYNAMOS_REVISION": DynamosRevision, "DYNAMOS_NAME": DynamosName, "DYNAMOS_SYMBOL": DynamosSymbol,
	"DYNAMOS_WHY": DynamosWhy, "DYNAMOS_RULES": DynamosRules, "DYNAMOS_CPU_WORDS * 64": DynamosCPUs,
	"DYNAMOS_FUNCTIONS": DynamosFunctions, "DYNAMOS_BUCKETS": DynamosBuckets, "DYNAMOS_SUPERSEDE": DynamosSupersede,
	"DYNAMOS_TOGETHER": uint64(DynamosTogether), "DYNAMOS_LEAVING": uint64(DynamosLeaving),
	"DYNAMOS_LIVEPATCH": uint64(DynamosLivepatch), "DYNAMOS_LIVEPATCH_ONLY": uint64(DynamosLivepatchOnly), "DYNAMOS_DROPPED": uint64(DynamosDropped), "DYNAMOS_GONE": uint64(DynamosGone),
	"DYNAMOS_WINDOW": DynamosWindow, "DYNAMOS_PROGRAM": DynamosProgram, "DYNAMOS_TERMS": DynamosTerms, "DYNAMOS_PER_UID": DynamosPerUID, "DYNAMOS_PER_CGROUP": DynamosPerCgroup,
	"DYNAMOS_IOC_APPLY": DynamosIocApply, "DYNAMOS_IOC_POLICY": DynamosIocPolicy, "DYNAMOS_IOC_COMMIT": DynamosIocCommit,
	"DYNAMOS_IOC_REVERT": DynamosIocRevert, "DYNAMOS_IOC_INFO": DynamosIocInfo, "DYNAMOS_IOC_COUNT": DynamosIocCount,
	"O2G_STATUS_MAGIC": O2GStatusMagic, "O2G_STATUS_REVISION": O2GStatusRevision,
	"O2G_DEVICE_REVISION": O2GDeviceRevision, "O2G_IOC_OPEN": O2GDeviceOpenCall,
}

func cName(field string) string {
	switch field {
	case "PauseNS":
		return "pause_ns"
	case "RestNS":
		return "rest_ns"
	case "UsedNS":
		return "used_ns"
	case "ExecNS":
		return "exec_ns"
	case "ConfirmMS":
		return "confirm_ms"
	case "EnterMS":
		return "enter_ms"
	case "BuildID":
		return "build_id"
	case "SentBytes", "ReceivedBytes", "UnmatchedBytes", "FramesIn", "FramesOut",
		"SoftirqBytes", "WorkerBytes", "DirectBytes", "OverBudget", "SlabPages", "StoppedReading", "RefusedMemory",
		"KernelLength", "InitrdLength", "OutBytes", "InBytes", "SQEntries", "CQEntries", "SlabMessage", "AreaSize", "WrapperLength", "WhyHeld", "WriteOff":
		at := strings.LastIndexFunc(field, unicode.IsUpper)
		return strings.ToLower(field[:at] + "_" + field[at:])
	}
	return strings.ToLower(field)
}

// describeLayouts returns C expressions for sizes and offsets, and Go's values of them.
func describeLayouts() (questions, answers []string) {
	for c, v := range layouts {
		t := reflect.TypeOf(v)
		questions = append(questions, fmt.Sprintf("sizeof(struct %s)", c))
		answers = append(answers, fmt.Sprint(binary.Size(v)))
		at := 0
		for i := range t.NumField() {
			f := t.Field(i)
			questions = append(questions, fmt.Sprintf("offsetof(struct %s, %s)", c, cName(f.Name)))
			answers = append(answers, fmt.Sprint(at))
			at += binary.Size(reflect.Zero(f.Type).Interface())
		}
	}
	for name, v := range numbers {
		questions = append(questions, name)
		answers = append(answers, fmt.Sprint(v))
	}
	return questions, answers
}

func TestLayoutsAreThoseOfTheContracts(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Fatal("gcc is needed to read the contracts: run `make setup`")
	}
	questions, answers := describeLayouts()
	var probe strings.Builder
	probe.WriteString("#include <skep/session.h>\n#include <skep/snapshot.h>\n#include <skep/module.h>\n#include <skep/o2g_status.h>\n#include <skep/o2g_device.h>\n#include <skep/shimos.h>\n#include <skep/linux.h>\n#include <skep/dynamos.h>\n#include <sys/ioctl.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n")
	for _, q := range questions {
		fmt.Fprintf(&probe, "printf(\"%%llu\\n\", (unsigned long long)(%s));\n", q)
	}
	probe.WriteString("return 0;\n}\n")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "probe.c"), filepath.Join(dir, "probe")
	if err := os.WriteFile(source, []byte(probe.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-I../../include", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Fields(string(out))
	if len(said) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(said), len(questions))
	}
	var wrong []string
	for i, q := range questions {
		if said[i] != answers[i] {
			wrong = append(wrong, fmt.Sprintf("%s is %s, not %s", q, said[i], answers[i]))
		}
	}
	sort.Strings(wrong)
	if len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}
