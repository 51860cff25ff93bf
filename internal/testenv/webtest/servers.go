package webtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"gpuboard/internal/testenv/need"
)

// kind is which of the shipped files is in use.
func (b *builder) kind() string {
	switch {
	case b.o.Bucket != "":
		return "bucket"
	case b.o.Upstream != "" && !b.o.Book:
		return "proxy"
	case b.o.Path != "":
		return "path"
	}
	return "host"
}

// including is one line for each of the shipped files in use.
func (b *builder) including(line, extension string) string {
	all := fmt.Sprintf(line, b.kind()+extension)
	switch {
	case !b.o.Book:
		return all
	case b.name == "lighttpd": // where the last word counts
		return all + fmt.Sprintf(line, "book"+extension)
	}
	return fmt.Sprintf(line, "book"+extension) + all
}

func (b *builder) nginx() *exec.Cmd {
	program := need.Program(b.t, "nginx")
	b.shipped()
	b.edit("host.conf", "listen      80;", "listen "+b.listen()+";", "listen      [::]:80;", "")
	server := "include gpuboard/host.conf;"
	if b.kind() != "host" {
		server = fmt.Sprintf("server { listen %s; %s }", b.listen(), b.including("include gpuboard/%s;\n", ".conf"))
	}
	b.write("nginx.conf", fmt.Sprintf(`
daemon off;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
worker_processes 1;
events {}
http {
  include /etc/nginx/mime.types;
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  include gpuboard/http.conf;
  %[2]s
}
`, b.dir, server))
	return exec.Command(program, "-c", b.path("nginx.conf"), "-p", b.dir, "-e", b.path("error.log"))
}

func (b *builder) apache() *exec.Cmd {
	program := need.Program(b.t, "apache2")
	b.shipped()
	account := ""
	if os.Getuid() == 0 {
		account = "User nobody\nGroup nogroup\n"
	}
	b.edit("host.conf", "<VirtualHost *:80>", "<VirtualHost "+b.listen()+">")
	server := "Include gpuboard/host.conf"
	if b.kind() != "host" {
		server = fmt.Sprintf("<VirtualHost %s>\n%s</VirtualHost>", b.listen(),
			b.including("Include gpuboard/%s\n", ".conf"))
	}
	config := fmt.Sprintf(`
ServerRoot %[1]s
DefaultRuntimeDir %[1]s
PidFile %[1]s/apache.pid
ErrorLog %[1]s/error.log
ServerName 127.0.0.1
Listen %[2]s
%[3]sStartServers 1
ServerLimit 2
ThreadsPerChild 8
MinSpareThreads 1
MaxSpareThreads 16
MaxRequestWorkers 16
GracefulShutdownTimeout 1
`, b.dir, b.listen(), account)
	modules := []string{
		"mpm_event", "authz_core", "authn_core", "authn_file", "authz_user", "auth_basic", "alias", "dir", "mime",
		"headers", "setenvif", "rewrite", "deflate", "filter", "proxy", "proxy_http",
	}
	for _, m := range modules {
		config += fmt.Sprintf("LoadModule %s_module %s\n", m, filepath.Join("/usr/lib/apache2/modules", "mod_"+m+".so"))
	}
	// As on Debian, where mod_deflate is on and /etc/mime.types knows .gz.
	config += "TypesConfig /etc/mime.types\nAddOutputFilterByType DEFLATE text/html text/plain text/css application/json\n"
	config += "<Directory />\nRequire all denied\n</Directory>\n" + server + "\n"
	b.write("apache.conf", config)
	return exec.Command(program, "-d", b.dir, "-f", b.path("apache.conf"), "-DFOREGROUND")
}

func (b *builder) caddy() *exec.Cmd {
	program := need.Program(b.t, "caddy")
	b.shipped()
	site := fmt.Sprintf("http://%s {\n%s\thandle {\n\t\trespond 404\n\t}\n}\n", b.listen(),
		b.including("\timport gpuboard/%s\n", ".caddy"))
	if b.kind() == "host" {
		b.edit("host.caddy", "127.0.0.1 {", "http://"+b.listen()+" {")
		site = "import gpuboard/host.caddy\n"
	}
	b.write("Caddyfile", "{\n\tadmin off\n\tauto_https off\n}\nimport gpuboard/files.caddy\n"+site)
	c := exec.Command(program, "run", "--config", b.path("Caddyfile"), "--adapter", "caddyfile")
	c.Env = append(os.Environ(), "XDG_DATA_HOME="+b.path("caddy-data"), "XDG_CONFIG_HOME="+b.path("caddy-config"),
		"HOME="+b.dir)
	return c
}

func (b *builder) lighttpd() *exec.Cmd {
	program := need.Program(b.t, "lighttpd")
	if _, err := os.Stat("/usr/lib/lighttpd/mod_deflate.so"); err != nil {
		need.Skip(b.t, "lighttpd has no mod_deflate")
	}
	b.shipped()
	account := ""
	if os.Getuid() == 0 {
		account = "server.username = \"nobody\"\nserver.groupname = \"nogroup\"\n"
	}
	b.write("lighttpd.conf", fmt.Sprintf(`
server.document-root = "%[1]s"
server.bind = "127.0.0.1"
server.port = %[2]d
server.modules = ( "mod_access", "mod_alias", "mod_deflate", "mod_expire", "mod_redirect", "mod_rewrite", "mod_setenv", "mod_proxy" )
%[3]s
%[4]s
`, b.dir, b.port, account, b.including("include \"gpuboard/%s\"\n", ".conf")))
	return exec.Command(program, "-D", "-f", b.path("lighttpd.conf"))
}
