// The panel of a row composes what to type and what to paste to book that GPU, and holds it
// against the bookings that the page knows of. What was typed counts for all panels, so that
// renewing the page loses nothing.
const {
  words, root, setups, byID, findAll, makeElement, recall, remember,
  setParameters, setPageParameters, request, fetchPage, adopt, addCopyButtons, labelCopyButton,
} = window.gpuboard;

const wish = { name: recall("name") || "", from: "", until: "2d", comment: "" };
let formServed = null; // whether a server answers for the booking form; null is not known

const hostOf = (row) => row.closest(".host").id;
const gpuOf = (row) => row.dataset.u || row.querySelector(".i").textContent.trim();

function bookingsOf(panel) {
  return findAll("i", panel).map(({ dataset }) => ({
    name: dataset.n,
    from: dataset.f ? Date.parse(dataset.f) : -Infinity,
    until: dataset.u ? Date.parse(dataset.u) : Infinity,
  }));
}

function compose(panel) {
  const row = panel.closest(".r");
  const place = hostOf(row) + ":" + gpuOf(row);
  const says = panel.querySelector(".says");
  const link = panel.querySelector("a");
  const { from, until, problem } = readTimes(wish);
  const overlapping = until ? bookingsOf(panel).filter((b) => overlaps(b, from, until)) : [];
  const clash = overlapping.find((b) => !isOwn(b, wish));

  link.href = formAddress(link.href, place, from, until);
  if (formServed) {
    const own = overlapping.some((b) => isOwn(b, wish));
    link.textContent = own ? bookWords.extend : bookWords.here;
    if (own && !panel.querySelector(".standing")) {
      addOwn(panel, link.href).catch(() => {}); // the link leads to them
    }
  }

  says.className = problem || clash ? "says bad" : "says d";
  if (problem) {
    says.textContent = problem;
    return;
  }
  if (clash) {
    says.textContent = clashText(clash, from);
  } else {
    says.textContent = until === Infinity ? bookWords.never : fill(bookWords.free, brief(until));
  }

  const [command, json] = findAll("code", panel);
  const program = command.textContent.split(" book ")[0];
  command.textContent = bookCommand(program, [place], wish, from, until);
  json.textContent = bookingJSON(hostOf(row), gpuOf(row), from, until);
  labelCopyButton(command);
  labelCopyButton(json);
}

// formAddress is the address of the form, which begins with what was typed.
function formAddress(address, place, from, until) {
  const url = new URL(address);
  setParameters(url, {
    at: place,
    from: exact(wish.from, from),
    until: exact(wish.until, until),
    name: wish.name.trim(),
    comment: wish.comment.trim(),
  });
  return url.href;
}

// bookingJSON is the line for the bookings file.
function bookingJSON(host, gpu, from, until) {
  const booking = {
    name: wish.name.trim() || bookWords.noName,
    from: wish.from.trim() ? stamp(from) : undefined,
    date: until === Infinity ? undefined : stamp(until),
    comment: wish.comment.trim() || undefined,
  };
  const fields = Object.entries(booking)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => JSON.stringify(key) + ": " + JSON.stringify(value));
  return JSON.stringify(host) + ": { " + JSON.stringify(gpu) + ": { " + fields.join(", ") + " } }";
}

// addFields puts the fields and the answer to them into a panel.
function addFields(panel) {
  const fields = makeElement("p", "wish");
  for (const name of Object.keys(wish)) {
    fields.append(makeField(panel, name));
  }
  const says = makeElement("p", "says d");
  says.setAttribute("role", "status");

  // Without the script, the page that the link leads to says what to paste.
  if (findAll("code", panel).length < 2) {
    const line = makeElement("p");
    line.append(makeElement("code", "copy"));
    panel.lastElementChild.before(line);
    addCopyButtons();
  }
  panel.querySelector("p").before(fields, says);
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
    }
    compose(panel);
  });
  label.append(input);
  return label;
}

// addOwn puts the viewer's own bookings of a GPU into its panel, as the booking form has them: to
// extend and to release.
async function addOwn(panel, address) {
  const list = makeElement("ul", "standing");
  panel.querySelector(".wish").before(list);
  const page = await fetchPage(address);
  list.append(...findAll(".standing li:has(form)", page).map((line) => adopt(line, address)));
  list.addEventListener("submit", (event) => {
    event.preventDefault();
    send(address, event).catch(() => {
      location.href = address;
    });
  });
}

// send sends a form, which the policy of the page forbids the browser to do by itself.
async function send(address, { target, submitter }) {
  const fields = new URLSearchParams(new FormData(target, submitter));
  const response = await fetch(address, { method: "POST", body: fields });
  if (response.redirected) {
    location.href = response.url;
    return;
  }
  const answer = new DOMParser().parseFromString(await response.text(), "text/html");
  const says = target.closest(".bkp").querySelector(".says");
  says.className = "says bad";
  says.textContent = answer.getElementById("_say").textContent;
}

// askForForm asks whether a server answers for the booking form, and who the viewer is to it.
async function askForForm() {
  formServed = false;
  const response = await request(root.dataset.root + "book/capabilities.json");
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
}

document.addEventListener("toggle", ({ target: panel }) => {
  if (!panel.open || !panel.classList?.contains("bkp")) {
    return;
  }
  if (!panel.querySelector(".wish")) {
    addFields(panel);
  }
  compose(panel);
  if (formServed === null && location.protocol !== "file:") {
    askForForm().catch(() => {
      formServed = null; // asked again with the next panel
    });
  }
}, true);
