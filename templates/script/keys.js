// Keyboard shortcuts. Never in a field, never with a modifier, and they can be turned off.
function isShortcut(event) {
  const modified = event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.target.isContentEditable;
  return !shortcutsOff && !modified && !typing;
}

// goToHost moves the focus by so many hosts. The focus counts before the place in the
// window, because the last hosts cannot come to its top. The limit of 100 pixels is a little
// more than the page's scroll-padding-top, the height of the filters.
function goToHost(step) {
  const lines = findAll(".host:not([hidden])").filter((line) => line.offsetParent);
  const focused = lines.indexOf((document.activeElement ?? document.body).closest(".host"));
  const atTop = () => lines.findLastIndex((line) => line.getBoundingClientRect().top <= 100);
  const next = (focused >= 0 ? focused : atTop()) + step;
  const line = lines[Math.max(0, Math.min(lines.length - 1, next))];
  if (line) {
    line.scrollIntoView();
    linkOf(line).focus({ preventScroll: true });
  }
}

// copyCommand copies the ssh command of the host that has the focus, or else of the first
// one with a free GPU.
function copyCommand(focused) {
  const host = focused ?? document.querySelector(".hasfree[data-ssh]");
  if (!host?.dataset.ssh) {
    document.querySelector(".fresh button.copy-button")?.click();
    return;
  }
  const code = document.body.appendChild(makeElement("code", "visually-hidden", "ssh " + host.dataset.ssh));
  copyText(code, () => {
    code.remove();
    showMessage("", words.copied + ": " + code.textContent);
  });
}

function showHelp(shown) {
  helpShown = shown;
  updateAges();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (event.target === searchField) {
      searchFor("");
      searchField.blur();
      return;
    }
    // What is open below a row: where the focus is, or else the one that comes first.
    const panel = event.target.closest("td details[open]") ?? document.querySelector("td details[open]");
    if (panel) {
      panel.open = false;
      panel.querySelector("summary").focus();
      return;
    }
  }
  if (!isShortcut(event)) {
    return;
  }
  switch (event.key) {
    case "/":
      if (searchField) {
        searchField.focus();
        event.preventDefault();
      }
      break;
    case "f":
      if (searchField && pageKind === "index") {
        searchFor(query === "free" ? "" : "free");
      }
      break;
    case "j":
      goToHost(1);
      break;
    case "k":
      goToHost(-1);
      break;
    case "t":
      nextTheme();
      break;
    case "c":
      copyCommand(event.target.closest?.(".host"));
      break;
    case "?":
      showHelp(!helpShown);
      break;
    case "Escape":
      showHelp(false);
      break;
  }
});
