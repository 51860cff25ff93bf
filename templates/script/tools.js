// The theme, the pause and the keys: three buttons in the corner.
var themes = ["auto", "light", "dark"], theme = keep("theme") || "auto";
var shapes = { auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12", light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1", dark: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z" };
var tool = function (click) {
  var b = make("button");
  b.type = "button";
  b.addEventListener("click", click);
  $("_tools").appendChild(b);
  return b;
};
var face = function (b, label, d) {
  b.textContent = "";
  b.appendChild(icon(d));
  b.title = label;
  b.setAttribute("aria-label", label);
};
var themed = function () {
  if (theme === "auto") { delete root.dataset.theme; } else { root.dataset.theme = theme; }
  keep("theme", theme === "auto" ? null : theme);
  if (themeButton) { face(themeButton, W[theme], shapes[theme]); }
};
var turn = function () { theme = themes[(themes.indexOf(theme) + 1) % 3]; themed(); };
// Rows of GPUs are dense, or as high as what they say.
var comfort = keep("rows") === "comfort", comfortButton;
var roomy = function () {
  if (comfort) { root.dataset.rows = "comfort"; } else { delete root.dataset.rows; }
  keep("rows", comfort ? "comfort" : null);
};
var paused = false, keysOff = keep("keys") === "off", themeButton, pauseButton, keysButton;
var faces = function () {
  if (pauseButton) { face(pauseButton, paused ? W.resume : W.pause, paused ? "M5 3l8 5-8 5z" : "M5 3v10M11 3v10"); }
  if (comfortButton) { face(comfortButton, comfort ? W.dense : W.comfort, comfort ? "M2 3h12M2 6h12M2 9h12M2 12h12" : "M2 3h12M2 8h12M2 13h12"); }
  if (keysButton) { face(keysButton, keysOff ? W.nokeys : W.keys, "M2 4h12v8H2zM5 10h6M5 7h.1M8 7h.1M11 7h.1" + (keysOff ? "M1 1l14 14" : "")); }
};
