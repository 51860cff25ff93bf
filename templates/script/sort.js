// Sorting of the lists of people.
var sorted = null;
var sorting = function () {
  all("table.sortable").forEach(function (t) {
    all("thead th", t).forEach(function (th, i) {
      var b = make("button", "", th.textContent);
      b.type = "button";
      th.textContent = "";
      th.appendChild(b);
      var sort = function (down) {
        var body = t.tBodies[0], numbers = th.classList.contains("n");
        sorted = { column: i, down: down };
        all("th", t.tHead).forEach(function (x) { x.removeAttribute("aria-sort"); });
        th.setAttribute("aria-sort", down ? "descending" : "ascending");
        all("tr:not(.first)", body).map(function (r) {
          var text = r.cells[i].textContent.trim(), number = parseFloat(text.replace(",", "."));
          return { row: r, key: !numbers ? text.toLowerCase() : isNaN(number) ? -1 : number };
        }).sort(function (a, b) {
          return (a.key < b.key ? -1 : a.key > b.key ? 1 : 0) * (down ? -1 : 1);
        }).forEach(function (x) { body.appendChild(x.row); });
      };
      b.addEventListener("click", function () { sort(th.getAttribute("aria-sort") !== "descending"); });
      if (sorted && sorted.column === i) { sort(sorted.down); }
    });
  });
};
