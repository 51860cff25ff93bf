// Sorting. A list of people by one of its columns; the rows of GPUs by a column, on
// all hosts alike; the hosts by what the line of filters offers.
var sorted = null, stateOrder = Object.keys(W.states);
var keyOf = function (cell) {
  var value = cell.querySelector(".v") || cell, time = cell.matches(".k") && cell.querySelector("time");
  var text = time ? time.dateTime : value.textContent.trim().toLowerCase(), number = parseFloat(text.replace(",", "."));
  if (cell.matches(".s")) { return stateOrder.findIndex(function (s) { return cell.querySelector(".chip." + s); }); }
  return !cell.matches(".n,.i,.m,.u,.h") ? text : isNaN(number) ? -1 : number;
};
// sortRows sorts the rows of a table; those that belong to another stay below it.
var sortRows = function (table, column, down) {
  var blocks = [];
  all("tr:not(.first)", table.tBodies[0]).forEach(function (row) {
    if (row.dataset.of && blocks.length) { blocks[blocks.length - 1].rows.push(row); return; }
    blocks.push({ rows: [row], key: keyOf(row.cells[column]) });
  });
  blocks.sort(function (a, b) {
    if (a.key === "" || b.key === "") { return (a.key === "") - (b.key === ""); } // what is not said comes last
    return (a.key < b.key ? -1 : a.key > b.key ? 1 : 0) * (down ? -1 : 1);
  }).forEach(function (block) { block.rows.forEach(function (row) { table.tBodies[0].appendChild(row); }); });
};
var sortTable = function (table, column, down) {
  all("th", table.tHead).forEach(function (th, i) {
    if (i === column) { th.setAttribute("aria-sort", down ? "descending" : "ascending"); } else { th.removeAttribute("aria-sort"); }
  });
  sortRows(table, column, down);
};
// rowOrder names a column of the GPUs by its class, with a minus before it for falling.
var sortGPUs = function () {
  var down = rowOrder[0] === "-", name = rowOrder.slice(down);
  all("table.gpus").forEach(function (t) {
    var column = all("th", t.tHead).findIndex(function (th) { return th.classList[0] === (name || "i"); });
    if (column >= 0) { sortTable(t, column, down); }
  });
};
var sorting = function () {
  all("table.sortable,table.gpus").forEach(function (t) {
    var gpus = t.classList.contains("gpus");
    all("thead th", t).forEach(function (th) {
      if (th.querySelector("button")) { return; }
      var b = make("button", "", th.textContent), i = th.cellIndex;
      b.type = "button";
      th.textContent = "";
      th.appendChild(b);
      b.addEventListener("click", function () {
        var down = th.getAttribute("aria-sort") !== "descending";
        if (gpus) {
          rowOrder = (down ? "-" : "") + th.classList[0];
          if (rowOrder === "i") { rowOrder = ""; }
          sortGPUs();
          writeURL();
        } else {
          sorted = { column: i, down: down };
          sortTable(t, i, down);
        }
      });
    });
    if (sorted && !gpus) { sortTable(t, sorted.column, sorted.down); }
  });
  if (rowOrder) { sortGPUs(); }
};
// What the hosts are sorted by, the largest first.
var width = function (line, meter) { var bar = line.querySelector(".hl ." + meter + " rect"); return bar ? +bar.getAttribute("width") : -1; };
var hostKeys = {
  free: function (line) { return parseInt(line.querySelector(".hl .fr").textContent, 10) || 0; },
  load: function (line) { return width(line, "cpu"); },
  memory: function (line) { return width(line, "ram"); },
  seen: function (line) { var time = line.querySelector(".hl time.age"); return time ? Date.parse(time.dateTime) : 0; }
};
var orderHosts = function () {
  var key = hostKeys[order];
  all(".map").forEach(function (map) {
    all(".host", map).map(function (line) {
      return { line: line, at: hostByID[line.id].at, name: line.querySelector("h3").textContent, key: key ? key(line) : 0 };
    }).sort(function (a, b) {
      return order === "name" ? a.name.localeCompare(b.name, root.lang, { numeric: true }) : b.key - a.key || a.at - b.at;
    }).forEach(function (x) { map.appendChild(x.line); });
  });
};
