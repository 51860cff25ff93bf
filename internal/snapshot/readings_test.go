package snapshot_test

import (
	"reflect"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
)

// TestEveryReadingIsDescribed: each field has one descriptor, which finds this field and no other.
func TestEveryReadingIsDescribed(t *testing.T) {
	described := map[string]int{}
	for _, d := range snapshot.Descriptors() {
		described[d.Name]++
		if d.Help == "" || strings.HasSuffix(d.Help, ".") || len(d.Elements) == 0 || d.High <= d.Low {
			t.Errorf("%s is not described in full: %+v", d.Name, d)
		}
		if d.Unit != "" && !strings.Contains(d.Name, map[string]string{"megahertz": "mhz"}[d.Unit]) {
			t.Errorf("%s is in %s", d.Name, d.Unit)
		}

		var r snapshot.Readings
		if _, known := d.Of(&r); known {
			t.Errorf("%s is known at first", d.Name)
		}
		d.Set(&r, 7)
		value, known := d.Of(&r)
		if got := fieldsKnown(r); len(got) != 1 || got[0] != d.Name || !known || value != 7 {
			t.Errorf("after %s is set to 7 it is %v, and %q are known", d.Name, value, got)
		}
		r.ClearLive()
		if _, known := d.Of(&r); known != d.Constant {
			t.Errorf("%s, constant %v, is known (%v) after the live ones are cleared", d.Name, d.Constant, known)
		}
	}
	for i := range reflect.TypeFor[snapshot.Readings]().NumField() {
		name := reflect.TypeFor[snapshot.Readings]().Field(i).Tag.Get("json")
		if described[name] != 1 {
			t.Errorf("%s is described %d times", name, described[name])
		}
	}
}

// fieldsKnown returns the names of the readings that are not nil.
func fieldsKnown(r snapshot.Readings) (names []string) {
	v := reflect.ValueOf(r)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			names = append(names, v.Type().Field(i).Tag.Get("json"))
		}
	}
	return names
}

// TestWholeReadingsAreRounded: 29.6 % are 30 %.
func TestWholeReadingsAreRounded(t *testing.T) {
	for _, d := range snapshot.Descriptors() {
		var r snapshot.Readings
		d.Set(&r, 29.6)
		if value, _ := d.Of(&r); value != 30 && !d.Decimals || value != 29.6 && d.Decimals {
			t.Errorf("%s is %v", d.Name, value)
		}
	}
}
