package jsonschema

import (
	"strings"
	"testing"
)

const schema = `{"type":"object","required":["name","at"],"properties":{
	"name":{"type":"string"},"at":{"type":["string","null"],"format":"date-time"},
	"state":{"enum":["up","down"]},"version":{"const":1},"used":{"type":"integer","minimum":0},
	"gpus":{"type":"array","items":{"$ref":"#/$defs/gpu"}},"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/gpu"}]},
	"by":{"type":"object","additionalProperties":{"type":"integer"}}},
	"$defs":{"gpu":{"type":"object","required":["index"],"properties":{"index":{"type":"integer"}}}}}`

func TestCheck(t *testing.T) {
	for doc, want := range map[string]string{
		`{"name":"a","at":"2026-11-20T10:00:00Z","state":"up","version":1,"used":3,"gpus":[{"index":0}],"next":null,"by":{"x":1}}`: "",
		`{"name":"a","at":null}`:                              "",
		`{"name":"a"}`:                                        `"at" is missing`,
		`{"name":1,"at":null}`:                                "$.name: number where string",
		`{"name":"a","at":"yesterday"}`:                       "$.at: ",
		`{"name":"a","at":null,"state":"sideways"}`:           "is none of",
		`{"name":"a","at":null,"version":2}`:                  "is not 1",
		`{"name":"a","at":null,"used":-1}`:                    "is under 0",
		`{"name":"a","at":null,"used":1.5}`:                   "number where integer",
		`{"name":"a","at":null,"gpus":[{"index":0},{"i":0}]}`: "$.gpus[1]: ",
		`{"name":"a","at":null,"next":3}`:                     "fits none",
		`{"name":"a","at":null,"by":{"x":"y"}}`:               "$.by.x: ",
		`{"name":"a","at":null,"surprise":true}`:              `"surprise" is not described`,
		`{"name":`:                                            "unexpected EOF",
		`[]`:                                                  "array where object",
	} {
		got := strings.Join(Check([]byte(schema), []byte(doc)), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", doc, got, want)
		}
	}
	if got := Check([]byte(`{"multipleOf":2}`), []byte(`3`)); len(got) != 1 ||
		!strings.Contains(got[0], "not checked") {
		t.Errorf("a keyword that it does not know: %q", got)
	}
}
