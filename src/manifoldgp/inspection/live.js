// Predictions in the page: controls for every input, and tables that are pasted or dropped.
const live = data.live;
// Inputs of the model from the values of the columns; category values become 0/1 numbers. A string says what is wrong.
function encoded(values) {
  const x = [];
  for (const [c, column] of live.columns.entries()) {
    const text = String(values[c] ?? "").trim();
    if (column.kind === "category") {
      if (!column.categories.includes(text)) return `${column.name}: "${text}" is none of ${column.categories.join(", ")}`;
      x.push(...column.categories.map((name) => (name === text ? 1 : 0)));
      continue;
    }
    const flag = { true: 1, false: 0 }[text.toLowerCase()];
    const value = column.kind === "flag" && flag !== undefined ? flag : Number(text);
    if (text === "" || !Number.isFinite(value)) return `${column.name}: "${text}" is not a number`;
    x.push(value);
  }
  return x;
}
// Distance from the nearest training row, in standard deviations of the inputs.
function nearest(x) {
  const D = x.length;
  let least = Infinity;
  for (let i = 0; i < live.rows.length; i += D) {
    let s = 0;
    for (let d = 0; d < D; d++) s += ((x[d] - live.offset[d]) / live.scale[d] - live.rows[i + d]) ** 2;
    if (s < least) least = s;
  }
  return Math.sqrt(least);
}
const REACH = 1.959963984540054;

// Controls
(() => {
  const holder = document.getElementById("live");
  const values = live.columns.map((c) => (c.kind === "category" ? c.categories[0] : c.start));
  const fields = make("div", { class: "inputs" }), said = make("div", { class: "said", role: "status", "aria-live": "polite" });
  const bars = live.targets.map(() => make("div", { class: "band", "aria-hidden": "true" }, make("i"), make("b")));
  function update() {
    const x = encoded(values);
    if (typeof x === "string") { said.replaceChildren(make("p", { class: "caution", text: x })); bars.forEach((bar) => (bar.hidden = true)); return; }
    const { mean, std } = model(x), away = nearest(x);
    const lines = live.targets.map((name, o) => {
      const [low, high] = [mean[o] - REACH * std[o], mean[o] + REACH * std[o]];
      show(bars[o], live.ranges[o], low, mean[o], high);
      return make("p", {}, make("strong", { text: `${name}: ${say(mean[o])}` }), ` — 95 % between ${say(low)} and ${say(high)}`, bars[o]);
    });
    const far = away > 3 * live.typical + 1e-9;
    const words = `Nearest training row: ${say(away)} standard deviations away (typical between training rows: ${say(live.typical)}).`;
    said.replaceChildren(...lines, make("p", { class: far ? "caution" : "soft", text: words + (far ? " The model has seen nothing near here." : "") }));
  }
  function show(bar, [least, most], low, mean, high) {
    const [from, to] = [Math.min(least, low), Math.max(most, high)], place = (v) => `${(100 * (v - from)) / (to - from || 1)}%`;
    bar.hidden = false;
    Object.assign(bar.children[0].style, { left: place(low), right: `calc(100% - ${place(high)})` });
    bar.children[1].style.left = place(mean);
  }
  live.columns.forEach((column, c) => {
    const id = `live-${c}`, row = make("div", { class: "input" }, make("label", { for: id, text: column.name }));
    if (column.kind === "category") {
      const box = make("select", { id }, ...column.categories.map((name) => make("option", { value: name, text: name })));
      box.addEventListener("change", () => { values[c] = box.value; update(); });
      row.append(box);
    } else {
      const step = column.kind === "flag" ? 1 : "any", span = column.high - column.low || 1;
      const slider = make("input", { id, type: "range", min: column.low, max: column.high, step: column.kind === "flag" ? 1 : span / 500, value: column.start });
      const field = make("input", { type: "number", step, value: +(+column.start).toPrecision(5), "aria-label": `${column.name}, exact value` });
      values[c] = field.value;
      slider.addEventListener("input", () => { values[c] = field.value = +(+slider.value).toPrecision(5); update(); });
      field.addEventListener("input", () => { values[c] = field.value; if (field.value !== "") slider.value = field.value; update(); });
      row.append(slider, field);
    }
    fields.append(row);
  });
  holder.append(fields, said);
  update();
})();

