// Languages. A page in the site's first language leads its reader to another: to the
// one that was chosen before, or else to the first that the browser asks for and the
// site has.
var readLanguages = function () {
  var links = all(".langs a"), offered = links.map(function (a) { return a.hreflang; }).concat(root.lang);
  links.forEach(function (a) { a.addEventListener("click", function () { keep("lang", a.hreflang); }); });
  if (!doc.querySelector("[data-first]")) { return; }
  if (!keep("lang")) {
    var asked = [];
    (navigator.languages || []).forEach(function (tag) { asked.push(tag, tag.split("-")[0]); });
    // What cannot be remembered is not followed, or else nobody could go back.
    keep("lang", asked.filter(function (lang) { return offered.indexOf(lang) >= 0; })[0] || root.lang);
  }
  var wanted = new URLSearchParams(location.search).get("lang") || keep("lang");
  links.forEach(function (a) { if (a.hreflang === wanted) { location.replace(a.href + location.search + location.hash); } });
};
readLanguages();
