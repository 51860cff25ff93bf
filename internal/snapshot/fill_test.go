package snapshot

import (
	"reflect"
	"strings"
	"testing"
)

// fill sets every text to evil, and every list and pointer to one element.
func fill(v reflect.Value, evil string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), evil)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), evil)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[Time]() {
				fill(v.Field(i), evil)
			}
		}
	}
}

// texts calls f with every text, and returns how many there are.
func texts(v reflect.Value, path string, f func(path, text string)) (n int) {
	switch v.Kind() {
	case reflect.String:
		f(path, v.String())
		return 1
	case reflect.Pointer:
		return texts(v.Elem(), path, f)
	case reflect.Slice:
		for i := range v.Len() {
			n += texts(v.Index(i), path+"[]", f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[Time]() {
				n += texts(v.Field(i), path+"."+v.Type().Field(i).Name, f)
			}
		}
	}
	return n
}

// TestEveryTextIsMadeSafe: no text of a snapshot is longer than it may be, or has characters
// that a terminal obeys.
func TestEveryTextIsMadeSafe(t *testing.T) {
	var s Snapshot
	fill(reflect.ValueOf(&s).Elem(), "a\x1b[31m\u202eb\x00"+strings.Repeat("\u00e9", 1000))
	s.Host, s.BootID = "gpu01", "b" // are checked before
	s.Validate()
	n := texts(reflect.ValueOf(&s).Elem(), "Snapshot", func(path, text string) {
		if !safe(text, MaxTextBytes) {
			t.Errorf("%s is %q", path, text)
		}
	})
	if n < 35 {
		t.Errorf("only %d texts were looked at", n)
	}
}

// TestNothingUsedIsAReading: 0 is known, and what is at its limit is kept.
func TestNothingUsedIsAReading(t *testing.T) {
	s := Snapshot{Node: Node{
		Disks: []Disk{{Mount: "/"}, {Mount: "/home", Total: maxMiB, Used: maxMiB},
			{Mount: "/no", Total: 1, Used: 2}},
		DiskUsers: []DiskUser{{Path: "/home", User: "ann"}, {Path: "/home", User: "bob", Used: maxMiB},
			{Path: "/home", User: "eve", Used: -1}},
	}}
	if found := s.Validate(); len(found) != 2 || len(s.Node.Disks) != 2 || len(s.Node.DiskUsers) != 2 {
		t.Errorf("kept are %v and %v: %v", s.Node.Disks, s.Node.DiskUsers, found)
	}
}

// TestEveryReadingOfANodeHasBounds: no number of a node is believed that is far out of its range.
func TestEveryReadingOfANodeHasBounds(t *testing.T) {
	for _, sign := range []int64{1, -1} {
		var s Snapshot
		node := reflect.ValueOf(&s.Node).Elem()
		numbers := 0
		for i := range node.NumField() {
			if field := node.Field(i); field.Kind() == reflect.Pointer {
				number := reflect.New(field.Type().Elem())
				if number.Elem().CanFloat() {
					number.Elem().SetFloat(float64(sign) * 1e300)
				} else {
					number.Elem().SetInt(sign * (1<<63 - 1))
				}
				field.Set(number)
				numbers++
			}
		}
		if found := s.Validate(); len(found) != numbers || numbers < 7 {
			t.Errorf("%d of %d numbers were out of range: %v", len(found), numbers, found)
		}
		for i := range node.NumField() {
			if field := node.Field(i); field.Kind() == reflect.Pointer && !field.IsNil() {
				t.Errorf("%s is believed to be %v", node.Type().Field(i).Name, field.Elem())
			}
		}
	}
}
