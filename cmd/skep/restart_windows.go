// SPDX-License-Identifier: MIT

package main

import "os"

// restartSignals receives nothing: Windows replaces no program that runs.
func restartSignals() <-chan os.Signal { return nil }
