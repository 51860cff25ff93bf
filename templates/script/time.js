// Time: how old everything on the page is, and the message that the board is late or has stopped.

// Clocks that differ by less than this are not spoken of.
const clockTolerance = 60000;
const clockError = () => Math.abs(clockAhead) > clockTolerance ? clockAhead : 0;
const now = () => Date.now() - clockError();

// When the booking was made that led here, or 0. In whole seconds, as the board has its times.
let savedAt = /[?&]saved=1/.test(location.search) ? 1000 * Math.floor(Date.now() / 1000) : 0;

const builtAt = () => Date.parse(root.dataset.built);
function expectBooking() {
  savedAt = 1000 * Math.floor(Date.now() / 1000);
  updateStaleness();
}
const awaitsBooking = () => savedAt > 0 && builtAt() < savedAt - clockError();
// Whether the board is newer than the booking. One of the same second may have it or not.
const surelyHasBooking = () => builtAt() > savedAt - clockError();

let pageTitle = document.title;
let staleness = ""; // "", "late" or "dead"
let helpShown = false;

// Only these pages say in their heading what is free, which goes out of date.
const headingIsNews = pageKind === "index" || pageKind === "kiosk";

function durationText(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) {
    return words.seconds.replace("%d", seconds);
  }
  if (seconds < 3600) {
    return words.minutes.replace("%d", Math.floor(seconds / 60));
  }
  if (seconds < 2 * 86400) {
    return words.hours.replace("%d", Math.floor(seconds / 3600));
  }
  return words.days.replace("%d", Math.floor(seconds / 86400));
}

// showMessage says one thing above the page, or nothing.
function showMessage(className, text) {
  const box = byID("_state");
  if (!text) {
    box.firstChild?.remove();
    return;
  }
  const message = box.firstChild ?? box.appendChild(makeElement("p"));
  message.className = className;
  if (message.textContent !== text) { // or else it would be read aloud again
    message.textContent = text;
  }
}

function setIcon(href) {
  const link = document.querySelector("link[rel=icon]");
  if (link && link.getAttribute("href") !== href) {
    link.setAttribute("href", href);
  }
}

function updateAges() {
  for (const time of findAll("time.age")) {
    const ms = now() - Date.parse(time.dateTime);
    if (!time.title) {
      time.title = time.textContent;
    }
    time.textContent = ms < -clockTolerance ? time.title : fill(words.ago, durationText(ms));
  }
  if (root.dataset.built) {
    updateStaleness();
  } else {
    showMessage("", helpShown ? words.allShortcuts : "");
  }
}

function updateStaleness() {
  const age = now() - builtAt();
  const interval = 1000 * (root.dataset.interval || 60);
  staleness = age > 10 * interval ? "dead" : age > 2.5 * interval ? "late" : "";
  root.classList.toggle("dead-page", staleness === "dead");
  root.classList.toggle("late", staleness === "late");

  const ageNote = byID("_age");
  if (ageNote) {
    ageNote.textContent = age < -clockTolerance ? "" : ", " + fill(words.ago, durationText(age));
  }

  if (staleness === "dead") {
    showMessage("dead", fill(pageKind === "host" ? words.hostStopped : words.stopped, durationText(age)));
    setIcon(root.dataset.root + "favicon-old.svg");
    document.title = fill(words.oldTitle, pageTitle);
    replaceHeading();
  } else if (age < -clockTolerance) {
    showMessage("", fill(words.clockDiffers, durationText(-age)));
  } else if (helpShown) {
    showMessage("", words.allShortcuts);
  } else if (staleness === "late") {
    showMessage("", fill(words.late, durationText(age)));
  } else if (awaitsBooking()) {
    showMessage("", fill(words.saved, root.dataset.next));
  } else {
    showMessage("", "");
  }
}

// replaceHeading makes the heading say that it is out of date; it is not what was delivered any more.
function replaceHeading() {
  const heading = document.querySelector("h1 .big");
  if (!headingIsNews || !delivered.delete(heading?.closest("#_main > *"))) {
    return;
  }
  const parts = [...heading.childNodes].map((node) => node.textContent.trim()).filter(Boolean);
  heading.textContent = fill(words.was, parts.join(" — "));
}

// showViewerTimes adds the viewer's own time to each time of the site, where the viewer's
// clock shows another.
function showViewerTimes() {
  const built = byID("_built");
  if (!built) {
    return;
  }
  const moment = new Date(built.dateTime);
  const clock = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (built.textContent.includes(moment.toLocaleTimeString("en-GB", clock))) {
    return;
  }

  const day = { weekday: "short", day: "numeric", month: "short" };
  const format = new Intl.DateTimeFormat(root.lang, { ...day, ...clock, timeZoneName: "short" });
  for (const time of findAll("time[datetime]:not(.age)")) {
    time.title = format.format(new Date(time.dateTime));
  }
  const foot = document.querySelector(".foot .small");
  if (foot && !byID("_zone")) {
    const note = makeElement("span", "", " " + fill(words.viewerTime, format.format(moment)));
    note.id = "_zone";
    foot.append(note);
  }
}
