// Booking where no server answers for the form: what is typed becomes the command, which chooses.
const {
  byID, findAll, recall, remember, labelCopyButton, bookWords, bookCommand, addPicker,
} = window.gpuboard;

const form = byID("_several");
const fields = Object.fromEntries(findAll("[name]", form).map((field) => [field.name, field]));
const command = byID("_command");
const program = document.querySelector("ol code.copy").textContent.split(" book ")[0];

const valueOf = (name) => fields[name].value.trim();

function compose() {
  const places = valueOf("at").split(/\s+/).filter(Boolean);
  const kind = {
    gpus: valueOf("gpus"),
    model: valueOf("model"),
    "min-memory": valueOf("memory"),
    "same-host": fields["one-host"].checked,
  };
  command.textContent = bookCommand(program, places, {
    ...(places.length > 0 ? {} : kind),
    from: valueOf("from"),
    until: valueOf("until"),
    name: valueOf("name") || bookWords.noName,
    comment: valueOf("comment"),
  });
  labelCopyButton(command);
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
addPicker(fields.from, fields.from.dataset.pick);
addPicker(fields.until, fields.until.dataset.pick);
form.hidden = false;
form.addEventListener("input", ({ target }) => {
  if (target.name === "name") {
    remember("name", target.value);
  }
  compose();
});
compose();
