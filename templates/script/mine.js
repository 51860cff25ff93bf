// The viewer's own GPUs on the map: one ring round neighbours, and their name in bold.
const ringGap = 2; // between a sign and its ring, in units of the picture
const signStep = 18; // as in sitegen/page/signs.go

// markOwnSigns marks the GPUs of a person, and returns how many there are.
function markOwnSigns(person) {
  if (root.dataset.kind !== "index") {
    return 0;
  }
  const name = person.toLowerCase();
  let mine = 0;
  unmark();
  for (const host of allHosts()) {
    const own = host.signs.map(({ gpus }) => name !== "" && gpus.some((gpu) => isHeldBy(gpu, name)));
    mine += host.gpus.filter((gpu) => name !== "" && isHeldBy(gpu, name)).length;
    if (own.includes(true)) {
      drawRings(host.line.querySelector(".signs"), own);
      markName(host.line.querySelector(".users"), name);
    }
  }
  return mine;
}

// isHeldBy reports whether somebody uses or has booked a GPU.
function isHeldBy(gpu, name) {
  return gpu.booker.toLowerCase() === name || (" " + gpu.users.toLowerCase() + " ").includes(" " + name + " ");
}

function unmark() {
  for (const mark of findAll(".host-line :is(.ring, .own)")) {
    const parent = mark.parentNode;
    mark.replaceWith(...mark.childNodes);
    parent.normalize();
  }
}

// drawRings draws them into the signs of a host, which has none where its rows are on the page.
function drawRings(picture, own) {
  for (let from = 0; from < own.length; from++) {
    if (!own[from]) {
      continue;
    }
    let to = from;
    while (own[to]) {
      to++;
    }
    picture?.append(makeSVG("rect", {
      class: "ring",
      x: signStep * from - ringGap,
      y: -ringGap,
      width: signStep * (to - from),
      height: signStep + 2 * ringGap,
      rx: 5,
    }));
    from = to;
  }
}

function markName(list, name) {
  for (const node of [...list.childNodes]) {
    const at = node.nodeType === Node.TEXT_NODE ? (" " + node.data + " ").toLowerCase().indexOf(" " + name + " ") : -1;
    if (at >= 0) {
      const found = node.splitText(at);
      found.splitText(name.length);
      const bold = makeElement("b", "own");
      found.replaceWith(bold);
      bold.append(found);
    }
  }
}
