// Groups of hosts can be folded; which are is remembered by their names.
const foldedGroups = new Set(JSON.parse(recall("folded") || "[]"));

const nameOf = (group) => group.querySelector("h2").textContent;

function prepareGroups() {
  for (const group of findAll("details.group")) {
    group.open = !foldedGroups.has(nameOf(group));
  }
}

document.addEventListener("click", ({ target }) => {
  const group = target.closest("details.group > summary")?.parentNode;
  if (!group) {
    return;
  }
  foldedGroups.delete(nameOf(group));
  if (group.open) { // it is about to be folded
    foldedGroups.add(nameOf(group));
  }
  remember("folded", foldedGroups.size > 0 ? JSON.stringify([...foldedGroups]) : "");
});
