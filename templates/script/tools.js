// The buttons in the corner: pause, height of the rows, shortcuts, and theme.
const themeNames = ["auto", "light", "dark"];
let theme = recall("theme") || "auto";
let comfortRows = recall("rows") === "comfort"; // each row as high as what it says
let shortcutsOff = recall("keys") === "off";
let paused = false;

const themePictures = {
  auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6" +
    "M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  dark: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
};

// Each button, with what it says now.
const tools = [];

// addTool adds a button. describe returns its label and the path of its picture.
function addTool(describe, onClick) {
  const button = makeButton("", "", onClick);
  byID("_tools").append(button);
  tools.push({ button, describe });
}

function showTools() {
  for (const { button, describe } of tools) {
    const [label, path] = describe();
    const picture = makeSVG("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" });
    picture.append(makeSVG("path", { d: path }));
    button.replaceChildren(picture);
    button.title = label;
    button.setAttribute("aria-label", label);
  }
}

// showChoices brings the page and the buttons to what is chosen.
function showChoices() {
  setData("theme", theme === "auto" ? "" : theme);
  setData("rows", comfortRows ? "comfort" : "");
  showTools();
}

function setData(name, value) {
  if (value) {
    root.dataset[name] = value;
  } else {
    delete root.dataset[name];
  }
}

function nextTheme() {
  theme = themeNames[(themeNames.indexOf(theme) + 1) % themeNames.length];
  remember("theme", theme === "auto" ? "" : theme);
  showChoices();
}

function toggleRowHeight() {
  comfortRows = !comfortRows;
  remember("rows", comfortRows ? "comfort" : "");
  showChoices();
}

function toggleShortcuts() {
  shortcutsOff = !shortcutsOff;
  remember("keys", shortcutsOff ? "off" : "");
  showChoices();
}

function togglePause() {
  paused = !paused;
  showChoices();
  schedule();
}

function addTools() {
  if (!byID("_tools")) {
    return;
  }
  if (online) {
    const describe = () => paused ? [words.resume, "M5 3l8 5-8 5z"] : [words.pause, "M5 3v10M11 3v10"];
    addTool(describe, togglePause);
  }
  if (pageKind === "index") {
    const dense = [words.denseRows, "M2 3h12M2 6h12M2 9h12M2 12h12"];
    const comfort = [words.comfortRows, "M2 3h12M2 8h12M2 13h12"];
    addTool(() => comfortRows ? dense : comfort, toggleRowHeight);
  }
  const keyboard = "M2 4h12v8H2zM5 10h6M5 7h.1M8 7h.1M11 7h.1";
  const on = [words.shortcutsOn, keyboard];
  const off = [words.shortcutsOff, keyboard + "M1 1l14 14"];
  addTool(() => shortcutsOff ? off : on, toggleShortcuts);
  addTool(() => [words.themes[theme], themePictures[theme]], nextTheme);
}
