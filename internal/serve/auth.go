package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Auth identifies people: by name and password, or by the header of a trusted proxy.
type Auth struct {
	AuthOptions
	passwords *passwords // nil for none
	failures  *limiter   // of addresses
	names     *limiter   // of names
}

// AuthOptions need Passwords or Header.
type AuthOptions struct {
	// Passwords is a file of htpasswd with bcrypt.
	Passwords string
	// Header is the header in which a proxy sends the name, such as X-Remote-User.
	Header string
	// Proxies are the addresses whose Header and X-Forwarded-For are believed.
	Proxies []netip.Prefix
	Now     func() time.Time
	Log     *slog.Logger
}

// An address may be wrong so often at once, and then again after each pause. A
// name may be three times as often, so that one address cannot keep somebody out
// who comes from another.
const (
	loginBurst = 10
	loginPause = 10 * time.Second
	nameBurst  = 3 * loginBurst
	namePause  = loginPause / 3
	// loginWait is how long a login waits for others.
	loginWait = 10 * time.Second
)

// NewAuth reads the password file. Lines that cannot be used are an error.
func NewAuth(o AuthOptions) (*Auth, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	a := &Auth{AuthOptions: o, failures: newLimiter(o.Now, loginBurst, loginPause),
		names: newLimiter(o.Now, nameBurst, namePause)}
	if o.Passwords == "" && o.Header == "" {
		return nil, fmt.Errorf("setting up the login: there is neither a password file nor the header of a proxy")
	}
	if o.Passwords != "" {
		var err error
		if a.passwords, err = openPasswords(o.Passwords, o.Log); err != nil {
			return nil, fmt.Errorf("setting up the login: %w", err)
		}
	}
	return a, nil
}

// ParseProxies reads addresses and networks: "127.0.0.1", "10.0.0.0/8", "::1".
func ParseProxies(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
			p, err = addr.Unmap().Prefix(addr.Unmap().BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// A denial is why somebody is not let in.
type denial struct {
	status int
	text   string
	wait   time.Duration // before another try
}

func (d *denial) send(w http.ResponseWriter) {
	if d.wait > 0 {
		later(w, d.wait)
	}
	if d.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="gpuboard", charset="UTF-8"`)
	}
	http.Error(w, d.text, d.status)
}

// who identifies a request. "" means that the request was answered with a refusal.
func (a *Auth) who(w http.ResponseWriter, r *http.Request) string {
	name, no := a.identify(r)
	if no != nil {
		no.send(w)
	}
	return name
}

// identify says who made a request, or why nobody is let in by it.
func (a *Auth) identify(r *http.Request) (string, *denial) {
	remote, proxied := a.peer(r)
	if values := r.Header.Values(a.Header); a.Header != "" && len(values) > 0 {
		switch {
		case !proxied:
			// Somebody talks past the proxy. They may still have a password.
			a.Log.Warn("a name from an address that is not trusted", "address", remote, "header", a.Header)
		case len(values) == 1 && goodName(values[0]):
			return values[0], nil
		default:
			return "", &denial{status: http.StatusForbidden, text: "the proxy does not say clearly who you are"}
		}
	}
	if a.passwords == nil {
		return "", &denial{status: http.StatusForbidden,
			text: "you have to come through the proxy that knows who you are"}
	}
	return a.login(r)
}

// login checks name and password.
func (a *Auth) login(r *http.Request) (string, *denial) {
	denied := &denial{status: http.StatusUnauthorized, text: "a name and a password are needed here"}
	name, password, _ := r.BasicAuth()
	if !goodName(name) {
		return "", denied
	}
	c, before := a.passwords.find(name, password)
	if before {
		return name, nil
	}
	// Counted before it is tried, so that a thousand at once are not let in.
	address := addressKey(a.client(r))
	wait := a.failures.take(address)
	if wait == 0 {
		if wait = a.names.take(name); wait > 0 {
			a.failures.giveBack(address)
		}
	}
	if wait > 0 {
		return "", &denial{http.StatusTooManyRequests, "too many wrong passwords: wait a little", wait}
	}
	ctx, cancel := context.WithTimeout(r.Context(), loginWait)
	defer cancel()
	right, err := a.passwords.matches(ctx, c, password, address)
	if right || err != nil {
		a.failures.giveBack(address)
		a.names.giveBack(name)
	}
	switch {
	case err != nil:
		return "", &denial{http.StatusServiceUnavailable, "too many logins at once: try again", loginWait}
	case right:
		return name, nil
	}
	a.Log.Warn("a wrong password", "address", a.client(r), "name", name)
	return "", denied
}

func later(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
}

// peer is the address that a request came from, and whether it is a trusted proxy.
func (a *Auth) peer(r *http.Request) (netip.Addr, bool) {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	addr := at.Addr().Unmap().WithZone("")
	return addr, a.trusted(addr)
}

func (a *Auth) trusted(addr netip.Addr) bool {
	return slices.ContainsFunc(a.Proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// client is the address of the connection, or the one that the last trusted proxy saw.
func (a *Auth) client(r *http.Request) netip.Addr {
	addr, proxied := a.peer(r)
	if !proxied {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop.Unmap().WithZone("")
		if !a.trusted(addr) {
			break
		}
	}
	return addr
}
