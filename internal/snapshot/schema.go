package snapshot

import _ "embed"

//go:embed schema.json
var schemaJSON string

// SchemaJSON returns the JSON Schema (draft 2020-12) of a [Snapshot].
func SchemaJSON() []byte { return []byte(schemaJSON) }
