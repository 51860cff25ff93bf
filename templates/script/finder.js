// The line of filters: the search, the order of the hosts, and the counts of states, each a
// link to what it counts. What is searched for is in the address, so that it can be sent to
// somebody. So is the order of the hosts, and that of their rows.
const mostOpened = 3; // hosts that a search opens
const mostAtOnce = 40; // hosts that are shown before the browser may paint

let query = "";
let hostOrder = "";
let rowOrder = "";
let searchField = null;
let openedBySearch = [];
let paintings = 0; // calls of paintHosts; a new one ends what an earlier one has left for later

const queryOf = (link) => new URLSearchParams(link.getAttribute("href")).get("q");
const firstMatch = () => document.querySelector(".host.first");

function readAddress() {
  const parameters = new URLSearchParams(location.search);
  query = parameters.get("q") || "";
  hostOrder = parameters.get("order") || "";
  rowOrder = parameters.get("rows") || "";
}

function writeAddress() {
  setPageParameters({ q: query, order: hostOrder, rows: rowOrder, saved: "" });
}

function searchFor(text) {
  query = text;
  if (searchField && searchField.value !== text) {
    searchField.value = text;
  }
  applySearch();
  writeAddress();
}

// prepareFinder shows the line of filters, which stays when the page is renewed.
function prepareFinder() {
  const box = byID("_find");
  searchField = byID("_query");
  if (box?.hidden) {
    box.hidden = false;
    prepareSearchField();
    prepareOrder();
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='?q=']");
  if (!link || !searchField || event.ctrlKey || event.metaKey || event.shiftKey) {
    return;
  }
  event.preventDefault();
  const text = queryOf(link);
  searchFor(text === query ? "" : text);
});

function prepareSearchField() {
  searchField.value = query;
  searchField.addEventListener("input", () => {
    searchFor(searchField.value);
    firstMatch()?.scrollIntoView({ block: "nearest" });
  });
  searchField.addEventListener("keydown", (event) => {
    const first = firstMatch();
    if (event.key !== "Enter" || !first) {
      return;
    }
    event.preventDefault();
    if (!isOpen(first)) {
      openHost(first);
    }
    linkOf(first).focus();
  });
}

function prepareOrder() {
  const select = byID("_order");
  if (!select) {
    return;
  }
  select.hidden = false;
  select.value = hostOrder || "listed";
  select.addEventListener("change", () => {
    hostOrder = select.value === "listed" ? "" : select.value;
    orderHosts();
    writeAddress();
  });
}

// applySearch shows what matches, and hides or dims the rest.
function applySearch() {
  if (!byID("_find")) {
    return;
  }
  if (pageKind !== "index") {
    filters[pageKind]?.(query);
    return;
  }

  const typed = query.trim();
  const result = search(query);
  const first = typed ? result.hosts[0] : null;
  for (const host of hosts) {
    host.line.classList.toggle("first", host === first);
  }
  paintHosts(findAll(".map .host").map((line) => hostByID.get(line.id)));
  openMatches(typed ? result.hosts : []);
  for (const host of hosts) {
    if (isOpen(host.line)) {
      markRows(host);
    }
  }

  for (const group of findAll(".group")) {
    const matches = findAll(".host", group).some((line) => hostByID.get(line.id).hit);
    group.hidden = !matches;
    if (group.tagName === "DETAILS" && matches) { // to fold what is hidden anyway takes a layout of its lines
      group.open = typed || !foldedGroups.has(nameOf(group));
    }
  }
  for (const link of findAll(".counts a")) {
    if (queryOf(link) === typed) {
      link.setAttribute("aria-current", "true");
    } else {
      link.removeAttribute("aria-current");
    }
  }
  document.querySelector(".finder").classList.toggle("searching", typed !== "");
  byID("_found").textContent = typed ? fill(words.foundGPUs, result.hits, result.gpus) : "";
}

