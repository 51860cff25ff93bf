package cli

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/internal/config"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/s3test"
	"gpuboard/internal/testenv/sitetest"
)

// A setting is a line of the table: two values of a key, and what is seen of the program with each of them.
// DIR in a value is the directory of the trial. An empty value leaves the key as it is by default.
type setting struct {
	key             string
	value, seen     string
	other, seenThen string
	see             func(*trial) string
}

// TestEverySettingChangesSomething: each key of the configuration has a line that shows, from outside, what it changes.
func TestEverySettingChangesSomething(t *testing.T) {
	table := slices.Concat(nodeSettings(), registerSettings(), sourceSettings(), bookingSettings(), serverSettings(),
		pageSettings(), stateSettings(), historySettings())
	shown := map[string]bool{}
	for _, s := range table {
		shown[s.key] = true
	}
	for _, k := range config.Keys() {
		if !shown[k.Name] {
			t.Errorf("no line of the table shows what %s changes", k.Name)
		}
		delete(shown, k.Name)
	}
	for key := range shown {
		t.Errorf("the table has %s, and the configuration does not", key)
	}
	need.Time(t, "it runs the program two hundred times")
	for _, s := range table {
		t.Run(s.key, func(t *testing.T) {
			if s.seen == s.seenThen {
				t.Fatalf("both values are to show %q", s.seen)
			}
			for value, want := range map[string]string{s.value: s.seen, s.other: s.seenThen} {
				if got := s.see(newTrial(t, s.key, value)); got != want {
					t.Errorf("%s: %q shows %q, want %q", s.key, value, got, want)
				}
			}
		})
	}
}

func nodeSettings() []setting {
	return []setting{
		{"host", "gpu07", "gpu07", "gpu08", "gpu08", collected(`"host": "(.*?)"`)},
		{"spool", "DIR/one", "one/latest.json.gz", "DIR/two", "two/latest.json.gz", func(l *trial) string {
			l.collect("collect")
			return l.files("*/latest.json.gz")
		}},
		{"nvidia_smi", "nvidia-smi", "", "DIR/none", "smi:missing", collected(`"code": "(smi:missing)"`)},
		{"amd_smi", "", "", "DIR/amd-smi", "Instinct MI210", amdNamed("Instinct MI210")},
		{"amd_integrated", "false", "", "true", "Radeon 680M", amdNamed("Radeon 680M")},
		{"ps", "fake-ps", "", "DIR/none", "ps:missing", collected(`"code": "(ps:missing)"`)},
		{"nvidia_smi_timeout", "1m", "", "50ms", "smi:timeout", func(l *trial) string {
			l.t.Setenv("GPUBOARD_FAKE_SMI_DELAY", "1s")
			return collected(`"code": "(smi:timeout)"`)(l)
		}},
		{"every", "9s", "9", "13s", "13", func(l *trial) string {
			l.write("data/drop/.keep", "")
			l.env["GPUBOARD_TO"] = "file://" + l.dir + "/data"
			l.collect("run", "--once")
			return fmt.Sprint(l.bundle("data/drop/gpu01/latest.json.gz").Snapshot.IntervalSeconds)
		}},
		{"to", "file://DIR/one", "one/drop/gpu01/latest.json.gz", "file://DIR/two", "two/drop/gpu01/latest.json.gz",
			func(l *trial) string {
				l.write("one/drop/.keep", "")
				l.write("two/drop/.keep", "")
				l.collect("collect")
				l.run("publish")
				return l.files("*/drop/*/latest.json.gz")
			}},
		{"identity", "DIR/gpu01", "arrives", "DIR/gpu02", "", pushed},
		{"known_hosts", "DIR/known", "arrives", "DIR/unknown", "", pushed},
		{"push_timeout", "1m", "arrives", "1ms", "", pushed},
	}
}

