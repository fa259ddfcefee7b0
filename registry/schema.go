package registry

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/toolbus/toolbus/argschema"
	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/tool"
)

// checkSchemas compiles the schemas the way calls will be validated: those of
// the build under its one dialect, those of others under the caps for strangers.
func checkSchemas(spec tool.Spec, _ Limits) *SpecError {
	options := argschema.Remote()
	if ofBuild(spec.Source) {
		options = argschema.Builtin()
	}
	if broken := checkStorable("input_schema", spec.InputSchema); broken != nil {
		return broken
	}
	if _, err := argschema.Compile(spec.InputSchema, options); err != nil {
		return schemaError("input_schema", spec.Source, err)
	}
	if len(spec.OutputSchema) == 0 {
		return nil
	}
	if broken := checkStorable("output_schema", spec.OutputSchema); broken != nil {
		return broken
	}
	if _, err := argschema.CompileOutput(spec.OutputSchema); err != nil {
		return schemaError("output_schema", spec.Source, err)
	}
	return nil
}

// schemaError carries the reason, and the path only where its keys are our own.
func schemaError(field string, source tool.Source, err error) *SpecError {
	var refused *argschema.SchemaError
	if !errors.As(err, &refused) {
		return breaks(field, RuleSchema, "")
	}
	detail := string(refused.Reason)
	if refused.Path != "" && ofBuild(source) {
		detail += " at " + refused.Path
	}
	return breaks(field, RuleSchema, detail)
}

// checkStorable: a pin is hashed in canonical form and stored in a database that
// knows no NUL. One schema that allows neither would cost a session all of its
// tools.
func checkStorable(field string, schema json.RawMessage) *SpecError {
	form, err := canonical.Form(schema)
	if err != nil {
		return breaks(field, RuleText, "has no canonical form")
	}
	if holdsNUL(form) {
		return breaks(field, RuleText, "holds a NUL character")
	}
	return nil
}

// holdsNUL finds the escape of NUL in canonical JSON, where it has one spelling.
func holdsNUL(form []byte) bool {
	for {
		i := bytes.IndexByte(form, '\\')
		if i < 0 {
			return false
		}
		if bytes.HasPrefix(form[i+1:], []byte("u0000")) {
			return true
		}
		form = form[i+2:] // a canonical backslash is always followed by a character
	}
}
