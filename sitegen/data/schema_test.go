package data

import (
	"testing"

	"gpuboard/internal/testenv/jsonschema"
)

// schemaErrors says where a document does not fit a schema.
func schemaErrors(t testing.TB, schema, doc []byte) []string {
	t.Helper()
	return jsonschema.Check(schema, doc)
}
