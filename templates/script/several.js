// Booking several GPUs where no server answers for the form: the page has all GPUs and their
// bookings as JSON. This shows which would be taken, and composes one command for them.
const {
  fill, now, byID, findAll, makeButton, recall, remember, labelCopyButton,
  bookWords, minuteLength, readSpan, stamp, readTimes, brief, isOwn, spanText, clashText, bookCommand,
} = window.gpuboard;

const form = byID("_several");
const fields = Object.fromEntries(findAll("[name]", form).map((field) => [field.name, field]));
const command = byID("_command");
const says = byID("_says");
const units = readUnits(JSON.parse(byID("_bookable").textContent));
const program = document.querySelector("ol code.copy").textContent.split(" book ")[0];

const valueOf = (name) => fields[name].value;

function readWish() {
  return {
    name: valueOf("name"),
    from: valueOf("from"),
    until: valueOf("until"),
    comment: valueOf("comment"),
  };
}

function showProblem(text) {
  says.textContent = text;
  says.className = "bad";
  command.closest("p").hidden = true;
}

function showCommand(text, places, wish, { from, until }) {
  says.textContent = text;
  says.className = "";
  command.closest("p").hidden = false;
  command.textContent = bookCommand(program, places, wish, from, until);
  labelCopyButton(command);
}

// addNext offers to book from a later moment on, for as long.
function addNext(next) {
  const button = makeButton("", fill(bookWords.next, brief(next)), () => {
    const from = new Date(minuteLength * Math.ceil(next / minuteLength));
    const times = readTimes(readWish());
    const length = times.until - times.from;
    if (!readSpan(valueOf("until")) && length < Infinity) {
      fields.until.value = stamp(new Date(from.getTime() + length));
    }
    fields.from.value = stamp(from);
    compose();
    fields.from.focus();
  });
  says.append(" ", button);
}

function compose() {
  const wish = readWish();
  const times = readTimes(wish);
  const places = valueOf("at").trim().split(/\s+/).filter(Boolean);
  if (times.problem) {
    showProblem(times.problem);
  } else if (places.length > 0) {
    composePlaces(places, wish, times);
  } else {
    composeOffer(wish, times);
  }
}

// composePlaces books the GPUs that are named.
function composePlaces(places, wish, times) {
  const { from, until } = times;
  const found = places.map((place) => unitsAt(units, place));
  if (found.includes(null)) {
    showProblem(bookWords.noPlace);
    return;
  }

  const chosen = found.flat();
  for (const unit of chosen) {
    const clash = unit.bookings.find((b) => overlaps(b, from, until) && !isOwn(b, wish));
    if (clash) {
      showProblem(unit.host + ":" + unit.gpu + ": " + clashText(clash, from));
      return;
    }
  }
  const used = from <= now() && chosen.some((unit) => unit.status === USED);
  showCommand(spanText(from, until) + (used ? ". " + bookWords.used : ""), places, wish, times);
}

// composeOffer books as many GPUs as are wanted of a kind.
function composeOffer(wish, times) {
  const { from, until } = times;
  const kind = {
    count: Number(valueOf("gpus")),
    model: valueOf("model"),
    mib: valueOf("memory").trim() ? readMemory(valueOf("memory")) : 0,
    oneHost: fields["one-host"].checked,
  };
  if (!Number.isInteger(kind.count) || kind.count < 1 || kind.count > 256) {
    showProblem(bookWords.count);
    return;
  }
  if (isNaN(kind.mib)) {
    showProblem(bookWords.memory);
    return;
  }

  const offer = makeOffer(units, kind, from, until, now());
  if (offer.picked) {
    const places = placesOf(offer.picked);
    showCommand(fill(bookWords.these, places.join(" "), spanText(from, until)), places, wish, times);
    return;
  }
  showProblem(fill(bookWords.tooFew, offer.open, offer.fitting));
  if (offer.next) {
    addNext(offer.next);
  }
}

// readParameters fills the fields with what the address asks for; places may be named in
// several parameters.
function readParameters() {
  const parameters = new URLSearchParams(location.search);
  for (const [name, field] of Object.entries(fields)) {
    if (!parameters.has(name)) {
      continue;
    }
    const values = parameters.getAll(name);
    if (field.type === "checkbox") {
      field.checked = true;
    } else {
      field.value = name === "at" ? values.filter(Boolean).join(" ") : values.at(-1);
    }
  }
  fields.name.value ||= recall("name") || "";
}

readParameters();
form.hidden = false;
form.addEventListener("input", ({ target }) => {
  if (target.name === "name") {
    remember("name", target.value);
  }
  compose();
});
compose();
setInterval(compose, 30000);
