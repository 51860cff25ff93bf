// The tooltip beside the pointer.
const tooltip = document.body.appendChild(makeElement("p", "tip"));
tooltip.hidden = true;

// A cell that is cut off says all of its text.
tooltips.push((event) => {
  const cell = event.target.closest(".map .gpu-user,.map .gpu-booking,.users");
  if (!cell || cell.scrollWidth <= cell.clientWidth + 1 || cell.querySelector("[open]")) {
    return "";
  }
  const shown = [...cell.childNodes].filter((node) => node.tagName !== "DETAILS");
  return shown.map((node) => node.textContent).join(" ").replace(/\s+/g, " ").trim();
});

// A strip says who held the GPU in the last day, and when.
tooltips.push(({ target }) => target.closest("svg.past")?.ariaLabel);

document.addEventListener("pointermove", (event) => {
  const text = event.target.closest && tooltips.map((textOf) => textOf(event)).find(Boolean);
  tooltip.hidden = !text;
  if (!text) {
    return;
  }
  tooltip.textContent = text;

  const rightmost = innerWidth - tooltip.offsetWidth - 4;
  tooltip.style.left = Math.max(4, Math.min(rightmost, event.clientX + 12)) + "px";
  tooltip.style.top = Math.max(4, event.clientY - 36) + "px";
});
