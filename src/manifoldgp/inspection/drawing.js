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
// A text that would not fit, without its middle: names are long, and what is measured of them stands last
function fitted(text, pixels) {
  const most = Math.floor(pixels / 7.2), half = Math.floor((most - 1) / 2);
  return text.length > most ? `${text.slice(0, half).trimEnd()}…${text.slice(-half).trimStart()}` : text;
}

// As many digits as it takes to tell a tick from the next.
function shortTick(v) {
  const size = Math.abs(v), round = +v.toPrecision(12);
  return minus(size < 1e-12 ? "0" : size < 0.001 || size >= 1e7 ? round.toExponential() : String(round));
}
