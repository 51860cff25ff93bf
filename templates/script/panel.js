// The panel of a row says who has booked that GPU, and composes what to type to book it. Where a
// server answers for the booking form, it reads the times as they are typed. What was typed
// counts for all panels. A renewal of the page leaves open ones as they are.
const {
  words, root, online, setups, byID, findAll, makeElement, makeButton, makeSVG, recall,
  remember, setParameters, setPageParameters, request, fetchPage, adopt, addCopyButton, labelCopyButton, schedule,
  delivered, builtAt, expectBooking, surelyHasBooking, allHosts, signOf,
} = window.gpuboard;

const wish = { name: recall("name") || "", from: "", until: "", comment: "" };
const askers = new WeakMap(); // by panel: what asks the server
const answers = new WeakMap(); // by panel: its latest answer
let formServed = null; // whether a server answers for the booking form; null is not known
let loggedIn = ""; // who the viewer is to the form, "" if it does not know

const hostOf = (row) => row.closest(".host").id;
const gpuOf = (row) => row.dataset.uuid || row.querySelector(".gpu-index").textContent.trim();

function placeOf(panel) {
  const row = panel.closest(".row");
  return hostOf(row) + ":" + gpuOf(row);
}

function bookingsOf(panel) {
  return findAll("i", panel).map(({ dataset }) => ({
    name: dataset.name,
    from: dataset.from ? Date.parse(dataset.from) : -Infinity,
    until: dataset.until ? Date.parse(dataset.until) : Infinity,
  }));
}

// ownsBooking reports whether the viewer has booked the GPU of a panel, now or later.
const ownsBooking = (panel) => bookingsOf(panel).some((b) => b.until > now() && isOwn(b));
const isOwn = (booking) => isName(booking.name, wish.name);
const isName = (text, name) => name.trim() !== "" && text.trim().toLowerCase() === name.trim().toLowerCase();

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
  const refused = panel.querySelector(".refusal > *"); // perhaps because of a booking that this page does not have yet
  panel.querySelector(".due").replaceChildren(
    ...(lines.length > 0 || refused ? lines : [makeElement("li", "dim", bookWords.never)]),
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
  if (formServed) {
    useForm(panel);
  }
}

// useForm puts what the form offers first: a button that books, or one's own bookings. The command is folded away.
function useForm(panel) {
  if (!panel.querySelector(".go")) {
    addForm(panel);
  }
  const own = ownsBooking(panel);
  panel.querySelector(".go").hidden = own;
  if (own && !panel.querySelector(".standing")) {
    addOwn(panel).catch(() => {}); // the link leads to them
  }
  for (const name of ["from", "until"]) {
    const input = panel.querySelector(`.wish input[name=${name}]`);
    if (!wish[name] && input !== document.activeElement) {
      input.value = shortTime(panel.dataset[name] ?? "");
    }
  }
  askers.get(panel)(wish.from || panel.dataset.from || "", wish.until || panel.dataset.until);
}

function addForm(panel) {
  const line = makeElement("p", "go");
  line.append(makeButton("", bookWords.here, () => bookHere(panel)));
  const refusal = makeElement("div", "refusal");
  refusal.setAttribute("role", "status");
  panel.querySelector(".due").before(line, refusal);
  const fold = makeElement("details", "by-command");
  fold.append(makeElement("summary", "", bookWords.command));
  panel.querySelector(":scope > p > a").parentNode.before(fold);
  fold.append(...findAll(":scope > p:has(code)", panel));
}

// bookHere books what the fields say. Who has to log in first does so in the form.
function bookHere(panel) {
  if (!loggedIn) {
    location.href = panel.querySelector(":scope > p > a").href;
    return;
  }
  const fields = new URLSearchParams({ action: "book", name: wish.name || loggedIn, comment: wish.comment });
  fields.set("from", wish.from || panel.dataset.from || "");
  fields.set("until", wish.until || panel.dataset.until);
  for (const agreed of findAll(".refusal > input, .refusal .jobs input:checked", panel)) {
    fields.set(agreed.name, agreed.value);
  }
  submitForm(panel, addressOf(panel), fields);
}

// addressOf is the form for the place of a panel.
function addressOf(panel) {
  const address = new URL(panel.querySelector(":scope > p > a").href);
  const lang = address.searchParams.get("lang");
  address.username = address.password = address.search = ""; // fetch refuses a name and password
  setParameters(address, { lang, at: placeOf(panel) });
  return address.href;
}

