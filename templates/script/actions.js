// Booking, extending and releasing without leaving the page: what the form answers stands in the row,
// with a way to undo it, until somebody leaves the page.
const actions = new Map(); // by the id of a row: what was done there

let submitting = false; // a second click waits for the first

// submitForm sends a form, which the policy of the page forbids the browser to do by itself. Where there is no answer
// that can be read, the form itself has it.
async function submitForm(panel, address, fields) {
  if (submitting) {
    return;
  }
  submitting = true;
  try {
    await post(panel, address, fields);
  } catch {
    location.href = addressOf(panel);
  } finally {
    submitting = false;
  }
}

async function post(panel, address, fields) {
  fields.set("zone", viewerZone);
  const response = await fetch(address, { method: "POST", body: fields });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const saved = page.getElementById("_saved");
  if (response.redirected && saved) {
    showAction(panel, saved, response.url);
  } else {
    showRefusal(panel, page);
  }
}

// showAction keeps what was done, with the form that undoes it.
function showAction(old, saved, address) {
  const row = byID(old.closest(".row").id); // the page may have been renewed meanwhile
  const panel = row.querySelector(".panel");
  const form = saved.querySelector("form");
  const board = saved.querySelector("p a"); // where it is booked now
  const places = board ? new URL(board.href, address).searchParams.get("booked").split(",") : [];
  const place = placeOf(panel);
  const ends = findAll("li > time:last-of-type", saved).map((time) => time.dateTime);
  actions.set(row.id, {
    kind: saved.dataset.done,
    elsewhere: places.length > 0 && !places.includes(place) ? findAll("li > b:first-child", saved) : [],
    until: ends.length > 0 ? brief(ends[0], true) : "",
    at: 1000 * Math.floor(now() / 1000),
    undo: form && {
      address: new URL(form.getAttribute("action"), address).href,
      fields: new URLSearchParams(new FormData(form, form.querySelector("button"))),
    },
  });
  expectBooking();
  noteBooked(places, place);
  row.querySelector(".done")?.remove();
  panel.open = false;
  panel.querySelector(".refusal")?.replaceChildren();
  panel.querySelector(".standing")?.remove(); // the next time it has what there is then
  showActions();
  row.querySelector(".done button")?.focus();
  schedule();
}

// showActions says in the rows what was done there. Until the board has it, that takes the place of what it says.
function showActions() {
  for (const [id, action] of actions) {
    const cell = byID(id)?.querySelector(".gpu-booking");
    if (!cell) {
      continue;
    }
    cell.classList.add("did");
    cell.classList.toggle("ahead", builtAt() < action.at);
    if (!cell.querySelector(".done")) {
      cell.prepend(makeAction(cell.querySelector(".panel"), action));
    }
  }
}

function makeAction(panel, { kind, elsewhere, until, undo }) {
  const line = makeElement("p", "done");
  line.setAttribute("role", "status");
  const place = elsewhere.map((part) => part.textContent).join(", ");
  const what = kind === "released" ? bookWords.released : bookWords.mine;
  const end = kind !== "released" && until ? " " + fill(bookWords.rowUntil, until) : "";
  line.append(makeElement("b", "", (place && place + ": ") + what), end + " ");
  if (undo) {
    line.append(makeButton("", bookWords.undo, () => submitForm(panel, undo.address, new URLSearchParams(undo.fields))));
  }
  return line;
}

// showRefusal says why nothing was saved, what others run there, and what there is instead.
function showRefusal(panel, page) {
  openPanel(panel);
  const refusal = panel.querySelector(".refusal");
  const say = page.getElementById("_say");
  const jobs = page.getElementById("_jobs");
  jobs?.classList.add("jobs");
  const parts = [say, page.querySelector("#_form > [name=sure]"), jobs, page.querySelector(".offer")].filter(Boolean);
  refusal.replaceChildren(...parts.map((part) => adopt(part, addressOf(panel))));
  for (const part of findAll("[id], [aria-describedby], [role]", refusal)) {
    ["id", "aria-describedby", "role"].forEach((name) => part.removeAttribute(name));
  }
  listBookings(panel);
  refusal.scrollIntoView({ block: "nearest" });
}

document.addEventListener("submit", (event) => {
  const panel = event.target.closest(".panel");
  if (panel) {
    event.preventDefault();
    const address = new URL(event.target.getAttribute("action") ?? "", addressOf(panel));
    submitForm(panel, address.href, new URLSearchParams(new FormData(event.target, event.submitter)));
  }
});

// releaseOwn releases what the viewer has booked in a row, which the form knows by its ID.
async function releaseOwn(panel) {
  const address = addressOf(panel);
  const page = await fetchPage(address);
  const forms = findAll(".standing li.on form", page);
  if (forms.length !== 1) {
    panel.open = true; // it says which there are
    return;
  }
  const release = forms[0].querySelector("[value=release]");
  await post(panel, address, new URLSearchParams(new FormData(forms[0], release)));
}
setups.push(showActions);
