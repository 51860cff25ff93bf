// Languages. A page in the site's first language leads its reader to another: to the one
// that was chosen before, or else to the first that the browser asks for and the site has.
function followLanguage() {
  const links = findAll(".languages a");
  for (const link of links) {
    link.addEventListener("click", () => remember("lang", link.hreflang));
  }
  if (!document.querySelector("[data-first]")) {
    return;
  }

  if (!recall("lang")) {
    const offered = [root.lang, ...links.map((link) => link.hreflang)];
    const asked = (navigator.languages ?? []).flatMap((tag) => [tag, tag.split("-")[0]]);
    remember("lang", asked.find((lang) => offered.includes(lang)) ?? root.lang);
  }

  // What cannot be remembered is not followed, or else nobody could go back.
  const wanted = new URLSearchParams(location.search).get("lang") || recall("lang");
  const link = links.find((a) => a.hreflang === wanted);
  if (link) {
    location.replace(link.href + location.search + location.hash);
  }
}
followLanguage();
