// Charts. The value under the pointer is read back from the shape. Dragging over a
// chart shows that time alone, in all charts beside it.
var { W, root, all, make, tips, dressers } = window.gpuboard;
var paneOf = function (chart) { return chart.closest("[data-step]"); };
var stepAt = function (chart, e) {
  var box = chart.getBoundingClientRect(), view = chart.viewBox.baseVal;
  return Math.min(chart.dataset.n - 1, Math.max(0, Math.floor(view.x + (e.clientX - box.left) / box.width * view.width)));
};
var timeOf = function (pane, step) {
  var length = +pane.dataset.step, days = length > 20000;
  // Long steps are named by their middle, so that summer time moves no day.
  var at = new Date(1000 * (+pane.dataset.from + length * (step + (days ? 0.5 : 0))));
  return at.toLocaleString(root.lang, days ? { weekday: "short", day: "numeric", month: "short" } : { weekday: "short", hour: "2-digit", minute: "2-digit" });
};
var valueAt = function (chart, step) {
  var path = chart.querySelector(".val"), x = 0, y = 0, value = null;
  (path ? path.getAttribute("d") : "").replace(/([Mvh])(-?\d+)/g, function (all, c, n) {
    n = +n;
    if (c === "M") { x = n; y = 0; }
    if (c === "v") { y -= n; }
    if (c === "h") { if (step >= x && step < x + n) { value = (y - 2) * chart.dataset.top.replace(",", ".") / 100; } x += n; }
  });
  return value;
};
var drag = null; // the chart, the step where it began, and the part that is marked
tips.push(function (e) {
  var chart = drag ? drag.chart : e.target.closest("svg.ch");
  if (!chart) { return ""; }
  var step = stepAt(chart, e), pane = paneOf(chart), value = valueAt(chart, step);
  if (drag && step !== drag.from) { return timeOf(pane, Math.min(step, drag.from)) + " – " + timeOf(pane, Math.max(step, drag.from)); }
  return timeOf(pane, step) + " · " + (value === null ? W.unknown : value.toLocaleString(root.lang, { maximumFractionDigits: +(value < 9.95) }) + " " + chart.dataset.unit);
});
var shape = function (tag, values) {
  var e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.keys(values).forEach(function (name) { e.setAttribute(name, values[name]); });
  return e;
};
// show shows steps of a pane, all of them without from; the axis then names its ends
// and its middle.
var show = function (pane, from, to) {
  var button = pane.querySelector(".whole");
  all("svg.ch", pane).forEach(function (chart) {
    chart.setAttribute("viewBox", from === undefined ? "0 0 " + chart.dataset.n + " 102" : from + " 0 " + (to - from + 1) + " 102");
  });
  all(".ax", pane).forEach(function (axis) {
    axis.all = axis.all || Array.prototype.slice.call(axis.children);
    axis.textContent = "";
    if (from === undefined) { axis.all.forEach(function (tick) { axis.appendChild(tick); }); return; }
    [["start", 0, from], ["middle", 50, Math.round((from + to) / 2)], ["end", 100, to]].forEach(function (tick) {
      axis.appendChild(shape("text", { "class": tick[0], x: tick[1] + "%", y: 12 })).textContent = timeOf(pane, tick[2]);
    });
  });
  if (button) { button.remove(); }
  if (from === undefined) { return; }
  button = pane.querySelector(".key").appendChild(make("button", "whole", W.whole));
  button.type = "button";
  button.addEventListener("click", function () { zoomed = null; show(pane); });
};
var zoomed = null; // what is shown, in seconds, so that it stays when the page is renewed
document.addEventListener("pointerdown", function (e) {
  var chart = e.target.closest("svg.ch");
  if (!chart || e.button) { return; }
  e.preventDefault(); // or a text would be marked
  drag = { chart: chart, from: stepAt(chart, e), part: chart.appendChild(shape("rect", { "class": "part", height: 102 })) };
});
document.addEventListener("pointermove", function (e) {
  if (!drag) { return; }
  var step = stepAt(drag.chart, e);
  drag.part.setAttribute("x", Math.min(step, drag.from));
  drag.part.setAttribute("width", Math.abs(step - drag.from) + 1);
});
document.addEventListener("pointerup", function (e) {
  if (!drag) { return; }
  var pane = paneOf(drag.chart), step = stepAt(drag.chart, e), from = Math.min(step, drag.from), to = Math.max(step, drag.from), length = +pane.dataset.step;
  drag.part.remove();
  drag = null;
  if (to === from) { return; }
  zoomed = { step: length, from: +pane.dataset.from + from * length, to: +pane.dataset.from + to * length };
  show(pane, from, to);
});
document.addEventListener("pointercancel", function () { if (drag) { drag.part.remove(); drag = null; } });
dressers.push(function () {
  if (!zoomed) { return; }
  all("[data-step='" + zoomed.step + "']").forEach(function (pane) {
    var from = Math.max(0, (zoomed.from - pane.dataset.from) / zoomed.step), to = (zoomed.to - pane.dataset.from) / zoomed.step;
    if (to > from) { show(pane, from, to); }
  });
});
