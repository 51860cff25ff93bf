// Groups of hosts can be folded; which are is remembered by their names.
const foldedGroups = new Set(JSON.parse(recall("folded") || "[]"));

const nameOf = (group) => group.querySelector("h2").textContent;

function prepareGroups() {
  for (const group of findAll("details.group")) {
    const name = nameOf(group);
    group.open = !foldedGroups.has(name);
    group.firstElementChild.addEventListener("click", () => {
      foldedGroups.delete(name);
      if (group.open) { // it is about to be folded
        foldedGroups.add(name);
      }
      remember("folded", foldedGroups.size > 0 ? JSON.stringify([...foldedGroups]) : "");
    });
  }
}
