// Filters, kept in the address so that a view can be sent to somebody.
var names = ["model", "mem", "user", "tag", "q"], filter = {}, controls = {};
var readURL = function () {
  var q = new URLSearchParams(location.search);
  names.forEach(function (n) { filter[n] = q.get(n) || ""; });
  filter.free = q.get("free") === "1";
};
var writeURL = function () {
  var q = new URLSearchParams(location.search);
  names.forEach(function (n) { if (filter[n]) { q.set(n, filter[n]); } else { q.delete(n); } });
  if (filter.free) { q.set("free", "1"); } else { q.delete("free"); }
  q.delete("saved");
  var s = q.toString();
  try { history.replaceState(null, "", location.pathname + (s ? "?" + s : "") + location.hash); } catch (refused) { /* file:// */ }
};
var values = function (pick) {
  var seen = {};
  pick(function (v) { if (v) { seen[v] = true; } });
  return Object.keys(seen).sort();
};
var bars = function (s) { return (s || "").split("|").filter(Boolean); };
var modelOf = function (row, host) { return row.dataset.m || host.dataset.m || ""; };
var memoryOf = function (row, host) { return row.dataset.g || host.dataset.g || 0; };
var usersOf = function (row) { return all(".p", row).map(function (p) { return p.textContent; }); };
var chooser = function (name, any, list, label) {
  if (list.length < 2 && !filter[name]) { return; }
  var s = make("select");
  s.setAttribute("aria-label", any);
  s.appendChild(new Option(any, ""));
  if (filter[name] && list.indexOf(filter[name]) < 0) { list.push(filter[name]); }
  list.forEach(function (v) { s.appendChild(new Option(label ? label(v) : v, v)); });
  s.value = filter[name];
  s.addEventListener("change", function () { filter[name] = s.value; apply(); });
  controls[name] = s;
  $("_filters").appendChild(s);
};
var buildFilters = function () {
  var box = $("_filters");
  if (!box) { return; }
  var hosts = all(".host"), rows = all(".r");
  controls = { free: $("_onlyfree") };
  controls.free.checked = filter.free;
  controls.free.addEventListener("change", function () { filter.free = controls.free.checked; apply(); });
  chooser("model", W.anymodel, values(function (add) {
    hosts.forEach(function (h) { add(h.dataset.m); });
    rows.forEach(function (r) { add(r.dataset.m); });
  }));
  chooser("mem", W.anymemory, values(function (add) { all("[data-g]").forEach(function (r) { add(r.dataset.g !== "0" && r.dataset.g); }); })
    .sort(function (a, b) { return a - b; }), function (v) { return "≥ " + v + " " + W.gib; });
  chooser("user", W.anyuser, values(function (add) { rows.forEach(function (r) { usersOf(r).forEach(add); }); }));
  chooser("tag", W.anytag, values(function (add) { hosts.forEach(function (h) { bars(h.dataset.tags).forEach(add); }); }));
  var q = make("input");
  q.type = "search";
  q.placeholder = W.search + "  /";
  q.setAttribute("aria-label", W.search);
  q.value = filter.q;
  q.addEventListener("input", function () { filter.q = q.value; apply(); });
  controls.q = q;
  box.appendChild(q);
  box.appendChild(make("span", "gap"));
  var fold = make("button", "", W.foldall);
  fold.type = "button";
  fold.addEventListener("click", function () {
    var any = all(".host:not(.folded)").length > 0;
    all(".host").forEach(function (h) { setFold(h, any); });
    saveFolds();
  });
  controls.fold = fold;
  box.appendChild(fold);
};
var apply = function () {
  var box = $("_filters");
  if (!box) { return; }
  var q = filter.q.trim().toLowerCase(), shown = 0, total = 0, narrowed = q || filter.model || filter.mem || filter.user || filter.tag;
  var tag = filter.tag && "|" + filter.tag.toLowerCase() + "|";
  all(".host").forEach(function (h) {
    var tags = h.dataset.tags || "", head = q && h.querySelector("header").textContent.toLowerCase().indexOf(q) >= 0, left = 0;
    var rows = all(".r:not(.mig)", h);
    // A partitioned GPU is shown where one of its slices is.
    all(".r.mig", h).forEach(function (r) { r.hidden = true; });
    rows.forEach(function (r) {
      var ok = (!filter.free || r.classList.contains("free")) && (!filter.model || modelOf(r, h) === filter.model) &&
        (!filter.mem || +memoryOf(r, h) >= +filter.mem) && (!filter.user || usersOf(r).indexOf(filter.user) >= 0) &&
        (!tag || tags.indexOf(tag) >= 0) && (!q || head || r.textContent.toLowerCase().indexOf(q) >= 0);
      if (r.hidden === ok) { r.hidden = !ok; }
      if (ok && r.dataset.of) { $(r.dataset.of).hidden = false; }
      left += ok;
    });
    total += rows.length;
    shown += left;
    h.hidden = (narrowed || filter.free) && left === 0 && !(head && !rows.length);
  });
  all(".group").forEach(function (g) { g.hidden = !g.querySelector(".host:not([hidden])"); });
  names.forEach(function (n) { if (controls[n]) { controls[n].classList.toggle("set", !!filter[n]); } });
  var none = $("_nomatch");
  none.hidden = !(narrowed || filter.free);
  none.textContent = say(W.matched, shown, total);
  writeURL();
};

// Folding of hosts, remembered.
var setFold = function (h, yes) {
  h.classList.toggle("folded", yes);
  var b = h.querySelector("button.fold");
  if (b) { b.setAttribute("aria-expanded", String(!yes)); }
};
var saveFolds = function () {
  keep("folded", all(".host.folded").map(function (h) { return h.id; }).join(" ") || null);
  if (controls.fold) { controls.fold.textContent = all(".host:not(.folded)").length ? W.foldall : W.unfoldall; }
};
var folds = function () {
  if (kind !== "index") { return; }
  var folded = (keep("folded") || "").split(" "), signs = {};
  // A folded host still shows its GPUs, as the strip of all does.
  all(".strip a").forEach(function (a) { signs[a.hash] = a.lastElementChild; });
  all(".host").forEach(function (h) {
    var b = make("button", "fold"), head = h.querySelector("header");
    b.type = "button";
    b.setAttribute("aria-label", say(W.fold, h.id));
    b.addEventListener("click", function () { setFold(h, !h.classList.contains("folded")); saveFolds(); });
    head.insertBefore(b, head.firstChild);
    if (signs["#" + h.id]) { head.insertBefore(signs["#" + h.id].cloneNode(true), head.querySelector(".meters")); }
    setFold(h, folded.indexOf(h.id) >= 0);
  });
  saveFolds();
};
