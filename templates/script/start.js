// An address may name one of several lengths of time.
var named = location.hash && $(location.hash.slice(1));
if (named && named.type === "radio") { named.checked = true; }

var dress = function () {
  copies();
  rowsOfHosts();
  readGPUs();
  readBookings();
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
