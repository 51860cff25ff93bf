// Charts. The value under the pointer is read back from the shape. Dragging over a chart shows
// that time alone, in all charts beside it.
const { words, root, setups, tooltips, findAll, makeButton, makeSVG } = window.gpuboard;

const chartHeight = 102; // as the view box in templates/chart.templ
const longStep = 20000; // seconds; a step of a chart that is longer is named by its day

let drag = null; // the chart, the step where it began, and the part that is marked
let zoomed = null; // what is shown, in seconds, so that it stays when the page is renewed
const allTicks = new WeakMap(); // by axis: those of the whole time

const paneOf = (chart) => chart.closest("[data-step]");
const inOrder = (a, b) => a < b ? [a, b] : [b, a];

function stepAt(chart, clientX) {
  const box = chart.getBoundingClientRect();
  const view = chart.viewBox.baseVal;
  const step = Math.floor(view.x + (clientX - box.left) / box.width * view.width);
  return Math.min(chart.dataset.steps - 1, Math.max(0, step));
}

function timeText(pane, step) {
  const length = Number(pane.dataset.step);
  const start = Number(pane.dataset.from) + length * step;
  if (length > longStep) {
    // The middle, so that summer time moves no day.
    const middle = new Date(1000 * (start + length / 2));
    return middle.toLocaleString(root.lang, { weekday: "short", day: "numeric", month: "short" });
  }
  const clock = { weekday: "short", hour: "2-digit", minute: "2-digit" };
  return new Date(1000 * start).toLocaleString(root.lang, clock);
}

// valueAt reads a value from the path of a chart, which has a horizontal line for each, two
// units above the bottom for zero; null is not known.
function valueAt(chart, step) {
  const path = findAll(".area", chart).map((part) => part.getAttribute("d")).join("");
  let x = 0;
  let y = 0;
  for (const [, letter, digits] of path.matchAll(/([Mvh])(-?\d+)/g)) {
    const number = Number(digits);
    if (letter === "M") {
      x = number;
      y = 0;
    } else if (letter === "v") {
      y -= number;
    } else if (step >= x && step < x + number) {
      return (y - 2) * chart.dataset.top.replace(",", ".") / 100;
    } else {
      x += number;
    }
  }
  return null;
}

function valueText(chart, step) {
  const value = valueAt(chart, step);
  if (value === null) {
    return words.unknown;
  }
  const digits = value < 9.95 ? 1 : 0;
  return value.toLocaleString(root.lang, { maximumFractionDigits: digits }) + " " + chart.dataset.unit;
}

// levelAt is how high a layer of a stack reaches in a step: the path goes from the middle of a
// step to that of the next, in 400 parts of the top.
function levelAt(layer, step) {
  const runs = layer.getAttribute("d").matchAll(/M(\d+) 400V(\d+)h1([^h]*)h1/g);
  for (const [, x, first, moves] of runs) {
    const falls = [...moves.matchAll(/l2 (-?\d+)/g)].map((move) => Number(move[1]));
    const at = step - x / 2;
    if (at >= 0 && at <= falls.length) {
      return 400 - falls.slice(0, at).reduce((sum, fall) => sum + fall, Number(first));
    }
  }
  return 0;
}

// A stack says who is below the pointer, and how many GPUs that is.
tooltips.push(({ target, clientX }) => {
  const stack = target.closest("svg.layers");
  if (!stack) {
    return "";
  }
  const box = stack.getBoundingClientRect();
  const step = Math.min(stack.dataset.steps - 1, Math.floor((clientX - box.left) / box.width * stack.dataset.steps));
  const time = timeText(paneOf(stack), step);
  if (!target.dataset.name) {
    return time;
  }
  const below = target.nextElementSibling;
  const level = levelAt(target, step) - (below ? levelAt(below, step) : 0);
  const count = level / 400 * stack.dataset.top.replace(",", ".");
  return time + " · " + target.dataset.name + " " + count.toLocaleString(root.lang, { maximumFractionDigits: 1 });
});

