// The screen on a wall shows all hosts at once, as large as they fit. Where they fit at no size, or
// are very many, groups of them are shown in turn. Without this script the page is as long as it is.
const { byID, setups } = window.gpuboard;
const sizes = ["huge", "large", "medium", "small"];
const mostColumns = 9;
const mostPerPage = 200; // hosts; to lay out more takes seconds
const turnEvery = 15000; // ms

let sizeShown = sizes[0];
let pageShown = 0;
let perPage = 1;

function fitWall() {
  const wall = byID("_wall");
  const hosts = [...wall.children].slice(0, mostPerPage);
  showHosts(0, mostPerPage);
  const turn = byID("_turn"); // has its line, if there is one, before it is measured which hosts fit above it
  turn.textContent = "1";
  turn.hidden = wall.children.length === hosts.length;
  // Each size takes 0.1 s with many hosts: of those above the last one, only the next is tried.
  const first = Math.max(0, sizes.indexOf(sizeShown) - 1);
  const fit = sizes.slice(first).some((size) => {
    wall.dataset.size = sizeShown = size;
    arrangeColumns(wall, hosts);
    return wall.scrollWidth <= wall.clientWidth && hosts.every((host) => isInside(wall, host));
  });
  turn.hidden &&= fit;
  perPage = Math.max(1, hosts.filter((host) => isInside(wall, host)).length);
  showPage();
}

const isInside = (wall, host) => host.getBoundingClientRect().bottom <= wall.getBoundingClientRect().bottom + 1;

// arrangeColumns makes as many columns as there is room for the widest host.
function arrangeColumns(wall, hosts) {
  delete wall.dataset.columns; // each host is as wide as it needs to be
  const widest = Math.max(...hosts.map((host) => host.offsetWidth));
  const style = getComputedStyle(wall);
  const [gap, padding] = [style.columnGap, style.paddingLeft].map(Number.parseFloat);
  const columns = Math.floor((wall.clientWidth - 2 * padding + gap) / (widest + gap));
  wall.dataset.columns = Math.max(1, Math.min(mostColumns, columns));
  wall.style.setProperty("--columns", wall.dataset.columns);
}

function showHosts(from, to) {
  [...byID("_wall").children].forEach((host, i) => {
    host.hidden = i < from || i >= to;
  });
}

function showPage() {
  const pages = Math.ceil(byID("_wall").children.length / perPage);
  pageShown %= Math.max(1, pages);
  showHosts(pageShown * perPage, (pageShown + 1) * perPage);
  const turn = byID("_turn");
  turn.hidden = pages <= 1;
  turn.textContent = `${pageShown + 1} / ${pages}`;
}

setups.push(fitWall);
fitWall();
addEventListener("resize", () => {
  sizeShown = sizes[0];
  fitWall();
});
setInterval(() => {
  pageShown++;
  showPage();
}, turnEvery);
