// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
	"skep/dynamos/update/module"
	"skep/dynamos/update/source"
)

// What the patch is to blame for is refused, and what the computer lacks is an
// error: programs tell them apart by the exit code.
func TestBuildTellsRefusalsFromErrors(t *testing.T) {
	for _, c := range []struct {
		err     error
		refused bool
	}{
		{&asm.Refusal{Reason: "it does not fit"}, true},
		{fmt.Errorf("of a file: %w", &asm.Refusal{Path: "a.c", Reason: "its layout"}), true},
		{&image.Mismatch{Path: "a.c", Reason: "other bytes"}, true},
		{&source.CompileError{Says: errors.New("a.c:3: expected ;")}, true},
		{&module.UnknownError{}, true},
		{&source.CompileError{Says: context.Canceled}, false},
		{&source.NoCompilerError{Want: "gcc-99"}, false},
		{errors.New("the disk is full"), false},
	} {
		var r *RefusedError
		got := buildRefused(c.err)
		if errors.As(got, &r) != c.refused {
			t.Errorf("%v: refused is not %v", c.err, c.refused)
		}
		if !c.refused && got != c.err || got.Error() != c.err.Error() {
			t.Errorf("%v becomes %v", c.err, got)
		}
	}
}
