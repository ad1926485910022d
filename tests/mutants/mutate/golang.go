// SPDX-License-Identifier: MIT

package mutate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// swaps maps each operator to its replacement, in Go and in C.
var swaps = map[string]string{
	"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
	"&&": "||", "||": "&&",
	"+": "-", "-": "+", "*": "/", "/": "*", "%": "*",
	"<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&", "&^": "&",
	"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=", "&=": "|=",
	"<<=": ">>=", ">>=": "<<=", "++": "--", "--": "++",
}

// A goFile collects the mutations of one file.
type goFile struct {
	name string
	set  *token.FileSet
	text []byte
	list []Mutation
}

func goMutations(name string, text []byte) ([]Mutation, error) {
	g := &goFile{name: name, set: token.NewFileSet(), text: text}
	f, err := parser.ParseFile(g.set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		g.mutateDecl(d)
	}
	return g.list, nil
}

func (g *goFile) add(from, to token.Pos, new string) {
	a, b := g.set.Position(from), g.set.Position(to)
	g.list = append(g.list, Mutation{
		File: g.name, from: a.Offset, to: b.Offset, Line: a.Line, col: a.Column,
		old: string(g.text[a.Offset:b.Offset]), new: new,
	})
}

func (g *goFile) sourceText(n ast.Node) string {
	return string(g.text[g.set.Position(n.Pos()).Offset:g.set.Position(n.End()).Offset])
}

// mutateDecl walks one declaration; the results of functions show which of their returns give an error.
func (g *goFile) mutateDecl(d ast.Decl) {
	if gen, ok := d.(*ast.GenDecl); ok && gen.Tok == token.IMPORT {
		return
	}
	var kinds []*ast.FuncType
	var open []ast.Node
	ast.Inspect(d, func(n ast.Node) bool {
		if n == nil {
			last := open[len(open)-1]
			open = open[:len(open)-1]
			if funcType(last) != nil {
				kinds = kinds[:len(kinds)-1]
			}
			return true
		}
		open = append(open, n)
		if t := funcType(n); t != nil {
			kinds = append(kinds, t)
		}
		if r, ok := n.(*ast.ReturnStmt); ok && len(kinds) > 0 {
			g.mutateReturn(r, kinds[len(kinds)-1])
		}
		g.mutateNode(n)
		return true
	})
}

func funcType(n ast.Node) *ast.FuncType {
	switch f := n.(type) {
	case *ast.FuncDecl:
		return f.Type
	case *ast.FuncLit:
		return f.Type
	}
	return nil
}

// mutateReturn replaces the error of a return statement by nil.
func (g *goFile) mutateReturn(r *ast.ReturnStmt, t *ast.FuncType) {
	if t.Results == nil || len(r.Results) == 0 {
		return
	}
	last := t.Results.List[len(t.Results.List)-1]
	if id, ok := last.Type.(*ast.Ident); !ok || id.Name != "error" {
		return
	}
	value := r.Results[len(r.Results)-1]
	if g.sourceText(value) != "nil" && len(r.Results) == t.Results.NumFields() {
		g.add(value.Pos(), value.End(), "nil")
	}
}

func (g *goFile) mutateNode(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		g.add(n.Cond.Pos(), n.Cond.End(), "!("+g.sourceText(n.Cond)+")")
	case *ast.ForStmt:
		if n.Cond != nil {
			g.add(n.Cond.Pos(), n.Cond.End(), "!("+g.sourceText(n.Cond)+")")
		}
	case *ast.BinaryExpr:
		g.mutateOperator(n.OpPos, n.Op)
	case *ast.IncDecStmt:
		g.mutateOperator(n.TokPos, n.Tok)
		g.add(n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			g.mutateOperator(n.TokPos, n.Tok)
			g.add(n.Pos(), n.End(), "")
		}
	case *ast.ExprStmt:
		if !strings.HasPrefix(g.sourceText(n), "lockdep.AssertHeld(") { // it asserts what callers do
			g.add(n.Pos(), n.End(), "")
		}
	case *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.BranchStmt:
		g.add(n.Pos(), n.End(), "")
	case *ast.BasicLit:
		if v, err := strconv.ParseUint(n.Value, 0, 63); n.Kind == token.INT && err == nil {
			g.add(n.Pos(), n.End(), strconv.FormatUint(v+1, 10))
		}
	case *ast.Ident:
		if n.Name == "true" || n.Name == "false" {
			g.add(n.Pos(), n.End(), strconv.FormatBool(n.Name == "false"))
		}
	}
}

func (g *goFile) mutateOperator(pos token.Pos, op token.Token) {
	if new, ok := swaps[op.String()]; ok {
		g.add(pos, pos+token.Pos(len(op.String())), new)
	}
}
