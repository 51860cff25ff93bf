package setup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gpuboard/collector/containers"
	"gpuboard/deploy"
	"gpuboard/internal/config"
)

// siteTmpfiles makes the directory of a site in memory, where no unit does.
const siteTmpfiles = "setup/systemd/gpuboard-site.tmpfiles"

// files is the content of every file of a side, by name.
func (in *installation) files() (map[string]string, error) {
	more := ""
	units := []string{"gpuboard-node.service", "gpuboard-collect.service", "gpuboard-collect.timer"}
	replace := map[string]*strings.Replacer{"systemd": strings.NewReplacer("/usr/bin/gpuboard", in.Program,
		"/etc/gpuboard/gpuboard.yml", in.path(configFile), "/var/lib/gpuboard", in.Dir)}
	if in.Side == Web {
		units = []string{"gpuboard-watch.service", "gpuboard-generate.service", "gpuboard-generate.timer",
			"gpuboard-receive.service", "gpuboard-serve.service"}
		replace["sshd"] = strings.NewReplacer("/srv/gpuboard", in.Dir, "web.example", in.Host)
		replace["nginx"] = strings.NewReplacer("HOST_NAME", in.Host, "SITE_DIR", in.settings["site"],
			"PASSWORD_FILE", "/etc/nginx/gpuboard.htpasswd", "/srv/gpuboard", in.Dir)
		more = builtIn("sample/hosts.yml") + builtIn("sample/short_names.yml")
		if in.imported != nil {
			more = in.imported.config(filepath.Base(in.From))
		}
	}
	files := map[string]string{configFile: config.Sample(in.Side == Node, in.settings, in.Getenv, more)}
	if in.Side == Web {
		if c := in.comments(); c != "" {
			files[c] = builtIn("sample/comments.json")
		}
		files["setup/cron"] = in.crontab("The web host: one generation per minute; it prints nothing on success.",
			"generate --interval 1m") +
			"# Remove the # to keep the built-in SFTP server and web server running:\n" +
			in.keepRunning("receive --listen :2222") + in.keepRunning(in.serve())
		if in.inMemory() {
			files[siteTmpfiles] = fmt.Sprintf(
				"# The site lies in memory. This makes its directory at every start of the machine.\n"+
					"d %s 0755 %[2]s %[3]s -\nd %s 0755 %[2]s %[3]s -\n", path.Dir(SiteInMemory), in.User, in.Group,
				SiteInMemory)
		}
	} else {
		service, err := in.consulService()
		if err != nil {
			return nil, err
		}
		files["setup/consul/gpuboard.json"] = service
		files["setup/cron"] = in.crontab("A GPU node: start the loop when it is not running.", "check "+in.Host) + // says what it did
			"# Optional: whose are the containers of docker, podman and nerdctl? Only root may ask them. If nobody else can\n" +
			"# write the program, type\n#   " + containers.Cron(in.Program) + "\n"
	}
	for folder, replacer := range replace {
		entries, err := fs.ReadDir(deploy.Files(), folder)
		if err != nil {
			return nil, fmt.Errorf("reading what is built in: %w", err)
		}
		for _, entry := range entries {
			if folder == "systemd" && !slices.Contains(units, entry.Name()) {
				continue
			}
			content := replacer.Replace(builtIn(path.Join(folder, entry.Name())))
			if folder == "systemd" {
				content = in.unit(content)
			}
			files[path.Join("setup", folder, entry.Name())] = content
		}
	}
	return files, nil
}

// builtIn returns a file of deploy/. That it is there is tested with every file that init writes.
func builtIn(name string) string {
	text, _ := fs.ReadFile(deploy.Files(), name)
	return string(text)
}

// crontab is a line that runs a command each minute, with how to add it.
func (in *installation) crontab(what, command string) string {
	quiet := ""
	if in.Side == Node {
		quiet = " >/dev/null"
	}
	return fmt.Sprintf("# %s Add it with\n#   %s\n%s* * * * * %s %s --config %s%s\n",
		what, in.addCrontab(), in.consul("", "\n"), in.Program, command, in.path(configFile), quiet)
}

// serve is the command of the built-in web server. It listens where an older board did.
func (in *installation) serve() string {
	return "serve --listen " + cmp.Or(in.settings["listen"], ":8080")
}

// consul is the variable with Consul's address between before and after; "" if Consul is on this machine or
// its address is not known.
func (in *installation) consul(before, after string) string {
	if in.imported == nil || in.imported.consul == "" {
		return ""
	}
	return before + "CONSUL_HTTP_ADDR=" + in.imported.consul + after
}

// keepRunning is a line of a crontab that starts a server unless it runs already.
func (in *installation) keepRunning(command string) string {
	name, _, _ := strings.Cut(command, " ")
	return fmt.Sprintf("#* * * * * flock -n %s %s %s --config %s\n", path.Join(in.Dir, "state", name+".lock"),
		in.Program, command, in.path(configFile))
}

// unit fills in who runs a systemd unit, and where it may write.
func (in *installation) unit(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		key, _, _ := strings.Cut(line, "=")
		switch key {
		case "ReadWritePaths", "StateDirectoryMode", "# Bookings made in the browser go to comments.json.\n":
			continue
		case "RuntimeDirectory", "RuntimeDirectoryPreserve", "RuntimeDirectoryMode", "# The site lies in memory and stays there when the unit ends. Web servers read it.\n":
			if !in.inMemory() {
				continue
			}
		case "StateDirectory":
			line = "ReadWritePaths=" + in.Dir
			for _, name := range []string{"spool", "state", "data", "legacy"} {
				if dir := in.settings[name]; dir != "" && !strings.HasPrefix(dir, in.Dir+"/") {
					line += " -" + dir
				}
			}
			line += "\n"
		case "User":
			line = "User=" + in.User + "\n" + in.consul("Environment=", "\n")
		case "Group":
			line = "Group=" + in.Group + "\n"
		case "ProtectHome":
			if slices.ContainsFunc([]string{in.Dir, in.Program}, atHome) {
				line = "ProtectHome=read-only\n"
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

// atHome reports whether a path lies where ProtectHome hides it.
func atHome(path string) bool {
	return slices.ContainsFunc([]string{"/home/", "/root/", "/run/user/"},
		func(home string) bool { return strings.HasPrefix(path+"/", home) })
}

// hiddenHome is the home that a path lies in and other accounts may not enter, or "".
func hiddenHome(path string) string {
	for dir := path; atHome(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && info.Mode().Perm()&0o001 == 0 {
			return dir
		}
	}
	return ""
}

// consulService is the service file for a node that does not register itself.
func (in *installation) consulService() (string, error) {
	var file struct {
		Service map[string]any `json:"service"`
	}
	if err := json.Unmarshal([]byte(builtIn("consul/gpuboard.json")), &file); err != nil {
		return "", fmt.Errorf("reading what is built in: %w", err)
	}
	delete(file.Service, "tags") // somebody else's
	file.Service["meta"] = map[string]string{"host": in.Host}
	filled, err := json.MarshalIndent(file, "", "  ")
	return string(filled) + "\n", err
}
