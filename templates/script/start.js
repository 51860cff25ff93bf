// The start: everything that the parts before this one offer is applied to the page.
function preparePage() {
  addCopyButtons();
  prepareGroups();
  readGPUs();
  prepareHosts();
  if (hostOrder) {
    orderHosts();
  }
  for (const setup of setups) {
    setup();
  }
  prepareFinder();
  applySearch();
  makeSortable();
  showViewerTimes();
  updateAges();
}

// An address may name one of several lengths of time.
const named = location.hash && byID(location.hash.slice(1));
if (named?.type === "radio") {
  named.checked = true;
}

readAddress();
if (savedAt) {
  writeAddress();
}
addTools();
showChoices();
preparePage();

setInterval(updateAges, 15000);
document.addEventListener("visibilitychange", comeBack);
addEventListener("online", comeBack);
schedule();

// What the other scripts use.
window.gpuboard = {
  words,
  root,
  online,
  setups,
  filters,
  tooltips,
  byID,
  findAll,
  fill,
  makeElement,
  makeButton,
  makeSVG,
  recall,
  remember,
  setParameters,
  setPageParameters,
  now,
  builtAt,
  expectBooking,
  surelyHasBooking,
  request,
  schedule,
  delivered,
  fetchPage,
  adopt,
  addCopyButtons,
  addCopyButton,
  labelCopyButton,
  applySearch,
  allHosts: () => hosts,
  signOf,
};