func registerSettings() []setting {
	said := func(pattern string) func(*trial) string {
		return func(l *trial) string {
			asked := l.consul()
			l.collect("register")
			return found(pattern, asked())
		}
	}
	return []setting{
		{"register.enabled", "true", "PUT", "", "", func(l *trial) string {
			asked := l.consul()
			l.collect("run", "--once")
			return found(`(PUT) /v1/agent/service/register`, asked())
		}},
		{"register.title", "Vision", "Vision", "Speech", "Speech", said(`"title":"(.*?)"`)},
		{"register.group", "Room 1", "Room 1", "Room 2", "Room 2", said(`"group":"(.*?)"`)},
		{"register.owner", "eva", "eva", "jun", "jun", said(`"owner":"(.*?)"`)},
		{"register.notes", "no jobs at night", "no jobs at night", "ask first", "ask first", said(`"notes":"(.*?)"`)},
		{"register.tags", "a100", `"a100"`, "h100,nvlink", `"h100","nvlink"`, said(`"Tags":\[(.*?)\]`)},
		{"register.ssh_host", "one.lab", "one.lab", "two.lab", "two.lab", said(`"ssh_host":"(.*?)"`)},
		{"register.gpus", "4", "4", "8", "8", said(`"gpus":"(.*?)"`)},
		{"register.ttl", "7m", "7m0s", "9m", "9m0s", said(`"TTL":"(.*?)"`)},
		{"consul.service", "farm", "farm", "gpuboard", "gpuboard", said(`"Name":"(.*?)"`)},
	}
}

// sourceSettings are those of where everything is, and which hosts there should be.
func sourceSettings() []setting {
	asked := func(pattern string) func(*trial) string {
		return func(l *trial) string {
			asked := l.consul()
			if l.key != "consul.enabled" {
				l.env["GPUBOARD_CONSUL_ENABLED"] = "true"
			}
			l.lab()
			l.run("generate")
			return found(pattern, asked())
		}
	}
	leads := func(pattern string) func(*trial) string {
		return func(l *trial) string {
			asked := l.consul()
			set(l, "GPUBOARD_CONSUL_LEADER", "true")
			l.lab()
			ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
			defer cancel()
			l.stderr = func(string) { cancel() } // it says that it leads, or what it has made
			l.heard = func(request string) {
				if strings.Contains(request, "/v1/kv/") {
					cancel()
				}
			}
			l.runWith(ctx, "generate", "--watch", "-v")
			return found(pattern, asked())
		}
	}
	return []setting{
		{"data", "DIR/data", "gpu01 gpu02 gpu03", "DIR/empty", "", func(l *trial) string {
			l.write("empty/drop/.keep", "")
			return hostsOf(l)
		}},
		{"site", "DIR/one", "one/index.html", "DIR/two", "two/index.html", func(l *trial) string {
			l.lab()
			l.run("generate")
			return l.files("*/index.html")
		}},
		{"state", "DIR/one", "one/history.db", "DIR/two", "two/history.db", func(l *trial) string {
			l.lab()
			l.run("generate")
			return l.files("*/history.db")
		}},
		{"comments", "DIR/one.json", "ada", "DIR/two.json", "bob", func(l *trial) string {
			l.write("one.json", `{"gpu01": {"0": {"name": "ada"}}}`)
			l.write("two.json", `{"gpu01": {"0": {"name": "bob"}}}`)
			return inSite("api/v1/bookings.json", `"name":"(.*?)"`)(l)
		}},
		{"aliases", "DIR/one.csv", "leonie", "DIR/two.csv", "lena", func(l *trial) string {
			l.write("one.csv", "lea,leonie\n")
			l.write("two.csv", "lea,lena\n")
			return inSite("api/v1/users.json", `"name":"(l.*?)"`)(l)
		}},
		{"templates", "DIR/one", "Folk", "DIR/two", "Humans", func(l *trial) string {
			l.write("one/words/en.json", `{"nav.people": "Folk"}`)
			l.write("two/words/en.json", `{"nav.people": "Humans"}`)
			return inSite("index.html", `>(Folk|Humans)<`)(l)
		}},
		{"legacy", "DIR/older", "atlas", "none", "", func(l *trial) string {
			l.older()
			return inSite("api/v1/hosts.json", `"name":"(atlas)"`)(l)
		}},
		{"legacy_zone", "UTC", "09:41:40", "Europe/Paris", "08:41:40", func(l *trial) string {
			l.older()
			l.env["GPUBOARD_LEGACY"] = l.dir + "/older"
			return inSite("api/v1/hosts/atlas.json", `"snapshot_at":"2026-11-20T(.*?)Z"`)(l)
		}},
		{"drops", "s3://gpus/one", "gpu01 gpu02 gpu03 gpu05", "s3://gpus/two", "gpu01 gpu02 gpu03 gpu06",
			func(l *trial) string {
				store := s3test.Start(l.t, "gpus")
				store.Put("one/gpu05/latest.json.gz", "a snapshot")
				store.Put("two/gpu06/latest.json.gz", "a snapshot")
				return hostsOf(l)
			}},
		{"hosts_from", "list", "gpu09", "drops", "gpu01 gpu02 gpu03", func(l *trial) string {
			l.env["GPUBOARD_HOSTS"] = "gpu09"
			return hostsOf(l)
		}},
		{"hosts", "gpu08", "gpu01 gpu02 gpu03 gpu08", "gpu09", "gpu01 gpu02 gpu03 gpu09", hostsOf},
		{"accept_shrink", "true", "", "false", "discovery:shrunk", func(l *trial) string {
			for i := range 6 {
				l.write(fmt.Sprintf("data/drop/a%d/.keep", i), "")
			}
			l.run("generate")
			for i := 1; i < 6; i++ {
				if err := os.RemoveAll(fmt.Sprintf("%s/data/drop/a%d", l.dir, i)); err != nil {
					l.t.Fatal(err)
				}
			}
			l.run("generate")
			return found(`"code":"(discovery:shrunk)"`, l.read("site/health.json"))
		}},
		{"keys", "DIR/one", "one", "DIR/two", "two", func(l *trial) string {
			l.env["GPUBOARD_LISTEN"] = "127.0.0.1:0"
			return found(`mv gpu01.pub \S*/(one|two)/`, l.run("receive").stderr)
		}},
		{"host_key", "DIR/one.key", "one.key", "DIR/two.key", "two.key", func(l *trial) string {
			_, stop := l.receive()
			stop()
			return l.files("*.key")
		}},
		{"listen", "127.0.0.1:0", "127.0.0.1", "127.0.0.2:0", "127.0.0.2", func(l *trial) string {
			says, stop := l.receive()
			stop()
			return found(`receiving on (\S*):`, says)
		}},
		{"consul.enabled", "true", "GET", "false", "", asked(`(GET) /v1/health/service/gpuboard`)},
		{"consul.tags", "a100", "a100", "h100", "h100", asked(`[?&]tag=(\w+)`)},
		{"consul.filter", "Node.Node != gpu01", "Node.Node != gpu01", "Node.Node != gpu02", "Node.Node != gpu02",
			asked(`filter=(.*?)(?:&|\n)`)},
		{"consul.datacenters", "east", "east", "west", "west", asked(`[?&]dc=(\w+)`)},
		{"consul.node_meta", "rack=1", "rack:1", "rack=2", "rack:2", asked(`node-meta=(.*?)(?:&|\n)`)},
		{"consul.leader", "true", "/v1/kv/gpuboard/leader", "false", "", leads(`(/v1/kv/.*?)\?`)},
		{"consul.leader_key", "one/leader", "/v1/kv/one/leader", "two/leader", "/v1/kv/two/leader",
			leads(`(/v1/kv/.*?)\?`)},
	}
}

