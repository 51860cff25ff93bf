// What an open page notes of itself for page-hour, from its beginning on, and what its reader must not lose.
(() => {
  const typingLasts = 1000; // ms in which tasks are those of what was typed
  const longest = 60000; // ms; a task that is longer is one in which the browser was stopped
  const hour = (window.hour = { tasks: [], shifts: [], renewals: 0, typed: [], cleared: [], whole: false });
  const observe = (type, note) => {
    new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type, buffered: true });
  };
  observe("longtask", ({ startTime, duration }) => hour.tasks.push([startTime, duration]));
  observe("layout-shift", (shift) => {
    if (!shift.hadRecentInput) {
      const of = shift.sources.map(({ node }) => node && [node.nodeName, node.id, node.className].join(" "));
      hour.shifts.push({ at: shift.startTime, value: shift.value, of });
    }
  });
  addEventListener("DOMContentLoaded", () => {
    new MutationObserver(() => {
      hour.renewals++;
      if (hour.alternates) {
        forgetLines();
      }
    }).observe(document.documentElement, { attributeFilter: ["data-built"] });
  });

  // forgetLines makes every second renewal one of the whole page.
  function forgetLines() {
    hour.whole = !hour.whole;
    if (hour.whole) {
      document.querySelectorAll(".host").forEach((line) => gpuboard.delivered.delete(line));
    }
  }

  const isAfter = (moments, at) => moments.some((moment) => at >= moment && at < moment + typingLasts);
  hour.durations = (kind) => {
    const isOf = {
      cleared: (at) => isAfter(hour.cleared, at),
      typed: (at) => isAfter(hour.typed, at),
      renewal: (at) => !isAfter([...hour.cleared, ...hour.typed], at),
    }[kind];
    return hour.tasks.filter(([at, ms]) => at > hour.begun && ms < longest && isOf(at)).map(([, duration]) => duration);
  };

  // The largest sum of shifts that lie less than a second apart and within five, as browsers have it.
  hour.largestShift = (from, until) => {
    let largest = 0;
    let sum = 0;
    let first = -Infinity;
    let last = -Infinity;
    for (const { at, value } of hour.shifts.filter((shift) => shift.at >= from && shift.at < until)) {
      const goesOn = at - last < 1000 && at - first < 5000;
      sum = goesOn ? sum + value : value;
      first = goesOn ? first : at;
      last = at;
      largest = Math.max(largest, sum);
    }
    return largest;
  };
  hour.built = () => document.documentElement.dataset.built;
  hour.isLate = () => document.documentElement.matches(".late,.dead-page");

  const at = (selector) => document.querySelector(selector);
  const cursor = () => [document.activeElement.value, document.activeElement.selectionStart].join("|");
  const isOpen = (line) => at(line)?.matches(".open") && Boolean(at(line + " .rows .row"));
  const focusPlace = () => {
    const { tagName, className } = document.activeElement;
    return [document.activeElement.closest("[id]")?.id, tagName, className].join(" ");
  };
  const isInPlace = () => {
    const moved = document.activeElement.getBoundingClientRect().top - hour.top;
    return Math.abs(moved) < 3 ? "in its place" : "moved by " + Math.round(moved);
  };

  // What must stay as it is, by reader.
  hour.held = {
    search: () => {
      const shown = [...document.querySelectorAll(".host:not([hidden])")].map((line) => line.id);
      return [focusPlace(), cursor(), location.search, shown.join(), isInPlace()].join("; ");
    },
    panel: () => [isOpen("#gpu0003"), at("#gpu0003-2 .panel")?.open, focusPlace(), cursor(), isInPlace()].join("; "),
    selection: () => [String(getSelection()).trim(), getSelection().anchorNode?.isConnected].join("; "),
    row: () => [isOpen(hour.line), focusPlace(), isInPlace()].join("; "),
    hidden: () => [isOpen("#gpu0004"), at("#gpu0004-1 .panel")?.open].join("; "),
    watcher: () => "",
    wall: () => "",
  };
})();
