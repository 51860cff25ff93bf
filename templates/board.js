"use strict";
// Everything on the page can be read without this file. It ages the times by
// the viewer's clock, says so when the board has stopped, and filters, folds,
// sorts, copies and renews in place. Its words come from the page.
(function () {
  var doc = document, root = doc.documentElement, W = doc.getElementById("_words").dataset;
  var $ = function (id) { return doc.getElementById(id); };
  var all = function (sel, from) { return Array.prototype.slice.call((from || doc).querySelectorAll(sel)); };
  var say = function (words, x, y) { return words.replace("{}", x).replace("{}", y); };
  var make = function (tag, cls, text) {
    var e = doc.createElement(tag);
    if (cls) { e.className = cls; }
    if (text) { e.textContent = text; }
    return e;
  };
  var icon = function (d) {
    var ns = "http://www.w3.org/2000/svg", s = doc.createElementNS(ns, "svg"), p = doc.createElementNS(ns, "path");
    s.setAttribute("viewBox", "0 0 16 16");
    s.setAttribute("aria-hidden", "true");
    p.setAttribute("d", d);
    s.appendChild(p);
    return s;
  };
  // Memory across visits; a browser may refuse it (file://, private windows).
  var keep = function (key, value) {
    try {
      if (value === undefined) { return localStorage.getItem("gpuboard-" + key); }
      if (value === null) { localStorage.removeItem("gpuboard-" + key); } else { localStorage.setItem("gpuboard-" + key, value); }
    } catch (refused) { /* then it is forgotten with the page */ }
    return null;
  };
  root.classList.add("js");

  // Time. skew is how far this device's clock is ahead of the server's, once a
  // response has told; then the server's counts.
  var skew = 0, kind = root.dataset.kind, title = doc.title;
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
    all("[data-seen]").forEach(function (e) {
      var ms = now() - Date.parse(e.dataset.seen);
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
      if (h1 && kind !== "host" && kind !== "user" && kind !== "bookings" && h1 !== heading) {
        h1.textContent = say(W.was, h1.textContent.trim());
        heading = h1;
      }
    } else if (ms < -60000) {
      tell("", say(W.clock, length(-ms)));
    } else {
      tell("", help ? W.help : next === "late" ? say(W.late, length(ms)) : saved && built < saved - skew ? say(W.saved, root.dataset.interval) : "");
    }
    level = next;
  };

  // Copying.
  var copy = function (code, done) {
    var select = function () { getSelection().selectAllChildren(code); };
    if (navigator.clipboard && window.isSecureContext) {
      navigator.clipboard.writeText(code.textContent).then(done, select);
    } else {
      select();
      if (doc.execCommand("copy")) { done(); }
    }
  };
  var copies = function () {
    all("code.copy").forEach(function (code) {
      if (code.parentNode.classList.contains("line")) { return; }
      var line = make("span", "line"), button = make("button", "cpy", W.copy);
      button.type = "button";
      button.setAttribute("aria-label", W.copy + " " + code.textContent);
      code.parentNode.replaceChild(line, code);
      line.appendChild(code);
      line.appendChild(button);
      button.addEventListener("click", function () {
        copy(code, function () {
          button.textContent = W.copied;
          button.classList.add("ok");
          setTimeout(function () { button.textContent = W.copy; button.classList.remove("ok"); }, 1600);
        });
      });
    });
  };

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
      var rows = all(".r", h);
      rows.forEach(function (r) {
        var ok = (!filter.free || r.classList.contains("free")) && (!filter.model || modelOf(r, h) === filter.model) &&
          (!filter.mem || +memoryOf(r, h) >= +filter.mem) && (!filter.user || usersOf(r).indexOf(filter.user) >= 0) &&
          (!tag || tags.indexOf(tag) >= 0) && (!q || head || r.textContent.toLowerCase().indexOf(q) >= 0);
        if (r.hidden === ok) { r.hidden = !ok; }
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
    var folded = (keep("folded") || "").split(" ");
    all(".host").forEach(function (h) {
      var b = make("button", "fold"), head = h.querySelector("header");
      b.type = "button";
      b.setAttribute("aria-label", say(W.fold, h.id));
      b.addEventListener("click", function () { setFold(h, !h.classList.contains("folded")); saveFolds(); });
      head.insertBefore(b, head.firstChild);
      setFold(h, folded.indexOf(h.id) >= 0);
    });
    saveFolds();
  };

  // Sorting of the lists of people.
  var sorted = null;
  var sorting = function () {
    all("table.sortable").forEach(function (t) {
      all("thead th", t).forEach(function (th, i) {
        var b = make("button", "", th.textContent);
        b.type = "button";
        th.textContent = "";
        th.appendChild(b);
        var sort = function (down) {
          var body = t.tBodies[0], numbers = th.classList.contains("n");
          sorted = { column: i, down: down };
          all("th", t.tHead).forEach(function (x) { x.removeAttribute("aria-sort"); });
          th.setAttribute("aria-sort", down ? "descending" : "ascending");
          all("tr:not(.first)", body).map(function (r) {
            var text = r.cells[i].textContent.trim(), number = parseFloat(text);
            return { row: r, key: !numbers ? text.toLowerCase() : isNaN(number) ? -1 : number };
          }).sort(function (a, b) {
            return (a.key < b.key ? -1 : a.key > b.key ? 1 : 0) * (down ? -1 : 1);
          }).forEach(function (x) { body.appendChild(x.row); });
        };
        b.addEventListener("click", function () { sort(th.getAttribute("aria-sort") !== "descending"); });
        if (sorted && sorted.column === i) { sort(sorted.down); }
      });
    });
  };

  // The theme, the pause and the keys: three buttons in the corner.
  var themes = ["auto", "light", "dark"], theme = keep("theme") || "auto";
  var shapes = { auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12", light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1", dark: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z" };
  var tool = function (click) {
    var b = make("button");
    b.type = "button";
    b.addEventListener("click", click);
    $("_tools").appendChild(b);
    return b;
  };
  var face = function (b, label, d) {
    b.textContent = "";
    b.appendChild(icon(d));
    b.title = label;
    b.setAttribute("aria-label", label);
  };
  var themed = function () {
    if (theme === "auto") { delete root.dataset.theme; } else { root.dataset.theme = theme; }
    keep("theme", theme === "auto" ? null : theme);
    if (themeButton) { face(themeButton, W[theme], shapes[theme]); }
  };
  var turn = function () { theme = themes[(themes.indexOf(theme) + 1) % 3]; themed(); };
  var paused = false, keysOff = keep("keys") === "off", themeButton, pauseButton, keysButton;
  var faces = function () {
    if (pauseButton) { face(pauseButton, paused ? W.resume : W.pause, paused ? "M5 3l8 5-8 5z" : "M5 3v10M11 3v10"); }
    if (keysButton) { face(keysButton, keysOff ? W.nokeys : W.keys, "M2 4h12v8H2zM5 10h6M5 7h.1M8 7h.1M11 7h.1" + (keysOff ? "M1 1l14 14" : "")); }
  };

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

  // Booking. The panel of a row composes what to type and what to paste, and
  // holds it against the bookings that the page knows of. What was typed counts
  // for all panels, so that renewing the page loses nothing.
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
    var row = panel.closest(".r"), host = row.closest(".host").id, gpu = row.querySelector(".i").textContent.trim(), codes = all("code", panel);
    var from = new Date(now()), text = wish.end.trim(), end = endOf(text, from), name = wish.name.trim(), note = wish.comment.trim(), says = panel.querySelector(".says"), clash;
    var link = panel.querySelector("a");
    if (hasForm) {
      link.href = root.dataset.root + "book/" + host + "/" + gpu;
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
  // A front page with many hosts leaves the panels to the hosts' own pages.
  var panels = function () {
    if (kind === "index" && !doc.querySelector(".bkp,.dense")) {
      all(".r").forEach(function (r) {
        var a = make("a", "bka", W.book);
        a.href = root.dataset.root + "hosts/" + r.closest(".host").id + "/index.html?book=1#" + r.id;
        r.lastElementChild.appendChild(a);
      });
    }
    if (kind === "host" && /[?&]book=1/.test(location.search)) {
      var row = $(location.hash.slice(1)), panel = row && row.querySelector(".bkp");
      if (panel) { panel.open = true; }
    }
  };
  // After a booking: until a generation has it, which tells its time in seconds.
  var saved = /[?&]saved=1/.test(location.search) ? 1000 * Math.floor(Date.now() / 1000) : 0;

  // The value of a chart under the pointer, read back from its shape.
  var tip = null;
  doc.addEventListener("pointermove", function (e) {
    var s = e.target.closest && e.target.closest("svg.ch");
    if (!s) { if (tip) { tip.hidden = true; } return; }
    tip = tip || doc.body.appendChild(make("p", "tip"));
    var box = s.getBoundingClientRect(), pane = s.closest("[data-step]").dataset, step = +pane.step, path = s.querySelector(".val");
    var i = Math.min(s.dataset.n - 1, Math.max(0, Math.floor((e.clientX - box.left) / box.width * s.dataset.n))), x = 0, y = 0, value = null;
    (path ? path.getAttribute("d") : "").replace(/([Mvh])(-?\d+)/g, function (all, c, n) {
      n = +n;
      if (c === "M") { x = n; y = 0; }
      if (c === "v") { y -= n; }
      if (c === "h") { if (i >= x && i < x + n) { value = (y - 2) * s.dataset.top / 100; } x += n; }
    });
    // Long steps are named by their middle, so that summer time moves no day.
    var at = new Date(1000 * (+pane.from + step * (i + (step > 20000 ? 0.5 : 0))));
    var when = at.toLocaleString(root.lang, step > 20000 ? { weekday: "short", day: "numeric", month: "short" } : { weekday: "short", hour: "2-digit", minute: "2-digit" });
    tip.textContent = when + " · " + (value === null ? W.unknown : (value < 9.95 ? Math.round(value * 10) / 10 : Math.round(value)) + " " + s.dataset.unit);
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(innerWidth - tip.offsetWidth - 4, e.clientX + 12)) + "px";
    tip.style.top = Math.max(4, e.clientY - 36) + "px";
  });

  // Keys. Never in a field, never with a modifier, and they can be turned off.
  var hop = function (step) {
    var hosts = all(".host:not([hidden])").filter(function (h) { return h.offsetParent; }), focus = (doc.activeElement || doc.body).closest(".host"), at = hosts.indexOf(focus);
    // The last hosts cannot come to the top of the window: the focus goes before the place.
    if (at < 0) { hosts.forEach(function (h, i) { if (h.getBoundingClientRect().top <= 24) { at = i; } }); }
    var h = hosts[Math.max(0, Math.min(hosts.length - 1, at + step))];
    if (h) { h.scrollIntoView(); h.querySelector("h3 a").focus({ preventScroll: true }); }
  };
  doc.addEventListener("keydown", function (e) {
    if (keysOff || e.ctrlKey || e.metaKey || e.altKey || e.isComposing || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) || e.target.isContentEditable) {
      if (e.key === "Escape" && e.target === controls.q) { controls.q.value = filter.q = ""; apply(); controls.q.blur(); }
      return;
    }
    var near = e.target.closest && e.target.closest(".host,.now li");
    switch (e.key) {
      case "/": if (controls.q) { controls.q.focus(); e.preventDefault(); } break;
      case "f": if (controls.free) { controls.free.click(); } break;
      case "j": hop(1); break;
      case "k": hop(-1); break;
      case "t": turn(); break;
      case "c":
        // Of the host or the card that has the focus, or of the first free one.
        var ssh = near && near.dataset.ssh, line = near && !ssh ? near.querySelector("button.cpy") : doc.querySelector(".now button.cpy,.fresh button.cpy");
        if (ssh) {
          var code = doc.body.appendChild(make("code", "vh", "ssh " + ssh));
          copy(code, function () { code.remove(); tell("", W.copied + ": " + code.textContent); });
        } else if (line) {
          line.click();
        }
        break;
      case "?": help = !help; age(); break;
      case "Escape": help = false; age(); break;
    }
  });

  // An address may name one of several lengths of time.
  var named = location.hash && $(location.hash.slice(1));
  if (named && named.type === "radio") { named.checked = true; }

  var dress = function () {
    copies();
    panels();
    folds();
    buildFilters();
    apply();
    sorting();
    age();
  };
  readURL();
  if (saved) { writeURL(); }
  if ($("_tools")) {
    if (online) {
      pauseButton = tool(function () { paused = !paused; faces(); schedule(); });
    }
    keysButton = tool(function () { keysOff = !keysOff; keep("keys", keysOff ? "off" : null); faces(); });
    themeButton = tool(turn);
  }
  themed();
  faces();
  dress();
  setInterval(age, 15000);
  doc.addEventListener("visibilitychange", function () {
    if (doc.hidden) { clearTimeout(timer); } else { age(); if (online && !paused) { refresh(); } }
  });
  schedule();
})();
