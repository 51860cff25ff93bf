// The rows of a host open below its line. Up to a dozen hosts have theirs in the
// page; the rows of others are fetched from the host's own page when they are opened.
var opened = {}; // by host: its rows, which were fetched, and the news that they are of
var toggled = (keep("hosts") || "").split(" ").filter(Boolean); // hosts that are not as the page has them
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
// newsOf tells apart what a line says of its host.
var newsOf = function (line) {
  return all(".hl time,.hl use", line).map(function (e) { return e.dateTime || e.getAttribute("href"); }).join() + line.querySelector(".us").textContent;
};
var fetchRows = function (line) {
  var address = line.querySelector("h3 a").href;
  return fetchPage(address).then(function (page) {
    // The page may have been renewed meanwhile.
    line = $(line.id);
    if (!line || !isOpen(line)) { return; }
    opened[line.id] = { rows: adopt(page.querySelector(".rows"), address), news: newsOf(line) };
    dressRows(line, opened[line.id].rows);
    sorting();
    apply();
  });
};
// openHost shows the rows of a host; where they cannot be fetched, its own page has them.
var openHost = function (line) {
  var elsewhere = function () { location.href = line.querySelector("h3 a").href; };
  if (!line.querySelector(".rows") && !online) { elsewhere(); return; }
  showRows(line, true);
  if (!line.querySelector(".rows")) { fetchRows(line).catch(elsewhere); }
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
  toggled = toggled.filter(function (id) { return id !== line.id; });
  if (isOpen(line) !== line.rowed) { toggled.push(line.id); }
  keep("hosts", toggled.join(" ") || null);
};
var foldButton = make("button", "fold");
foldButton.type = "button";
doc.addEventListener("click", function (e) {
  var head = kind === "index" && e.target.closest(".hl");
  if (head && !e.target.closest("a") && !String(getSelection())) { toggleHost(head.parentNode); }
});
var rowsOfHosts = function () {
  if (kind !== "index") { return; }
  all(".host").forEach(function (line) {
    var head = line.querySelector(".hl"), button = foldButton.cloneNode(), kept = opened[line.id];
    line.rowed = isOpen(line);
    button.setAttribute("aria-label", say(W.rows, line.id));
    button.setAttribute("aria-expanded", String(line.rowed));
    head.insertBefore(button, head.firstChild);
    var other = toggled.indexOf(line.id) >= 0;
    if (line.rowed) { showRows(line, !other); return; }
    if (!kept && !(other && online)) { return; }
    showRows(line, true);
    if (kept) { dressRows(line, kept.rows); }
    // Rows are fetched again when there is news of the host.
    if (online && !(kept && kept.news === newsOf(line))) { fetchRows(line).catch(function () { if (!kept) { showRows(line, false); } }); }
  });
};
// Groups can be folded; which are is remembered by their names.
var folded = JSON.parse(keep("folded") || "[]");
var nameOf = function (group) { return group.querySelector("h2").textContent; };
var groups = function () {
  all("details.group").forEach(function (group) {
    var name = nameOf(group);
    group.open = folded.indexOf(name) < 0;
    group.firstElementChild.addEventListener("click", function () {
      folded = folded.filter(function (other) { return other !== name; });
      if (group.open) { folded.push(name); } // it is about to be folded
      keep("folded", folded.length ? JSON.stringify(folded) : null);
    });
  });
};
