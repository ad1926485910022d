// SPDX-License-Identifier: MIT

package main

func updateWords() []command { return nil }
