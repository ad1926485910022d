// SPDX-License-Identifier: MIT

package main

import (
	"strings"

	"skep/tests/wine/wineserver"
)

func wineEnv(o options) []string {
	return append(wineserver.Env(o.prefix), "LC_ALL=C.UTF-8")
}

func stopWine(o options) {
	if o.on != "wine" {
		return
	}
	wineserver.Stop(wineEnv(o))
}

// windowsPath returns the Windows name of a Linux path.
func windowsPath(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }
