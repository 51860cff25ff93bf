// Renewing in place, part by part: fetched only while somebody looks. A host of which nothing
// has changed stays as it is, and so do the filters, an open panel, and what somebody types.
const selectionHolds = 60000; // ms; a selection that is forgotten does not hide the news for longer

const restAfter = 60000; // ms without a key or a click until nobody is thought to type

let renewTimer = 0;
let requests = 0; // that were made for a renewal
let selectedAt = 0;
let usedAt = 0; // when somebody typed or clicked
let composing = false; // characters, as in Chinese

// The parts of the page, as the server sent them: copies, for scripts change them. Some are renewed part by part.
const delivered = new WeakMap();
const divided = ".group,.map,.finder,.status";
for (const part of findAll(`:is(#_main,${divided}) > :not(${divided})`)) {
  delivered.set(part, part.cloneNode(true));
}

document.addEventListener("selectionchange", () => {
  selectedAt = performance.now();
});
for (const kind of ["keydown", "input", "pointerdown"]) {
  document.addEventListener(kind, () => {
    usedAt = performance.now();
  }, { capture: true, passive: true });
}
document.addEventListener("compositionstart", () => {
  composing = true;
});
document.addEventListener("compositionend", () => {
  composing = false;
});

function schedule() {
  clearTimeout(renewTimer);
  if (online && !paused && !document.hidden) {
    renewTimer = setTimeout(refresh, awaitsBooking() ? 2000 : untilNext());
  }
}

// untilNext is how long to wait before the next generation is asked for: until a second or two
// after it is due, by the server's clock. If it has not come by then, as long as it is overdue.
// The chance is so that not all viewers ask in the same second.
function untilNext() {
  const interval = 1000 * Math.max(5, root.dataset.interval || 60);
  if (!root.dataset.next) {
    return interval * (1 + Math.random() / 5);
  }
  const age = Math.max(0, Date.now() - clockAhead - builtAt());
  const overdue = age - 1000 * root.dataset.next;
  const wait = overdue < 0 ? 1000 * (1 + Math.random()) - overdue : Math.min(overdue, interval);
  return Math.max(2000, Math.min(wait, 1.2 * interval));
}

async function refresh() {
  clearTimeout(renewTimer);
  const number = ++requests;
  const html = await fetchText("").catch(() => "");
  const isShown = html.includes(`data-built="${root.dataset.built}"`);
  const texts = new Map();
  const fresh = isShown ? null : readPage(withoutKnown(html, texts));
  await new Promise((later) => setTimeout(later)); // to read a large page takes as long as the browser may not paint
  if (number !== requests) {
    return; // the viewer has come back, and it was asked for once more
  }
  updateAges(); // before the news, which it would take away
  try {
    if (fresh?.getElementById("_main")) {
      renew(fresh, texts);
    }
  } finally {
    schedule();
  }
}

// The lines of hosts in the newest page, by ID, as the server sent them.
let lineTexts = new Map();
const lineEnd = "</div></li>";

// withoutKnown empties the lines of a new page that have the same text here: parsing all of them takes most of the time
// of a renewal. It adds the texts of all lines to texts. A host that comes with its rows is not a line.
function withoutKnown(html, texts) {
  const parts = html.split(/(?=<li id=")/).map((part) => {
    const length = part.indexOf("</div>") + lineEnd.length;
    const line = part.slice(0, length);
    const id = /^<li id="([^"]*)" class="host/.exec(line)?.[1];
    if (!id || !line.endsWith(lineEnd)) {
      return part;
    }
    texts.set(id, line);
    const isHere = lineTexts.get(id) === line && delivered.has(byID(id));
    return isHere ? `<li id="${id}" class="host known"></li>` + part.slice(length) : part;
  });
  return parts.join("");
}

// completeMoved fills empty lines again that stand in another list now.
function completeMoved(fresh) {
  for (const group of findAll(".group", fresh)) {
    const list = findFormer(group, findAll(".group"))?.querySelector(".map:not(.rowed)");
    for (const line of findAll(".known", group)) {
      const old = byID(line.id);
      if (old.parentNode !== list) {
        line.replaceWith((delivered.get(old) ?? old).cloneNode(true));
      }
    }
  }
}

// comeBack asks at once when somebody looks again, or the network is there again.
function comeBack() {
  if (document.hidden) {
    clearTimeout(renewTimer);
    return;
  }
  updateAges();
  if (online && !paused) {
    refresh();
  }
}