// paintHosts hides the hosts that do not match and dims the GPUs that do not. Where many hosts
// change, those that come first do so at once, the others when the browser has painted
// them. What is as it should be is not touched: 8,000 changes of the page take longer than a key may.
function paintHosts(list) {
  const later = [];
  let shown = 0;
  const painting = ++paintings;
  for (const host of list) {
    const signs = host.hit ? signsToDim(host) : [];
    const changes = host.line.hidden === host.hit;
    if (host.hit && (changes || signs.length > 0) && ++shown > mostAtOnce) {
      later.push(host);
      continue;
    }
    if (changes) {
      host.line.hidden = !host.hit;
    }
    signs.forEach(dim);
  }
  placeHosts();
  if (later.length > 0) {
    requestAnimationFrame(() => setTimeout(() => {
      if (painting === paintings) {
        paintHosts(later);
      }
    }, 0));
  }
}

// signsToDim are the signs of a host that are to be dimmed, or not any more.
const signsToDim = ({ signs }) => signs.filter(({ dimmed, gpus }) => dimmed === gpus.some((gpu) => gpu.hit));

function dim(sign) {
  sign.dimmed = !sign.dimmed;
  sign.element?.classList.toggle("off");
}

// openMatches opens a few hosts that match, and closes those that an earlier search opened.
function openMatches(matches) {
  const few = online && matches.length <= mostOpened ? matches.map((host) => host.id) : [];
  for (const id of openedBySearch) {
    const line = byID(id);
    if (!few.includes(id) && line && isOpen(line)) {
      closeHost(line);
    }
  }
  openedBySearch = openedBySearch.filter((id) => few.includes(id));
  for (const id of few) {
    if (!isOpen(byID(id))) {
      openedBySearch.push(id);
      openHost(byID(id));
    }
  }
}

// markRows hides the rows of an open host that do not match. A partitioned GPU is shown
// where one of its slices is.
function markRows(host) {
  const everything = !query.trim();
  host.line.classList.toggle("found", !everything);
  for (const row of findAll(".row.mig", host.line)) {
    row.hidden = true;
  }
  const hits = new Set(host.gpus.filter((gpu) => gpu.hit).map((gpu) => gpu.index));
  for (const row of findAll(".row:not(.mig)", host.line)) {
    const hit = everything || hits.has(row.querySelector(".gpu-index").textContent.trim());
    row.hidden = !hit;
    const partitioned = hit && row.dataset.of && byID(row.dataset.of);
    if (partitioned) {
      partitioned.hidden = false;
    }
  }
}

// The tooltip of a sign says whose GPU it is, and of the slices of one, how many are in which state. A sign takes as
// much of the width as it has of height, with what is around it.
tooltips.push((event) => {
  const svg = event.target.closest(".host .signs");
  const host = svg && hostByID.get(svg.closest(".host").id);
  if (!host) {
    return "";
  }
  const box = svg.getBoundingClientRect();
  const sign = host.signs[Math.floor((event.clientX - box.left) / box.height)];
  if (!sign) {
    return "";
  }
  const { gpus } = sign;
  const all = (key) => [...new Set(gpus.map((gpu) => gpu[key]).filter(Boolean))];
  const countOf = (state) => gpus.length > 1 ? gpus.filter((gpu) => gpu.state === state).length + " " : "";
  const states = all("state").map((state) => countOf(state) + words.states[state]);
  const bookers = all("booker").join(", ");
  const booked = bookers && fill(words.bookedBy, bookers);
  return [host.id + " " + sign.card, states.join(", "), all("users").join(", "), booked].filter(Boolean).join(" · ");
});

// A line that is not late does not say how old its data is; the tooltip of its name does.
tooltips.push((event) => {
  const name = event.target.closest(".map:not(.rowed) .host-line h3 a");
  const host = name && hostByID.get(name.closest(".host").id);
  return host?.seen ? host.id + " · " + fill(words.ago, durationText(now() - 1000 * host.seen)) : "";
});
