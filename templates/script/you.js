// The viewer: the head of the front page says how many GPUs are theirs, and marks these. The booking form knows who
// that is; without one, somebody says so once, and the browser keeps it.
const viewer = () => loggedIn || wish.name.trim();
let naming = null; // the field in which somebody says who they are

function markOwn() {
  markOwnRows();
  const line = byID("_mine");
  if (line && (formServed !== null || !online)) {
    const mine = markOwnSigns(viewer());
    line.hidden = false;
    line.replaceChildren(...(naming ? [naming] : describeViewer(mine)));
  }
}

function describeViewer(mine) {
  const parts = [];
  if (viewer()) {
    const link = makeElement("a", "", mine === 1 ? bookWords.yourOne : fill(bookWords.yours, mine));
    link.href = "?" + new URLSearchParams({ q: viewer() });
    parts.push(link);
  }
  if (!loggedIn) {
    parts.push(" ", makeButton("", fill(bookWords.iAm, wish.name.trim() || "…"), askForName));
  }
  return parts;
}

function askForName() {
  naming = makeElement("input");
  naming.value = wish.name;
  naming.maxLength = 128;
  naming.ariaLabel = bookWords.name;
  naming.placeholder = bookWords.name;
  naming.addEventListener("input", () => setName(naming.value.trim()));
  naming.addEventListener("keydown", ({ key }) => {
    if (key === "Enter") {
      naming.blur();
    }
  });
  naming.addEventListener("blur", () => {
    naming = null;
    markOwn();
  });
  markOwn();
  naming.focus();
}
