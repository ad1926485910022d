// SPDX-License-Identifier: MIT

package main

func partWords() []command { return nil }
