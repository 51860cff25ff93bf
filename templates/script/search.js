// Search. The page tells of its GPUs as JSON: for each host its words, and for each
// GPU its number, state, model, users with programs, who booked it, and the second
// until which it is free; what is empty at the end is left out. The words that are typed are joined by "and".
var hostList = [], hostByID = {}, signWidth = 15;
var stateNames = [];
var readGPUs = function () {
  var data = $("_gpus"), told = data ? JSON.parse(data.textContent) : { states: [], hosts: [], models: [] }, built = Date.parse(root.dataset.built);
  stateNames = told.states;
  hostList = told.hosts.map(function (h, at) {
    var line = $(h.id), words = (h.id + " " + h.words).toLowerCase();
    return {
      id: h.id, at: at, line: line, words: words, glyphs: all(".hl>svg>use", line),
      gpus: h.gpus.map(function (g) {
        var model = told.models[g[2]][0].toLowerCase(), users = g[3] || "", booker = g[4] || "", who = (users + " " + booker).toLowerCase();
        return {
          index: String(g[0]), state: stateNames[g[1]], gib: told.models[g[2]][1], who: users, booker: booker, free: g[5] ? g[5] * 1000 - built : Infinity,
          words: words + " " + model + " " + who + " " + stateNames[g[1]]
        };
      })
    };
  });
  hostByID = {};
  hostList.forEach(function (h) { hostByID[h.id] = h; });
};
// A word is a state, more memory than so much, free for so long, the number of a
// GPU, or part of what is written about it.
var spans = { m: 60e3, min: 60e3, h: 3600e3, d: 86400e3, w: 604800e3 };
var testOf = function (word) {
  var m;
  if (stateNames.indexOf(word) >= 0) { return function (g) { return g.state === word; }; }
  if ((m = /^>=?(\d+)(g|gb|gib)?$/.exec(word))) { return function (g) { return g.gib >= +m[1]; }; }
  if ((m = /^(\d+)(m|min|h|d|w)$/.exec(word))) { return function (g) { return g.state === "free" && g.free >= m[1] * spans[m[2]]; }; }
  if (/^\d{1,4}$/.test(word)) { var number = new RegExp("(^|[\\s-])" + word + "($|[\\s-])"); return function (g) { return g.index === word || number.test(g.words); }; }
  return function (g) { return g.words.indexOf(word) >= 0; };
};
var testsOf = function (query) {
  // A state may be typed as the page names it, which may be several words.
  query = " " + query.toLowerCase().replace(/\s+/g, " ") + " ";
  stateNames.forEach(function (state) { query = query.replace(" " + W.states[state].toLowerCase() + " ", " " + state + " "); });
  return query.split(" ").filter(Boolean).map(testOf);
};
// search marks each GPU and host that matches, and counts them.
var search = function (query) {
  var tests = testsOf(query), result = { gpus: 0, of: 0, hosts: [] };
  var matches = function (g) { return tests.every(function (test) { return test(g); }); };
  hostList.forEach(function (h) {
    var hits = 0;
    h.gpus.forEach(function (g) {
      g.hit = matches(g);
      hits += g.hit;
    });
    // A host without GPUs is found by its own words.
    h.hit = hits > 0 || !tests.length || (!h.gpus.length && matches(h));
    result.gpus += hits;
    result.of += h.gpus.length;
    if (h.hit) { result.hosts.push(h); }
  });
  return result;
};
