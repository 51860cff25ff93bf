package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSchemaFitsTheStruct walks both at once: each JSON field has a property of
// its type, and there is no property without a field.
func TestSchemaFitsTheStruct(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(SchemaJSON(), &schema); err != nil {
		t.Fatal(err)
	}
	defs := schema["$defs"].(map[string]any)
	seen := map[reflect.Type]bool{}
	var walk func(where string, typ reflect.Type, s map[string]any)
	walk = func(where string, typ reflect.Type, s map[string]any) {
		want, nullable := "", typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if choice, ok := s["anyOf"].([]any); ok {
			if null := choice[1].(map[string]any); !nullable || null["type"] != "null" {
				t.Errorf("%s: anyOf that is no nullable object", where)
			}
			s, nullable = choice[0].(map[string]any), false
		}
		if ref, ok := s["$ref"].(string); ok {
			def, ok := defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
			if !ok {
				t.Fatalf("%s: %s leads nowhere", where, ref)
			}
			s = def
		}
		switch {
		case typ == reflect.TypeFor[Time]():
			want = "string"
			if s["format"] != "date-time" {
				t.Errorf("%s: a time without its format", where)
			}
		case typ.Kind() == reflect.Struct:
			want = "object"
			if seen[typ] {
				break
			}
			seen[typ] = true
			props := s["properties"].(map[string]any)
			for _, f := range reflect.VisibleFields(typ) {
				if f.Anonymous && f.Tag == "" {
					continue
				}
				name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
				prop, ok := props[name].(map[string]any)
				if !ok {
					t.Errorf("%s.%s is not in the schema", where, name)
					continue
				}
				delete(props, name)
				required := slices.Contains(s["required"].([]any), any(name))
				if always := options == ""; always != required {
					t.Errorf("%s.%s: required is %v, always written is %v", where, name, required, always)
				}
				walk(where+"."+name, f.Type, prop)
			}
			for name := range props {
				t.Errorf("%s.%s is in the schema only", where, name)
			}
		case typ.Kind() == reflect.Slice:
			want = "array"
			walk(where+"[]", typ.Elem(), s["items"].(map[string]any))
		case typ.Kind() == reflect.String:
			want = "string"
		case typ.Kind() == reflect.Bool:
			want = "boolean"
		case typ.Kind() == reflect.Float64:
			want = "number"
		default:
			want = "integer"
		}
		got := fmt.Sprint(s["type"])
		if nullable {
			want = "[" + want + " null]"
		}
		if got != want {
			t.Errorf("%s has type %s in the schema, want %s", where, got, want)
		}
	}
	walk("snapshot", reflect.TypeFor[Snapshot](), schema)
}

func TestSchemaOnDocuments(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(SchemaJSON(), &schema); err != nil {
		t.Fatal(err)
	}
	good, err := json.Marshal(fleetBundle(2, 1).Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, new string) []byte {
		changed := bytes.Replace(good, []byte(old), []byte(new), 1)
		if bytes.Equal(changed, good) {
			t.Fatalf("%s is not in the document", old)
		}
		return changed
	}
	empty, err := json.Marshal(
		&Snapshot{Schema: 1, Host: "a", GPUs: nil, Processes: []Process{},
			CollectedAt: fleetBundle(1, 1).Snapshot.CollectedAt})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		data  []byte
		valid bool
	}{
		{"a full snapshot", good, true},
		{"an empty one", empty, true},
		{"an unknown field", change(`"gpus":`, `"color":"red","gpus":`), true},
		{"an unknown reading", change(`"pstate":"P0"`, `"fan_percent":null`), true},
		{"text for a number", change(`"seq":100`, `"seq":"100"`), false},
		{"a missing field", change(`"host":`, `"hosts":`), false},
		{"a health nobody knows", change(`"health":"ok"`, `"health":"fine"`), false},
		{"a fraction of a percent", change(`"fan_percent":null`, `"fan_percent":1.5`), false},
	} {
		var doc any
		if err := json.Unmarshal(test.data, &doc); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if err := check(schema, schema, doc, "snapshot"); (err == nil) != test.valid {
			t.Errorf("%s: got %v, valid should be %v", test.name, err, test.valid)
		}
	}
}

// check is as much of JSON Schema as our schema uses.
func check(root, schema map[string]any, doc any, where string) error {
	if ref, ok := schema["$ref"].(string); ok {
		return check(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), doc,
			where)
	}
	if choice, ok := schema["anyOf"].([]any); ok {
		var err error
		for _, one := range choice {
			if err = check(root, one.(map[string]any), doc, where); err == nil {
				return nil
			}
		}
		return err
	}
	types, ok := schema["type"].([]any)
	if !ok {
		types = []any{schema["type"]}
	}
	is := ""
	switch v := doc.(type) {
	case nil:
		is = "null"
	case bool:
		is = "boolean"
	case string:
		is = "string"
	case float64:
		if is = "number"; v == float64(int64(v)) && !slices.Contains(types, any("number")) {
			is = "integer"
		}
	case []any:
		is = "array"
		for i, item := range v {
			if err := check(root, schema["items"].(map[string]any), item, fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		is = "object"
		props, _ := schema["properties"].(map[string]any)
		for _, name := range schema["required"].([]any) {
			if _, ok := v[name.(string)]; !ok {
				return fmt.Errorf("%s has no %s", where, name)
			}
		}
		for name, item := range v {
			if prop, ok := props[name].(map[string]any); ok {
				if err := check(root, prop, item, where+"."+name); err != nil {
					return err
				}
			}
		}
	}
	if !slices.Contains(types, any(is)) {
		return fmt.Errorf("%s is %s, want %v", where, is, types)
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, doc) {
		return fmt.Errorf("%s is %v, want one of %v", where, doc, enum)
	}
	if low, ok := schema["minimum"].(float64); ok && doc.(float64) < low {
		return fmt.Errorf("%s is %v, below %v", where, doc, low)
	}
	return nil
}
