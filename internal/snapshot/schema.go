package snapshot

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed schema.json
var schemaJSON string

// SchemaJSON returns the JSON Schema (draft 2020-12) of a [Snapshot].
func SchemaJSON() []byte { return []byte(SchemaWithReadings(schemaJSON)) }

// SchemaWithReadings returns a JSON Schema with the [Readings] where it says "$readings": among the names
// that are required, and among the properties.
func SchemaWithReadings(schema string) string {
	var names, properties []string
	for _, d := range descriptors() {
		kind := "integer"
		if d.Decimals {
			kind = "number"
		}
		names = append(names, strconv.Quote(d.Name))
		properties = append(properties,
			fmt.Sprintf(`%q: {"type": [%q, "null"], "description": "%s."}`, d.Name, kind, d.Help))
	}
	fill := strings.NewReplacer(
		`"$readings": {}`, strings.Join(properties, ",\n"),
		`"$readings"`, strings.Join(names, ",\n"),
	)
	return fill.Replace(schema)
}
