// The bookings can be searched for hosts, people and comments. The list may go on on other
// pages, which are fetched with the first search and shown while there is one.
const {
  words, online, setups, filters, byID, findAll, fill, now, setParameters, fetchPage, adopt, applySearch,
} = window.gpuboard;

const lineHeight = 18; // of a GPU in the picture, in its pixels

let table = null; // the list of bookings
let listed = []; // its rows, with their texts
let hosts = []; // those of the picture, with their texts

function readBookings() {
  table = document.querySelector(".bookings");
  if (!table) {
    return;
  }
  listed = findAll("tbody tr:not(.week-head)", table).map((row) => ({
    row,
    text: findAll("th,td", row).map((cell) => cell.textContent).join(" ").toLowerCase(),
  }));
  const texts = new Map(); // of the bookings of each host: not all have their bars in the picture
  for (const { row, text } of listed) {
    if (!row.matches(".past")) {
      const id = "_week-" + row.cells[0].textContent.trim();
      texts.set(id, (texts.get(id) ?? "") + " " + text);
    }
  }
  hosts = findAll(".week-host").map((row) => ({
    row,
    text: row.textContent.toLowerCase() + (texts.get(row.id) ?? ""),
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
  hosts.forEach(showIfMatching);
  const hits = listed.filter(showIfMatching).length;
  for (const body of findAll("tbody", table)) {
    const empty = !body.querySelector("tr:not(.week-head):not([hidden])");
    body.hidden = typed.length > 0 ? empty : body.classList.contains("other");
  }
  const found = pager && !table.dataset.whole ? words.foundBookingsHere : words.foundBookings;
  byID("_found").textContent = typed.length > 0 ? fill(found, hits, listed.length) : "";
};

// placesAt is what can be booked on each line of a host's picture at a part of the week, in per
// cent; "-" for nothing.
function placesAt(lines, part) {
  const places = lines.dataset.at.split(" ");
  for (const bar of findAll(".bar:not(.run)", lines)) {
    const [x, width, y, height] = ["x", "width", "y", "height"].map((name) => parseFloat(bar.getAttribute(name)));
    if (x <= part && part < x + width) {
      const taken = places[Math.floor(y / lineHeight)];
      const last = Math.floor((y + height) / lineHeight);
      places.fill("-", Math.floor(y / lineHeight), last + 1);
      places.forEach((place, i) => {
        if (place === taken) { // further bookings of that GPU have lines of their own
          places[i] = "-";
        }
      });
    }
  }
  return places;
}

// Free time of the picture begins a booking: of the GPU that is pointed at, or of the first that is
// free then, from the hour that is pointed at. Without a script, it is that which is free first.
document.addEventListener("click", (event) => {
  const plot = event.target.closest(".band[href], .lines");
  const link = plot?.closest(".week-host").querySelector(".band[href]");
  if (!link || event.target.closest(".bar") || event.button > 0 || event.detail === 0) {
    return;
  }
  const box = plot.getBoundingClientRect();
  const part = (event.clientX - box.left) / box.width;
  const lines = plot.closest(".week-host").querySelector(".lines");
  const places = lines ? placesAt(lines, 100 * part) : [];
  const place = plot === lines
    ? places[Math.floor((event.clientY - box.top) / lineHeight)]
    : places.find((name) => name !== "-");
  if (plot === lines && (!place || place === "-")) {
    return;
  }

  const { from, until } = document.querySelector(".week").dataset;
  const hour = new Date(Date.parse(from) + (Date.parse(until) - Date.parse(from)) * part);
  hour.setMinutes(0, 0, 0);
  const url = new URL(link.href);
  if (place) {
    url.searchParams.set("at", url.searchParams.get("at").split(":")[0] + ":" + place);
  }
  setParameters(url, { from: hour > now() && stamp(hour) });
  event.preventDefault();
  if (event.ctrlKey || event.metaKey || event.shiftKey) {
    open(url.href);
  } else {
    location.href = url.href;
  }
});

setups.push(readBookings);
readBookings();
applySearch();
