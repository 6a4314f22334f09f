// Nodes, numbers in words, and round ticks.
const data = JSON.parse(document.getElementById("page-data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) key === "text" ? (node.textContent = value) : node.setAttribute(key, value);
  node.append(...children);
  return node;
}
function draw(name, attributes = {}, parent = null) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) key === "text" ? (node.textContent = value) : node.setAttribute(key, value);
  if (parent) parent.append(node);
  return node;
}
const swatch = (color) => make("span", { class: "swatch", style: `background:${color}` });
const minus = (text) => text.replace(/^-/, "−");
function say(v) {
  if (v === null || v === undefined) return "–";
  if (typeof v === "string") return v;
  const size = Math.abs(v);
  return minus(size !== 0 && (size < 0.001 || size >= 1e7) ? v.toExponential(2) : v.toFixed(size < 0.1 ? 4 : size < 10 ? 3 : size < 1000 ? 1 : 0));
}

// Round numbers that cover [low, high] in about n steps.
function ticks(low, high, n) {
  const raw = (high - low) / n, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(+(k * step).toPrecision(12));
  return found;
}
// A date as a table has it; date: {origin, unit, days} of its axis, v: the number along it. From: the first character that is shown.
function dateText({ origin, unit, days }, v, from = 0, to = days ? 10 : unit > 1000 ? 16 : 19) {
  const at = new Date(origin + unit * v);
  return Number.isNaN(+at) ? "–" : at.toISOString().slice(from, to).replace("T", " ");
}
// Round dates that cover [low, high] in about n steps, with their texts: whole years, months, days, or parts of a day.
const DAY = 864e5, MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200], PARTS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200].map((s) => 1000 * s);
function dateTicks(date, low, high, n) {
  const [from, to] = [low, high].map((v) => date.origin + date.unit * v), least = (to - from) / n, found = [];
  const tick = (at, ...part) => { const v = (at - date.origin) / date.unit; found.push([v, dateText(date, v, ...part)]); };
  if (least > 14 * DAY) {
    const step = MONTHS.find((m) => 30.5 * DAY * m >= least) ?? 12 * Math.ceil(least / (366 * DAY)), first = new Date(from);
    const month = (k) => new Date(0).setUTCFullYear(0, k * step, 1); // the k-th step's first day since the year 0
    for (let k = Math.floor((12 * first.getUTCFullYear() + first.getUTCMonth()) / step); month(k) <= to; k++) if (month(k) >= from) tick(month(k), 0, step % 12 ? 7 : 4);
    return found;
  }
  const step = least < 1000 ? 1000 * 10 ** Math.ceil(Math.log10(least / 1000)) : PARTS.find((s) => s >= least) ?? DAY * [1, 2, 7, 14].find((d) => DAY * d >= least);
  const monday = step >= 7 * DAY ? 4 * DAY : 0; // the first one after 1970 began
  for (let at = monday + step * Math.ceil((from - monday) / step); at <= to; at += step) tick(at, ...(step >= DAY ? [0, 10] : step >= 6e4 ? [5, 16] : step >= 1000 ? [11, 19] : [14, 23]));
  return found;
}
// A text that would not fit: the name in it loses its middle (units stand at the end), and the words around it stay
function fitted(text, pixels, name = text) {
  const over = text.length - Math.floor(pixels / 7.2), half = Math.max(1, Math.floor((name.length - over - 1) / 2));
  return over > 0 && name.length > 2 * half + 1 ? text.replace(name, () => `${name.slice(0, half).trimEnd()}…${name.slice(-half).trimStart()}`) : text;
}

// As many digits as it takes to tell a tick from the next.
function shortTick(v) {
  const size = Math.abs(v), round = +v.toPrecision(12);
  return minus(size < 1e-12 ? "0" : size < 0.001 || size >= 1e7 ? round.toExponential() : String(round));
}
