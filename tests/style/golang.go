// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

func goFormat(t *tree) ([]string, error) {
	files := t.filesWith(".go")
	if len(files) == 0 {
		return nil, nil
	}
	out, err := t.runTool(nil, "gofmt", append([]string{"-l"}, files...)...)
	for i, name := range out {
		out[i] = name + ": not as gofmt lays it out"
	}
	return out, err
}

// goVet runs go vet for Linux, also on tests that make builds with a tag, and for Windows on the
// packages that also run there. Suites leave it to this check.
func goVet(t *tree) ([]string, error) {
	bad, err := t.runTool(nil, "go", "vet", "./...")
	for _, more := range []struct {
		env  []string
		tags string
		dirs []string
	}{
		{nil, "debugkernel,guest,programs", []string{"tests/vm", "grid/agent", "tests/moves"}},
		{[]string{"GOOS=windows"}, "", []string{"cmd/...", "grid/agent", "grid/ident"}},
	} {
		args := []string{"vet", "-tags=" + more.tags}
		for _, dir := range more.dirs {
			if t.exists(strings.TrimSuffix(dir, "/...")) {
				args = append(args, "./"+dir)
			}
		}
		if err == nil && len(args) > 2 {
			var found []string
			found, err = t.runTool(more.env, "go", args...)
			bad = append(bad, found...)
		}
	}
	return bad, err
}

// eachGo parses every Go file. It skips files that do not parse, which gofmt reports.
func (t *tree) eachGo(visit func(name string, set *token.FileSet, f *ast.File)) {
	for _, name := range t.filesWith(".go") {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, t.read(name), parser.ParseComments)
		if err == nil {
			visit(name, set, f)
		}
	}
}

// goFunctions does not count the lines of literals, because tables may be long.
func goFunctions(t *tree) ([]string, error) {
	var bad []string
	t.eachGo(func(name string, set *token.FileSet, f *ast.File) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			line := set.Position(fn.Pos()).Line
			n := set.Position(fn.End()).Line - line - literalLines(set, fn.Body)
			if n > functionMax {
				bad = append(bad, fmt.Sprintf("%s:%d: function of %d lines, at most %d", name, line, n, functionMax))
			}
		}
	})
	return bad, nil
}

func literalLines(set *token.FileSet, body ast.Node) int {
	lines := 0
	ast.Inspect(body, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		lines += set.Position(lit.End()).Line - set.Position(lit.Pos()).Line
		return false
	})
	return lines
}

func goPackageComment(t *tree) ([]string, error) {
	described := map[string]bool{}
	first := map[string]string{}
	t.eachGo(func(name string, _ *token.FileSet, f *ast.File) {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		if first[dir] == "" {
			first[dir] = name
		}
		if f.Doc != nil && !strings.HasPrefix(f.Doc.Text(), "SPDX") {
			described[dir] = true
		}
	})
	var bad []string
	for _, name := range t.filesWith(".go") {
		dir := path.Dir(name)
		if first[dir] == name && !described[dir] {
			bad = append(bad, dir+": no file has a package comment")
		}
	}
	return bad, nil
}

func goNoSleep(t *tree) ([]string, error) {
	var bad []string
	t.eachGo(func(name string, set *token.FileSet, f *ast.File) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					bad = append(bad, fmt.Sprintf("%s: a test sleeps: poll with a deadline", set.Position(n.Pos())))
				}
			}
			return true
		})
	})
	return bad, nil
}

// goBorders checks imports against layers.tbl: only lower layers may be imported, and no cgo.
func goBorders(t *tree) ([]string, error) {
	layer := map[string]int{}
	for i, line := range t.lines("tests/style/layers.tbl") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, p := range strings.Fields(line) {
			layer[p] = i + 1
		}
	}
	if len(layer) == 0 {
		return nil, fmt.Errorf("tests/style/layers.tbl is missing or empty")
	}
	var bad []string
	t.eachGo(func(name string, set *token.FileSet, f *ast.File) {
		from := layerOf(layer, path.Dir(name))
		if from == 0 {
			bad = append(bad, name+": no line in tests/style/layers.tbl covers it")
			return
		}
		for _, spec := range f.Imports {
			target := strings.Trim(spec.Path.Value, `"`)
			if target == "C" {
				bad = append(bad, fmt.Sprintf("%s: cgo", set.Position(spec.Pos())))
			}
			target, own := strings.CutPrefix(target, "skep/")
			to := layerOf(layer, target)
			if own && to <= from && target != path.Dir(name) && !strings.HasSuffix(name, "_test.go") {
				bad = append(bad, fmt.Sprintf("%s: imports %s, which is not below it", set.Position(spec.Pos()), target))
			}
		}
	})
	return bad, nil
}

// layerOf returns the layer of the longest path that covers dir, 0 for none.
func layerOf(layer map[string]int, dir string) int {
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if n := layer[dir]; n > 0 {
			return n
		}
	}
	return 0
}
