// Renewing in place: fetched only while somebody looks, and only main is replaced, so that
// scroll, focus, filters and open details stay.
let renewTimer = 0;

function schedule() {
  clearTimeout(renewTimer);
  if (!online || paused || document.hidden) {
    return;
  }
  // Not all viewers ask in the same second.
  const interval = 1000 * Math.max(5, root.dataset.interval || 60) * (1 + Math.random() / 5);
  renewTimer = setTimeout(refresh, awaitsBooking() ? 2000 : interval);
}

async function refresh() {
  try {
    const response = await request("");
    readClock(response);
    const fresh = response.ok ? parsePage(await response.text()) : null;
    updateAges(); // before the news, which it would take away
    if (fresh?.getElementById("_main")) {
      renew(fresh);
    }
  } catch {
    updateAges();
  }
  schedule();
}

// readClock learns from a response how far this device's clock is ahead.
function readClock(response) {
  const date = Date.parse(response.headers.get("Date"));
  if (date) {
    const ahead = Date.now() - date;
    clockAhead = Math.abs(ahead) > clockTolerance ? ahead : 0;
  }
}

// isBusy reports whether somebody types or chooses, and should not be interrupted.
function isBusy() {
  const active = document.activeElement;
  const typing = active?.matches("input:not([type=checkbox],[type=radio]),select,textarea");
  return typing || document.querySelector("dialog[open],form:focus-within") !== null;
}

function renew(fresh) {
  const news = fresh.documentElement.dataset;
  if (news.built === root.dataset.built || isBusy()) {
    return;
  }
  const main = byID("_main");
  const free = headline();
  const focus = placeOf(document.activeElement ?? document.body);
  const open = findAll("details[open]", main).map(placeOf);
  const closed = findAll("details:not([open])", main).map(placeOf);
  const checked = findAll("input[type=radio]:checked", main).map(placeOf);
  const { scrollX, scrollY } = window;

  main.replaceWith(document.importNode(fresh.getElementById("_main"), true));
  for (const radio of checked.map(elementAt)) {
    if (radio) {
      radio.checked = true;
    }
  }
  Object.assign(root.dataset, news);
  pageTitle = fresh.title;
  document.title = pageTitle;
  setIcon(fresh.querySelector("link[rel=icon]").getAttribute("href"));
  replacedHeading = null;
  preparePage();

  setOpen(open, true);
  setOpen(closed, false);
  elementAt(focus)?.focus({ preventScroll: true });
  scrollTo(scrollX, scrollY);
  if (headline() !== free && pageKind === "index" && !staleness) {
    showMessage("vh", headline());
  }
}

// headline is what the page says of how many are free.
const headline = () => document.querySelector(".headline em")?.textContent;

function setOpen(places, open) {
  for (const details of places.map(elementAt)) {
    if (details?.tagName === "DETAILS") {
      details.open = open;
    }
  }
}

// placeOf is a place in the page that survives its renewal: the nearest id, and which of the
// elements of its kind below that, within the cells of one column if it is in a table; -1 is the
// one with the id.
function placeOf(element) {
  const near = element.closest("[id]") ?? document.body;
  const column = element.closest("td[class],th[class]");
  const kind = (column ? "." + column.classList[0] + " " : "") + element.tagName;
  const position = near === element ? -1 : findAll(kind, near).indexOf(element);
  return { id: near.id, kind, position };
}

function elementAt({ id, kind, position }) {
  const near = id ? byID(id) : document.body;
  return near && position >= 0 ? findAll(kind, near)[position] : near;
}