// isBusy reports whether somebody does what a renewal would end.
const isBusy = () => composing || document.querySelector("dialog[open]") !== null;

// selectedRange is the text that is selected, as to copy it; null for none. To say so takes a layout of the page.
function selectedRange() {
  const selection = getSelection();
  const held = !selection.isCollapsed && performance.now() - selectedAt < selectionHolds;
  return held ? selection.getRangeAt(0) : null;
}

function renew(fresh, texts) {
  const news = fresh.documentElement.dataset;
  if (news.built === root.dataset.built || isBusy()) {
    return;
  }
  if (assetsOf(fresh) !== assets && !isInUse()) {
    location.reload();
    return;
  }
  const free = headline();
  const selected = selectedRange();
  keepPlaces(holdView(), () => {
    completeMoved(fresh);
    lineTexts.clear(); // so that all lines are read the next time if this renewal fails half-way
    renewParts(byID("_main"), fresh.getElementById("_main"), selected);
    lineTexts = texts;
    Object.assign(root.dataset, news);
    pageTitle = fresh.title;
    document.title = pageTitle;
    setIcon(fresh.querySelector("link[rel=icon]").getAttribute("href"));
    preparePage();
  });
  if (headline() !== free && pageKind === "index" && !staleness) {
    showMessage("visually-hidden", headline());
  }
}

// holdView remembers what somebody looks at, and where in the window it is: what has the focus, or else lies in the middle.
// What it returns scrolls so that it is there again, if it was scrolled to or somebody types there.
function holdView() {
  const isInView = ({ top, bottom }) => bottom > 0 && top < innerHeight;
  const focused = document.activeElement ?? document.body;
  const hasFocus = focused !== document.body && isInView(focused.getBoundingClientRect());
  const { id } = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest("[id]") ?? {};
  const find = () => hasFocus ? document.activeElement : id && byID(id);
  const topOf = (element) => element?.getBoundingClientRect().top;
  const [left, top, offset] = [scrollX, scrollY, topOf(find())];
  return () => {
    const matters = top > 0 || document.activeElement?.matches("input");
    const place = matters ? find() : null;
    scrollTo(left, place ? scrollY + topOf(place) - offset : top);
  };
}

// assetsOf are the style and the scripts that a page was made for. After an upgrade the page has others.
const assetsOf = (page) =>
  findAll("link[rel=stylesheet], script[src]", page).map((e) => e.getAttribute("href") ?? e.getAttribute("src")).join();
const assets = assetsOf(document);

// isInUse reports whether somebody does what is lost when the page is loaded anew.
const isInUse = () => {
  const panel = document.querySelector(".panel[open]");
  return panel !== null || performance.now() - usedAt < restAfter || !getSelection().isCollapsed;
};

// headline is what the page says of how many are free.
const headline = () => document.querySelector(".headline em")?.textContent;

// kindOf is the same for a part and the one whose place it takes.
const kindOf = (part) => [part.tagName, part.id, part.classList[0], part.getAttribute("aria-labelledby")].join(" ");

const findFormer = (part, others) => others.find((other) => other && kindOf(other) === kindOf(part));

// renewParts brings the parts of an element to those of a fresh one. What is selected stays as it is.
function renewParts(element, fresh, selected) {
  const former = new Set(element.children);
  const parts = [...fresh.children].map((part) => {
    const others = part.matches(".host") ? [byID(part.id)] : [...former];
    const old = findFormer(part, others);
    former.delete(old);
    return renewPart(old, part, selected);
  });
  former.forEach((part) => part.remove());
  arrange(element, element.matches(".map") ? sortHosts(parts) : parts, selected);
}

// renewPart returns what takes the place of a part: the same one, if nothing has changed.
function renewPart(old, fresh, selected) {
  if (old?.matches("#_find,#_order")) {
    return old;
  }
  if (old?.matches(divided)) {
    old.className = fresh.className;
    renewParts(old, fresh, selected);
    return old;
  }
  if (old && isSame(old, fresh)) {
    return old;
  }
  if (old && selected?.intersectsNode(old)) {
    delivered.delete(old); // it does not show what was sent
    return old;
  }
  if (old && renewSigns(old, fresh)) {
    return old;
  }
  let part = document.importNode(fresh, true);
  if (old && pageKind === "index") {
    refill(old, part);
    part = old;
  } else if (old) {
    replacePart(old, part);
  }
  delivered.set(part, document.adoptNode(fresh));
  return part;
}

