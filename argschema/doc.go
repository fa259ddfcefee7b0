// Package argschema compiles the JSON Schemas of tools and turns proposed
// arguments into the canonical bytes that are hashed, approved and sent
// (specification, "Argument validation and the canonical form").
//
// A schema may come from a stranger. It is therefore parsed strictly, measured
// against the caps of [Options] and searched for references out of the document
// before the schema library sees it, and the library has a loader that refuses:
// no schema ever causes a file to be read or a connection to be made. What a
// schema may cost is bounded too. Applicators at one location may not multiply
// beyond [Options.MaxCost]; a schema that recurses has the work of each document
// counted before it is done; and a validation of a foreign schema that still
// does not end quarantines that schema ([ErrQuarantined]).
//
// Arguments are validated as the declared schema says, with one addition: a
// schema whose root says nothing about undeclared properties does not allow
// them. The addition concerns the root only. It is made beside the schema, not
// in it: the declared bytes stay as they are for the model and the hash.
//
//   - no applicator at the root: a property must be named by properties or
//     matched by patternProperties, under every dialect;
//   - applicators at the root, draft 2019-09 or 2020-12: as if the root stood
//     under unevaluatedProperties: false;
//   - applicators at the root, draft-06 or draft-07, which have no such keyword:
//     the root stays open, and [Schema.Closed] says so.
//
// Defaults are filled before validation, through properties, $ref, allOf and
// items; never through anyOf, oneOf, not or if, whose branches may not apply.
//
// format is an assertion under draft-06 and draft-07 and an annotation under the
// later drafts, as those drafts say.
package argschema