tooltips.push(({ target, clientX }) => {
  const chart = drag ? drag.chart : target.closest("svg.chart");
  if (!chart) {
    return "";
  }
  const pane = paneOf(chart);
  const step = stepAt(chart, clientX);
  if (drag && step !== drag.from) {
    const [first, last] = inOrder(drag.from, step);
    return timeText(pane, first) + " – " + timeText(pane, last);
  }
  return timeText(pane, step) + " · " + valueText(chart, step);
});

// showAll shows the whole time of a pane.
function showAll(pane) {
  for (const chart of findAll("svg.chart", pane)) {
    setView(chart, 0, chart.dataset.steps);
  }
  for (const axis of findAll(".ticks", pane)) {
    if (allTicks.has(axis)) {
      axis.replaceChildren(...allTicks.get(axis));
    }
  }
  pane.querySelector(".whole")?.remove();
  pane.classList.remove("zoomed");
}

// showPart shows some steps of a pane; the axis names its ends and its middle.
function showPart(pane, from, to) {
  showAll(pane);
  for (const chart of findAll("svg.chart", pane)) {
    setView(chart, from, to - from + 1);
  }
  pane.classList.add("zoomed"); // what is drawn over all charts does not move with them
  const middle = Math.round((from + to) / 2);
  for (const axis of findAll(".ticks", pane)) {
    allTicks.set(axis, [...axis.children]);
    axis.replaceChildren(
      makeTick("start", 0, timeText(pane, from)),
      makeTick("end", 100, timeText(pane, to)),
    );
    if (axis.clientWidth > 200) {
      axis.append(makeTick("middle", 50, timeText(pane, middle)));
    }
  }
  (pane.querySelector(".key") ?? pane).append(makeButton("whole", words.wholeChart, () => {
    zoomed = null;
    showAll(pane);
  }));
}

function setView(chart, from, width) {
  chart.setAttribute("viewBox", [from, 0, width, chartHeight].join(" "));
}

function makeTick(className, percent, text) {
  const tick = makeSVG("text", { class: className, x: percent + "%", y: 12 });
  tick.textContent = text;
  return tick;
}

document.addEventListener("pointerdown", (event) => {
  const chart = event.target.closest("svg.chart");
  if (!chart || event.button !== 0) {
    return;
  }
  event.preventDefault(); // or a text would be marked
  const part = chart.appendChild(makeSVG("rect", { class: "part", height: chartHeight }));
  drag = { chart, from: stepAt(chart, event.clientX), part };
});

document.addEventListener("pointermove", ({ clientX }) => {
  if (!drag) {
    return;
  }
  const [first, last] = inOrder(drag.from, stepAt(drag.chart, clientX));
  drag.part.setAttribute("x", first);
  drag.part.setAttribute("width", last - first + 1);
});

document.addEventListener("pointerup", ({ clientX }) => {
  if (!drag) {
    return;
  }
  const pane = paneOf(drag.chart);
  const [first, last] = inOrder(drag.from, stepAt(drag.chart, clientX));
  endDrag();
  if (first === last) {
    return;
  }
  const length = Number(pane.dataset.step);
  const start = Number(pane.dataset.from);
  zoomed = { step: length, from: start + first * length, to: start + last * length };
  showPart(pane, first, last);
});

document.addEventListener("pointercancel", endDrag);

function endDrag() {
  drag?.part.remove();
  drag = null;
}

// A page that has been renewed shows the same time as before.
setups.push(() => {
  if (!zoomed) {
    return;
  }
  for (const pane of findAll("[data-step='" + zoomed.step + "']")) {
    const from = Math.max(0, (zoomed.from - pane.dataset.from) / zoomed.step);
    const to = (zoomed.to - pane.dataset.from) / zoomed.step;
    if (to > from) {
      showPart(pane, from, to);
    }
  }
});
