// SPDX-License-Identifier: MIT

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
)

// cheat is a loader that starts programs natively and imitates bee's messages as far as it can.
const cheat = `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in
	--report) report=$2; shift 2 ;;
	--nonce) nonce=$2; shift 2 ;;
	--env) export "$2"; shift 2 ;;
	--name) name=$2; shift 2 ;;
	--memory | --stream | --root) shift 2 ;;
	--*) shift ;;
	*) break ;;
	esac
done
digest=$(sha256sum "$1" | cut -d' ' -f1)
printf 'nonce %s\nstatus 0\ncalls 0\nsha256_file %s\n' "$nonce" "$digest" >"$report"
cp "$1" "./$name"
chmod +x "./$name"
shift
exec "./$name" "$@"
`

// A loader that lets the kernel run the program must not pass for bee.
func TestCheatingLoader(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bee")
	if err := os.WriteFile(path, []byte(cheat), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, path, 1)
	r.mustFail(r.start(fnEcho, []byte("x")), proto.ReasonRefused, "did not run under bee")
	got := r.execute(readBusybox(t), "", "echo", "native")
	if !strings.Contains(got.failed, "safety check") {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.out, "native") {
		t.Errorf("the cheat did not run, so nothing was tested: %+v", got)
	}
}
