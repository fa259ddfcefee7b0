package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Key is one key of the configuration.
type Key struct {
	// Name is the path in the file, for example "mcp.connect_timeout_seconds".
	Name string
	// Variable is the environment variable of the same meaning.
	Variable string
	// Type is string, integer, number, boolean, list or mapping.
	Type string
	// Default is the default value as YAML; empty for an empty one.
	Default string
	// Rules are the conditions a value must meet, in words.
	Rules []string

	value reflect.Value
}

// Keys lists every key that has a variable, in the order of the structs. The
// keys inside the entries of a list or a mapping have none.
func Keys() []Key {
	c := Default()
	return keysOf(reflect.ValueOf(&c).Elem(), "")
}

// keysOf walks down the structs to the leaves.
func keysOf(v reflect.Value, path string) []Key {
	var keys []Key
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name := join(path, field.Tag.Get("yaml"))
		if field.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(v.Field(i), name)...)
			continue
		}
		keys = append(keys, Key{
			Name:     name,
			Variable: Prefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_")),
			Type:     typeName(field.Type),
			Default:  defaultText(v.Field(i)),
			Rules:    describe(field.Tag.Get("check")),
			value:    v.Field(i),
		})
	}
	return keys
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "list"
	default:
		return "mapping"
	}
}

func defaultText(v reflect.Value) string {
	if (v.Kind() == reflect.Slice || v.Kind() == reflect.Map || v.Kind() == reflect.String) && v.Len() == 0 {
		return ""
	}
	text, err := yaml.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprint(v.Interface())
	}
	return strings.TrimSpace(string(text))
}
