// Time. skew is how far this device's clock is ahead of the server's, once a
// response has told; then the server's counts.
var skew = 0, kind = root.dataset.kind, title = doc.title;
// After a booking: until a generation has it, which tells its time in seconds.
var saved = /[?&]saved=1/.test(location.search) ? 1000 * Math.floor(Date.now() / 1000) : 0;
var now = function () { return Date.now() - skew; };
var length = function (ms) {
  var s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) { return W.sec.replace("%d", s); }
  if (s < 3600) { return W.min.replace("%d", Math.floor(s / 60)); }
  if (s < 172800) { return W.hour.replace("%d", Math.floor(s / 3600)); }
  return W.day.replace("%d", Math.floor(s / 86400));
};
var heading = null, level = "", help = false;
var tell = function (cls, text) {
  var box = $("_state"), p = box.firstChild;
  if (!text) { if (p) { box.removeChild(p); } return; }
  if (!p) { p = box.appendChild(make("p")); }
  p.className = cls;
  if (p.textContent !== text) { p.textContent = text; }
};
var icons = function (href) {
  var link = doc.querySelector("link[rel=icon]");
  if (link && link.getAttribute("href") !== href) { link.setAttribute("href", href); }
};
var age = function () {
  all("time.age").forEach(function (e) {
    var ms = now() - Date.parse(e.dateTime);
    if (!e.title) { e.title = e.textContent; }
    e.textContent = ms < -60000 ? e.title : say(W.ago, length(ms));
  });
  if (!root.dataset.built) { tell("", help ? W.help : ""); return; }
  var built = Date.parse(root.dataset.built), ms = now() - built, step = 1000 * (root.dataset.interval || 60);
  var mark = $("_age"), h1 = doc.querySelector("h1 .big");
  var next = ms > 10 * step ? "dead" : ms > 2.5 * step ? "late" : "";
  if (mark) { mark.textContent = ms < -60000 ? "" : ", " + say(W.ago, length(ms)); }
  root.classList.toggle("dead-page", next === "dead");
  root.classList.toggle("late", next === "late");
  if (next === "dead") {
    tell("dead", say(W.stopped, length(ms)));
    icons(root.dataset.root + "favicon-old.svg");
    doc.title = say(W.oldtitle, title);
    if (h1 && (kind === "index" || kind === "kiosk") && h1 !== heading) {
      var parts = Array.prototype.map.call(h1.childNodes, function (n) { return n.textContent.trim(); });
      h1.textContent = say(W.was, parts.filter(Boolean).join(" — "));
      heading = h1;
    }
  } else if (ms < -60000) {
    tell("", say(W.clock, length(-ms)));
  } else {
    tell("", help ? W.help : next === "late" ? say(W.late, length(ms)) : saved && built < saved - skew ? say(W.saved, root.dataset.interval) : "");
  }
  level = next;
};

// Times are the site's. To a viewer whose clock shows another, each says its own, too.
var zones = function () {
  var built = $("_built"), at = built && new Date(built.dateTime), clock = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (!at || built.textContent.indexOf(at.toLocaleTimeString("en-GB", clock)) >= 0) { return; }
  var own = new Intl.DateTimeFormat(root.lang, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false, timeZoneName: "short" });
  all("time[datetime]:not(.age)").forEach(function (e) { e.title = own.format(new Date(e.dateTime)); });
  var foot = doc.querySelector(".foot .small");
  if (foot && !$("_zone")) {
    foot.appendChild(make("span", "", " " + say(W.zone, own.format(at)))).id = "_zone";
  }
};