func bookingSettings() []setting {
	// booked is what comments.json has after somebody booked, and "" where they may not.
	booked := func(pattern string, args ...string) func(*trial) string {
		return func(l *trial) string {
			l.lab()
			l.run("generate")
			l.write("data/comments.json", "{}")
			set(l, "GPUBOARD_BOOKING_NAME", "ada")
			l.run(append([]string{"book"}, args...)...)
			return found(pattern, l.read("data/comments.json"))
		}
	}
	until := inSite("api/v1/bookings.json", `"name":"kai","from":.*?,"until":"(.*?)"`)
	return []setting{
		{"booking.name", "ada", "ada", "bob", "bob", booked(`"name": "(.*?)"`, "gpu01:1", "--for", "1h", "--force")},
		{"booking.ssh", "one.lab", "one.lab", "two.lab", "two.lab", func(l *trial) string {
			l.write("bin/ssh", "#!/bin/sh\necho \"$@\"\n")
			if err := os.Chmod(filepath.Join(l.dir, "bin/ssh"), 0o755); err != nil {
				l.t.Fatal(err)
			}
			l.t.Setenv("PATH", filepath.Join(l.dir, "bin")+":"+os.Getenv("PATH"))
			return found(`((?:one|two)\.lab)`, l.run("bookings").stdout)
		}},
		{"booking.timezone", "Europe/Paris", "2026-11-21T11:00:00Z", "Asia/Tokyo", "2026-11-21T03:00:00Z",
			func(l *trial) string {
				l.comments = `{"gpu01": {"0": {"name": "kai", "date": "2026-11-21 12:00"}}}`
				return until(l)
			}},
		{"booking.end_of_day", "true", "2026-11-22T00:00:00Z", "false", "2026-11-21T00:00:00Z", func(l *trial) string {
			l.comments = `{"gpu01": {"0": {"name": "kai", "date": "2026-11-21"}}}`
			return until(l)
		}},
		{"booking.default_duration", "8h", "2026-11-20 17:42", "1d", "2026-11-21 09:42",
			booked(`"date": "(.*?) ?[+Z"]`, "gpu01:1", "--force")},
		{"booking.max_duration", "1d", "", "7d", "ada", booked(`"name": "(.*?)"`, "gpu01:1", "--for", "3d")},
		{"booking.max_gpus", "1", "", "2", "ada", booked(`"name": "(.*?)"`, "gpu01:1,3", "--for", "1h")},
	}
}

