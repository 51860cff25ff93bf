// The panel of a row says who has booked that GPU, and composes what to type to book it. Where a
// server answers for the booking form, it reads the times as they are typed. What was typed
// counts for all panels. A renewal of the page leaves open ones as they are.
const {
  words, root, online, setups, byID, findAll, makeElement, makeButton, makeSVG, recall,
  remember, setParameters, setPageParameters, request, fetchPage, adopt, labelCopyButton, schedule, delivered, markOwn,
  signOf,
} = window.gpuboard;

const wish = { name: recall("name") || "", from: "", until: "", comment: "" };
const askers = new WeakMap(); // by panel: what asks the server
const answers = new WeakMap(); // by panel: its latest answer
let formServed = null; // whether a server answers for the booking form; null is not known

const hostOf = (row) => row.closest(".host").id;
const gpuOf = (row) => row.dataset.u || row.querySelector(".i").textContent.trim();

function placeOf(panel) {
  const row = panel.closest(".r");
  return hostOf(row) + ":" + gpuOf(row);
}

function bookingsOf(panel) {
  return findAll("i", panel).map(({ dataset }) => ({
    name: dataset.n,
    from: dataset.f ? Date.parse(dataset.f) : -Infinity,
    until: dataset.u ? Date.parse(dataset.u) : Infinity,
  }));
}

function isOwn(booking) {
  const name = wish.name.trim().toLowerCase();
  return name !== "" && booking.name.toLowerCase() === name;
}

function bookingText({ name, from, until }) {
  const end = until === Infinity ? bookWords.openEnd : brief(until);
  return fill(bookWords.taken, name, brief(Math.max(from, now())) + " – " + end);
}

// listBookings says who else has booked the GPU, and marks what is in the way of the times that
// the server has read.
function listBookings(panel) {
  const answer = answers.get(panel) ?? {};
  const from = Date.parse(answer.from);
  const until = answer.until === "never" ? Infinity : Date.parse(answer.until);
  const others = bookingsOf(panel).filter((b) => b.until > now() && !isOwn(b));
  const lines = others.map((b) => {
    return makeElement("li", b.from < until && b.until > from ? "bad" : "", bookingText(b));
  });
  panel.querySelector(".due").replaceChildren(
    ...(lines.length > 0 ? lines : [makeElement("li", "d", bookWords.never)]),
  );
}

function compose(panel) {
  const link = panel.querySelector(":scope > p > a");
  const address = new URL(link.href);
  const typed = Object.entries(wish).map(([name, text]) => [name, text.trim()]);
  setParameters(address, { at: placeOf(panel), ...Object.fromEntries(typed) });
  link.href = address.href;
  composeCommand(panel, {});
  listBookings(panel);
  if (!formServed) {
    return;
  }

  const own = bookingsOf(panel).some((b) => b.until > now() && isOwn(b));
  link.textContent = own ? bookWords.extend : bookWords.here;
  if (own && !panel.querySelector(".standing")) {
    addOwn(panel, link.href).catch(() => {}); // the link leads to them
  }
  askers.get(panel)(wish.from, wish.until || panel.dataset.until);
}

// composeCommand puts what is typed into the command. Where the server has read it in another
// zone than the command would, the command gets the moments.
function composeCommand(panel, answer) {
  const exact = answer.zone && answer.zone !== root.dataset.zone;
  const textOf = (name) => (exact && wish[name].trim() && answer[name]) || wish[name].trim();
  const [command, entry] = findAll("code", panel);
  command.textContent = bookCommand(command.textContent.split(" book ")[0], [placeOf(panel)], {
    from: textOf("from"),
    [wish.until.trim() ? "until" : panel.dataset.flag]: textOf("until") || panel.dataset.until,
    name: wish.name.trim() || bookWords.noName,
    comment: wish.comment.trim(),
  });
  labelCopyButton(command);
  if (entry) { // it has a time of its own
    entry.closest("p").hidden = Boolean(wish.from.trim() || wish.until.trim());
  }
}

