// What all scripts use: the elements of the page, its address, and the memory across visits.
// Everything on the page can be read without a script. The scripts age the times by the
// viewer's clock, say when the board has stopped, and search, fold, sort, copy and renew.
const root = document.documentElement;
const pageKind = root.dataset.kind;

const byID = (id) => document.getElementById(id);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

// fill puts values into a text: the first in the place of {} or {1}, the second of {2}.
const fill = (text, first, second) => text.replace(/\{1?\}/, first).replace("{2}", second);

function makeElement(tag, className, text) {
  const element = document.createElement(tag);
  if (className) {
    element.className = className;
  }
  if (text) {
    element.textContent = text;
  }
  return element;
}

function makeButton(className, text, onClick) {
  const button = makeElement("button", className, text);
  button.type = "button";
  if (onClick) {
    button.addEventListener("click", onClick);
  }
  return button;
}

function makeSVG(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  return element;
}

// recall and remember are the memory across visits; an empty value is forgotten. A browser
// may refuse (file://, private windows): then all is forgotten with the page.
function recall(key) {
  try {
    return localStorage.getItem("gpuboard-" + key);
  } catch {
    return null;
  }
}

function remember(key, value) {
  try {
    if (value) {
      localStorage.setItem("gpuboard-" + key, value);
    } else {
      localStorage.removeItem("gpuboard-" + key);
    }
  } catch {
    // The browser refuses.
  }
}

// setParameters changes the query of an address; a parameter without a value goes.
function setParameters(url, parameters) {
  for (const [name, value] of Object.entries(parameters)) {
    if (value) {
      url.searchParams.set(name, value);
    } else {
      url.searchParams.delete(name);
    }
  }
}

// setPageParameters does so for the address of this page.
function setPageParameters(parameters) {
  const url = new URL(location.href);
  setParameters(url, parameters);
  try {
    history.replaceState(null, "", location.pathname + url.search + url.hash);
  } catch {
    // Browsers refuse this for file://.
  }
}

// What the scripts of some pages add. Setups prepare the page, now and each time it has
// been renewed. A filter applies what is searched for to a kind of page. A tooltip returns
// what to say about the element that is pointed at, or nothing.
const setups = [];
const filters = {};
const tooltips = [];

root.classList.add("js");
