package data

import (
	"embed"
	"fmt"

	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

//go:embed schema/*.json
var apiSchemaFS embed.FS

// apiSchemas are the JSON Schemas (draft 2020-12) of the files beside them.
// They name what is always there; a file may have more. Beside them stands the
// schema of what a node sends.
func apiSchemas() ([]render.File, error) {
	entries, err := apiSchemaFS.ReadDir("schema")
	if err != nil {
		return nil, fmt.Errorf("listing the schemas: %w", err)
	}
	var files []render.File
	for _, entry := range entries {
		content, err := apiSchemaFS.ReadFile("schema/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading schema %s: %w", entry.Name(), err)
		}
		files = append(files, render.NewFile("api/v1/schema/"+entry.Name(), content))
	}
	return append(files, render.NewFile("api/v1/schema/snapshot.json", snapshot.SchemaJSON())), nil
}