func serverSettings() []setting {
	login := "eva"
	form := func(l *trial) {
		l.lab()
		l.run("generate")
		set(l, "GPUBOARD_BOOKING_FORM", "true")
		set(l, "GPUBOARD_AUTH_HEADER", "X-User")
	}
	return []setting{
		{"booking.form", "true", "true", "false", "false", func(l *trial) string {
			form(l)
			l.env["GPUBOARD_PRIVATE"] = "true"
			return found(`"booking": ?(\w+)`, l.answer("/book/capabilities.json", login).body)
		}},
		{"booking.for_others", "true", `name="name"`, "false", "", func(l *trial) string {
			form(l)
			return found(`(name="name")`, l.answer("/book/?host=gpu01&gpu=1", login).body)
		}},
		{"password", "DIR/one", "200", "DIR/two", "401", func(l *trial) string {
			for file, name := range map[string]string{"one": login, "two": "jun"} {
				hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
				if err != nil {
					l.t.Fatal(err)
				}
				l.write(file, name+":"+string(hash)+"\n")
			}
			l.lab()
			l.run("generate")
			l.env["GPUBOARD_PRIVATE"] = "true"
			return l.answer("/index.html", login).code
		}},
		{"private", "true", "403", "false", "200", func(l *trial) string {
			form(l)
			return l.answer("/index.html", "").code
		}},
		{"auth_header", "X-User", "200", "X-Other", "403", func(l *trial) string {
			form(l)
			l.env["GPUBOARD_PRIVATE"] = "true"
			return l.answer("/index.html", login).code
		}},
		{"trusted_proxy", "192.0.2.0/24", "200", "10.0.0.0/8", "403", func(l *trial) string {
			form(l)
			l.env["GPUBOARD_PRIVATE"] = "true"
			return l.answer("/index.html", login).code
		}},
		{"site_url", "/one", "1 of 3 GPUs free", "/two", "2 of 3 GPUs free", func(l *trial) string {
			one, two := sitetest.Site{Busy: []string{"gpu01:0", "gpu02:0"}}.Files(
				l.t), sitetest.Site{Busy: []string{"gpu01:0"}}.Files(l.t)
			url := sitetest.Serve(l.t, func(w http.ResponseWriter, r *http.Request) {
				name, isOne := strings.CutPrefix(r.URL.Path, "/one/")
				if isOne {
					_, _ = w.Write(one[name])
					return
				}
				_, _ = w.Write(two[strings.TrimPrefix(r.URL.Path, "/two/")])
			})
			l.env["GPUBOARD_SITE_URL"] = url + l.value
			return found(`^(.*?):`, l.run("status").stdout)
		}},
		{"site_timeout", "100ms", "100ms", "200ms", "200ms", func(l *trial) string {
			released := make(chan struct{})
			url := sitetest.Serve(l.t, func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-released:
				case <-r.Context().Done():
				}
			})
			defer close(released)
			l.env["GPUBOARD_SITE_URL"] = url
			return found(`within (\S+)`, l.run("status").stderr)
		}},
	}
}

