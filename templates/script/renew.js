// Renewing in place: fetched only while somebody looks, and only main is
// replaced, so that scroll, focus, filters and open details stay.
var online = location.protocol !== "file:" && kind !== "kiosk" && kind !== "about";
var timer = 0;
var schedule = function () {
  clearTimeout(timer);
  if (online && !paused && !doc.hidden) {
    timer = setTimeout(refresh, saved && Date.parse(root.dataset.built) < saved - skew ? 2000 : 1000 * Math.max(5, root.dataset.interval || 60) * (1 + Math.random() / 5));
  }
};
// Without a name and password that somebody opened the page with: fetch refuses those.
var here = function (path) { return new URL(path || location.pathname, location.origin + location.pathname).href; };
var refresh = function () {
  fetch(here(""), { cache: "no-cache", credentials: "same-origin" }).then(function (r) {
    var date = Date.parse(r.headers.get("Date"));
    if (date) { skew = Math.abs(Date.now() - date) > 60000 ? Date.now() - date : 0; }
    return r.ok ? r.text() : "";
  }).then(function (text) {
    var fresh = text && new DOMParser().parseFromString(text, "text/html");
    age(); // before the news, which it would take away
    if (fresh && fresh.getElementById("_main")) { renew(fresh); }
  }).catch(function () { age(); }).then(schedule);
};
var renew = function (fresh) {
  var data = fresh.documentElement.dataset, active = doc.activeElement;
  if (data.built === root.dataset.built || doc.querySelector("dialog[open],form:focus-within")) { return; }
  if (active && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName) && !/^(checkbox|radio)$/.test(active.type)) { return; }
  var main = $("_main"), next = doc.importNode(fresh.getElementById("_main"), true);
  var free = all(".r.free").length, x = scrollX, y = scrollY, focus = active && where(active);
  var open = all("details[open]", main).map(where), shut = all("details:not([open])", main).map(where);
  var chosen = all("input[type=radio]:checked", main).map(where);
  main.parentNode.replaceChild(next, main);
  chosen.forEach(function (p) { var r = find(p); if (r) { r.checked = true; } });
  root.dataset.built = data.built;
  root.dataset.interval = data.interval;
  title = fresh.title;
  doc.title = title;
  icons(fresh.querySelector("link[rel=icon]").getAttribute("href"));
  heading = null;
  dress();
  var state = function (paths, yes) { paths.forEach(function (p) { var d = find(p); if (d && d.tagName === "DETAILS") { d.open = yes; } }); };
  state(open, true);
  state(shut, false);
  if (focus && find(focus)) { find(focus).focus({ preventScroll: true }); }
  scrollTo(x, y);
  var count = all(".r.free").length;
  if (count !== free && kind === "index" && !level) { tell("vh", say(W.nowfree, count)); }
};
// A place in the page that survives its renewal: the nearest id, and which of
// the elements of its kind below that.
var where = function (e) {
  var near = e.closest("[id]") || doc.body;
  return { id: near.id, tag: e.tagName, at: near === e ? -1 : all(e.tagName, near).indexOf(e) };
};
var find = function (p) {
  var near = p.id ? $(p.id) : doc.body;
  return near && (p.at < 0 ? near : all(p.tag, near)[p.at]);
};
