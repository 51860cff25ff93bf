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
  line.querySelector("button.fold")?.setAttribute("aria-expanded", String(open));
  const rows = line.querySelector(".rows");
  if (rows) {
    rows.hidden = !open;
  }
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

// newsOf changes with everything that a line says of its host's GPUs.
function newsOf(line) {
  const parts = findAll(".hl time,.hl use", line).map((e) => e.dateTime || e.getAttribute("href"));
  return parts.join() + line.querySelector(".us").textContent;
}

async function fetchRows(line) {
  const address = linkOf(line).href;
  const page = await fetchPage(address);
  const current = byID(line.id); // the page may have been renewed meanwhile
  const held = fetchedRows.has(line.id) && current && isSelected(current);
  if (!current || !isOpen(current) || held) {
    return;
  }
  const rows = adopt(page.querySelector(".rows"), address);
  fetchedRows.set(current.id, { rows, news: newsOf(current) });
  keepPlaces(() => {
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
  toggledHosts.delete(line.id);
  if (isOpen(line) !== openInPage.has(line)) {
    toggledHosts.add(line.id);
  }
  remember("hosts", [...toggledHosts].join(" "));
}

document.addEventListener("click", (event) => {
  const head = pageKind === "index" && event.target.closest(".hl");
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
    if (!line.querySelector(".fold")) { // it is new
      addFoldButton(line);
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
  line.querySelector(".hl").prepend(button);
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