func pageSettings() []setting {
	return []setting{
		{"pull", "gpu77=nobody@127.0.0.1:1", "gpu77", "gpu78=nobody@127.0.0.1:1", "gpu78",
			inSite("api/v1/hosts.json", `"name":"(gpu7[78])"`)},
		{"sites", "a=DIR/none", "cluster a", "b=DIR/none", "cluster b",
			inSite("health.json", `"where":"(cluster .*?)"`)},
		{"interval", "30s", "09:43:15", "1m", "09:44:30", inSite("api/v1/free.json", `"late_at":"2026-11-20T(.*?)Z"`)},
		{"generate_every", "7s", "7s", "1h", "20s", func(l *trial) string { // interval at most
			ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
			defer cancel()
			l.stderr = func(string) { cancel() }
			l.lab()
			return found(`the next one begins (\S+) after`, l.runWith(ctx, "generate", "--watch", "-v").stderr)
		}},
		{"title", "Farm", "Farm", "Shed", "Shed", inSite("index.html", `<title>[^<]* · (.*?)</title>`)},
		{"lab", "Vision", "Vision", "Speech", "Speech", inSite("api/v1/board.json", `"lab":"(.*?)"`)},
		{"language", "de", "de", "fr", "fr", inSite("index.html", `<html lang="(.*?)"`)},
		{"languages", "de", "site/de/index.html", "fr", "site/fr/index.html", made("site/??/index.html")},
		{"timezone", "Asia/Tokyo", "18:42", "Europe/Paris", "10:42", inSite("status.txt", `as of 2026-11-20 (..:..)`)},
		{"base_url", "https://one.example.org/", "https://one.example.org/", "https://two.example.org/",
			"https://two.example.org/",
			inSite("feed.atom", `rel="self" href="(.*?)feed.atom"`)},
		{"compat", "vesta", "site/states/index.json", "nvgpu", "", made("site/states/index.json")},
		{"energy.price_per_kwh", "0.25", "0.25", "0.5", "0.5",
			inSite("api/v1/history/users.json", `"price_per_kwh":(.*?),`)},
		{"energy.currency", "EUR", "EUR", "USD", "USD", inSite("api/v1/history/users.json", `"currency":"(.*?)"`)},
		{"energy.co2_grams_per_kwh", "60", "60", "400", "400",
			inSite("api/v1/history/users.json", `"co2_grams_per_kwh":(.*?)[,}]`)},
		{"users", "full", "lea", "none", "someone", inSite("api/v1/users.json", `"name":"(lea|someone)"`)},
		{"commands", "program", "train.py", "none", "", inSite("api/v1/hosts/gpu01.json", `"program":"(train.py)"`)},
		{"public_out", "DIR/one", "one/index.html", "DIR/two", "two/index.html", func(l *trial) string {
			l.lab()
			l.run("generate")
			return strings.TrimSuffix(l.files("???/index.html"), " site/index.html")
		}},
		{"public_users", "full", "lea", "none", "someone", inPublic("api/v1/users.json", `"name":"(lea|someone)"`)},
		{"public_commands", "program", "train.py", "none", "",
			inPublic("api/v1/hosts/gpu01.json", `"program":"(train.py)"`)},
		{"publish_to", "s3://gpus/one", "one/index.html", "s3://gpus/two", "two/index.html", func(l *trial) string {
			store := s3test.Start(l.t, "gpus")
			l.lab()
			l.run("generate")
			return found(`(?m)^(\w+/index\.html)$`, strings.Join(store.Names(), "\n"))
		}},
		{"publish_every", "10m", "600", "20m", "1200", func(l *trial) string {
			s3test.Start(l.t, "gpus")
			l.env["GPUBOARD_PUBLISH_TO"] = "s3://gpus/"
			return inSite("index.html", `data-interval="(.*?)"`)(l)
		}},
		{"no_help", "true", "", "false", "site/help/index.html", made("site/help/index.html")},
		{"public_help", "true", "public/help/index.html", "false", "", func(l *trial) string {
			l.env["GPUBOARD_NO_HELP"], l.env["GPUBOARD_PUBLIC_OUT"] = "", l.dir+"/public"
			return made("public/help/index.html")(l)
		}},
	}
}

