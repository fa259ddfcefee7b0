// Package migrations embeds the numbered SQL of the schema. Files are applied
// in order by the store's migrator; one that was released is never edited.
package migrations

import "embed"

// FS holds the migration files.
//
//go:embed *.sql
var FS embed.FS
