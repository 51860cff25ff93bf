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
