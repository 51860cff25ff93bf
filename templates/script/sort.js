// Sorting. A list of people by one of its columns; the rows of GPUs by a column, on all hosts
// alike; the hosts by what the line of filters offers.
const listOrders = new Map(); // by caption of a list: its column, and whether that falls
const stateOrder = Object.keys(words.states);

function sortKey(cell) {
  if (cell.matches(".gpu-state")) {
    return stateOrder.findIndex((state) => cell.querySelector(".chip." + state));
  }
  const time = cell.matches(".gpu-booking,.gpu-since") && cell.querySelector("time");
  if (time) {
    return time.dateTime;
  }
  const text = (cell.querySelector(".value") ?? cell).textContent.trim().toLowerCase();
  if (!cell.matches(".number,.gpu-index,.gpu-memory,.gpu-load,.gpu-heat")) {
    return text;
  }
  const number = parseFloat(text.replace(",", "."));
  return isNaN(number) ? -1 : number;
}

function compareKeys(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

// move puts a node before another one, or at the end. Where the browser can, it keeps its focus
// and what is selected in its fields.
function move(parent, node, next) {
  if (node.isConnected && parent.isConnected && parent.moveBefore) {
    parent.moveBefore(node, next);
  } else {
    parent.insertBefore(node, next);
  }
}

// arrange brings elements into this order, and moves only those that stand elsewhere and are not selected.
function arrange(parent, elements, selected = selectedRange()) {
  let next = parent.firstElementChild;
  for (const element of elements) {
    if (element === next || (element.parentNode === parent && selected?.intersectsNode(element))) {
      next = element.nextElementSibling;
    } else {
      move(parent, element, next);
    }
  }
}

// sortRows sorts the rows of a table; those that belong to another stay below it.
function sortRows(table, column, descending) {
  const blocks = [];
  for (const row of findAll("tr:not(.first)", table.tBodies[0])) {
    if (row.dataset.of && blocks.length > 0) {
      blocks.at(-1).rows.push(row);
    } else {
      blocks.push({ rows: [row], key: sortKey(row.cells[column]) });
    }
  }
  blocks.sort((a, b) => {
    if (a.key === "" || b.key === "") {
      return (a.key === "") - (b.key === ""); // what is not said comes last
    }
    return descending ? compareKeys(b.key, a.key) : compareKeys(a.key, b.key);
  });
  const first = findAll("tr.first", table.tBodies[0]);
  arrange(table.tBodies[0], [...first, ...blocks.flatMap((block) => block.rows)]);
}

function sortTable(table, column, descending) {
  for (const head of findAll("th", table.tHead)) {
    head.removeAttribute("aria-sort");
  }
  table.tHead.rows[0].cells[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
  sortRows(table, column, descending);
}

// sortGPUs sorts all rows of GPUs. rowOrder is the class of a column, with a minus before it
// for falling; without one the rows are in the order of their numbers.
function sortGPUs() {
  const descending = rowOrder.startsWith("-");
  const name = rowOrder.slice(descending ? 1 : 0) || "gpu-index";
  for (const table of findAll("table.gpus")) {
    const column = findAll("th", table.tHead).findIndex((head) => head.classList[0] === name);
    if (column >= 0) {
      sortTable(table, column, descending);
    }
  }
}

// makeSortable puts buttons into the heads of tables that have none yet, and sorts them as
// others are.
function makeSortable() {
  for (const table of findAll("table.sortable,table.gpus")) {
    for (const head of findAll("thead th:not(.gpu-strip)", table)) {
      if (!head.querySelector("button") && showsHeads(table)) {
        addSortButton(table, head);
      }
    }
    const order = listOrders.get(table.caption.textContent);
    if (order) {
      sortTable(table, order.column, order.descending);
    }
  }
  if (rowOrder) {
    sortGPUs();
  }
}

// showsHeads reports whether a table shows its heads: of several below each other, the first one does.
function showsHeads(table) {
  const line = table.closest(".rowed > .host");
  return !line || line.matches(":nth-child(1 of .open)");
}

function addSortButton(table, head) {
  const button = makeButton("", head.textContent, () => {
    const descending = head.getAttribute("aria-sort") !== "descending";
    if (table.matches(".sortable")) {
      listOrders.set(table.caption.textContent, { column: head.cellIndex, descending });
      sortTable(table, head.cellIndex, descending);
      return;
    }
    rowOrder = (descending ? "-" : "") + head.classList[0];
    if (rowOrder === "gpu-index") {
      rowOrder = "";
    }
    sortGPUs();
    writeAddress();
  });
  head.replaceChildren(button);
}

// What the hosts are sorted by, the largest first. Nothing is known yet of a host that has just come.
const hostKeys = {
  free: (line) => parseInt(line.querySelector(".host-line .free-count")?.textContent, 10) || 0,
  load: (line) => hostByID.get(line.id)?.cpu ?? -1,
  memory: (line) => hostByID.get(line.id)?.ram ?? -1,
  seen: (line) => hostByID.get(line.id)?.seen ?? 0,
};

// sortHosts sorts lines that stand as they are listed.
function sortHosts(lines) {
  const keyOf = Object.hasOwn(hostKeys, hostOrder) ? hostKeys[hostOrder] : () => 0;
  const byName = (a, b) => a.name.localeCompare(b.name, root.lang, { numeric: true });
  const byKey = (a, b) => b.key - a.key;
  const entries = lines.map((line) => ({
    line,
    name: line.querySelector("h3").textContent,
    key: keyOf(line),
  }));
  entries.sort(hostOrder === "name" ? byName : byKey);
  return entries.map((entry) => entry.line);
}

function orderHosts() {
  const position = (line) => hostByID.get(line.id).position;
  for (const map of findAll(".map")) {
    const listed = findAll(".host", map).sort((a, b) => position(a) - position(b));
    arrange(map, sortHosts(listed));
  }
  placeHosts();
}
