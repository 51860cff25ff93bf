package snapshot

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// shapes are what the texts of a node look like, except the names that people and programs
// give. A text of another shape becomes unknown, so no page shows a sentence that a node made up.
var shapes = sync.OnceValue(func() map[string]shape {
	return map[string]shape{
		"address":        looks(64, `^[0-9A-Fa-f.:]{2,45}(/[0-9]{1,3})?$`),
		"container":      looks(63, `^[0-9A-Za-z][0-9A-Za-z_.-]*$`),
		"container name": looks(128, `^[0-9A-Za-z][0-9A-Za-z_.-]*$`),
		"collector":      looks(64, `^[0-9A-Za-z][0-9A-Za-z.+~-]*$`),
		"fabric":         looks(32, `^[A-Za-z][A-Za-z ]*$`),
		"interface":      looks(32, `^[0-9A-Za-z][0-9A-Za-z._@:-]*$`),
		// Of LDAP and Active Directory, too: ada.l, gpu01$, LAB\ada, ada@lab.example, LAB+ada. "+" ends one that
		// ps has cut.
		"login": looks(128, `^[\pL\pN_][\pL\pM\pN_.@\\+-]*\$?$`),
		// namespace/name, or the uid of a pod.
		"pod":          looks(317, `^([0-9a-z][0-9a-z-]*/)?[0-9a-z][0-9a-z.-]*$`),
		"job":          looks(64, `^[0-9]{1,10}$`),
		"unit":         looks(108, `^[0-9A-Za-z:_.\\@-]+\.service$`),
		"source":       looks(64, `^[a-z]{1,16}$`),
		"kernel":       looks(64, `^[0-9][0-9A-Za-z._+~-]*$`),
		"mig_mode":     looks(64, `^(enabled|disabled)$`),
		"name":         looks(64, `^[0-9A-Za-z][0-9A-Za-z ,()/+_-]*$`),
		"os":           looks(96, `^[0-9A-Za-z][0-9A-Za-z ()/.,+_:-]*$`),
		"pci_bus_id":   looks(64, `^([0-9A-Fa-f]{1,8}:)?[0-9A-Fa-f]{2,4}:[0-9A-Fa-f]{2}\.[0-7]$`),
		"process type": looks(64, `^(C|G|C\+G|M|M\+C|\?)$`),
		"profile": looks(64,
			`^([0-9]c\.)?[0-9]{1,2}g\.[0-9]{1,4}gb([+-](me|gfx|all|me\.all))*$|^[SDTQC]PX( NPS[1248])?$`),
		"pstate": looks(64, `^P[0-9]{1,2}$`),
		"reason": looks(128, `^[\[0-9A-Za-z][0-9A-Za-z .,:;!'()\[\]/%+_…-]*$`),
		"throttle reason": looks(64,
			`^(gpu_idle|(applications|display)_clocks?_setting|sync_boost|unknown|sw_power_cap|`+
				`hw_slowdown|hw_power_brake_slowdown|(hw|sw)_thermal_slowdown)$`),
		"uuid":    looks(64, `^(GPU-|MIG-|MIG-GPU-)?[0-9A-Fa-f-]{1,40}(/[0-9]{1,3}/[0-9]{1,3})?$`),
		"vendor":  looks(16, `^[a-z]+$`),
		"tool":    looks(32, `^[a-z][a-z-]*$`),
		"version": looks(64, `^[0-9]{1,4}(\.[0-9]{1,6}){0,3}([-+~][0-9A-Za-z.]{1,24})?$`),
	}
})

// A shape is how long a text may be, in characters, and what it looks like. The pattern does not bound the length: a
// bounded repetition of many kinds of characters takes megabytes.
type shape struct {
	most    int
	pattern *regexp.Regexp
}

func looks(most int, pattern string) shape { return shape{most, regexp.MustCompile(pattern)} }

// Shaped is a text of this shape, and "" for any other.
func Shaped(kind, s string) string {
	if Fits(kind, s) {
		return s
	}
	return ""
}

// Fits reports whether a text of a node looks like what it is, by the name of its shape.
func Fits(kind, s string) bool {
	looks, known := shapes()[kind]
	return known && utf8.RuneCountInString(s) <= looks.most && looks.pattern.MatchString(s)
}

// Pattern is a regular expression that is compiled at its first use: most commands need few of them.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// BusID is one spelling of a PCI address: some drivers write the domain in four digits and others in
// eight, in upper or lower case.
func BusID(address string) string {
	address = strings.ToLower(strings.TrimSpace(address))
	domain, _, found := strings.Cut(address, ":")
	if !found || len(domain) >= 8 {
		return address
	}
	return strings.Repeat("0", 8-len(domain)) + address
}

// shape makes a text unknown that does not look like what it is, and reports the first of each kind.
func (v *validator) shape(s *string, kind string) bool {
	if *s == "" || Fits(kind, *s) {
		return true
	}
	if !v.odd[kind] {
		v.odd[kind] = true
		v.add(BadRange, "%s is %s", kind, quote(*s))
	}
	*s = ""
	return false
}

// quote quotes the words of a node. They cannot end the quotation.
func quote(words string) string {
	return `"` + strings.ReplaceAll(Text(words, MaxTextBytes-MaxNameBytes), `"`, "'") + `"`
}