// stateSettings are those that decide what counts as what. The lab says what each GPU is for.
func stateSettings() []setting {
	host := func(name string) func(*trial) string {
		return inSite("api/v1/hosts.json", `"name":"`+name+`".*?"state":"(.*?)"`)
	}
	gpu := func(index int, pattern string) func(*trial) string {
		return inSite("api/v1/hosts/gpu01.json", fmt.Sprintf(`"index":%d,"vendor":"nvidia","uuid":"GPU-%d".*?%s`, index, index, pattern))
	}
	return []setting{
		{"stale_after", "5m", "stale", "1h", "up", host("gpu02")},
		{"down_after", "5m", "down", "1h", "stale", host("gpu02")},
		{"clock_tolerance", "10s", "stale", "1m", "up", host("gpu03")},
		{"free_memory_mib", "500", "stuck", "1000", "free", gpu(1, `"state":"(.*?)"`)},
		{"free_memory_percent", "2", "stuck", "3", "free", gpu(1, `"state":"(.*?)"`)},
		{"no_show_after", "2h", "true", "5h", "false", gpu(3, `"no_show":(.*?),`)},
		{"service_accounts", "ci", "", "other", "ci", gpu(2, `"users":\["?(.*?)"?\]`)},
		{"container_uids", "likely", "", "trusted", "mia", gpu(5, `"users":\["?(.*?)"?\]`)},
		{"container_people", "a1b2c3*=kai", "kai", "web=kai", "", gpu(5, `"users":\["?(.*?)"?\]`)},
		{"idle_window", "30m", "true", "2h", "false", func(l *trial) string {
			return fmt.Sprint(gpu(4, `"idle_for_seconds":([1-9]\d*)`)(l) != "")
		}},
		{"idle_notice", "45m", "gpu-idle", "2h", "", func(l *trial) string {
			l.lab()
			l.run("generate")
			return found(`"(gpu-idle)":\{"people":\{"kai":\{"since":"[^"]*","told":true`, l.read("state/events.json"))
		}},
		{"people.domain", "lab.example", "eva@lab.example", "other.example", "eva@other.example",
			func(l *trial) string {
				l.write("sendmail", "#!/bin/sh\ncat > "+l.dir+"/letter\n")
				if err := os.Chmod(filepath.Join(l.dir, "sendmail"), 0o755); err != nil {
					l.t.Fatal(err)
				}
				l.write("gpuboard.yml",
					"notify:\n  - mail: people\n    events: [booking-start]\n    sendmail: "+l.dir+"/sendmail\n")
				l.env["GPUBOARD_CONFIG"] = l.dir + "/gpuboard.yml"
				l.lab()
				after := l.now
				l.now = time.Date(2026, 11, 20, 6, 40, 0, 0, time.UTC)
				l.run("generate")
				l.now = after
				l.run("generate")
				return found(`(?m)^To: <(.*?)>$`, l.read("letter"))
			}},
		{"show_expired", "72h", "zoe", "1h", "", inSite("api/v1/bookings.json", `"name":"(zoe)"`)},
	}
}

func historySettings() []setting {
	return []setting{
		// The mark of a row and the hours of its user follow the same limit: lea's job runs at 10 %.
		{"idle_percent", "5", "marked false, hours false", "20", "marked true, hours true", func(l *trial) string {
			mark := inSite("api/v1/hosts/gpu01.json", `"index":0,"vendor":"nvidia","uuid":"GPU-0".*?"idle_for_seconds":(\w+)`)(l)
			return fmt.Sprintf("marked %t, hours %t", mark != "null", l.hours("today", "lea", "idle_hours") != "0")
		}},
		{"no_history", "true", "", "false", "state/history.db", made("state/history.db")},
		{"history.hourly", "72h", "", "9600h", "0.5", func(l *trial) string {
			l.remember(time.Date(2026, 11, 10, 18, 0, 0, 0, time.UTC), "zoe")
			return l.hours("30d", "zoe", "gpu_hours")
		}},
	}
}

// amdNamed is the name of the GPU of an amd-smi that tells of a card, or of the graphics of a processor.
func amdNamed(name string) func(*trial) string {
	return func(l *trial) string {
		l.write("amd-smi", `#!/bin/sh
echo '[{"gpu":0,"asic":{"market_name":"`+name+`"}}]'
`)
		if err := os.Chmod(filepath.Join(l.dir, "amd-smi"), 0o755); err != nil {
			l.t.Fatal(err)
		}
		set(l, "GPUBOARD_AMD_SMI", l.dir+"/amd-smi")
		return collected(`"name": "(Instinct MI210|Radeon 680M)"`)(l)
	}
}
