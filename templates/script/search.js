// Search. The page has its GPUs as JSON (Search in templates/index.go). The words that are
// typed are joined by "and". All of 8,000 GPUs are tested with each key, so the words of a
// GPU are put together once, when the page is read.
const unitLengths = { m: 60e3, min: 60e3, h: 3600e3, d: 86400e3, w: 604800e3 }; // ms

let hosts = [];
let hostByID = new Map();
let stateNames = [];

function readGPUs() {
  const element = byID("_gpus");
  const data = element ? JSON.parse(element.textContent) : { states: [], models: [], hosts: [] };
  stateNames = data.states;
  hosts = data.hosts.map((host, position) => readHost(host, position, data.models));
  hostByID = new Map(hosts.map((host) => [host.id, host]));
}

function readHost(data, position, models) {
  const line = byID(data.id);
  const hostText = (data.id + " " + data.words).toLowerCase();
  const gpus = data.gpus.map((gpu) => readGPU(gpu, hostText, models));
  return {
    id: data.id,
    position,
    line,
    text: hostText,
    seen: data.seen ?? 0,
    cpu: Number(data.cpu ?? -1),
    ram: Number(data.ram ?? -1),
    signs: readSigns(gpus, findAll(".signs > :is(use, g)", line)),
    gpus,
  };
}

// readSigns finds the sign of each GPU. The slices of one, "2:0" and "2:1", share it.
function readSigns(gpus, elements) {
  const signs = [];
  for (const gpu of gpus) {
    const [card] = gpu.index.split(":");
    if (signs.at(-1)?.card !== card) {
      const element = elements[signs.length];
      signs.push({ card, element, gpus: [], dimmed: element?.matches(".off") ?? false });
    }
    signs.at(-1).gpus.push(gpu);
  }
  return signs;
}

// signOf returns the sign of a GPU that does not share it.
function signOf(hostID, index) {
  const sign = hostByID.get(hostID)?.signs.find(({ gpus }) => gpus.length === 1 && gpus[0].index === index);
  return sign?.element;
}

// readGPU reads an array of which empty values at the end are left out.
function readGPU([index, stateIndex, modelIndex, users = "", booker = "", freeUntil = 0, comment = ""], hostText, models) {
  const [model, gib] = models[modelIndex];
  const state = stateNames[stateIndex];
  return {
    index: String(index),
    state,
    gib,
    users,
    booker,
    freeFor: freeUntil ? 1000 * freeUntil - builtAt() : Infinity,
    text: [hostText, model, users, booker, comment, state].join(" ").toLowerCase(),
  };
}

// makeTest returns the test of a word: a state, so much memory or more than that, free for so long,
// the number of a GPU, or part of what is written about it.
function makeTest(word) {
  if (stateNames.includes(word)) {
    return (gpu) => gpu.state === word;
  }

  const memory = /^>=?(\d+)(g|gb|gib)?$/.exec(word);
  if (memory) {
    const least = Number(memory[1]);
    return (gpu) => gpu.gib >= least;
  }

  const size = /^(\d+)(g|gb|gib)$/.exec(word);
  if (size) {
    return (gpu) => gpu.gib === Number(size[1]) || gpu.text.includes(word);
  }

  const length = /^(\d+)(m|min|h|d|w)$/.exec(word);
  if (length) {
    const least = length[1] * unitLengths[length[2]];
    return (gpu) => gpu.state === "free" && gpu.freeFor >= least;
  }

  if (/^\d{1,4}$/.test(word)) {
    const number = new RegExp("(^|[\\s-])" + word + "($|[\\s-])");
    return (gpu) => gpu.index === word || number.test(gpu.text);
  }
  return (gpu) => gpu.text.includes(word);
}

function makeTests(query) {
  let text = " " + query.toLowerCase().replace(/\s+/g, " ") + " ";
  // A state may be typed as the page names it, which may be several words.
  for (const state of stateNames) {
    text = text.replace(" " + words.states[state].toLowerCase() + " ", " " + state + " ");
  }
  return text.split(" ").filter(Boolean).map(makeTest);
}

// search marks each GPU and host that matches, and counts the GPUs.
function search(query) {
  const tests = makeTests(query);
  const matches = (gpu) => tests.every((test) => test(gpu));
  const result = { hits: 0, gpus: 0, hosts: [] };
  for (const host of hosts) {
    let hits = 0;
    for (const gpu of host.gpus) {
      gpu.hit = matches(gpu);
      hits += gpu.hit;
    }
    // A host without GPUs is found by its own words.
    host.hit = hits > 0 || tests.length === 0 || (host.gpus.length === 0 && matches(host));
    result.hits += hits;
    result.gpus += host.gpus.length;
    if (host.hit) {
      result.hosts.push(host);
    }
  }
  return result;
}
