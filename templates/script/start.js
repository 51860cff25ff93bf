// An address may name one of several lengths of time.
var named = location.hash && $(location.hash.slice(1));
if (named && named.type === "radio") { named.checked = true; }

var dress = function () {
  copies();
  groups();
  rowsOfHosts();
  readGPUs();
  dressers.forEach(function (f) { f(); });
  buildFinder();
  apply();
  sorting();
  zones();
  age();
};
readURL();
if (saved) { writeURL(); }
if ($("_tools")) {
  if (online) {
    pauseButton = tool(function () { paused = !paused; faces(); schedule(); });
  }
  if (kind === "index") { comfortButton = tool(function () { comfort = !comfort; roomy(); faces(); }); }
  keysButton = tool(function () { keysOff = !keysOff; keep("keys", keysOff ? "off" : null); faces(); });
  themeButton = tool(turn);
}
themed();
roomy();
faces();
dress();
setInterval(age, 15000);
doc.addEventListener("visibilitychange", function () {
  if (doc.hidden) { clearTimeout(timer); } else { age(); if (online && !paused) { refresh(); } }
});
schedule();
// What the other scripts use.
window.gpuboard = {
  W: W, root: root, $: $, all: all, make: make, say: say, keep: keep, now: now, here: here, copies: copies, called: called,
  tips: tips, dressers: dressers, filters: filters, apply: apply, fetchPage: fetchPage, adopt: adopt, online: online
};
