// Package serve is the built-in web server: the site as any web server would
// show it, with the views that a query string asks for.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/sitegen/render"
)

// Options are what a Server needs to know.
type Options struct {
	Site string
	// Log gets failed requests, bookings and logins.
	Log *slog.Logger
	// Auth knows people; nil when nobody has to say who they are.
	Auth *Auth
	// Private asks for a login before anything is shown.
	Private bool
	// Booking makes the form below book/ work; nil for a site that is only read.
	Booking *BookingOptions
}

// policy is the site's Content-Security-Policy as a header, which can also forbid frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// bookPolicy is that of the booking form, which alone is sent.
var bookPolicy = strings.Replace(policy, "form-action 'none'", "form-action 'self'", 1)

// Handler serves the site. Directories show their index.html and are never
// listed; names that begin with a dot, symlinks that lead out of the site, and
// what is not a regular file do not exist.
func Handler(o Options) (http.Handler, error) {
	root, err := os.OpenRoot(o.Site)
	if err != nil {
		return nil, fmt.Errorf("opening the site: %w", err)
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &server{Options: o, root: root}
	if o.Auth == nil && (o.Private || o.Booking != nil) {
		return nil, errors.Join(errors.New("setting up the server: nobody can log in"), root.Close())
	}
	if o.Booking != nil {
		s.form = newBookingForm(*o.Booking, s)
	}
	return s, nil
}

// Run serves on a listener until the context ends, then lets requests that are
// under way finish for a moment.
func Run(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		err := srv.Shutdown(grace)
		if errors.Is(err, context.DeadlineExceeded) {
			err = srv.Close() // somebody reads slowly; they have had their time
		}
		stopped <- err
	})
	err := srv.Serve(l)
	if errors.Is(err, http.ErrServerClosed) && !stop() {
		return <-stopped
	}
	return fmt.Errorf("serving: %w", err)
}

type server struct {
	Options
	root *os.Root
	form *bookingForm // nil for none
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if s.Private && s.Auth.who(w, r) == "" {
		return
	}
	name := path.Clean("/" + r.URL.Path)[1:]
	if below, ok := strings.CutPrefix(name+"/", "book/"); ok && s.form != nil {
		if r.URL.Path == "/book" {
			h.Set("Location", "book/")
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		s.form.serve(w, r, strings.TrimSuffix(below, "/"))
		return
	}
	if r.Method == http.MethodPost && name == path.Dir(monitorStatus) {
		if f, _, err := s.open(monitorStatus); err == nil {
			f.Close()
			s.file(w, r, monitorStatus)
			return
		}
	}
	if !allowed(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	if strings.Contains("/"+name, "/.") {
		http.NotFound(w, r)
		return
	}
	name = cmp.Or(name, ".")
	if info, err := s.root.Stat(name); err == nil && info.IsDir() {
		if !strings.HasSuffix(r.URL.Path, "/") {
			// Relative, so that it holds behind any proxy and under any path.
			target := path.Base(r.URL.Path) + "/"
			if r.URL.RawQuery != "" {
				target += "?" + r.URL.RawQuery
			}
			h.Set("Location", target)
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		name = s.index(name, r)
	}
	if s.states(w, r, name) {
		return
	}
	s.file(w, r, name)
}

// allowed reports whether a request has one of these methods, and answers it if not.
func allowed(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	if slices.Contains(methods, r.Method) {
		return true
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	return false
}

// index is the file that a directory shows: the first of its views that is there.
func (s *server) index(dir string, r *http.Request) string {
	views := view(dir, r)
	for _, name := range views {
		if info, err := s.root.Stat(name); err == nil && info.Mode().IsRegular() {
			return name
		}
	}
	return views[len(views)-1]
}

// view lists the files that a directory may show, best first. curl gets the text without
// asking, but not under states/, where programs expect JSON.
func view(dir string, r *http.Request) []string {
	views := []string{path.Join(dir, "index.html"), path.Join(dir, "index.json")}
	q := r.URL.Query()
	asked := isTrue(q.Get("term"))
	curl := !q.Has("term") && strings.HasPrefix(r.UserAgent(), "curl/")
	parent, host := path.Split(dir)
	switch {
	case dir == "." && (asked || curl) && isTrue(q.Get("detail")):
		return append([]string{"detail.txt"}, views...)
	case dir == "." && (asked || curl) && isTrue(q.Get("ansi")):
		return append([]string{"status.ansi"}, views...)
	case dir == "." && (asked || curl):
		return append([]string{"status.txt"}, views...)
	case parent == "hosts/" && (asked || curl), parent == "states/" && asked:
		return append([]string{"hosts/" + host + "/status.txt"}, views...)
	}
	return views
}

// isTrue reads a switch of a query: "false" and "0" mean no.
func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}

// file sends one file, compressed if the client takes that and the twin is there.
func (s *server) file(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	h.Set("Vary", "Accept-Encoding, User-Agent")
	contentType := render.ContentType(name)
	if contentType == "" { // nothing of a site
		s.missing(w, r, path.Ext(name) == "")
		return
	}
	h.Set("Content-Type", contentType)

	sent := name
	f, info, err := s.open(name)
	if err == nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && r.Header.Get("Range") == "" {
		if twin, twinInfo, err := s.open(name + ".gz"); err == nil {
			f.Close()
			f, info, sent = twin, twinInfo, name+".gz"
			h.Set("Content-Encoding", "gzip")
		}
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.Log.Error("serving a file", "file", name, "error", err)
		}
		if r.URL.Path == "/" {
			h.Set("Refresh", "5")
			http.Error(w,
				"There are no pages yet. They are here when gpuboard generate has run once; this page then loads by itself.", http.StatusServiceUnavailable)
			return
		}
		h.Set("Cache-Control", "no-cache") // what is missing now may be there in a second
		s.missing(w, r, path.Ext(name) == ".html")
		return
	}
	defer f.Close()
	// Two generations can share second and size: the nanoseconds tell them apart.
	h.Set("ETag",
		fmt.Sprintf(`"%x-%x%s"`, info.ModTime().UnixNano(), info.Size(),
			strings.TrimPrefix(path.Ext(sent), path.Ext(name))))
	http.ServeContent(w, r, "", time.Time{}, f)
}

// missing says that there is no such file: with the site's page for that where somebody asks for a page.
func (s *server) missing(w http.ResponseWriter, r *http.Request, page bool) {
	f, _, err := s.open("404.html")
	if err == nil {
		defer f.Close()
	}
	if err != nil || !page {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", render.ContentType("404.html"))
	w.WriteHeader(http.StatusNotFound)
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, f) // who asked may be gone
	}
}

// open opens a file of the site. What is not a regular file does not exist.
func (s *server) open(name string) (*os.File, fs.FileInfo, error) {
	f, info, err := atomicfile.OpenIn(s.root, name)
	if errors.Is(err, atomicfile.ErrNotRegular) {
		err = fs.ErrNotExist
	}
	return f, info, err
}
