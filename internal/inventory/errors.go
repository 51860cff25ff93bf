package inventory

import (
	"net/http"
	"strings"
)

// A fileError is about a token or TLS file that cannot be read.
type fileError struct {
	err  error
	name string
}

func (e *fileError) Error() string   { return e.err.Error() }
func (e *fileError) Unwrap() error   { return e.err }
func (e *fileError) Temporary() bool { return true }

// Hint says what to look at next.
func (e *fileError) Hint() string { return "look at: namei -l " + strings.TrimSpace(e.name) }

// Temporary reports whether a retry may succeed: always, unless Consul itself refused
// the request.
func (e *consulError) Temporary() bool {
	return !e.refused() && !isStatus(e.err, http.StatusBadRequest)
}

// Hint says what to look at next.
func (e *consulError) Hint() string {
	switch {
	case e.refused():
		return "the token may not do that: deploy/consul has the policies, and CONSUL_HTTP_TOKEN_FILE names the file that " +
			"holds the token"
	case isStatus(e.err, http.StatusBadRequest):
		return ""
	}
	return "does the Consul agent run, and does CONSUL_HTTP_ADDR say where? (127.0.0.1:8500 unless it is set)"
}

func (e *consulError) refused() bool {
	return isStatus(e.err, http.StatusForbidden) || isStatus(e.err, http.StatusUnauthorized)
}
