// Booking. The panel of a row composes what to type and what to paste, and
// holds it against the bookings that the page knows of. What was typed counts
// for all panels, so that renewing the page loses nothing.
var { W, root, $, all, make, say, keep, now, here, copies, called, dressers } = window.gpuboard;
var doc = document;
var wish = { name: keep("name") || "", from: "", until: "2d", comment: "" }, hasForm = null;
var mine = function (d) { return wish.name.trim() && d.n.toLowerCase() === wish.name.trim().toLowerCase(); };
var placeOf = function (row) { return row.closest(".host").id + ":" + (row.dataset.u || row.querySelector(".i").textContent.trim()); };
var compose = function (panel) {
  var place = placeOf(panel.closest(".r")), codes = all("code", panel), says = panel.querySelector(".says"), link = panel.querySelector("a"), clash, own;
  var t = new Date(now()), from = readFrom(wish.from, t), until = from && readUntil(wish.until, from, t), name = wish.name.trim(), note = wish.comment.trim();
  // The page that the link leads to begins with what was typed.
  var to = new URL(link.href);
  [["at", place], ["from", exact(wish.from, from)], ["until", exact(wish.until, until)], ["name", name], ["comment", note]].forEach(function (f) {
    if (f[1]) { to.searchParams.set(f[0], f[1]); } else { to.searchParams.delete(f[0]); }
  });
  link.href = to.href;
  all("i", panel).forEach(function (b) {
    var d = b.dataset;
    if (until && (!d.f || Date.parse(d.f) < until) && (!d.u || Date.parse(d.u) > from)) {
      if (mine(d)) { own = own || d; } else { clash = clash || d; }
    }
  });
  if (hasForm) { link.textContent = own ? B.extend : B.here; }
  says.className = until && !clash ? "says d" : "says bad";
  if (!until) {
    says.textContent = from ? B.baduntil : B.badfrom;
    return;
  }
  says.textContent = clash ? say(B.taken, clash.n, brief(Math.max(from, Date.parse(clash.f) || 0)) + " – " + (clash.u ? brief(clash.u) : B.open)) :
    until === Infinity ? B.never : say(B.free, brief(until));
  codes[0].textContent = codes[0].textContent.split(" book ")[0] + " book " + shell(place) + " " + flagsOf(wish, from, until, B.noname);
  var entry = { name: name || B.noname };
  if (wish.from.trim()) { entry.from = stamp(from); }
  if (until !== Infinity) { entry.date = stamp(until); }
  if (note) { entry.comment = note; }
  var host = place.split(":")[0], gpu = place.slice(host.length + 1);
  codes[1].textContent = JSON.stringify(host) + ": { " + JSON.stringify(gpu) + ": { " +
    Object.keys(entry).map(function (k) { return JSON.stringify(k) + ": " + JSON.stringify(entry[k]); }).join(", ") + " } }";
  codes.forEach(called);
};
var furnish = function (panel) {
  var box = make("p", "wish"), says = make("p", "says d");
  says.setAttribute("role", "status");
  [["name", B.name], ["from", B.from], ["until", B.until], ["comment", B.comment]].forEach(function (f) {
    var label = make("label", "", f[1]), input = make("input");
    input.name = f[0];
    input.value = wish[f[0]];
    input.maxLength = 128;
    input.autocomplete = "off";
    input.addEventListener("input", function () {
      wish[f[0]] = input.value;
      if (f[0] === "name") { keep("name", input.value || null); }
      compose(panel);
    });
    label.appendChild(input);
    box.appendChild(label);
  });
  // Without the script, the page that the link leads to says what to paste.
  if (all("code", panel).length < 2) {
    panel.insertBefore(make("p"), panel.lastElementChild).appendChild(make("code", "copy"));
    copies();
  }
  panel.insertBefore(box, panel.querySelector("p"));
  panel.insertBefore(says, box.nextSibling);
};
doc.addEventListener("toggle", function (e) {
  var panel = e.target;
  if (!panel.open || !panel.classList || !panel.classList.contains("bkp")) { return; }
  if (!panel.querySelector(".wish")) { furnish(panel); }
  compose(panel);
  if (hasForm === null && location.protocol !== "file:") {
    hasForm = false;
    fetch(here(root.dataset.root + "book/capabilities.json"), { cache: "no-cache", credentials: "same-origin" }).then(function (r) {
      return r.ok ? r.json() : {};
    }).then(function (able) {
      hasForm = able.booking === true;
      if (able.name && !wish.name) {
        wish.name = able.name;
        keep("name", able.name);
        all(".bkp .wish input[name=name]").forEach(function (input) { input.value = able.name; });
      }
      all(".bkp[open] .wish").forEach(function (w) { compose(w.parentNode); });
      ownRows();
    }).catch(function () { hasForm = null; });
  }
}, true);
// One's own bookings can be extended and released from their rows.
var ownRows = function () {
  var t = now();
  all(".bkp").forEach(function (panel) {
    var own = all("i", panel).some(function (b) { var d = b.dataset; return mine(d) && (!d.f || Date.parse(d.f) <= t) && (!d.u || Date.parse(d.u) > t); });
    var summary = panel.querySelector("summary"), words = own ? B.own : B.book;
    if (summary.textContent !== words) { summary.textContent = words; }
  });
};
// What has just been booked is not free, though the board does not have it yet.
var query = new URLSearchParams(location.search), booked = (query.get("booked") || "").split(","), bookedAt = 1000 * Math.floor(Date.now() / 1000);
if (booked[0]) {
  query.delete("booked");
  try { history.replaceState(null, "", location.pathname + (String(query) ? "?" + query : "") + location.hash); } catch (refused) { /* file:// */ }
}
var isBooked = function (host, place) { return booked.indexOf(host) >= 0 || booked.indexOf(place) >= 0; };
var markBooked = function () {
  if (!booked[0] || Date.parse(root.dataset.built) >= bookedAt) { return; }
  var mark = function (use) { if (use.getAttribute("href") === "#_free") { use.setAttribute("href", "#_booked"); } };
  all(".r").forEach(function (row) {
    var chip = row.querySelector(".chip.free");
    if (!chip || !isBooked(row.closest(".host").id, placeOf(row))) { return; }
    row.classList.remove("free");
    chip.className = "chip booked";
    chip.lastChild.textContent = W.states.booked;
    all("use", chip).forEach(mark);
  });
  JSON.parse(($("_gpus") || {}).textContent || '{"hosts":[]}').hosts.forEach(function (h) {
    var glyphs = all("#" + CSS.escape(h.id) + " .hl>svg>use");
    h.gpus.forEach(function (g, i) { if (glyphs[i] && isBooked(h.id, h.id + ":" + g[0])) { mark(glyphs[i]); } });
  });
};
var dressBook = function () { ownRows(); markBooked(); };
dressers.push(dressBook);
dressBook();
