// Package jsonschema checks documents with the part of JSON Schema (draft
// 2020-12) that the project's own schemas use.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Check returns what is wrong with a document, at most ten things; none when
// it fits the schema. A keyword that it does not know is wrong too: a check
// that is skipped in silence is none. So is a member that the schema does not
// describe, which JSON Schema itself would let pass.
func Check(schema, doc []byte) []string {
	var s map[string]any
	if err := json.Unmarshal(schema, &s); err != nil {
		return []string{"the schema is not JSON: " + err.Error()}
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return []string{err.Error()}
	}
	c := &checker{root: s}
	c.check("$", s, v)
	return c.errs
}

type checker struct {
	root map[string]any
	errs []string
}

func (c *checker) fail(at, format string, args ...any) {
	if len(c.errs) < 10 {
		c.errs = append(c.errs, at+": "+fmt.Sprintf(format, args...))
	}
}

func (c *checker) check(at string, s map[string]any, v any) {
	for keyword, arg := range s {
		switch keyword {
		case "$schema", "$id", "$defs", "title", "description":
		case "$ref":
			name := strings.TrimPrefix(arg.(string), "#/$defs/")
			def, ok := c.root["$defs"].(map[string]any)[name].(map[string]any)
			if !ok {
				c.fail(at, "no definition %q", name)
				continue
			}
			c.check(at, def, v)
		case "type":
			c.kind(at, arg, v)
		case "enum":
			if !slices.Contains(arg.([]any), v) {
				c.fail(at, "%v is none of %v", v, arg)
			}
		case "const":
			if fmt.Sprint(arg) != fmt.Sprint(v) {
				c.fail(at, "%v is not %v", v, arg)
			}
		case "minimum":
			if n, ok := v.(json.Number); ok {
				if f, err := n.Float64(); err != nil || f < arg.(float64) {
					c.fail(at, "%v is under %v", v, arg)
				}
			}
		case "format":
			if text, ok := v.(string); ok && arg == "date-time" {
				if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
					c.fail(at, "%v", err)
				}
			}
		case "required", "properties", "additionalProperties":
			if object, ok := v.(map[string]any); ok {
				c.object(at, keyword, arg, object)
			}
		case "items":
			if list, ok := v.([]any); ok {
				for i, item := range list {
					c.check(fmt.Sprintf("%s[%d]", at, i), arg.(map[string]any), item)
				}
			}
		case "anyOf":
			c.anyOf(at, arg.([]any), v)
		default:
			c.fail(at, "keyword %q is not checked", keyword)
		}
	}
}

func (c *checker) object(at, keyword string, arg any, object map[string]any) {
	switch keyword {
	case "required":
		for _, key := range arg.([]any) {
			if _, ok := object[key.(string)]; !ok {
				c.fail(at, "%q is missing", key)
			}
		}
	case "properties":
		for key, sub := range arg.(map[string]any) {
			if member, ok := object[key]; ok {
				c.check(at+"."+key, sub.(map[string]any), member)
			}
		}
		for key := range object {
			if _, known := arg.(map[string]any)[key]; !known {
				c.fail(at, "%q is not described", key)
			}
		}
	case "additionalProperties":
		for key, member := range object {
			c.check(at+"."+key, arg.(map[string]any), member)
		}
	}
}

func (c *checker) anyOf(at string, options []any, v any) {
	var errs []string
	for _, option := range options {
		sub := &checker{root: c.root}
		sub.check(at, option.(map[string]any), v)
		if len(sub.errs) == 0 {
			return
		}
		errs = append(errs, sub.errs...)
	}
	c.fail(at, "fits none: %s", strings.Join(errs, "; "))
}

func (c *checker) kind(at string, want, v any) {
	kinds, ok := want.([]any)
	if !ok {
		kinds = []any{want}
	}
	got := "null"
	switch v := v.(type) {
	case bool:
		got = "boolean"
	case string:
		got = "string"
	case []any:
		got = "array"
	case map[string]any:
		got = "object"
	case json.Number:
		got = "number"
		if _, err := v.Int64(); err == nil && slices.Contains(kinds, any("integer")) {
			got = "integer"
		}
	}
	if !slices.Contains(kinds, any(got)) {
		c.fail(at, "%s where %v should be", got, want)
	}
}
