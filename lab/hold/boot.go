// SPDX-License-Identifier: MIT

//go:build linux

package hold

import (
	"context"

	"skep/lab"
)

// BootLab boots a machine of the lab.
func BootLab(ctx context.Context, build string, m lab.Machine) (Guest, error) {
	m.Build = build
	return lab.Start(ctx, m)
}
