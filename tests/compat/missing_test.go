// SPDX-License-Identifier: MIT

package compat

import (
	"strings"
	"testing"
)

// What Ninf-G has and the library does not is refused by the compiler, which says what to do.
func TestMissingFunctions(t *testing.T) {
	dir := openTools(t)
	for call, want := range map[string]string{
		"grpc_session_info_get_np(0, 0, 0)":     "`skep ledger --json` has how long calls took",
		"grpc_signal_handler_set_np(2, 0)":      "use sigaction(), the library handles no signals",
		"grpc_config_file_read_np(0)":           "name the file in grpc_initialize",
		"grpc_session_info_set_threshold_np(1)": "leave it out, the last 65536 sessions are kept",
	} {
		writeText(t, dir+"/info.c", "#include <grpc.h>\nint main(void)\n{\n\treturn "+call+";\n}\n")
		if out := mustRun(t, dir, "skep gen --master info.c", 1); !strings.Contains(out, "info.c:4:") || !strings.Contains(out, want) {
			t.Errorf("%s: %s", call, out)
		}
	}
}
