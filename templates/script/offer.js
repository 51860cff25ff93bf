// Which GPUs would be taken, as the command would choose them.
const { overlaps } = window.gpuboard;

// What a GPU is now, as isFree and those after it in sitegen/page/panel.go.
const FREE = 0;
const TAKEN = 1;
const USED = 2;
const LOST = 3;

// What a model says that means slices, as sliceName in internal/board/choose.go.
const sliceName = /\bmig\b|\dg\.\d+gb/i;

const bytesIn = { m: 1e6, mb: 1e6, mi: 2 ** 20, mib: 2 ** 20, g: 1e9, gb: 1e9, gi: 2 ** 30, gib: 2 ** 30 };

// readUnits reads what the page has of its GPUs and their bookings.
function readUnits(data) {
  return data.hosts.flatMap(([host, gpus]) => gpus.map(([gpu, model, status, bookings = []]) => ({
    host,
    gpu,
    model: data.models[model][0],
    mib: data.models[model][1],
    status,
    bookings: bookings.map(([from, until, name]) => ({
      name,
      from: 1000 * from,
      until: until ? 1000 * until : Infinity,
    })),
  })));
}

// openFrom returns the units that nobody has booked from then on for as long as is wanted.
function openFrom(units, from, length) {
  return units.filter((unit) => !unit.bookings.some((b) => overlaps(b, from, from + length)));
}

// pick takes so many, from the host with the fewest to spare, or from the hosts with most.
function pick(units, count, oneHost) {
  const hosts = [...Map.groupBy(units, (unit) => unit.host).values()];
  hosts.sort((a, b) => a.length - b.length);
  const enough = hosts.find((host) => host.length >= count);
  if (enough) {
    return enough.slice(0, count);
  }
  if (oneHost || units.length < count) {
    return null;
  }
  hosts.sort((a, b) => b.length - a.length);
  return hosts.flat().slice(0, count);
}

// makeOffer is what there is, and when there is as much for as long if it is too little.
function makeOffer(units, kind, from, until, present) {
  const model = kind.model.toLowerCase();
  const slices = sliceName.test(model);
  const fitting = units.filter((unit) => {
    return unit.gpu.startsWith("MIG-") === slices && unit.model.toLowerCase().includes(model) && unit.mib >= kind.mib;
  });
  const soon = from <= present;
  const begin = Number(soon ? present : from);
  const length = until - from;
  const usable = fitting.filter((unit) => soon ? unit.status === FREE : unit.status !== LOST);
  const open = openFrom(usable, begin, length);
  const offer = {
    fitting: fitting.length,
    open: open.length,
    picked: pick(open, kind.count, kind.oneHost),
    next: null,
  };
  if (offer.picked || fitting.length < kind.count) {
    return offer;
  }

  const known = fitting.filter((unit) => unit.status === FREE || unit.status === TAKEN);
  const ends = known.flatMap((unit) => unit.bookings.map((b) => b.until));
  const later = ends.filter((end) => end > begin && end < Infinity).sort((a, b) => a - b);
  const next = later.find((end) => pick(openFrom(known, end, length), kind.count, kind.oneHost));
  if (next) {
    offer.next = new Date(next);
  }
  return offer;
}

// placesOf writes units as the command takes them: gpu01:0,1 gpu02:3.
function placesOf(units) {
  const hosts = Map.groupBy(units, (unit) => unit.host);
  return [...hosts].map(([host, own]) => host + ":" + own.map((unit) => unit.gpu).join(","));
}

// unitsAt returns the units that a place names; null if there is no such place.
function unitsAt(units, place) {
  const [host] = place.split(":", 1);
  const onHost = units.filter((unit) => unit.host === host);
  if (place === host || place === host + ":*") {
    return onHost.length > 0 ? onHost : null;
  }
  const found = place.slice(host.length + 1).split(",").map((word) => {
    const range = /^(\d+)-(\d+)$/.exec(word);
    return onHost.filter(({ gpu }) => range ? +gpu >= +range[1] && +gpu <= +range[2] : gpu === word);
  });
  return found.every((matches) => matches.length > 0) ? found.flat() : null;
}

// readMemory reads an amount of memory as MiB; NaN is none.
function readMemory(text) {
  const match = /^(\d+(?:\.\d+)?) *(gib|gi|gb|g|mib|mi|mb|m)?$/i.exec(text.trim());
  if (!match) {
    return NaN;
  }
  const unit = (match[2] ?? "g").toLowerCase();
  return Math.floor(match[1] * bytesIn[unit] / 2 ** 20);
}
