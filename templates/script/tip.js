// The tooltip beside the pointer.
let tooltip = null;

// A cell that is cut off says all of its text.
tooltips.push((event) => {
  const cell = event.target.closest(".map .gpu-user,.map .gpu-booking,.users");
  if (!cell || cell.scrollWidth <= cell.clientWidth + 1 || cell.querySelector("[open]")) {
    return "";
  }
  const shown = [...cell.childNodes].filter((node) => node.tagName !== "DETAILS");
  return shown.map((node) => node.textContent).join(" ").replace(/\s+/g, " ").trim();
});

function tooltipFor(event) {
  for (const tooltipText of tooltips) {
    const text = tooltipText(event);
    if (text) {
      return text;
    }
  }
  return "";
}

document.addEventListener("pointermove", (event) => {
  const text = event.target.closest ? tooltipFor(event) : "";
  if (!text) {
    if (tooltip) {
      tooltip.hidden = true;
    }
    return;
  }
  tooltip ??= document.body.appendChild(makeElement("p", "tip"));
  tooltip.textContent = text;
  tooltip.hidden = false;

  const rightmost = innerWidth - tooltip.offsetWidth - 4;
  tooltip.style.left = Math.max(4, Math.min(rightmost, event.clientX + 12)) + "px";
  tooltip.style.top = Math.max(4, event.clientY - 36) + "px";
});
