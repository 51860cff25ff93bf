// The bookings can be searched for hosts, people and comments. The list may go on on other
// pages, which are fetched with the first search and shown while there is one.
const {
  words, root, online, setups, filters, byID, findAll, fill, now, fetchPage, adopt, applySearch,
} = window.gpuboard;

const weekLength = 7 * 86400000; // what the picture shows, in ms

let table = null; // the list of bookings
let listed = []; // its rows, with their texts
let lanes = []; // the rows of the picture, with their texts

function readBookings() {
  table = document.querySelector(".bookings");
  if (!table) {
    return;
  }
  listed = findAll("tbody tr:not(.wk)", table).map((row) => ({
    row,
    text: findAll("th,td", row).map((cell) => cell.textContent).join(" ").toLowerCase(),
  }));
  lanes = findAll(".tl:not(.head)").map((row) => ({
    row,
    text: (row.textContent + " " + row.querySelector(".ln").getAttribute("aria-label")).toLowerCase(),
  }));
}

// fetchOthers adds the bookings of the other pages to the list, once.
async function fetchOthers(list) {
  list.dataset.asked = "yes";
  const links = findAll(".pager a");
  const pages = await Promise.all(links.map((link) => fetchPage(link.href)));
  pages.forEach((page, i) => {
    for (const body of findAll(".bookings tbody", page)) {
      const other = adopt(body, links[i].href);
      other.classList.add("other");
      list.append(other);
    }
  });
  list.dataset.whole = "yes";
  if (list === table) { // or else the page has been renewed meanwhile
    readBookings();
    applySearch();
  }
}

filters.bookings = (query) => {
  if (!table) {
    return;
  }
  const typed = query.toLowerCase().split(/\s+/).filter(Boolean);
  const pager = document.querySelector(".pager");
  if (typed.length > 0 && pager && online && !table.dataset.asked) {
    const list = table;
    fetchOthers(list).catch(() => {
      delete list.dataset.asked;
    });
  }

  const showIfMatching = ({ row, text }) => {
    const hit = typed.every((word) => text.includes(word));
    if (row.hidden === hit) {
      row.hidden = !hit;
    }
    return hit;
  };
  lanes.forEach(showIfMatching);
  const hits = listed.filter(showIfMatching).length;
  for (const body of findAll("tbody", table)) {
    const empty = !body.querySelector("tr:not(.wk):not([hidden])");
    body.hidden = typed.length > 0 ? empty : body.classList.contains("other");
  }
  const found = pager && !table.dataset.whole ? words.foundBookingsHere : words.foundBookings;
  byID("_found").textContent = typed.length > 0 ? fill(found, hits, listed.length) : "";
};

// Free space of the picture begins a booking of that GPU, from the hour that is pointed at.
document.addEventListener("click", ({ target, clientX }) => {
  const lane = target.closest(".tl:not(.head) .ln");
  const link = lane?.parentNode.querySelector(".lb a.d");
  if (!link || target.closest(".bk")) {
    return;
  }
  const box = lane.getBoundingClientRect();
  const hour = new Date(Date.parse(root.dataset.built) + weekLength * (clientX - box.left) / box.width);
  hour.setMinutes(0, 0, 0);
  location.href = link.href + (hour > now() ? "&from=" + encodeURIComponent(stamp(hour)) : "");
});

setups.push(readBookings);
readBookings();
applySearch();
