// The bookings can be searched for hosts, people and comments. The list may go on on
// other pages, which are fetched with the first search and shown while there is one.
var doc = document;
var { W, root, now, $, all, say, online, adopt, apply, fetchPage, filters, dressers } = window.gpuboard;
var bookingTable = null, bookingRows = [], bookedGPUs = [];
var readBookings = function () {
  bookingTable = doc.querySelector(".bookings");
  if (!bookingTable) { return; }
  bookingRows = all("tbody tr:not(.wk)", bookingTable).map(function (row) {
    return { row: row, text: all("th,td", row).map(function (cell) { return cell.textContent; }).join(" ").toLowerCase() };
  });
  bookedGPUs = all(".tl:not(.head)").map(function (row) {
    return { row: row, text: (row.textContent + " " + row.querySelector(".ln").getAttribute("aria-label")).toLowerCase() };
  });
};
var fetchBookings = function (table) {
  table.dataset.asked = "yes";
  Promise.all(all(".pager a").map(function (a) {
    return fetchPage(a.href).then(function (page) { return all(".bookings tbody", page).map(function (body) { return adopt(body, a.href); }); });
  })).then(function (others) {
    others.forEach(function (bodies) {
      bodies.forEach(function (body) { table.appendChild(body).classList.add("other"); });
    });
    table.dataset.whole = "yes";
    if (table === bookingTable) { readBookings(); apply(); }
  }).catch(function () { delete table.dataset.asked; });
};
var filterBookings = function (query) {
  var words = query.toLowerCase().split(/\s+/).filter(Boolean), hits = 0, pager = doc.querySelector(".pager");
  if (!bookingTable) { return; }
  if (words.length && pager && online && !bookingTable.dataset.asked) { fetchBookings(bookingTable); }
  var show = function (b) {
    var hit = words.every(function (word) { return b.text.indexOf(word) >= 0; });
    if (b.row.hidden === hit) { b.row.hidden = !hit; }
    return hit;
  };
  bookedGPUs.forEach(show);
  bookingRows.forEach(function (b) { hits += show(b); });
  all("tbody", bookingTable).forEach(function (body) {
    body.hidden = words.length ? !body.querySelector("tr:not(.wk):not([hidden])") : body.classList.contains("other");
  });
  $("_found").textContent = words.length ? say(pager && !bookingTable.dataset.whole ? W.foundhere : W.found, hits, bookingRows.length) : "";
};
// Free space of the picture begins a booking of that GPU, from the hour that is pointed at.
doc.addEventListener("click", function (e) {
  var lane = e.target.closest(".tl:not(.head) .ln"), link = lane && lane.parentNode.querySelector(".lb a.d");
  if (!link || e.target.closest(".bk")) { return; }
  var box = lane.getBoundingClientRect(), hour = new Date(Date.parse(root.dataset.built) + 604800000 * (e.clientX - box.left) / box.width);
  hour.setMinutes(0, 0, 0);
  location.href = link.href + (hour > now() ? "&from=" + encodeURIComponent(stamp(hour)) : "");
});
filters.bookings = filterBookings;
dressers.push(readBookings);
readBookings();
apply();
