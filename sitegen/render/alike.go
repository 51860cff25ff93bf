package render

import (
	"reflect"
	"time"
	"unsafe"
)

// alike compares values of one type as deeply as reflect.DeepEqual does, which
// took a tenth of a generation in which nothing happens. What there is to
// compare is settled once for the type, and what lies at the same address, as
// nearly everything does of a host without news, is not looked into.
//
// Where it differs from reflect.DeepEqual it says so of more: times in different
// zones, though they may be the same instant, and 0 and -0. A number that is none
// is like itself.
type alike[T any] struct{ compare comparer }

// A comparer compares two values of one type by their addresses.
type comparer func(a, b unsafe.Pointer) bool

func newAlike[T any]() alike[T] {
	return alike[T]{comparerOf(reflect.TypeFor[T](), map[reflect.Type]*comparer{})}
}

func (c alike[T]) same(a, b *T) bool { return c.compare(unsafe.Pointer(a), unsafe.Pointer(b)) }

// lists compares two lists.
func (c alike[T]) lists(a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !c.same(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func comparerOf(t reflect.Type, made map[reflect.Type]*comparer) comparer {
	if c := made[t]; c != nil {
		return func(a, b unsafe.Pointer) bool { return (*c)(a, b) } // a type that leads to itself
	}
	c := new(comparer)
	made[t] = c
	*c = makeComparer(t, made)
	return *c
}

func makeComparer(t reflect.Type, made map[reflect.Type]*comparer) comparer {
	if t == reflect.TypeFor[time.Time]() {
		return plain[time.Time]
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return plain[uint8]
	case reflect.Int16, reflect.Uint16:
		return plain[uint16]
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		return plain[uint32]
	case reflect.Int64, reflect.Uint64, reflect.Float64:
		return plain[uint64]
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		return plain[uint]
	case reflect.String:
		return plain[string]
	case reflect.Pointer:
		elem := comparerOf(t.Elem(), made)
		return func(a, b unsafe.Pointer) bool {
			x, y := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
			return x == y || x != nil && y != nil && elem(x, y)
		}
	case reflect.Slice:
		return compareLists(t.Elem().Size(), comparerOf(t.Elem(), made))
	case reflect.Struct:
		return compareFields(t, made)
	}
	return func(a, b unsafe.Pointer) bool {
		return reflect.DeepEqual(reflect.NewAt(t, a).Elem().Interface(), reflect.NewAt(t, b).Elem().Interface())
	}
}

func plain[T comparable](a, b unsafe.Pointer) bool { return *(*T)(a) == *(*T)(b) }

func compareLists(size uintptr, elem comparer) comparer {
	return func(a, b unsafe.Pointer) bool {
		// Where a list lies and how long it is, whatever it is of.
		x, y := *(*[]struct{})(a), *(*[]struct{})(b)
		if len(x) != len(y) {
			return false
		}
		p, q := unsafe.Pointer(unsafe.SliceData(x)), unsafe.Pointer(unsafe.SliceData(y))
		if p == q {
			return true
		}
		if p == nil || q == nil {
			return false // a list that is empty is not one that is not there
		}
		for i := range x {
			if !elem(unsafe.Add(p, uintptr(i)*size), unsafe.Add(q, uintptr(i)*size)) {
				return false
			}
		}
		return true
	}
}

func compareFields(t reflect.Type, made map[reflect.Type]*comparer) comparer {
	type field struct {
		at   uintptr
		same comparer
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		fields = append(fields, field{f.Offset, comparerOf(f.Type, made)})
	}
	return func(a, b unsafe.Pointer) bool {
		for i := range fields {
			if f := &fields[i]; !f.same(unsafe.Add(a, f.at), unsafe.Add(b, f.at)) {
				return false
			}
		}
		return true
	}
}
