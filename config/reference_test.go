package config_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/config"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

const referenceFile = "../docs/configuration.md"

// The manual is made of the doc comments of the structs.
func TestReference(t *testing.T) {
	t.Parallel()
	want := reference(t)
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("the manual is out of date: run go test ./config -run TestReference -update (-want +got):\n%s", diff)
	}
}

func reference(t *testing.T) string {
	t.Helper()
	comments := fieldComments(t)
	var b strings.Builder
	b.WriteString(`# Configuration

toolbus reads one YAML file (` + "`--config FILE`" + `) and an environment variable for every key. A variable wins over the file, the file over the default. Reading is strict: an unknown key is an error that names its line, and a value that breaks a rule is an error that names the key and the rule.

Every duration is a number of seconds, fractions allowed. In a variable a list is written with commas, ` + "`TOOLBUS_TOOLS_DISABLED=math.*,web.fetch`" + `, and a mapping or a list of mappings as YAML in one line. ` + "`toolbus doctor`" + ` names variables that begin with ` + "`TOOLBUS_`" + ` and are no key.

A secret never stands in the configuration. Where a key ends in ` + "`credential_ref`" + ` its value is ` + "`env:NAME`, `file:/absolute/path`" + `, or a key of ` + "`credentials`" + `, whose value is one of the two.

`)
	root := reflect.TypeFor[config.Config]()
	keys := map[string]config.Key{}
	for _, key := range config.Keys() {
		keys[key.Name] = key
	}
	for field := range root.Fields() {
		section(t, &b, field, comments, keys)
	}
	return b.String()
}

func section(t *testing.T, b *strings.Builder, field reflect.StructField, comments map[string]string, keys map[string]config.Key) {
	t.Helper()
	name := field.Tag.Get("yaml")
	fmt.Fprintf(b, "## %s\n\n", name)
	switch {
	case field.Type.Kind() == reflect.Struct:
		fmt.Fprintf(b, "%s\n\n", lead(comments[field.Type.Name()], field.Type.Name()))
		b.WriteString("| key | variable | type | default | meaning |\n|---|---|---|---|---|\n")
		for f := range field.Type.Fields() {
			key := keys[name+"."+f.Tag.Get("yaml")]
			fmt.Fprintf(b, "| `%s` | `%s` | %s | %s | %s |\n", key.Name, key.Variable, key.Type, code(key.Default),
				meaning(t, comments[field.Type.Name()+"."+f.Name], key.Rules))
		}
		for f := range field.Type.Fields() {
			if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
				entries(t, b, name+"."+f.Tag.Get("yaml"), f.Type.Elem(), comments)
			}
		}
	case field.Type.Elem().Kind() == reflect.Struct:
		fmt.Fprintf(b, "%s Variable: `%s`.\n", lead(comments[field.Type.Elem().Name()], field.Type.Elem().Name()), keys[name].Variable)
		entries(t, b, name, field.Type.Elem(), comments)
	default:
		fmt.Fprintf(b, "Named references: name and `env:NAME` or `file:/absolute/path`. Variable: `%s`.\n", keys[name].Variable)
	}
	b.WriteString("\n")
}

func entries(t *testing.T, b *strings.Builder, name string, entry reflect.Type, comments map[string]string) {
	t.Helper()
	fmt.Fprintf(b, "\nEach entry of `%s`:\n\n| key | type | meaning |\n|---|---|---|\n", name)
	for f := range entry.Fields() {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Tag.Get("yaml"), config.TypeName(f.Type),
			meaning(t, comments[entry.Name()+"."+f.Name], config.Describe(f.Tag.Get("check"))))
	}
}

// lead turns "Batch is about calls." into "About calls.".
func lead(comment, name string) string {
	text := strings.TrimPrefix(comment, name+" ")
	text = strings.TrimPrefix(text, "is ")
	return strings.ToUpper(text[:1]) + text[1:]
}

func meaning(t *testing.T, comment string, rules []string) string {
	t.Helper()
	if comment == "" {
		t.Error("a key has no comment")
	}
	if len(rules) > 0 {
		comment += " Must " + strings.ReplaceAll(strings.Join(rules, " and "), " and be ", " and ") + "."
	}
	return strings.ReplaceAll(comment, "|", `\|`)
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// fieldComments reads the comments of types, by name, and of fields, by
// "Type.Field", out of the source.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			typeSpec, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			comments[typeSpec.Name.Name] = oneLine(general.Doc)
			for _, field := range typeSpec.Type.(*ast.StructType).Fields.List {
				comments[typeSpec.Name.Name+"."+field.Names[0].Name] = oneLine(field.Doc)
			}
		}
	}
	return comments
}

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }
