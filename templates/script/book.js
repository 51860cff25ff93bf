// Booking. The panel of a row composes what to type and what to paste, and
// holds it against the bookings that the page knows of. What was typed counts
// for all panels, so that renewing the page loses nothing.
var { W, root, all, make, say, keep, now, here, copies, called } = window.gpuboard;
var doc = document;
var wish = { name: keep("name") || "", end: "2d", comment: "" }, hasForm = null;
var shell = function (s) { return /^[\w.@%+=:,\/-]+$/.test(s) ? s : "'" + s.replace(/'/g, "'\\''") + "'"; };
var two = function (n) { return (n < 10 ? "0" : "") + n; };
var endOf = function (text, from) {
  var m = /^\+?(?:(\d{1,3})\s*w)?\s*(?:(\d{1,4})\s*d)?\s*(?:(\d{1,5})\s*h)?\s*(?:(\d{1,5})\s*m(?:in)?)?$/i.exec(text), d;
  if (m && /\d/.test(text)) {
    d = new Date(from);
    d.setDate(d.getDate() + 7 * (m[1] || 0) + +(m[2] || 0));
    return new Date(d.getTime() + 3600000 * (m[3] || 0) + 60000 * (m[4] || 0));
  }
  m = /^(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d))?$/.exec(text);
  return m ? new Date(m[1], m[2] - 1, +m[3] + (m[4] ? 0 : 1), m[4] || 0, m[5] || 0) : new Date(NaN);
};
// The viewer's own time with its offset means the same in every zone.
var stamp = function (d) {
  var off = -d.getTimezoneOffset(), abs = Math.abs(off);
  return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + two(d.getHours()) + ":" + two(d.getMinutes()) +
    (off < 0 ? "-" : "+") + two(Math.floor(abs / 60)) + ":" + two(abs % 60);
};
var brief = function (iso) {
  return new Date(iso).toLocaleString(root.lang, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
};
var compose = function (panel) {
  var row = panel.closest(".r"), host = row.closest(".host").id, gpu = row.dataset.u || row.querySelector(".i").textContent.trim(), codes = all("code", panel);
  var from = new Date(now()), text = wish.end.trim(), end = endOf(text, from), name = wish.name.trim(), note = wish.comment.trim(), says = panel.querySelector(".says"), clash;
  var link = panel.querySelector("a");
  if (hasForm) {
    link.href = root.dataset.root + "book/" + host + "/" + gpu + link.search;
    link.textContent = W.bookhere;
  }
  if (!(end > from)) {
    says.className = "says bad";
    says.textContent = W.bookend;
    return;
  }
  all("i", panel).forEach(function (b) {
    var d = b.dataset;
    if (!clash && d.n.toLowerCase() !== name.toLowerCase() && (!d.f || Date.parse(d.f) < end) && (!d.u || Date.parse(d.u) > from)) { clash = d; }
  });
  says.className = clash ? "says bad" : "says d";
  says.textContent = clash ? say(W.booktaken, clash.n, (clash.f && Date.parse(clash.f) > from ? brief(clash.f) + " " : "") + "– " + (clash.u ? brief(clash.u) : W.bookopen)) : say(W.bookfree, brief(end));
  codes[0].textContent = codes[0].textContent.split(" book ")[0] + " book " + host + ":" + gpu +
    (/-\d/.test(text) ? " --until " + shell(stamp(end)) : " --for " + shell(text)) + " --name " + shell(name || W.booknoname) + (note ? " --comment " + shell(note) : "");
  codes[1].textContent = JSON.stringify(host) + ": { " + JSON.stringify(gpu) + ': { "name": ' + JSON.stringify(name || W.booknoname) +
    ', "date": ' + JSON.stringify(stamp(end)) + (note ? ', "comment": ' + JSON.stringify(note) : "") + " } }";
  codes.forEach(called);
};
var furnish = function (panel) {
  var box = make("p", "wish"), says = make("p", "says d");
  says.setAttribute("role", "status");
  [["name", W.bookname], ["end", W.bookuntil], ["comment", W.bookcomment]].forEach(function (f) {
    var label = make("label", "", f[1]), input = make("input");
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
      all(".bkp[open] .wish").forEach(function (w) { compose(w.parentNode); });
    }).catch(function () { hasForm = null; });
  }
}, true);
