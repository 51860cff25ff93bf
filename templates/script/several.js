// Booking several GPUs where no server answers for the form: the page has all GPUs and
// bookings as JSON, shows which would be taken, and composes one command for them.
var { $, all, say, keep, now, called } = window.gpuboard;
var doc = document, form = $("_several"), fields = {}, command = $("_command"), said = $("_says");
var data = JSON.parse($("_bookable").textContent), program = doc.querySelector("ol code.copy").textContent.split(" book ")[0];
all("[name]", form).forEach(function (field) { fields[field.name] = field; });
var FREE = 0, TAKEN = 1, USED = 2, LOST = 3;
var units = [];
data.hosts.forEach(function (h) {
  h[1].forEach(function (g) {
    units.push({
      host: h[0], gpu: g[0], model: data.models[g[1]][0], mib: data.models[g[1]][1], how: g[2],
      due: (g[3] || []).map(function (d) { return { from: 1000 * d[0], until: d[1] ? 1000 * d[1] : Infinity, name: d[2] }; })
    });
  });
});
// openFrom returns what nobody has booked from then on for as long as is wanted.
var openFrom = function (list, from, length, usable) {
  return list.filter(function (u) {
    return usable(u) && !u.due.some(function (d) { return d.until > from && d.from < from + length; });
  });
};
// pick takes so many, from the host with the fewest to spare, or from the hosts with most.
var pick = function (list, n, sameHost) {
  var hosts = [], byName = {};
  list.forEach(function (u) {
    if (!byName[u.host]) { hosts.push(byName[u.host] = []); }
    byName[u.host].push(u);
  });
  hosts.sort(function (a, b) { return a.length - b.length; });
  var enough = hosts.filter(function (h) { return h.length >= n; })[0];
  if (enough) { return enough.slice(0, n); }
  if (sameHost || list.length < n) { return null; }
  hosts.sort(function (a, b) { return b.length - a.length; });
  return [].concat.apply([], hosts).slice(0, n);
};
// offer is what there is, and when there is as much for as long if it is too little.
var offer = function (w, from, until, t) {
  var fit = units.filter(function (u) { return (!w.model || u.model.toLowerCase().indexOf(w.model.toLowerCase()) >= 0) && (!w.mib || u.mib >= w.mib); });
  var soon = from <= t, begin = soon ? +t : +from, length = until - from;
  var open = openFrom(fit, begin, length, function (u) { return u.how !== LOST && (!soon || u.how === FREE); });
  var found = { fit: fit.length, open: open.length, picked: pick(open, w.gpus, w.sameHost), next: null };
  var known = function (u) { return u.how === FREE || u.how === TAKEN; }, ends = [];
  if (found.picked || fit.length < w.gpus) { return found; }
  fit.filter(known).forEach(function (u) { u.due.forEach(function (d) { if (d.until > begin && d.until < Infinity) { ends.push(d.until); } }); });
  ends.sort(function (a, b) { return a - b; }).some(function (end) {
    if (pick(openFrom(fit, end, length, known), w.gpus, w.sameHost)) { found.next = new Date(end); }
    return found.next;
  });
  return found;
};
// placesOf writes places as the command takes them: gpu01:0,1 gpu02:3.
var placesOf = function (picked) {
  var words = [], last;
  picked.forEach(function (u) {
    if (u.host === last) { words[words.length - 1] += "," + u.gpu; } else { words.push(u.host + ":" + u.gpu); }
    last = u.host;
  });
  return words;
};
// named are the GPUs that a place names; null if there is no such place.
var named = function (place) {
  var colon = place.indexOf(":"), host = colon < 0 ? place : place.slice(0, colon), here = units.filter(function (u) { return u.host === host; }), found = [];
  if (colon < 0 || place === host + ":*") { return here.length ? here : null; }
  return place.slice(colon + 1).split(",").every(function (word) {
    var range = /^(\d+)-(\d+)$/.exec(word);
    var hits = here.filter(function (u) { return range ? +u.gpu >= +range[1] && +u.gpu <= +range[2] : u.gpu === word; });
    found = found.concat(hits);
    return hits.length > 0;
  }) ? found : null;
};
var memoryOf = function (text) {
  var m = /^(\d+(?:\.\d+)?) *(gib|gi|gb|g|mib|mi|mb|m)?$/i.exec(text.trim()), unit = m && (m[2] || "g").toLowerCase();
  return m ? Math.floor(m[1] * { gib: 1024, gi: 1024, gb: 1e9 / 1048576, g: 1e9 / 1048576, mib: 1, mi: 1, mb: 1e6 / 1048576, m: 1e6 / 1048576 }[unit]) : NaN;
};
var value = function (name) { return fields[name].value; };
// show says what is chosen; without a command, what is missing.
var show = function (text, places, flags, next) {
  said.textContent = text;
  said.className = places ? "" : "bad";
  command.closest("p").hidden = !places;
  if (places) {
    command.textContent = program + " book " + places.map(shell).join(" ") + " " + flags;
    called(command);
  }
  if (next) {
    var button = doc.createElement("button");
    button.type = "button";
    button.textContent = say(B.next, brief(next));
    button.addEventListener("click", function () {
      var t = new Date(60000 * Math.ceil(next / 60000)), length = readUntil(value("until"), readFrom(value("from"), new Date(now())), new Date(now())) - readFrom(value("from"), new Date(now()));
      if (!readSpan(value("until")) && length < Infinity) { fields.until.value = stamp(new Date(+t + length)); }
      fields.from.value = stamp(t);
      compose();
      fields.from.focus();
    });
    said.append(" ", button);
  }
};
var compose = function () {
  var t = new Date(now()), w = { from: value("from"), until: value("until"), name: value("name"), comment: value("comment") };
  var from = readFrom(w.from, t), until = from && readUntil(w.until, from, t), mine = w.name.trim().toLowerCase();
  if (!until) { show(from ? B.baduntil : B.badfrom); return; }
  var flags = flagsOf(w, from, until, B.noname), places = value("at").trim().split(/\s+/).filter(Boolean);
  var when = brief(from) + " – " + (until === Infinity ? B.open : brief(until));
  if (places.length) {
    var chosen = [];
    if (!places.every(function (p) { var found = named(p); chosen = chosen.concat(found || []); return found; })) { show(B.place); return; }
    var clash;
    chosen.forEach(function (u) { u.due.forEach(function (d) { if (d.until > from && d.from < until && d.name.toLowerCase() !== mine) { clash = clash || [u, d]; } }); });
    if (clash) { show(clash[0].host + ":" + clash[0].gpu + ": " + say(B.taken, clash[1].name, brief(Math.max(clash[1].from, from)) + " – " + (clash[1].until === Infinity ? B.open : brief(clash[1].until)))); return; }
    var used = from <= t && chosen.some(function (u) { return u.how === USED; });
    show(when + (used ? ". " + B.used : ""), places, flags);
    return;
  }
  w.gpus = +value("gpus");
  w.model = value("model");
  w.sameHost = fields["one-host"].checked;
  w.mib = value("memory").trim() ? memoryOf(value("memory")) : 0;
  if (!(w.gpus >= 1 && w.gpus <= 256 && w.gpus % 1 === 0)) { show(B.count); return; }
  if (isNaN(w.mib)) { show(B.memory); return; }
  var o = offer(w, from, until, t);
  if (o.picked) {
    show(say(B.these, placesOf(o.picked).join(" "), when), placesOf(o.picked), flags);
  } else {
    show(say(B.few, o.open, o.fit), null, "", o.next);
  }
};
new URLSearchParams(location.search).forEach(function (v, name) {
  var field = fields[name];
  if (!field) { return; }
  if (field.type === "checkbox") { field.checked = true; } else { field.value = name === "at" && field.value ? field.value + " " + v : v; }
});
if (!fields.name.value) { fields.name.value = keep("name") || ""; }
form.hidden = false;
form.addEventListener("input", function (e) {
  if (e.target.name === "name") { keep("name", e.target.value || null); }
  compose();
});
compose();
setInterval(compose, 30000);
