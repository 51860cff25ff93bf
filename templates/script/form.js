// The booking form: its times are read in the viewer's zone, and answered as they are typed.
const [from, until] = ["_from", "_until"].map(byID);

const ask = makeAsker("times.json", (answer) => {
  showAnswer(byID("_says"), answer);
  if (answer.zone === viewerZone) {
    showViewerZone();
  }
});

// showViewerZone names the viewer's zone beside the fields, and writes all times in it.
function showViewerZone() {
  for (const zone of findAll(".zone")) {
    zone.textContent = viewerZone;
  }
  if (root.dataset.zone !== viewerZone) {
    for (const time of findAll("time")) {
      time.textContent = brief(time.dateTime);
    }
  }
}

function askServer() {
  if (online) {
    ask(from.value, until.value);
  }
}

for (const form of document.forms) {
  const zone = makeElement("input");
  zone.type = "hidden";
  zone.name = "zone";
  zone.value = viewerZone;
  form.append(zone);
}
for (const field of [from, until]) {
  field.value = shortTime(field.value);
  addPicker(field, field.dataset.pick);
  field.addEventListener("input", askServer);
}
askServer();

// What an address asks for without a zone, the server has read in the site's.
const asked = new URLSearchParams(location.search);
if (asked.has("gpus") && !asked.has("zone") && root.dataset.zone !== viewerZone && online) {
  asked.set("zone", viewerZone);
  location.replace("?" + asked);
}
