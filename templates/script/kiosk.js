// The screen on a wall shows all hosts at once, as large as they fit. Where they fit at no size,
// groups of them are shown in turn. Without this script the page is as long as it is.
const { byID, setups } = window.gpuboard;
const sizes = ["huge", "large", "medium", "small"];
const mostColumns = 9;
const turnEvery = 15000; // ms

let pageShown = 0;
let perPage = 1;

function fitWall() {
  const wall = byID("_wall");
  const hosts = [...wall.children];
  hosts.forEach((host) => {
    host.hidden = false;
  });
  const turn = byID("_turn");
  turn.hidden = true;
  turn.textContent = "1";
  turn.hidden = sizes.some((size) => {
    wall.dataset.size = size;
    arrangeColumns(wall, hosts);
    return wall.scrollWidth <= wall.clientWidth && hosts.every((host) => isInside(wall, host));
  });
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

function showPage() {
  const hosts = [...byID("_wall").children];
  const pages = Math.ceil(hosts.length / perPage);
  pageShown %= Math.max(1, pages);
  hosts.forEach((host, i) => {
    host.hidden = Math.floor(i / perPage) !== pageShown;
  });
  const turn = byID("_turn");
  turn.hidden = pages <= 1;
  turn.textContent = `${pageShown + 1} / ${pages}`;
}

setups.push(fitWall);
fitWall();
addEventListener("resize", fitWall);
setInterval(() => {
  pageShown++;
  showPage();
}, turnEvery);
