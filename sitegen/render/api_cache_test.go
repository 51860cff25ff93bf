package render

import (
	"reflect"
	"testing"
	"time"
)

// nudges calls f once for each value that can be reached from v, while that
// value is changed.
func nudges(v reflect.Value, path string, f func(path string)) {
	if at, ok := v.Interface().(time.Time); ok {
		v.Set(reflect.ValueOf(at.Add(time.Hour)))
		f(path)
		v.Set(reflect.ValueOf(at))
		return
	}
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	changed := func() { f(path); v.Set(old) }
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
		changed()
	case reflect.Bool:
		v.SetBool(!v.Bool())
		changed()
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + int64(time.Minute))
		changed()
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
		changed()
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
		changed()
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			changed()
			return
		}
		nudges(v.Elem(), path, f)
		v.Set(reflect.Zero(v.Type()))
		changed()
	case reflect.Slice:
		if v.Len() > 0 {
			nudges(v.Index(0), path+"[0]", f)
			v.Set(v.Slice(0, v.Len()-1))
			changed()
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				nudges(v.Field(i), path+"."+v.Type().Field(i).Name, f)
			}
		}
	}
}

// Whatever changes in a host, its files with a cache are those without one.
func TestDataCacheChangesNothing(t *testing.T) {
	zone := testFleet().Site.Zone
	fleet := func() Input {
		in := testFleet()
		in.Site.Zone = zone // a generator has the same one all its life
		return in
	}
	in := fleet()
	cache := &Cache{}
	files := func(in Input) []File {
		out, err := Data(in)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	in.Cache = cache
	files(in)
	first := cache.data
	in = fleet()
	in.Cache = cache
	files(in)
	for name, d := range cache.data {
		if d != first[name] {
			t.Errorf("%s was encoded again, and nothing is new there", name)
		}
	}
	in = fleet()
	seen := 0
	check := func(path string) {
		seen++
		cached := in
		cached.Cache = cache
		got, want := files(cached), files(in)
		for i := range want {
			if string(got[i].Bytes()) != string(want[i].Bytes()) {
				t.Fatalf("after a change of %s, %s is another with a cache: %s", path, want[i].Path, firstDifference(string(want[i].Bytes()), string(got[i].Bytes())))
			}
		}
	}
	check("nothing")
	// A new board each time: what the cache keeps belongs to the one before.
	for target, found := 0, true; found; target++ {
		in, found, cache = fleet(), false, &Cache{}
		in.Cache = cache
		files(in) // the cache is of what it was before
		in = fleet()
		n := 0
		nudges(reflect.ValueOf(&in.Board.Hosts[0]).Elem(), in.Board.Hosts[0].Name, func(path string) {
			if found = found || n == target; n == target {
				check(path)
			}
			n++
		})
	}
	if seen < 100 {
		t.Errorf("only %d values were changed", seen)
	}
	in = fleet()
	check("nothing")
	in.Site.Zone = time.FixedZone("there", 3600)
	check("the zone")
	in = fleet()
	check("nothing")
	kept := cache.data["dione"]
	in.Board.GeneratedAt = in.Board.GeneratedAt.Add(time.Minute)
	check("the time of the generation")
	if kept == nil || cache.data["dione"] != kept {
		t.Error("a host without news was encoded again")
	}
}

// As time goes on, what is kept of a host is told only as long as it would be
// told again: idle times grow, days end, and "Mon 15:04" becomes a date.
func TestDataCacheAsTimeGoesOn(t *testing.T) {
	zone := testFleet().Site.Zone
	cache := &Cache{}
	passed := time.Duration(0)
	for step, wait := range []time.Duration{
		0, time.Second, time.Second, 400 * time.Millisecond, 200 * time.Millisecond, 20 * time.Second, time.Minute, 59 * time.Second, 25 * time.Minute,
		time.Hour, 6 * time.Hour, 13 * time.Hour, 24 * time.Hour, 5 * 24 * time.Hour, 24 * time.Hour, 23 * time.Hour, time.Hour, -time.Minute, 40 * 24 * time.Hour,
	} {
		passed += wait
		in := testFleet()
		in.Site.Zone = zone
		in.Board.GeneratedAt = in.Board.GeneratedAt.Add(passed)
		want, err := Data(in)
		if err != nil {
			t.Fatal(err)
		}
		in.Cache = cache
		got, err := Data(in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if string(got[i].Bytes()) != string(want[i].Bytes()) {
				t.Errorf("step %d, after %s: %s is another with a cache: %s", step, passed, want[i].Path, firstDifference(string(want[i].Bytes()), string(got[i].Bytes())))
			}
		}
	}
}
