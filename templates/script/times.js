// Times as somebody types them. The server reads them, in the viewer's zone, and answers in
// words. The browser's own date picker fills them in.
const viewerZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const typingPause = 250; // ms

// makeAsker returns a function that asks the server what a beginning and an end mean, once
// nobody types any more, and hands on the latest answer.
function makeAsker(address, show) {
  let latest = 0;
  return (from, until) => {
    clearTimeout(latest);
    const timer = setTimeout(async () => {
      const query = new URLSearchParams({ from, until, zone: viewerZone, lang: root.lang });
      const response = await request(address + "?" + query).catch(() => null);
      const answer = response?.ok ? await response.json() : {};
      if (timer === latest) {
        show(answer);
      }
    }, typingPause);
    latest = timer;
  };
}

// showAnswer says what the server has read, or why it cannot be booked.
function showAnswer(line, { says = "", note, error }) {
  line.className = error ? "says bad" : "says dim";
  const details = makeElement("samp", "", error ?? note);
  details.lang = "en";
  line.replaceChildren(says, says && note ? " · " : "", details);
}

// isSoon reports whether a weekday says which day is meant.
const isSoon = (date) => date > Date.now() && date < Date.now() + 6 * 86400e3;

// brief is a moment in the words of the page's language and the times of the viewer; where room is scarce, with no more
// than the weekday if that says which day is meant.
function brief(moment, scarce) {
  const date = new Date(moment);
  const short = scarce && isSoon(date);
  return date.toLocaleString(root.lang, {
    weekday: "short",
    day: short ? undefined : "numeric",
    month: short ? undefined : "short",
    year: short || date.getFullYear() === new Date().getFullYear() ? undefined : "numeric",
    hour: "2-digit",
    minute: "2-digit",
    hour12: false,
  });
}

// shortTime is a date with a zone in words that the server reads in the viewer's zone: with a weekday, if it is one of
// the next days. Any other text stays as it is.
function shortTime(text) {
  if (!/^\d{4}-\d\d-\d\d[ T]\d\d:\d\d\S* ?(Z|[+-]\d\d:\d\d)$/.test(text)) {
    return text;
  }
  const date = new Date(text.replace(" ", "T").replace(" ", ""));
  const ofViewer = new Date(date - 60000 * date.getTimezoneOffset()).toISOString();
  const day = isSoon(date) ? date.toLocaleDateString("en", { weekday: "short" }) : ofViewer.slice(0, 10);
  return day + " " + ofViewer.slice(11, 16);
}

// addPicker puts a button beside a field for a time, which opens the browser's date picker.
function addPicker(field, label) {
  const picker = makeElement("input", "picker");
  picker.type = "datetime-local";
  picker.tabIndex = -1;
  picker.ariaHidden = "true";
  picker.addEventListener("change", () => {
    field.value = picker.value.replace("T", " ");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const button = makeButton("pick", "", () => picker.showPicker());
  button.ariaLabel = label;
  button.title = label;
  const sign = makeSVG("svg", { viewBox: "0 0 20 20" });
  sign.append(makeSVG("path", { d: "M3 5h14v12H3zM3 9h14M7 2v5M13 2v5" }));
  button.append(sign);
  const line = makeElement("span", "timed");
  field.replaceWith(line);
  line.append(field, button, picker);
}