// Tables
// Rows of cells; the separator is the one that the header has most of. Quoted cells may hold separators, quotes and line ends.
function parsed(text) {
  const first = text.split(/\r?\n/, 1)[0], separator = [",", ";", "\t"].sort((a, b) => first.split(b).length - first.split(a).length)[0];
  const rows = [[]];
  let cell = "", quoted = false;
  for (let i = 0; i <= text.length; i++) {
    const sign = text[i];
    if (quoted && sign !== undefined) {
      if (sign !== '"') cell += sign;
      else if (text[i + 1] === '"') { cell += sign; i++; } else quoted = false;
    } else if (sign === '"' && cell === "") quoted = true;
    else if (sign === separator || sign === "\n" || sign === undefined) {
      rows[rows.length - 1].push(cell.replace(/\r$/, ""));
      cell = "";
      if (sign === "\n") rows.push([]);
    } else cell += sign;
  }
  const comma = separator !== ","; // elsewhere a comma may be a decimal one
  return { separator, comma, rows: rows.filter((row) => row.some((c) => c.trim() !== "")) };
}
// Predictions of a table: its rows with further cells, or a sentence that says what is wrong with it.
function predicted(text) {
  const { rows: [head, ...rows], separator, comma } = parsed(text.replace(/^\ufeff/, ""));
  if (!head || !rows.length) return "A header row and at least one row of values are needed.";
  const names = head.map((name) => name.trim()), places = live.columns.map((column) => names.indexOf(column.name));
  const missing = live.columns.filter((_, c) => places[c] < 0).map((column) => column.name);
  if (missing.length) return `The table lacks these columns: ${missing.join(", ")}.`;
  const added = live.targets.flatMap((name) => [`${name} mean`, `${name} std`, `${name} low`, `${name} high`]);
  const body = rows.map((row) => {
    const x = encoded(places.map((place, c) => (comma && live.columns[c].kind === "number" ? (row[place] ?? "").replace(",", ".") : row[place])));
    if (typeof x === "string") return [...row, ...added.map(() => ""), x];
    const { mean, std } = model(x);
    return [...row, ...live.targets.flatMap((_, o) => [mean[o], std[o], mean[o] - REACH * std[o], mean[o] + REACH * std[o]]), ""];
  });
  return { head: [...names, ...added, "not predicted because"], body, separator };
}
(() => {
  const holder = document.getElementById("live-table"), out = make("div", { role: "status" });
  const box = make("textarea", { rows: 5, spellcheck: "false", "aria-label": "Table with a header row", placeholder: live.columns.map((c) => c.name).join(",") + "\n..." });
  const file = make("input", { type: "file", accept: ".csv,.tsv,.txt", "aria-label": "CSV file" }), go = make("button", { class: "chip", type: "button", text: "Predict the table" });
  const quote = (cell, separator) => (typeof cell === "string" && (cell.includes(separator) || /["\n]/.test(cell)) ? `"${cell.replaceAll('"', '""')}"` : String(cell));
  function run() {
    const found = predicted(box.value);
    if (typeof found === "string") { out.replaceChildren(make("p", { class: "caution", text: found })); return; }
    const text = [found.head, ...found.body].map((row) => row.map((cell) => quote(cell, found.separator)).join(found.separator)).join("\n") + "\n";
    const link = make("a", { download: "predictions.csv", href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), text: `Download ${found.body.length} predictions` });
    const cellOf = (cell) => make("td", { text: typeof cell === "number" ? say(cell) : cell });
    const shown = make("table", {}, make("thead", {}, make("tr", {}, ...found.head.map((name) => make("th", { text: name })))), make("tbody", {}, ...found.body.slice(0, 20).map((row) => make("tr", {}, ...row.map(cellOf)))));
    const more = found.body.length > 20 ? `The first 20 of ${found.body.length} rows.` : "";
    out.replaceChildren(make("p", {}, link, ` ${more}`), make("div", { class: "scroll", tabindex: 0 }, shown));
  }
  const take = async (blob) => { if (blob) { box.value = await blob.text(); run(); } };
  go.addEventListener("click", run);
  file.addEventListener("change", () => take(file.files[0]));
  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => { if (event.dataTransfer.files.length) { event.preventDefault(); take(event.dataTransfer.files[0]); } });
  holder.append(box, make("p", {}, file, " ", go), out);
})();
