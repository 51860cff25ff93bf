package publisher

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"gpuboard/internal/objectstore"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/sshclient"
)

// Target is where a host's files go.
type Target struct {
	Scheme string // "sftp", "s3" or "file"
	User   string // sftp only; empty: what ssh would use
	Host   string // for sftp a host name, an address, or an alias of ssh_config; for s3 the bucket
	Port   int    // sftp only; 0: what ssh would use
	// Dir is, for sftp, the drop directory of this host on the server; empty means
	// the directory in which the server starts the session. For file it is the data
	// directory, below which drop/<host>/ is created, and for s3 a prefix.
	Dir string
}

// ParseTarget reads sftp://user@host:port/dir, sftp://alias/dir, s3://bucket/prefix or file:///dir.
// An sftp path is absolute on the server, except that an empty path, "/" and
// "/~/dir" are relative to where the server starts the session. The error is an
// [*Error] with the code "publish:target" and a hint with the corrected form.
func ParseTarget(s string) (Target, error) {
	bad := func(hint, format string, args ...any) (Target, error) {
		return Target{}, sshclient.Permanent(CodeTarget, hint, "reading target %s: %w",
			strconv.QuoteToASCII(snapshot.Clip(s, 200)), fmt.Errorf(format, args...))
	}
	const forms = "write sftp://user@host:port/dir, sftp://alias/dir, s3://bucket/prefix or file:///dir"
	if len(s) > 2048 {
		return bad(forms, "it is %d bytes long, and 2048 is the most", len(s))
	}
	if !strings.Contains(s, "://") {
		if strings.HasPrefix(s, "/") {
			return bad("write file://"+s, "it has no scheme")
		}
		host, dir, ok := strings.Cut(s, ":")
		switch {
		case (host == "sftp" || host == "s3") && strings.Trim(dir, "/") != "":
			return bad("write "+host+"://"+strings.TrimLeft(dir, "/"), "two slashes follow %s:", host)
		case host == "file" && strings.Trim(dir, "/") != "":
			return bad("write file:///"+strings.TrimLeft(dir, "/"), "three slashes follow file:")
		case ok && dir != "" && strings.Trim(dir, "0123456789/") == "" && dir[0] != '/': // a port, and no directory
			return bad("write sftp://"+host+":"+strings.TrimRight(dir, "/")+"/", "it has no scheme")
		case host != "":
			return bad("write sftp://"+host+"/"+strings.TrimPrefix(dir, "/"), "it has no scheme")
		}
		return bad(forms, "it has no scheme")
	}
	u, err := url.Parse(s)
	if err != nil {
		return bad(forms, "%s", strings.TrimPrefix(err.Error(), "parse "))
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return bad(forms, "a target has no ?query and no #fragment")
	}
	if strings.ContainsFunc(u.Path, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return bad(forms, "its path holds a control character")
	}
	switch u.Scheme {
	case "file":
		switch {
		case u.Host != "" && u.Host != "localhost" || u.User != nil:
			return bad("write three slashes: file:///"+strings.TrimPrefix(u.Host+u.Path, "/"),
				"a file target names no host")
		case u.Path == "":
			return bad("write file:///dir", "it names no directory")
		}
		return Target{Scheme: "file", Dir: filepath.Clean(u.Path)}, nil
	case "s3":
		bucket, prefix, err := objectstore.Parse(s)
		if err != nil {
			return bad("write s3://bucket/prefix", "%w", err)
		}
		return Target{Scheme: "s3", Host: bucket, Dir: prefix}, nil
	case "sftp":
	default:
		return bad(forms, "scheme %q is none of sftp, s3 and file", u.Scheme)
	}
	t := Target{Scheme: "sftp"}
	if t.User, t.Host, t.Port, err = sshclient.Login(u); err != nil {
		hint := forms
		if _, has := u.User.Password(); has {
			hint = "leave the password out and use a key (--identity FILE)"
		}
		return bad(hint, "%w", err)
	}
	t.Dir = path.Clean("/" + u.Path)
	if relative, ok := strings.CutPrefix(u.Path+"/", "/~/"); ok {
		t.Dir = path.Clean(strings.TrimLeft(relative, "/"))
	}
	if t.Dir == "/" || t.Dir == "." {
		t.Dir = ""
	}
	return t, nil
}

// String is the target as a URL that [ParseTarget] reads back.
func (t Target) String() string {
	u := url.URL{Scheme: t.Scheme, Host: t.Host, Path: t.Dir}
	switch {
	case t.Scheme == "s3":
		u.Path = "/" + t.Dir
	case t.Scheme == "sftp" && t.Dir != "" && !strings.HasPrefix(t.Dir, "/"):
		u.Path = "/~/" + t.Dir
	}
	if strings.Contains(t.Host, ":") {
		u.Host = "[" + t.Host + "]"
	}
	if t.Port != 0 {
		u.Host = net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	}
	if t.User != "" {
		u.User = url.User(t.User)
	}
	return u.String()
}

// in joins a file name to the drop directory on the server. A relative name costs
// no round trip: the server resolves it where the session starts.
func (t Target) in(name string) string { return path.Join(t.Dir, name) }
