// The rows of a host, which open below its line. Up to a dozen hosts have theirs in the
// page; the rows of others are fetched from the host's own page when they are opened.

// The rows that were fetched and are open, by host, and the news of which they tell.
const fetchedRows = new Map();

// The lines that the page has open, and the hosts that the viewer has not left that way.
const openInPage = new WeakSet();
const toggledHosts = new Set((recall("hosts") || "").split(" ").filter(Boolean));

const isOpen = (line) => line.classList.contains("open");
const linkOf = (line) => line.querySelector("h3 a");

function showRows(line, open) {
  line.classList.toggle("open", open);
  // The style keeps room for so many rows until they are there, counting the command above them where a GPU is free.
  line.style.setProperty("--awaited", findAll(".signs > :is(use, g), .free-count", line).length);
  line.querySelector("button.fold")?.setAttribute("aria-expanded", String(open));
  const rows = line.querySelector(".rows");
  if (rows) {
    rows.hidden = !open;
  }
  placeHosts();
}

// placeHosts makes the lines of a map read down its columns. A line that the search has found keeps its place before it is
// shown. While a host is open, each line is given the place that it has while none is: the rows of the open one stand
// below its line, across all columns, and no other changes its column.
function placeHosts() {
  const subgrid = CSS.supports("grid-template-rows", "subgrid");
  for (const map of findAll(".map:not(.rowed)")) {
    const lines = findAll(":scope > .host", map).filter((line) => hostByID.get(line.id)?.hit ?? true);
    const rows = String(Math.max(1, Math.ceil(lines.length / columnsOf(map))));
    if (map.style.getPropertyValue("--rows") !== rows) {
      map.style.setProperty("--rows", rows);
    }
    const spread = subgrid && lines.some(isOpen);
    if (map.classList.contains("spread") && !spread) {
      findAll(":scope > .host[style]", map).forEach((line) => line.removeAttribute("style"));
    }
    map.classList.toggle("spread", spread);
    if (spread) {
      placeLines(lines, Number(rows));
    }
  }
}

// columnsOf is how many columns the style gives to a map. To ask after a change of the page takes a calculation of its
// styles, as often as there are maps; so the answers are kept while the window is as wide.
let columnCounts = {}; // by the classes of a map

function columnsOf(map) {
  return columnCounts[map.className] ??= Number(getComputedStyle(map).getPropertyValue("--columns"));
}

addEventListener("resize", () => {
  columnCounts = {};
  placeHosts();
});

function placeLines(lines, rows) {
  const openBefore = new Array(rows + 1).fill(0); // how many hosts are open in the rows before each
  lines.forEach((line, i) => {
    openBefore[i % rows + 1] += isOpen(line);
  });
  for (let row = 1; row <= rows; row++) {
    openBefore[row] += openBefore[row - 1];
  }

  const below = new Array(rows).fill(0); // how many open ones of each row have their place
  lines.forEach((line, i) => {
    const row = i % rows;
    const top = 1 + row + openBefore[row];
    const column = 1 + Math.floor(i / rows);
    if (isOpen(line)) {
      below[row]++;
      line.style.setProperty("--column", column);
      line.style.gridArea = `${top} / 1 / span ${1 + below[row]} / -1`;
    } else {
      line.style.gridArea = `${top} / ${column}`;
    }
  });
}

function putRows(line, rows) {
  const old = line.querySelector(".rows");
  if (!old) {
    line.append(rows);
  } else if (old !== rows) {
    replacePart(old, rows);
  }
  addCopyButtons();
}

// newsOf changes with the host's snapshot, and with everything that a line says of its GPUs.
function newsOf(line) {
  const signs = findAll(".host-line use", line).map((use) => use.getAttribute("href"));
  return [hostByID.get(line.id)?.seen, ...signs, line.querySelector(".users").textContent].join();
}

async function fetchRows(line) {
  const address = linkOf(line).href;
  const page = await fetchPage(address);
  const current = byID(line.id); // the page may have been renewed meanwhile
  const known = fetchedRows.has(line.id);
  const held = known && current && selectedRange()?.intersectsNode(current);
  if (!current || !isOpen(current) || held) {
    return;
  }
  const rows = adopt(page.querySelector(".rows"), address);
  const showView = known ? holdView() : null; // rows that somebody has just opened may move what is below them
  fetchedRows.set(current.id, { rows, news: newsOf(current) });
  keepPlaces(showView, () => {
    putRows(current, rows);
    setups.forEach((setup) => setup());
    makeSortable();
    applySearch();
  });
}

// openHost shows the rows of a host; where they cannot be fetched, its own page has them.
function openHost(line) {
  const visit = () => {
    location.href = linkOf(line).href;
  };
  const inPage = line.querySelector(".rows");
  if (!inPage && !online) {
    visit();
    return;
  }
  showRows(line, true);
  if (!inPage) {
    fetchRows(line).catch(visit);
  }
}

function closeHost(line) {
  if (fetchedRows.delete(line.id)) {
    line.querySelector(".rows").remove();
  }
  showRows(line, false);
}

function toggleHost(line) {
  if (isOpen(line)) {
    closeHost(line);
  } else {
    openHost(line);
  }
  makeSortable(); // another table may be the first one now
  toggledHosts.delete(line.id);
  if (isOpen(line) !== openInPage.has(line)) {
    toggledHosts.add(line.id);
  }
  remember("hosts", [...toggledHosts].join(" "));
}

document.addEventListener("click", (event) => {
  const head = event.target.closest(".host-line");
  if (head && !event.target.closest("a") && !String(getSelection())) {
    toggleHost(head.parentNode);
  }
});

// prepareHosts opens and closes the hosts as the viewer left them.
function prepareHosts() {
  if (pageKind !== "index") {
    return;
  }
  for (const line of findAll(".host")) {
    const toggled = toggledHosts.has(line.id);
    if (!line.querySelector(".fold")) { // there is news of it
      addFoldButton(line);
      openInPage.delete(line);
      if (isOpen(line)) {
        openInPage.add(line);
        showRows(line, !toggled);
      }
    }
    if (!openInPage.has(line)) {
      reopen(line, toggled);
    }
  }
}

// The click on this button is one on the line.
function addFoldButton(line) {
  const button = makeButton("fold");
  button.setAttribute("aria-label", fill(words.rowsOf, line.id));
  button.setAttribute("aria-expanded", String(isOpen(line)));
  line.querySelector(".host-line").prepend(button);
}

// reopen shows the rows that were fetched before, and fetches them if there is news.
function reopen(line, toggled) {
  const fetched = fetchedRows.get(line.id);
  if (!fetched && !(toggled && online)) {
    return;
  }
  showRows(line, true);
  if (fetched) {
    putRows(line, fetched.rows);
  }
  if (online && fetched?.news !== newsOf(line)) {
    fetchRows(line).catch(() => {
      if (!fetched) {
        showRows(line, false);
      }
    });
  }
}
