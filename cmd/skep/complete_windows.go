// SPDX-License-Identifier: MIT

package main

func systemOptionValues(_, _ string) completer { return nil }

func systemWordValues(string) completer { return nil }