// composeCommand puts what is typed into the command. Where the server has read it in another
// zone than the command would, the command gets the moments.
function composeCommand(panel, answer) {
  const exact = answer.zone && answer.zone !== root.dataset.zone;
  const textOf = (name) => (exact && wish[name].trim() && answer[name]) || wish[name].trim();
  const [command, entry] = findAll("code:not(.ends)", panel);
  const [program] = command.textContent.split(/ (?:book|extend) /);
  const name = wish.name.trim() || bookWords.noName;
  const own = ownsBooking(panel);
  if (own) {
    const end = textOf("until") || proposedEnd(panel);
    const flags = { [/^\d+\w$/.test(end) ? "for" : "until"]: end, name };
    command.textContent = bookCommand(program, [placeOf(panel)], flags, "extend");
  } else {
    command.textContent = bookCommand(program, [placeOf(panel)], {
      from: textOf("from") || panel.dataset.from,
      [wish.until.trim() ? "until" : panel.dataset.flag]: textOf("until") || panel.dataset.until,
      name,
      comment: wish.comment.trim(),
    });
  }
  labelCopyButton(command);
  composeRelease(panel, command, own && bookCommand(program, [placeOf(panel)], { name }, "release"));
  if (entry) { // it has a time of its own
    entry.closest("p").hidden = Boolean(own || wish.from.trim() || wish.until.trim());
  }
}

// composeRelease puts the command that ends one's own booking below the one that extends it.
function composeRelease(panel, command, text) {
  let code = panel.querySelector(".ends");
  if (!text) {
    code?.closest("p").remove();
    return;
  }
  if (!code) {
    code = makeElement("code", "copy ends");
    const line = makeElement("p");
    line.append(code);
    command.closest("p").after(line);
    addCopyButton(code);
  }
  code.textContent = text;
  labelCopyButton(code);
}

// addFields puts the fields and the answer to them into a panel.
function addFields(panel) {
  const command = panel.querySelector("code").textContent;
  [, panel.dataset.flag, panel.dataset.until] = / --(for|until) (\S+) /.exec(command);
  panel.dataset.from = / --from (\S+) /.exec(command)?.[1] ?? "";
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
    input.value ||= panel.dataset[name];
    input.maxLength = 100;
    addPicker(input, bookWords.pick);
  }
  return label;
}

// addOwn puts the viewer's own bookings of a GPU into its panel, as the booking form has them: to
// extend and to release.
async function addOwn(panel) {
  const list = makeElement("ul", "standing");
  panel.querySelector(".go").before(list);
  const page = await fetchPage(addressOf(panel));
  list.append(...findAll(".standing li:has(form)", page).map((line) => adopt(line, addressOf(panel))));
  for (const end of findAll("input[name=end]", list)) {
    end.value ||= proposedEnd(panel);
  }
}

// proposedEnd is how much longer a booking may last: a day, or until the next one begins.
function proposedEnd(panel) {
  const bookings = bookingsOf(panel);
  const end = Math.max(...bookings.filter(isOwn).map((b) => b.until));
  const next = Math.min(...bookings.map((b) => b.from).filter((from) => from > end));
  return next < end + 86400e3 ? shortTime(new Date(next).toISOString()) : "1d";
}

// askForForm asks whether a server answers for the booking form, and who the viewer is to it.
async function askForForm() {
  formServed = false;
  const response = await request(root.dataset.root + "book/capabilities.json");
  schedule(); // by the server's clock, which the response has told
  const answer = response.ok ? await response.json() : {};
  formServed = answer.booking === true;
  loggedIn = answer.name ?? "";
  if (loggedIn && !wish.name) {
    setName(loggedIn);
  }
  for (const fields of findAll(".panel[open] .wish")) {
    compose(fields.parentNode);
  }
  markOwn();
}

function setName(name) {
  wish.name = name;
  remember("name", name);
  for (const input of findAll(".panel .wish input[name=name]")) {
    input.value = name;
  }
}

function findForm() {
  if (formServed === null && online) {
    askForForm().catch(() => {
      formServed = null; // asked again with the next panel or renewal
    });
  }
}

document.addEventListener("toggle", ({ target: panel }) => {
  if (panel.open && panel.classList?.contains("panel")) {
    openPanel(panel);
    findForm();
  }
}, true);

function openPanel(panel) {
  panel.open = true;
  if (!panel.querySelector(".wish")) {
    addFields(panel);
  }
  compose(panel);
}

// A renewal brings open panels the bookings that there are now.
setups.push(() => {
  for (const fields of findAll(".panel[open] .wish")) {
    listBookings(fields.parentNode);
  }
});
