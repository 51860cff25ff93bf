// The rows of a host open below its line. Up to a dozen hosts have theirs in the
// page; the rows of others are fetched from the host's own page when they are opened.
var opened = {}; // by host: its rows, which were fetched
var closed = (keep("closed") || "").split(" ");
var isOpen = function (line) { return line.classList.contains("open"); };
var showRows = function (line, yes) {
  line.classList.toggle("open", yes);
  var button = line.querySelector("button.fold"), rows = line.querySelector(".rows");
  if (button) { button.setAttribute("aria-expanded", String(yes)); }
  if (rows) { rows.hidden = !yes; }
};
var dressRows = function (line, rows) {
  var old = line.querySelector(".rows");
  if (old) { old.remove(); }
  line.appendChild(rows);
  copies();
};
var fetchPage = function (address) {
  return fetch(here(address), { cache: "no-cache", credentials: "same-origin" }).then(function (r) {
    return r.ok ? r.text() : Promise.reject();
  }).then(function (text) { return new DOMParser().parseFromString(text, "text/html"); });
};
// adopt copies a part of another page, with links that lead where they led there.
var adopt = function (part, address) {
  part = doc.importNode(part, true);
  all("a[href]", part).forEach(function (a) { a.href = new URL(a.getAttribute("href"), address).href; });
  return part;
};
var fetchRows = function (line) {
  var address = line.querySelector("h3 a").href;
  return fetchPage(address).then(function (page) {
    opened[line.id] = adopt(page.querySelector(".rows"), address);
    // The page may have been renewed meanwhile.
    line = $(line.id);
    if (line && isOpen(line)) { dressRows(line, opened[line.id]); apply(); }
  });
};
// openHost shows the rows of a host; where they cannot be fetched, its own page has them.
var openHost = function (line) {
  var fetched = !line.querySelector(".rows");
  showRows(line, true);
  if (!fetched) { return; }
  if (!online) { location.href = line.querySelector("h3 a").href; return; }
  fetchRows(line).catch(function () { location.href = line.querySelector("h3 a").href; });
};
var closeHost = function (line) {
  if (opened[line.id]) {
    delete opened[line.id];
    line.querySelector(".rows").remove();
  }
  showRows(line, false);
};
var toggleHost = function (line) {
  (isOpen(line) ? closeHost : openHost)(line);
  closed = all(".host:not(.open)").filter(function (h) { return h.querySelector(".rows"); }).map(function (h) { return h.id; });
  keep("closed", closed.join(" ") || null);
};
var rowsOfHosts = function () {
  if (kind !== "index") { return; }
  all(".host").forEach(function (line) {
    var head = line.querySelector(".hl"), button = make("button", "fold");
    button.type = "button";
    button.setAttribute("aria-label", say(W.rows, line.id));
    button.setAttribute("aria-expanded", String(isOpen(line)));
    head.insertBefore(button, head.firstChild);
    head.addEventListener("click", function (e) {
      if (!e.target.closest("a") && !String(getSelection())) { toggleHost(line); }
    });
    if (closed.indexOf(line.id) >= 0) { showRows(line, false); }
    if (opened[line.id]) {
      showRows(line, true);
      dressRows(line, opened[line.id]);
      if (online) { fetchRows(line).catch(function () {}); }
    }
  });
};
