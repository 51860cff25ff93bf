// The value of a chart under the pointer, read back from its shape.
tips.push(function (e) {
  var s = e.target.closest("svg.ch");
  if (!s) { return ""; }
  var box = s.getBoundingClientRect(), pane = s.closest("[data-step]").dataset, step = +pane.step, path = s.querySelector(".val");
  var i = Math.min(s.dataset.n - 1, Math.max(0, Math.floor((e.clientX - box.left) / box.width * s.dataset.n))), x = 0, y = 0, value = null;
  (path ? path.getAttribute("d") : "").replace(/([Mvh])(-?\d+)/g, function (all, c, n) {
    n = +n;
    if (c === "M") { x = n; y = 0; }
    if (c === "v") { y -= n; }
    if (c === "h") { if (i >= x && i < x + n) { value = (y - 2) * s.dataset.top.replace(",", ".") / 100; } x += n; }
  });
  // Long steps are named by their middle, so that summer time moves no day.
  var at = new Date(1000 * (+pane.from + step * (i + (step > 20000 ? 0.5 : 0))));
  var when = at.toLocaleString(root.lang, step > 20000 ? { weekday: "short", day: "numeric", month: "short" } : { weekday: "short", hour: "2-digit", minute: "2-digit" });
  return when + " · " + (value === null ? W.unknown : value.toLocaleString(root.lang, { maximumFractionDigits: +(value < 9.95) }) + " " + s.dataset.unit);
});
