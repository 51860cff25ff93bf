package snapshot

import (
	"regexp"
	"strings"
	"sync"
)

// shapes are what the texts of a node look like, except the names that people and programs
// give. A text of another shape becomes unknown, so no page shows a sentence that a node made up.
var shapes = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"address":        regexp.MustCompile(`^[0-9A-Fa-f.:]{2,45}(/[0-9]{1,3})?$`),
		"container":      regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_.-]{0,62}$`),
		"container name": regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_.-]{0,127}$`),
		"collector":      regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+~-]{0,63}$`),
		"fabric":         regexp.MustCompile(`^[A-Za-z][A-Za-z ]{0,31}$`),
		"interface":      regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._@:-]{0,31}$`),
		// Of LDAP and Active Directory, too: ada.l, gpu01$, LAB\ada, ada@lab.example, LAB+ada. "+" ends one that
		// ps has cut.
		"login": regexp.MustCompile(`^[\pL\pN_][\pL\pM\pN_.@\\+-]{0,126}\$?$`),
		// namespace/name, or the uid of a pod.
		"pod":          regexp.MustCompile(`^([0-9a-z][0-9a-z-]{0,62}/)?[0-9a-z][0-9a-z.-]{0,252}$`),
		"job":          regexp.MustCompile(`^[0-9]{1,10}$`),
		"unit":         regexp.MustCompile(`^[0-9A-Za-z:_.\\@-]{1,100}\.service$`),
		"source":       regexp.MustCompile(`^[a-z]{1,16}$`),
		"kernel":       regexp.MustCompile(`^[0-9][0-9A-Za-z._+~-]{0,63}$`),
		"mig_mode":     regexp.MustCompile(`^(enabled|disabled)$`),
		"name":         regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z ,()/+_-]{0,63}$`),
		"os":           regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z ()/.,+_:-]{0,95}$`),
		"pci_bus_id":   regexp.MustCompile(`^([0-9A-Fa-f]{1,8}:)?[0-9A-Fa-f]{2,4}:[0-9A-Fa-f]{2}\.[0-7]$`),
		"process type": regexp.MustCompile(`^(C|G|C\+G|M|M\+C|\?)$`),
		"profile":      regexp.MustCompile(`^([0-9]c\.)?[0-9]{1,2}g\.[0-9]{1,4}gb([+-](me|gfx|all|me\.all))*$`),
		"pstate":       regexp.MustCompile(`^P[0-9]{1,2}$`),
		"reason":       regexp.MustCompile(`^[\[0-9A-Za-z][0-9A-Za-z .,:;!'()\[\]/%+_…-]{0,127}$`),
		"throttle reason": regexp.MustCompile(`^(gpu_idle|(applications|display)_clocks?_setting|sync_boost|unknown|sw_power_cap|` +
			`hw_slowdown|hw_power_brake_slowdown|(hw|sw)_thermal_slowdown)$`),
		"uuid":    regexp.MustCompile(`^(GPU-|MIG-|MIG-GPU-)?[0-9A-Fa-f-]{1,40}(/[0-9]{1,3}/[0-9]{1,3})?$`),
		"version": regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,6}){0,3}([-+~][0-9A-Za-z.]{1,24})?$`),
	}
})

// Fits reports whether a text of a node looks like what it is, by the name of the shape.
func Fits(shape, s string) bool { return shapes()[shape].MatchString(s) }

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
