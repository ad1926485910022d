// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// plain are the functions of this room that make errors which are no refusals by themselves, as
// FILE FUNCTION, or a whole folder, and why. A refusal made there would end with exit code 1.
var plain = map[string]string{
	"asm/":                         "a refusal where source reads a file's assembly",
	"image/":                       "an image that cannot be read is the computer's; of objects and modules the gate and the builder make refusals",
	"link/":                        "a refusal where package module links",
	"pack/":                        "a refusal where a command reads a package or key, and where the builder writes one",
	"trust/":                       "a refusal where a command reads a key or a document; of options they are errors of usage",
	"roll/wave.go ParseWaves":      "an error of usage",
	"policy.go beginRule":          "an error of usage",
	"policy.go Add":                "an error of usage",
	"policy.go Encode":             "an error of usage",
	"cgroup_linux.go":              "the computer's cgroups; of options they are errors of usage",
	"module/module.go readExports": "the source is not whole",
	"source/header.go sourcesOf":   "the source is not whole",
	"source/header.go objectOf":    "the source is not whole",
	"source/object.go":             "the source is not whole",
	"source/shape.go readShapes":   "the compiler",
	"source/rely.go moveDumps":     "the compiler",
	"source/prepare.go":            "the disk, tools, the distribution's package",
	"device_linux.go Events":       "the kernel's module",
	"holdserve_linux.go":           "the connection; what the service refuses comes as a refusal",
	"serveask_linux.go request":    "the connection",
	"serve_linux.go Open":          "a file of the build service",
	"keep_linux.go List":           "files of the node",
	"kernel.go noteBuildID":        "/sys",
	"restore_linux.go commitKept":  "what happened at a boot",
	"boots_linux.go":               "a mark of the boot",
	"inside.go":                    "/proc",
	"status.go":                    "the end of a list",
	"roll/node.go":                 "a step that is tried again",
}

// Whoever makes an error decides whether it is a refusal.
func TestPlainErrorsAreNoRefusals(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, name := range plainErrors(t, path) {
			folder, _, _ := strings.Cut(path, "/")
			switch {
			case plain[folder+"/"] != "":
				used[folder+"/"] = true
			case plain[path] != "":
				used[path] = true
			case plain[path+" "+name] != "":
				used[path+" "+name] = true
			default:
				t.Errorf("%s: %s makes an error that is no refusal: make it one, or say here why it is none", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for at := range plain {
		if !used[at] {
			t.Errorf("%s makes no such error: take it out", at)
		}
	}
}

// plainErrors are the functions of a file that make errors of a text alone.
func plainErrors(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range file.Decls {
		name := "a variable"
		if f, is := d.(*ast.FuncDecl); is {
			name = f.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is && isPlainError(call) {
				out = append(out, name)
			}
			return true
		})
	}
	return out
}

// isPlainError reports whether a call makes an error that wraps no other one.
func isPlainError(call *ast.CallExpr) bool {
	of, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	from, is := of.X.(*ast.Ident)
	if !is || from.Name+"."+of.Sel.Name != "errors.New" && from.Name+"."+of.Sel.Name != "fmt.Errorf" {
		return false
	}
	text, is := call.Args[0].(*ast.BasicLit)
	return !is || !strings.Contains(text.Value, "%w")
}
