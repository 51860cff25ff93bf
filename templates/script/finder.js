// The line of filters: the search and the counts of states, each a link to what it
// counts. What is searched for is in the address, so that it can be sent to somebody.
// So is the order of the hosts, and that of their rows.
var query = "", order = "", rowOrder = "", controls = {}, openedBySearch = [];
var readURL = function () {
  var q = new URLSearchParams(location.search);
  query = q.get("q") || "";
  order = q.get("order") || "";
  rowOrder = q.get("rows") || "";
};
var writeURL = function () {
  var q = new URLSearchParams(location.search);
  [["q", query], ["order", order], ["rows", rowOrder]].forEach(function (x) { if (x[1]) { q.set(x[0], x[1]); } else { q.delete(x[0]); } });
  q.delete("saved");
  var s = q.toString();
  try { history.replaceState(null, "", location.pathname + (s ? "?" + s : "") + location.hash); } catch (refused) { /* file:// */ }
};
var searchFor = function (words) {
  query = words;
  if (controls.q && controls.q.value !== words) { controls.q.value = words; }
  apply();
  writeURL();
};
var buildFinder = function () {
  var box = $("_find");
  controls = {};
  if (!box) { return; }
  controls.q = $("_q");
  box.hidden = false;
  controls.q.value = query;
  controls.q.addEventListener("input", function () { searchFor(controls.q.value); bringUp(); });
  controls.q.addEventListener("keydown", function (e) {
    var first = doc.querySelector(".host.first");
    if (e.key === "Enter" && first) { e.preventDefault(); if (!isOpen(first)) { openHost(first); } first.querySelector("h3 a").focus(); }
  });
  if ($("_order")) {
    $("_order").hidden = false;
    $("_order").value = order || "listed";
    $("_order").addEventListener("change", function () { order = this.value === "listed" ? "" : this.value; orderHosts(); writeURL(); });
    if (order) { orderHosts(); }
  }
  all("a[href^='?q=']").forEach(function (a) {
    a.addEventListener("click", function (e) {
      if (e.ctrlKey || e.metaKey || e.shiftKey) { return; }
      e.preventDefault();
      var words = new URLSearchParams(a.getAttribute("href")).get("q");
      searchFor(words === query ? "" : words);
    });
  });
};
// bringUp scrolls the first host that matches into view.
var bringUp = function () {
  var first = query && doc.querySelector(".host.first");
  if (first) { first.scrollIntoView({ block: "nearest" }); }
};
// A few hosts that match are opened, and closed again with the next search.
var mostOpened = 3;
var openMatches = function (hosts) {
  var few = query && online && hosts.length <= mostOpened ? hosts.map(function (h) { return h.id; }) : [];
  openedBySearch.forEach(function (id) { if (few.indexOf(id) < 0 && $(id) && isOpen($(id))) { closeHost($(id)); } });
  openedBySearch = openedBySearch.filter(function (id) { return few.indexOf(id) >= 0; });
  few.forEach(function (id) {
    if (!isOpen($(id))) { openedBySearch.push(id); openHost($(id)); }
  });
};
var markRows = function (h) {
  var rows = all(".r:not(.mig)", h.line);
  all(".r.mig", h.line).forEach(function (r) { r.hidden = true; });
  rows.forEach(function (r, i) {
    var hit = !query.trim() || (h.gpus[i] && h.gpus[i].hit);
    r.hidden = !hit;
    // A partitioned GPU is shown where one of its slices is.
    if (hit && r.dataset.of && $(r.dataset.of)) { $(r.dataset.of).hidden = false; }
  });
};
// paintHosts hides the hosts that do not match and dims the GPUs that do not. With many
// hosts those that come first are shown at once, the others after them.
var mostAtOnce = 120, painting = 0;
var paintHosts = function (hosts) {
  var later = [], shown = 0;
  clearTimeout(painting);
  hosts.forEach(function (h) {
    if (h.hit && shown >= mostAtOnce) { later.push(h); return; }
    shown += h.hit;
    if (h.line.hidden === h.hit) { h.line.hidden = !h.hit; }
    if (!h.hit) { return; }
    h.gpus.forEach(function (g, i) {
      var dim = !g.hit, glyph = h.glyphs[i];
      if (glyph && (g.dim || false) !== dim) { glyph.classList.toggle("off", dim); g.dim = dim; }
    });
  });
  if (later.length) { painting = setTimeout(function () { paintHosts(later); }, 0); }
};
var apply = function () {
  if (!$("_find")) { return; }
  if (kind !== "index") { if (filters[kind]) { filters[kind](query); } return; }
  var typed = query.trim(), result = search(query), first = typed && result.hosts[0];
  hostList.forEach(function (h) { if (h.line.classList.contains("first") !== (h === first)) { h.line.classList.toggle("first", h === first); } });
  paintHosts(all(".map .host").map(function (line) { return hostByID[line.id]; }));
  if (typed) { openMatches(result.hosts); } else { openMatches([]); }
  hostList.forEach(function (h) { if (isOpen(h.line)) { markRows(h); } });
  all(".group").forEach(function (g) {
    var shown = all(".host", g).some(function (line) { return hostByID[line.id].hit; });
    g.hidden = !shown;
    if (g.tagName === "DETAILS") { g.open = typed ? shown : folded.indexOf(nameOf(g)) < 0; }
  });
  all(".counts a").forEach(function (a) {
    if (new URLSearchParams(a.getAttribute("href")).get("q") === typed) { a.setAttribute("aria-current", "true"); } else { a.removeAttribute("aria-current"); }
  });
  $("_found").textContent = typed ? say(W.matched, result.gpus, result.of) : "";
};
// Pointing at a sign says whose GPU it is.
tips.push(function (e) {
  var svg = e.target.closest(".host .hl>svg"), h = svg && hostByID[svg.closest(".host").id];
  var g = h && h.gpus[Math.floor((e.clientX - svg.getBoundingClientRect().left) / signWidth)];
  return g && [h.id + " " + g.index, W.states[g.state], g.who, g.booker && say(W.bookedby, g.booker)].filter(Boolean).join(" · ");
});
