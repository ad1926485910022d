// SPDX-License-Identifier: MIT

package module

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"

	"skep/dynamos/update/pack"
)

// glueText is the module's only C: the table and the two calls of
// <skep/dynamos_update.h>.
var glueText = template.Must(template.New("glue").Parse(`/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/init.h>
#include <linux/module.h>

#include <skep/dynamos_update.h>
{{range .Functions}}{{if .Version}}
extern char {{.Version}}[];
extern const u64 {{.Version}}_size;
{{- end}}{{end}}

static struct dynamos_function functions[] = {
{{- range .Functions}}
	{
		.symbol = "{{.Name}}",
		.sympos = {{.Position}},
		.old_size = {{.OldSize}},
{{- if .Version}}
		.version = {{.Version}},
{{- end}}
		.args = {{.Args}},
		.result = {{.Result}},
		.object = {{.Object}},
		.ends = {{.Ends}},
		.bare = {{.Bare}},
	},
{{- end}}
};

static struct dynamos_update update = {
	.revision = DYNAMOS_UPDATE_REVISION,
	.class = {{.Class}},
	.build_id = "{{.BuildID}}",
	.module = THIS_MODULE,
	.functions = functions,
	.count = ARRAY_SIZE(functions),
{{- if .Flags}}
	.flags = {{.Flags}},
{{- end}}
{{- if .Module}}
	.object = "{{.Module}}",
	.object_id = "{{.ModuleID}}",
{{- end}}
{{- if .Held}}
	.held = {{printf "%q" .Held}},
{{- end}}
};

static int __init update_init(void)
{
{{- range $i, $f := .Functions}}{{if $f.Version}}
	functions[{{$i}}].size = {{$f.Version}}_size;
{{- end}}{{end}}
	return dynamos_update_add(&update);
}

static void __exit update_exit(void)
{
	dynamos_update_remove(&update);
}

module_init(update_init);
module_exit(update_exit);

MODULE_DESCRIPTION("Kernel update {{.Name}}");
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
`))

type glueFunction struct {
	Name, Version, Result, Object, Args string
	Position, OldSize                   int
	Ends, Bare                          int
}

var classes = map[string]string{
	pack.Any: "DYNAMOS_ANY", pack.Task: "DYNAMOS_TASK",
	pack.Object: "DYNAMOS_OBJECT", pack.Together: "DYNAMOS_TOGETHER",
}

var results = map[string]string{
	pack.Void: "DYNAMOS_VOID", pack.Int: "DYNAMOS_INT", pack.Long: "DYNAMOS_LONG",
	pack.Pointer: "DYNAMOS_PTR", pack.Value: "DYNAMOS_VALUE",
}

// writeGlue writes the table. Names come from the kernel's own table and were
// checked by pack, so none of them can break out of a C string.
func (p *Plan) writeGlue() ([]byte, error) {
	if !pack.ValidName(p.Name) || classes[p.Class] == "" || len(p.Functions) == 0 || len(p.Functions) > pack.MaxFunctions {
		return nil, refusef("no module can be made of update %.80q of class %.80q with %d functions, of which 1 to %d are possible: make several updates", p.Name, p.Class, len(p.Functions), pack.MaxFunctions)
	}
	var list []glueFunction
	for _, f := range p.Functions {
		g := glueFunction{Name: f.Name, Version: f.asm.Version, Position: f.Position, OldSize: f.OldSize,
			Args: fmt.Sprint(f.Args), Result: results[f.Result], Object: "DYNAMOS_NO_ARG", Ends: boolDigit(f.Ends), Bare: boolDigit(f.Bare)}
		if f.Uncounted {
			g.Args = "DYNAMOS_UNCOUNTED"
		}
		if f.Function.Object != nil {
			g.Object = fmt.Sprint(*f.Function.Object)
		}
		if g.Result == "" || !pack.ValidSymbol(g.Name) || !f.Unchanged() && !pack.ValidSymbol(g.Version) {
			return nil, refusef("function %.80q cannot stand in a table", f.Name)
		}
		list = append(list, g)
	}
	var b bytes.Buffer
	err := glueText.Execute(&b, map[string]any{
		"Name": p.Name, "Class": classes[p.Class], "BuildID": p.Image.BuildID, "Functions": list, "Held": p.heldReason(), "Flags": p.flags(),
		"Module": p.Image.Module, "ModuleID": p.Image.ModuleID,
	})
	return b.Bytes(), err
}

func (p *Plan) flags() string {
	var list []string
	if p.Relies {
		list = append(list, "DYNAMOS_RELIES")
	}
	if p.NoProgram {
		list = append(list, "DYNAMOS_NO_PROGRAM")
	}
	return strings.Join(list, " | ")
}

// maxHeld is what dynamos.ko keeps of the reason.
const maxHeld = 255

// heldReason is the reason why the module must stay, as far as there is room; the
// package has all of them.
func (p *Plan) heldReason() string {
	if len(p.Held) == 0 {
		return ""
	}
	text := p.Held[0]
	if len(p.Held) > 1 {
		text = fmt.Sprintf("%.200s, and %d more", text, len(p.Held)-1)
	}
	return text[:min(len(text), maxHeld)]
}

func boolDigit(b bool) int {
	if b {
		return 1
	}
	return 0
}
