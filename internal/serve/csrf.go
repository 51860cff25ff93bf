package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A guard keeps other sites from booking in the name of somebody who happens to
// be logged in here. Three things have to be right, each of which would do:
// the browser says that the form comes from this site, it sends a cookie that
// other sites' forms never carry, and the form holds a token that belongs to
// that cookie and to that person.
type guard struct {
	key []byte // of this process: a restart makes forms old, and they are shown anew
}

const (
	cookieName  = "gpuboard-form"
	cookieBytes = 18
)

func newGuard() (*guard, error) {
	g := &guard{key: make([]byte, 32)}
	if _, err := rand.Read(g.key); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return g, nil
}

// token is what the form of this person has to hold, and sets the cookie that
// it belongs to where there is none.
func (g *guard) token(w http.ResponseWriter, r *http.Request, user string, secure bool) string {
	session := session(r)
	if session == "" {
		b := make([]byte, cookieBytes)
		_, _ = rand.Read(b) // never fails
		session = base64.RawURLEncoding.EncodeToString(b)
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: session, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
		})
	}
	return g.sign(session, user)
}

func (g *guard) sign(session, user string) string {
	mac := hmac.New(sha256.New, g.key)
	fmt.Fprintf(mac, "%s %s", session, user)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// session is the value of the cookie, "" when there is none of ours.
func session(r *http.Request) string {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	if b, err := base64.RawURLEncoding.DecodeString(c.Value); err != nil || len(b) != cookieBytes {
		return ""
	}
	return c.Value
}

// holds reports whether a form that was sent holds the token.
func (g *guard) holds(r *http.Request, user, token string) bool {
	s := session(r)
	return s != "" && hmac.Equal([]byte(token), []byte(g.sign(s, user)))
}

// ownForm reports whether the browser says that the form was one of this site.
// Every browser sends one of the two headers with a form.
func ownForm(r *http.Request, hosts ...string) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return r.Header.Get("Sec-Fetch-Site") == "same-origin"
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	for _, host := range append(hosts, r.Host) {
		if host != "" && strings.EqualFold(u.Host, host) {
			return true
		}
	}
	return false
}