const isSame = (old, fresh) => fresh.matches(".known") || delivered.get(old)?.isEqualNode(fresh);

// renewSigns gives a host its new signs, and reports whether nothing else of it is new. To make all of them anew takes
// the browser ten times as long.
function renewSigns(old, fresh) {
  const [signs, copies, news] = [old, delivered.get(old) ?? fresh, fresh].map((line) => findAll(".signs use", line));
  news.forEach((sign, i) => {
    const href = sign.getAttribute("href");
    if (copies[i]?.getAttribute("href") !== href) {
      signs[i]?.setAttribute("href", href);
      copies[i]?.setAttribute("href", href);
    }
  });
  return isSame(old, fresh);
}

// refill gives an element the attributes and the content of a new one. Where hosts come and go, the browser looks at the
// styles of all others again, and where they are. What was fetched for a host goes on.
function refill(old, part) {
  for (const { name } of delivered.get(old)?.attributes ?? []) {
    if (!part.hasAttribute(name)) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of part.attributes) {
    old.setAttribute(name, value);
  }
  const rows = old.querySelector(".rows");
  const kept = fetchedRows.has(old.id) ? rows : part.querySelector(".rows");
  if (rows && kept && kept !== rows) {
    replacePart(rows, kept);
  }
  [...old.childNodes].filter((node) => node !== kept).forEach((node) => node.remove());
  old.prepend(...part.childNodes);
}

// replacePart puts a new part in the place of an old one. An open panel goes on, with what somebody types there, and
// learns of the bookings that there are now.
function replacePart(old, part) {
  const panels = findAll(".panel[open]", old);
  if (panels.length === 0) {
    old.replaceWith(part); // an id that is there twice for a moment is looked for in the whole page the next time
    return;
  }
  old.before(part);
  for (const panel of panels) {
    const row = panel.closest(".row").id;
    const place = part.querySelector("#" + CSS.escape(row) + " .panel");
    if (place) {
      findAll(":scope > i", panel).forEach((booking) => booking.remove());
      panel.append(...findAll(":scope > i", place));
      move(place.parentNode, panel, place);
      place.remove();
    }
  }
  old.remove();
}

// keepPlaces makes a change to the page, after which what was open, chosen, in focus and in view is so.
function keepPlaces(showView, change) {
  const main = byID("_main");
  const focused = document.activeElement ?? document.body;
  const { selectionStart, selectionEnd, selectionDirection } = focused;
  const focus = placeOf(focused);
  const selected = selectedPlaces();
  const open = findAll("details[open]", main).map(placeOf);
  const closed = findAll("details:not([open])", main).map(placeOf);
  const checked = findAll("input[type=radio]:checked", main).map(placeOf);

  change();
  for (const radio of checked.map(elementAt)) {
    if (radio) {
      radio.checked = true;
    }
  }
  setOpen(open, true);
  setOpen(closed, false);
  reselect(selected);
  const target = focused.isConnected ? focused : elementAt(focus);
  if (target && target !== document.activeElement) {
    target.focus({ preventScroll: true });
    if (target === focused && Number.isInteger(selectionStart)) {
      target.setSelectionRange(selectionStart, selectionEnd, selectionDirection);
    }
  }
  showView?.();
}

// selectedPlaces is where the selection begins and ends, if any.
function selectedPlaces() {
  const { anchorNode, anchorOffset, focusNode, focusOffset, isCollapsed } = getSelection();
  const pointAt = (node, offset) => {
    const element = node.parentElement ?? document.body;
    return { place: placeOf(element), child: [...element.childNodes].indexOf(node), offset };
  };
  const points = isCollapsed ? [] : [pointAt(anchorNode, anchorOffset), pointAt(focusNode, focusOffset)];
  return { text: String(getSelection()), points };
}

// reselect selects the same text again, if it was replaced and is still there.
function reselect({ text, points }) {
  const selection = getSelection();
  if (points.length === 0 || String(selection) === text) {
    return;
  }
  const [from, to] = points.map(({ place, child, offset }) => [elementAt(place)?.childNodes[child], offset]);
  try {
    selection.setBaseAndExtent(...from, ...to);
  } catch {
    // The place is not there any more.
  }
  if (String(selection) !== text) {
    selection.removeAllRanges();
  }
}

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
