// What the rows say of bookings: one's own can be extended and released from their rows, and
// what has just been booked is not free, though the board does not have it yet.
const justBooked = new Set((new URLSearchParams(location.search).get("booked") || "").split(",").filter(Boolean));
if (justBooked.size > 0) {
  setPageParameters({ booked: "" });
}

// noteBooked takes note of places that have been booked; none means that one has been released.
function noteBooked(places, released) {
  if (places.length === 0) {
    justBooked.delete(released);
  }
  places.forEach((place) => justBooked.add(place));
  markJustBooked();
}

// isMine reports whether a row's GPU is the viewer's: booked by them now, or used.
function isMine(row) {
  const uses = findAll(".gpu-user > .name", row).some((person) => isName(person.textContent, viewer()));
  return uses || findAll(".panel", row).some((panel) => hasOwn(panel));
}

function hasOwn(panel) {
  const present = now();
  return bookingsOf(panel).some((b) => isName(b.name, viewer()) && b.from <= present && b.until > present);
}

function markOwnRows() {
  for (const row of findAll(".row")) {
    row.classList.toggle("mine", isMine(row));
  }
  for (const panel of findAll(".panel")) {
    const own = hasOwn(panel);
    const summary = panel.querySelector("summary");
    const text = own ? bookWords.own : bookWords.book;
    if (summary.textContent !== text) {
      summary.textContent = text;
    }
    markOwnPanel(panel, own && formServed === true && loggedIn !== "");
  }
}

// markOwnPanel puts a button that releases it beside the panel of one's own booking.
function markOwnPanel(panel, own) {
  const cell = panel.parentNode;
  const button = cell.querySelector(":scope > .release");
  cell.classList.toggle("own", own);
  if (own && !button) {
    panel.before(makeButton("release", bookWords.release, () => {
      releaseOwn(panel).catch(() => {
        location.href = addressOf(panel);
      });
    }));
  } else if (!own) {
    button?.remove();
  }
}

const isJustBooked = (host, gpu) => justBooked.has(host) || justBooked.has(host + ":" + gpu);

// The chips and signs that say "booked" before the board does.
const early = new Set();

// mustChange reports whether a chip or a sign has to say "booked", or "free" again, before the board does. It
// remembers which do.
function mustChange(element, booked, isFree) {
  if (booked && isFree) {
    early.add(element);
    return true;
  }
  return !booked && early.delete(element);
}

function markJustBooked() {
  if (surelyHasBooking()) {
    early.clear();
  } else if (justBooked.size + early.size > 0) {
    showEarly();
  }
}

function showEarly() {
  for (const row of findAll(".row")) {
    const chip = row.querySelector(".chip");
    const booked = isJustBooked(hostOf(row), gpuOf(row));
    if (chip && mustChange(chip, booked, chip.matches(".free"))) {
      const state = booked ? "booked" : "free";
      row.classList.toggle("free", !booked);
      chip.className = "chip " + state;
      chip.lastChild.textContent = words.states[state];
      findAll("use", chip).forEach((use) => markGlyph(use, booked));
    }
  }

  for (const place of justBooked) { // its line does not say what was delivered any more
    delivered.delete(byID(place.split(":")[0]));
  }
  const data = JSON.parse(byID("_gpus")?.textContent ?? '{"hosts":[]}');
  for (const host of data.hosts) {
    for (const [index] of host.gpus) {
      const sign = signOf(host.id, String(index));
      if (sign) {
        markGlyph(sign, isJustBooked(host.id, index));
      }
    }
  }
}

function markGlyph(use, booked) {
  if (mustChange(use, booked, use.getAttribute("href") === "#_free")) {
    use.setAttribute("href", booked ? "#_booked" : "#_free");
  }
}

function markBookings() {
  findForm();
  markOwn();
  markJustBooked();
}
setups.push(markBookings);
markBookings();
// The server's clock is not known yet: by this device's clock the board may look newer than the booking.
if (justBooked.size > 0) {
  showEarly();
}
