package sshclient

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Parse reads user@host:port, of which host alone has to be there.
func Parse(s string) (user, host string, port int, err error) {
	u, err := url.Parse("ssh://" + s)
	if err != nil {
		return "", "", 0, errors.New(strings.TrimPrefix(err.Error(), "parse "))
	}
	if u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", "", 0, fmt.Errorf("%q is more than a host", s)
	}
	return Login(u)
}

// Login returns who logs in where, by the address of a server.
func Login(u *url.URL) (user, host string, port int, err error) {
	host = u.Hostname()
	if u.User != nil {
		if _, has := u.User.Password(); has {
			return "", "", 0, errors.New("a password in a target would be seen by everyone who lists processes")
		}
		user = u.User.Username()
		if user == "" || strings.HasPrefix(user, "-") || strings.ContainsAny(user, " \t\r\n") {
			return "", "", 0, fmt.Errorf("%q is not a user name", user)
		}
	}
	// A leading hyphen would be read as an option by ssh -G.
	if host == "" || strings.HasPrefix(host, "-") || strings.ContainsAny(host, " \t\r\n/'\"`$\\;&<>|(){}") {
		return "", "", 0, fmt.Errorf("%q is not a host name, an address or an alias", host)
	}
	if strings.Contains(host, ":") {
		if addr, err := netip.ParseAddr(host); err != nil || addr.Zone() != "" || !strings.HasPrefix(u.Host, "[") {
			return "", "", 0, fmt.Errorf("%q is not an address; write an IPv6 address in brackets", host)
		}
	}
	if p := u.Port(); p != "" {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 65535 {
			return "", "", 0, fmt.Errorf("%q is not a port from 1 to 65535", p)
		}
		port = n
	} else if strings.HasSuffix(u.Host, ":") {
		return "", "", 0, errors.New("a colon with no port behind it")
	}
	return user, host, port, nil
}
