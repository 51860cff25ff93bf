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
    if (e.key === "Escape" && e.target === controls.q) { searchFor(""); controls.q.blur(); }
    return;
  }
  var near = e.target.closest && e.target.closest(".host");
  switch (e.key) {
    case "/": if (controls.q) { controls.q.focus(); e.preventDefault(); } break;
    case "f": if (controls.q && kind === "index") { searchFor(query === "free" ? "" : "free"); } break;
    case "j": hop(1); break;
    case "k": hop(-1); break;
    case "t": turn(); break;
    case "c":
      // Of the host that has the focus, or of the first one with a free GPU.
      near = near || doc.querySelector(".hasfree[data-ssh]");
      var ssh = near && near.dataset.ssh, line = doc.querySelector(".fresh button.cpy");
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
