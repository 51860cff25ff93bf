// Everything on the page can be read without the script. It ages the times by
// the viewer's clock, says so when the board has stopped, and filters, folds,
// sorts, copies and renews in place. Its words are in W.
var doc = document, root = doc.documentElement;
var $ = function (id) { return doc.getElementById(id); };
var all = function (sel, from) { return Array.prototype.slice.call((from || doc).querySelectorAll(sel)); };
var say = function (words, x, y) { return words.replace(/\{1?\}/, x).replace("{2}", y); };
var make = function (tag, cls, text) {
  var e = doc.createElement(tag);
  if (cls) { e.className = cls; }
  if (text) { e.textContent = text; }
  return e;
};
var icon = function (d) {
  var ns = "http://www.w3.org/2000/svg", s = doc.createElementNS(ns, "svg"), p = doc.createElementNS(ns, "path");
  s.setAttribute("viewBox", "0 0 16 16");
  s.setAttribute("aria-hidden", "true");
  p.setAttribute("d", d);
  s.appendChild(p);
  return s;
};
// What other scripts of the site add: dressers fit the page that is there now, filters
// apply what is searched for to a kind of page.
var dressers = [], filters = {};
// Memory across visits; a browser may refuse it (file://, private windows).
var keep = function (key, value) {
  try {
    if (value === undefined) { return localStorage.getItem("gpuboard-" + key); }
    if (value === null) { localStorage.removeItem("gpuboard-" + key); } else { localStorage.setItem("gpuboard-" + key, value); }
  } catch (refused) { /* then it is forgotten with the page */ }
  return null;
};
root.classList.add("js");
