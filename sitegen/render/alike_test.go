package render

import (
	"reflect"
	"testing"
	"time"

	"gpuboard/board"
)

// TestAlikeSeesEveryField changes every value that a host is made of, one after
// another, and wants each seen.
func TestAlikeSeesEveryField(t *testing.T) {
	hosts := newAlike[board.Host]()
	full := func() *board.Host {
		h := &board.Host{}
		fillValue(reflect.ValueOf(h).Elem(), 0)
		return h
	}
	if !hosts.same(full(), full()) {
		t.Fatal("two hosts that are equal, at different addresses, are not alike")
	}
	changes := 0
	var walk func(v reflect.Value, path string, h *board.Host)
	walk = func(v reflect.Value, path string, h *board.Host) {
		if v.Type() == reflect.TypeFor[time.Time]() {
			old := v.Interface().(time.Time)
			v.Set(reflect.ValueOf(old.Add(time.Nanosecond)))
			if changes++; hosts.same(h, full()) {
				t.Errorf("a change of %s is not seen", path)
			}
			v.Set(reflect.ValueOf(old))
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() {
					walk(v.Field(i), path+"."+f.Name, h)
				}
			}
			return
		case reflect.Pointer:
			walk(v.Elem(), path, h)
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i), path+"[]", h)
			}
		}
		if !v.CanSet() {
			t.Fatalf("%s cannot be changed", path)
		}
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			v.SetUint(v.Uint() + 1)
		case reflect.Float32, reflect.Float64:
			v.SetFloat(v.Float() + 1)
		case reflect.Pointer, reflect.Slice, reflect.Map:
			v.SetZero()
		default:
			t.Fatalf("%s is a %s", path, v.Kind())
		}
		if changes++; hosts.same(h, full()) {
			t.Errorf("a change of %s is not seen", path)
		}
		v.Set(old)
	}
	h := full()
	walk(reflect.ValueOf(h).Elem(), "host", h)
	if changes < 150 {
		t.Errorf("only %d values were changed", changes)
	}
}

// fillValue makes everything below a value something that is not zero.
func fillValue(v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(fleetNow))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillValue(v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillValue(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillValue(key, depth+1)
		fillValue(elem, depth+1)
		v.SetMapIndex(key, elem)
	case reflect.String:
		v.SetString("word")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(7.5)
	}
}

func TestAlikeLists(t *testing.T) {
	type node struct {
		Name string
		Next []node
		Any  any
	}
	nodes := newAlike[node]()
	a := []node{{"a", []node{{"b", nil, 1}}, "x"}}
	b := []node{{"a", []node{{"b", nil, 1}}, "x"}}
	if !nodes.lists(a, b) {
		t.Error("a type that leads to itself is not compared")
	}
	b[0].Next[0].Any = 2
	if nodes.lists(a, b) || nodes.lists(a, nil) || nodes.lists(a[:0], a) {
		t.Error("differences are not seen")
	}
	if nodes.same(&node{Next: nil}, &node{Next: []node{}}) {
		t.Error("a list that is not there is like one that is empty")
	}
}
