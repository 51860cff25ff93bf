package config

import ()

// Keys returns every setting, in the order in which the reference lists them.
// Scripts rely on the names.
func Keys() []Key {
	return []Key{
		// On a node.
		{"host", "", text, "NAME", "NAME of this node (default: the short host name, in lower case)"},
		{"spool", "", text, "DIR", "DIR where snapshots wait for the publisher"},
		{"nvidia_smi", "nvidia-smi", text, "PATH", "PATH of the nvidia-smi to run"},
		{"ps", "ps", text, "PATH", "PATH of the ps to run"},
		{"every", "20s", duration, "DURATION", "DURATION between two snapshots, at least 2s"},
		{"nvidia_smi_timeout", "10s", duration, "DURATION", "how long nvidia-smi may take"},
		{"to", "", text, "URL", "URL of the drop: sftp://user@host:port/path of this host's own directory, or file:///dir of a data directory"},
		{"identity", "", list, "FILE", "private key FILE for SFTP, as in ssh -i (several: separated by commas)"},
		{"known_hosts", "", list, "FILE", "known_hosts FILE to check the server by (default: as ssh does)"},
		{"push_timeout", "20s", duration, "DURATION", "how long one push may take"},
		// What a node tells Consul of itself.
		{"register.enabled", "false", Boolean, "", "register this node with its Consul agent, and report every push to it"},
		{"register.title", "", text, "TEXT", "TEXT that the board shows instead of the node's name"},
		{"register.group", "", text, "NAME", "NAME of the rack, room or team"},
		{"register.owner", "", text, "NAME", "NAME of whose node it is"},
		{"register.notes", "", text, "TEXT", "TEXT of one line that the board shows beside the node"},
		{"register.tags", "", list, "TAGS", "TAGS of the service in Consul"},
		{"register.ssh_host", "", text, "HOST", "HOST, or HOST:PORT, to type behind ssh where that is not the node's name"},
		{"register.gpus", "", number, "NUMBER", "NUMBER of GPUs that there should be (default: not told)"},
		{"register.ttl", "10m", duration, "DURATION", "how long Consul waits for a push before it calls the node critical"},
		// On the web host.
		{"data", "data", text, "DIR", "data DIR: comments.json, drop/, notice.md, hosts/"},
		{"site", "site", text, "DIR", "DIR the site is written to, and a web server serves"},
		{"state", "", text, "DIR", "DIR of what the generator remembers"},
		{"comments", "", text, "FILE", "bookings FILE (default: comments.json in the data directory)"},
		{"legacy", "", text, "DIR", "DIR that the older GPU Monitor's scripts write to (default: the data directory, if their files are in it; none for never)"},
		{"legacy_zone", "", zone, "ZONE", "ZONE that the clocks of those nodes show (default: the site's)"},
		{"aliases", "", text, "FILE", "FILE of other names of people (default: aliases.csv in the data directory)"},
		{"templates", "", text, "DIR", "DIR with the site's own words, style and HTML"},
		{"interval", "20s", duration, "DURATION", "DURATION between two generations of --watch, and what pages call on time"},
		{"hosts_from", "", list, "SOURCES", "SOURCES of the inventory: consul,list,drops (default: all that are configured, and drops)"},
		{"hosts", "", list, "NAMES", "NAMES of the hosts that should exist (in the file also with title, group, owner, note, gpus, address)"},
		{"accept_shrink", "false", Boolean, "", "believe a list of hosts that is much shorter than the last one"},
		{"listen", "127.0.0.1:8080", text, "ADDR", "ADDR to listen on"},
		{"keys", "", text, "DIR", "DIR of the nodes' public keys, HOST.pub each (default: keys in the state directory)"},
		{"host_key", "", text, "FILE", "the drop box's own private key FILE, made on first use (default: in the state directory)"},
		// Consul. Address, token and TLS come from Consul's own environment variables.
		{"consul.enabled", "false", Boolean, "", "ask Consul for the hosts"},
		{"consul.service", "gpuboard", text, "NAME", "NAME of the service that nodes register"},
		{"consul.tags", "", list, "TAGS", "TAGS a service must all have"},
		{"consul.filter", "", text, "EXPR", "EXPR to select services by, in Consul's filter language"},
		{"consul.datacenters", "", list, "NAMES", "NAMES of datacenters to ask, or all (default: the agent's own)"},
		{"consul.node_meta", "", list, "KEY=VALUE", "KEY=VALUE pairs that a node must have"},
		{"consul.leader", "false", Boolean, "", "stand for election in Consul, and generate only while leading (with --watch)"},
		{"consul.leader_key", "gpuboard/leader", text, "KEY", "KEY in Consul that the generators of one site compete for"},
		// Bookings.
		{"booking.name", "", text, "NAME", "NAME to book under (default: your login name)"},
		{"booking.ssh", "", text, "HOST", "HOST of the bookings, or user@HOST, where this machine is not the web host: book, release and bookings run there by ssh"},
		{"booking.timezone", "", zone, "ZONE", "ZONE of the times in comments.json (default: timezone, else the web host's)"},
		{"booking.default_duration", "1d", text, "LENGTH", "LENGTH of a booking when nothing else is said, such as 1d or 8h; none: it has to be said"},
		{"booking.max_duration", "", text, "LENGTH", "LENGTH that one booking may have at most, such as 7d"},
		{"booking.max_gpus", "", number, "NUMBER", "NUMBER of GPUs that one person may have booked at the same time"},
		// The built-in web server.
		{"booking.form", "false", Boolean, "", "let people book in the browser; --booking for short"},
		{"booking.for_others", "false", Boolean, "", "let people book for others in the browser; who did it is recorded"},
		{"password", "", text, "FILE", "htpasswd FILE, with bcrypt, of those who may log in"},
		{"private", "false", Boolean, "", "show nothing to anybody who has not logged in"},
		{"auth_header", "", text, "NAME", "NAME of the header in which a proxy says who it is, such as X-Remote-User"},
		{"trusted_proxy", "127.0.0.0/8,::1", list, "ADDRS", "ADDRS of the proxies that are believed, in that header and in X-Forwarded-For"},
		// History.
		{"no_history", "false", Boolean, "", "keep no history"},
		{"history.raw", "168h", duration, "DURATION", "how long samples are kept as they came"},
		{"history.five_minutes", "840h", duration, "DURATION", "how long means of five minutes are kept"},
		{"history.hourly", "9600h", duration, "DURATION", "how long means of an hour are kept"},
		{"energy.price_per_kwh", "0", number, "PRICE", "PRICE of a kilowatt-hour; 0 shows no cost"},
		{"energy.currency", "", text, "NAME", "NAME of the currency of that price, such as EUR"},
		{"energy.co2_grams_per_kwh", "0", number, "GRAMS", "GRAMS of CO2 that a kilowatt-hour stands for; 0 shows none"},
		// What the pages say.
		{"title", "GPU board", text, "TEXT", "TEXT at the top of every page"},
		{"lab", "", text, "TEXT", "TEXT beside the title: whose GPUs these are"},
		{"timezone", "", zone, "ZONE", "ZONE in which pages show times and bookings are read, such as Europe/Paris (default: the machine's)"},
		{"base_url", "", text, "URL", "URL where the site can be seen; feeds and calendars need it"},
		{"compat", "", list, "SYSTEMS", "SYSTEMS whose files are written as well, for programs that read them: vesta, nvgpu, gpu-cluster-monitor, or all (default: none)"},
		// For people.
		{"site_url", "", text, "URL", "URL of the site that status and wait read, and that list and available ask for bookings"},
		{"site_timeout", "5s", duration, "DURATION", "how long the site may take to answer"},
		{"users", "full", word, "HOW", "HOW people are named: full, initials, hash or none"},
		{"commands", "program", word, "WHAT", "WHAT is said of processes: program or none"},
		{"public_out", "", text, "DIR", "DIR for a second, masked site from the same run"},
		{"public_users", "none", word, "HOW", "HOW people are named on the public site"},
		{"public_commands", "none", word, "WHAT", "WHAT is said of processes on the public site"},
		{"no_help", "false", Boolean, "", "leave the documentation out of the site"},
		{"public_help", "false", Boolean, "", "put the documentation into the public site, too"},
		// What counts as what.
		{"stale_after", "", duration, "DURATION", "age at which a snapshot is old (default: three of the node's intervals, at least 1m)"},
		{"down_after", "24h", duration, "DURATION", "age at which a host counts as down"},
		{"clock_tolerance", "1m", duration, "DURATION", "how far a node's clock may be ahead"},
		{"free_memory_mib", "500", number, "MIB", "MIB of memory in use up to which a GPU is free"},
		{"free_memory_percent", "2", number, "PERCENT", "the same in PERCENT of its memory; the larger counts"},
		{"no_show_after", "2h", duration, "DURATION", "how long a booked GPU may idle before that is said"},
		{"idle_window", "30m", duration, "DURATION", "DURATION over which a GPU that is held must be idle to be called so"},
		{"idle_percent", "5", number, "PERCENT", "mean utilization in PERCENT below which it is idle"},
		{"show_expired", "48h", duration, "DURATION", "how long an expired booking is shown"},
	}
}
