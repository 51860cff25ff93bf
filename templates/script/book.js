// What the rows say of bookings: one's own can be extended and released from their rows, and
// what has just been booked is not free, though the board does not have it yet.
const justBooked = (new URLSearchParams(location.search).get("booked") || "").split(",").filter(Boolean);
const bookedAt = 1000 * Math.floor(Date.now() / 1000);
if (justBooked.length > 0) {
  setPageParameters({ booked: "" });
}

function markOwnRows() {
  const present = now();
  for (const panel of findAll(".bkp")) {
    const own = bookingsOf(panel).some((b) => isOwn(b, wish) && b.from <= present && b.until > present);
    const summary = panel.querySelector("summary");
    const text = own ? bookWords.own : bookWords.book;
    if (summary.textContent !== text) {
      summary.textContent = text;
    }
  }
}

const isJustBooked = (host, gpu) => justBooked.includes(host) || justBooked.includes(host + ":" + gpu);

function markJustBooked() {
  if (justBooked.length === 0 || Date.parse(root.dataset.built) >= bookedAt) {
    return;
  }
  for (const row of findAll(".r")) {
    const chip = row.querySelector(".chip.free");
    if (chip && isJustBooked(hostOf(row), gpuOf(row))) {
      row.classList.remove("free");
      chip.className = "chip booked";
      chip.lastChild.textContent = words.states.booked;
      findAll("use", chip).forEach(markGlyph);
    }
  }

  for (const place of justBooked) { // its line does not say what was delivered any more
    delivered.delete(byID(place.split(":")[0]));
  }
  const data = JSON.parse(byID("_gpus")?.textContent ?? '{"hosts":[]}');
  for (const host of data.hosts) {
    for (const [index] of host.gpus) {
      const sign = isJustBooked(host.id, index) && signOf(host.id, String(index));
      if (sign) {
        markGlyph(sign);
      }
    }
  }
}

function markGlyph(use) {
  if (use.getAttribute("href") === "#_free") {
    use.setAttribute("href", "#_booked");
  }
}

function markBookings() {
  findForm();
  markOwnRows();
  markJustBooked();
}
setups.push(markBookings);
markBookings();