// addFields puts the fields and the answer to them into a panel.
function addFields(panel) {
  const proposed = / --(for|until) (\S+) /.exec(panel.querySelector("code").textContent);
  [, panel.dataset.flag, panel.dataset.until] = proposed;
  const fields = makeElement("p", "wish");
  panel.querySelector("p").before(makeElement("ul", "due"), fields);
  for (const name of Object.keys(wish)) {
    fields.append(makeField(panel, name));
  }
  const says = makeElement("p", "says");
  says.setAttribute("role", "status");
  fields.after(says);
  askers.set(panel, makeAsker(root.dataset.root + "book/times.json", (answer) => {
    answers.set(panel, answer);
    showAnswer(says, answer);
    for (const zone of findAll(".zone", panel)) {
      zone.textContent = answer.zone ?? root.dataset.zone;
    }
    composeCommand(panel, answer);
    listBookings(panel);
  }));
}

function makeField(panel, name) {
  const label = makeElement("label", "", bookWords[name]);
  const input = makeElement("input");
  input.name = name;
  input.value = wish[name];
  input.maxLength = 128;
  input.autocomplete = "off";
  input.addEventListener("input", () => {
    wish[name] = input.value;
    if (name === "name") {
      remember("name", input.value);
      markOwn();
    }
    compose(panel);
  });
  label.append(input);
  if (name === "from" || name === "until") {
    const zone = makeElement("span", "zone", root.dataset.zone);
    zone.lang = "en";
    input.before(zone);
    input.value ||= name === "until" ? panel.dataset.until : "";
    input.maxLength = 100;
    addPicker(input, bookWords.pick);
  }
  return label;
}

// addOwn puts the viewer's own bookings of a GPU into its panel, as the booking form has them: to
// extend and to release.
async function addOwn(panel, address) {
  const list = makeElement("ul", "standing");
  const refusal = makeElement("p", "says bad");
  refusal.setAttribute("role", "status");
  panel.querySelector(".wish").before(list, refusal);
  const page = await fetchPage(address);
  list.append(...findAll(".standing li:has(form)", page).map((line) => adopt(line, address)));
  list.addEventListener("submit", (event) => {
    event.preventDefault();
    send(address, event, refusal).catch(() => {
      location.href = address;
    });
  });
}

// send sends a form, which the policy of the page forbids the browser to do by itself, and says
// why it was refused.
async function send(address, { target, submitter }, refusal) {
  const fields = new URLSearchParams(new FormData(target, submitter));
  fields.set("zone", viewerZone);
  const response = await fetch(address, { method: "POST", body: fields });
  if (response.redirected) {
    location.href = response.url;
    return;
  }
  const answer = new DOMParser().parseFromString(await response.text(), "text/html");
  refusal.textContent = answer.getElementById("_say").textContent;
}

// askForForm asks whether a server answers for the booking form, and who the viewer is to it.
async function askForForm() {
  formServed = false;
  const response = await request(root.dataset.root + "book/capabilities.json");
  schedule(); // by the server's clock, which the response has told
  const answer = response.ok ? await response.json() : {};
  formServed = answer.booking === true;
  if (answer.name && !wish.name) {
    wish.name = answer.name;
    remember("name", answer.name);
    for (const input of findAll(".bkp .wish input[name=name]")) {
      input.value = answer.name;
    }
  }
  for (const fields of findAll(".bkp[open] .wish")) {
    compose(fields.parentNode);
  }
  markOwnRows();
  markOwn();
}

function findForm() {
  if (formServed === null && online) {
    askForForm().catch(() => {
      formServed = null; // asked again with the next panel or renewal
    });
  }
}

document.addEventListener("toggle", ({ target: panel }) => {
  if (!panel.open || !panel.classList?.contains("bkp")) {
    return;
  }
  if (!panel.querySelector(".wish")) {
    addFields(panel);
  }
  compose(panel);
  findForm();
}, true);

// A renewal brings open panels the bookings that there are now.
setups.push(() => {
  for (const fields of findAll(".bkp[open] .wish")) {
    listBookings(fields.parentNode);
  }
});
