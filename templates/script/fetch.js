// Fetching other pages of the site, and parts of them.
const online = location.protocol !== "file:" && !["about", "missing"].includes(pageKind);

const mostWaited = 15000; // ms until a request is given up, and a later one may do better

// How far this device's clock is ahead of the server's, once a response has said so.
let clockAhead = 0;

// request fetches what an address relative to this page names. It leaves out a name and
// password that somebody opened the page with: fetch refuses those.
async function request(address) {
  const url = new URL(address, location.origin + location.pathname);
  const signal = AbortSignal.timeout(mostWaited);
  const response = await fetch(url.href, { cache: "no-cache", credentials: "same-origin", signal });
  const date = Date.parse(response.headers.get("Date"));
  if (date) {
    clockAhead = Date.now() - date;
  }
  return response;
}

async function fetchText(address) {
  const response = await request(address);
  if (!response.ok) {
    throw new Error(response.statusText);
  }
  return response.text();
}

const readPage = (html) => new DOMParser().parseFromString(html, "text/html");
const fetchPage = async (address) => readPage(await fetchText(address));

// adopt copies a part of another page, with links that lead where they led there.
function adopt(part, address) {
  const copy = document.importNode(part, true);
  for (const link of findAll("a[href]", copy)) {
    link.href = new URL(link.getAttribute("href"), address).href;
  }
  return copy;
}
