// Predictions in the page: controls for every input, and tables that are pasted or dropped.
const live = data.live;
// Quarters, months and dates with the month by its name in ISO format, as data/dates.py reads them; else null.
const MONTH_NUMBERS = {
  jan: 1, jän: 1, feb: 2, mar: 3, mär: 3, mae: 3, mrz: 3, apr: 4, may: 5, mai: 5, jun: 6, jul: 7, aug: 8, sep: 9, oct: 10, okt: 10, nov: 11, dec: 12, dez: 12,
};
const NAME = "(?<name>jan(?:uary?)?|jän(?:ner)?|feb(?:ruary?|er)?|mar(?:ch)?|märz?|maerz|mrz|apr(?:il)?|may|mai|jun[ei]?|jul[yi]?|aug(?:ust)?|" +
  "sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)\\.?";
const YEAR = "(?<year>(?:1[89]|2[01])\\d\\d)", MONTH = "(?<month>0?[1-9]|1[0-2])";
const SPELLED = [
  "(?<year>\\d{4})[\\s/.-]?Q(?<quarter>[1-4])", "Q(?<quarter>[1-4])[\\s/-]?(?<year>\\d{4})", `(?<quarter>[1-4])(?:Q|\\.\\s*Q(?:uartal)?)[\\s/]?${YEAR}`,
  `${YEAR}[-/M]${MONTH}`, `${MONTH}[-/]${YEAR}`, `(?<month>0[1-9]|1[0-2])\\.${YEAR}`,
  `(?<day>\\d{1,2})[-.\\s]+${NAME}[-.,\\s]+(?<year>\\d{4})(?<rest>,?\\s+\\d{1,2}:\\d{2}.*)?`, `${NAME}\\s+(?<day>\\d{1,2}),?\\s+(?<year>\\d{4})(?<rest>,?\\s+\\d{1,2}:\\d{2}.*)?`,
  `${NAME}[-.,/\\s]+(?<year>\\d{4})`, `${YEAR}[-/\\s]${NAME}`,
].map((form) => new RegExp(`^\\s*${form}\\s*$`, "i"));
function spelled(text) {
  const found = SPELLED.map((form) => form.exec(text)?.groups).find(Boolean);
  if (!found) return null;
  const month = found.name ? MONTH_NUMBERS[found.name.slice(0, 3).toLowerCase()] : found.month ?? 3 * found.quarter - 2;
  return `${found.year}-${month}-${found.day ?? 1}${(found.rest ?? "").replace(/^,/, "")}`;
}
// Milliseconds of a date's text, as tables are read: the year first, or last with the order of day and month that the model learnt; points say that the day is first. NaN: no date.
function instant(text, order) {
  text = spelled(text) ?? text;
  const first = /^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)(.*)$/.exec(text), last = /^(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?!\d),?(.*)$/.exec(text);
  const points = last?.[2] === ".", monthFirst = order === "month first";
  if (!first && !(last && (points ? !monthFirst : monthFirst || order === "day first"))) return NaN;
  const [year, month, day, rest] = first ? first.slice(1) : monthFirst ? [last[4], last[1], last[3], last[5]] : [last[4], last[3], last[1], last[5]];
  const time = /^[T\s]*(?:(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*(?:([ap])\.?m\.?)?)?\s*(?:Z|([+-])(\d{2}):?(\d{2}))?$/i.exec(rest);
  const midnight = Date.UTC(year, month - 1, day);
  if (!time || new Date(midnight).getUTCDate() !== +day || new Date(midnight).getUTCMonth() !== month - 1) return NaN;
  const afternoon = /p/i.test(time[4] ?? ""), latest = time[4] && !afternoon ? 12 : 23;
  if (time[1] > latest || time[2] > 59 || time[3] >= 60 || time[6] > 23 || time[7] > 59) return NaN;
  const hour = time[4] ? (time[1] % 12) + (afternoon ? 12 : 0) : +(time[1] ?? 0), zone = time[5] ? (time[5] + 1) * (time[6] * 60 + +time[7]) : 0;
  return midnight + 60000 * (60 * hour + +(time[2] ?? 0) - zone) + 1000 * (time[3] ?? 0);
}
// How much of its day, week, month or year has passed at an instant, 0 to 1.
function phase(at, period) {
  const date = new Date(at), [year, month] = [date.getUTCFullYear(), date.getUTCMonth()], DAY = 864e5;
  if (period === "day") return ((at % DAY) + DAY) % DAY / DAY;
  if (period === "week") return ((date.getUTCDay() + 6) % 7 + phase(at, "day")) / 7;
  const [from, to] = period === "month" ? [Date.UTC(year, month), Date.UTC(year, month + 1)] : [Date.UTC(year), Date.UTC(year + 1)];
  return (at - from) / (to - from);
}
// Numbers as data/decimal_signs.py knows them, by their decimal sign: thousands in groups of three, a currency or a unit. Neither 0x10 nor % alone.
const WRITTEN = Object.fromEntries([[".", ","], [",", "\\."]].map(([decimal, thousands]) => {
  const whole = `[1-9]\\d{0,2}(?:[${thousands}'’ \u00a0\u202f]\\d{3})+|\\d+`, unit = "(?!(?:[ap]m|e)$|[⁰¹²³⁴-⁹])(?:[\\p{L}\\p{Nl}\\p{No}]|[°%‰µΩ\\/·$€£¥]){0,10}";
  return [decimal, new RegExp(`^([-+−]?)\\s*[$€£¥]?\\s*((?:(?:${whole})(?:[${decimal}]\\d*)?|[${decimal}]\\d+)(?:e[-+]?\\d+)?)\\s*${unit}$`, "iu")];
}));
function writtenNumber(text, usual) {
  for (const decimal of usual === "," ? [",", "."] : [".", ","]) {
    const found = WRITTEN[decimal].exec(text);
    if (found) return (/[-−]/.test(found[1]) ? -1 : 1) * Number(found[2].replace(decimal === "." ? /[^\d.e+-]/gi : /[^\d,e+-]/gi, "").replace(",", "."));
  }
  return NaN;
}
// Cells without a value, as tables are read: those of pandas in every column, and the signs of data/no_values.py among numbers.
const ERROR_CELLS = "#(?:DIV/0!|N/A|NAME\\?|NULL!|NUM!|REF!|VALUE!|SPILL!|CALC!|NV|BEZUG!|WERT!|ZAHL!|ÜBERLAUF!|NOM\\?|NOMBRE!|NUL!|VALEUR!)";
const EMPTY = new RegExp(`^(?:|${ERROR_CELLS}|#N/A N/A|#NA|-?1\\.#IND|-?1\\.#QNAN|-?nan|-?NaN|<NA>|N/A|n/a|NA|NULL|null|None)$`);
const NO_NUMBER = new RegExp(`^(?:${ERROR_CELLS}|[?.–—-]|--|n\\. ?a\\.|k\\. ?a\\.|n/a|na|nan)$`, "i");
const lacking = (column, text) => EMPTY.test(text) || (column.kind === "number" && NO_NUMBER.test(text));
// The decimal sign of a column: that of the table, unless the other one reads more of its cells.
function signOf(cells, usual) {
  const other = usual === "," ? "." : ",", readBy = (sign) => cells.filter((text) => WRITTEN[sign].test(text)).length;
  return readBy(usual) < readBy(other) ? other : usual;
}
// The decimal sign of rows of cells that no comma separates, as data/decimal_signs.py finds it, and whether they show it. known: what each column had at the fit.
function decimalSign(rows, known = []) {
  const shown = signShown(rows.slice(0, 200), known);
  return shown[1] ? shown : signShown(rows.slice(0, 20000), known);
}
// What may be a month such as 03.1974, as data/dates.py leaves it out there: its point is no decimal point.
const POINTED_MONTH = /^(?:0[1-9]|1[0-2])\.(?:1[89]|2[01])\d\d$/;
// 0,5 shows it; where the fit did not tell it, so do 999 and less beside 1,250, or beside three like 1.250 or more, for these signs then separate thousands.
function signShown(rows, known) {
  const only = { ".": 0, ",": 0 }, commas = new Set(), points = new Map(), small = new Set(), grouped = new Set(), aboveZero = new Set(), large = new Set();
  for (const row of rows) for (const [place, cell] of row.map((c) => c.trim()).entries()) {
    if (POINTED_MONTH.test(cell)) continue;
    const [point, comma] = [WRITTEN["."].exec(cell), WRITTEN[","].exec(cell)], number = (point ?? comma)?.[2] ?? "";
    if (point && !comma && cell.includes(".")) only["."]++;
    else if (comma && !point && cell.includes(",")) only[","]++;
    else if (/[.,].*e/i.test(number)) only[number.includes(",") ? "," : "."]++;
    else if (!(point && comma) && /[.,]/.test(number)) grouped.add(point ? "." : ",");
    else if (number.includes(",")) commas.add(place);
    else if (number.includes(".")) points.set(place, 1 + (points.get(place) ?? 0));
    else if (/^(?!99+$)\d{1,3}$/.test(number)) { small.add(place); if (!number.startsWith("0")) aboveZero.add(place); }
    else if (/^\d{4,}$/.test(number)) large.add(place);
  }
  if (only["."] || only[","]) return [only[","] >= only["."] ? "," : ".", true];
  const before = [...new Set([...commas, ...points.keys()])].map((place) => known[place]).filter(Boolean), [one] = before;
  if (one && !grouped.size) return [2 * before.filter((sign) => sign === one).length >= before.length ? one : one === "," ? "." : ",", false];
  if ([...commas].some((place) => small.has(place)) || grouped.has(".")) return [".", true];
  if (grouped.has(",") || [...points].some(([place, count]) => count > 2 && aboveZero.has(place) && !large.has(place))) return [",", true];
  return [commas.size ? "," : ".", !commas.size && !points.size];
}
// Where a name is among others: the same one, else the one that differs from it in blanks and line breaks alone; -1: nowhere.
function placeOf(name, names) {
  const exact = names.indexOf(name), plain = (text) => text.trim().replace(/\s+/g, " ");
  return exact < 0 ? names.map(plain).indexOf(plain(name)) : exact;
}
// What one cell is for the model, several numbers of a category or a date; a string says what is wrong.
function numbersOf(column, text, decimal) {
  if (lacking(column, text) && !column.categories?.includes(text)) return `${column.shown} is missing${live.fills ? ": this page predicts complete rows only, mgp predict fills gaps in" : ""}`;
  if (column.kind === "category") {
    const k = placeOf(text, column.categories), known = column.categories.slice(0, 8).join(", ") + (column.categories.length > 8 ? ", ..." : "");
    return k < 0 ? `${column.shown}: "${text}" is none of ${known}` : column.codes[k];
  }
  if (column.kind === "date") {
    const at = instant(text, column.order), turns = column.cyclic.map((period) => 2 * Math.PI * phase(at, period));
    if (Number.isNaN(at)) return `${column.shown}: "${text}" is not a date`;
    return [(at - column.origin) / column.unit, ...turns.flatMap((turn) => [Math.sin(turn), Math.cos(turn)])];
  }
  const flag = { true: 1, false: 0 }[text.toLowerCase()], value = column.kind === "flag" && flag !== undefined ? flag : writtenNumber(text, decimal);
  return !Number.isFinite(value) ? `${column.shown}: "${text}" is not a number` : [value];
}
// Inputs of the model from the values of the columns. decimals: the sign that each of them has. A string says what is wrong.
function encoded(values, decimals = []) {
  const x = [];
  for (const [c, column] of live.columns.entries()) {
    const found = numbersOf(column, String(values[c] ?? "").trim(), decimals[c] ?? ".");
    if (typeof found === "string") return found;
    x.push(...found, ...(column.indicator ? [0] : [])); // that it is missing: here nothing is
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
// The interval that holds 95 % of what a prediction expects of target o.
const REACH = 1.959963984540054;
const interval = ({ quantile }, o) => [-REACH, REACH].map((z) => quantile(o, z));

// Controls
(() => {
  const holder = document.getElementById("live");
  const values = live.columns.map((c) => c.start);
  const fields = make("div", { class: "inputs" }), said = make("div", { class: "said", role: "status", "aria-live": "polite" });
  const bars = live.targets.map(() => make("div", { class: "band", "aria-hidden": "true" }, make("i"), make("b")));
  let digits = 0; // of the longest number that a slider can give
  function update() {
    const x = encoded(values);
    if (typeof x === "string") { said.replaceChildren(make("p", { class: "caution", text: x })); bars.forEach((bar) => (bar.hidden = true)); return; }
    const found = model(x), { mean } = found, away = nearest(x);
    const lines = live.targets.map((name, o) => {
      const [low, high] = interval(found, o);
      show(bars[o], live.ranges[o], low, mean[o], high);
      return make("p", {}, make("strong", { text: `${name}: ${say(mean[o])}` }), ` — about 95 % between ${say(low)} and ${say(high)}`, bars[o]);
    });
    const far = away > 3 * live.typical + 1e-9;
    const words = away < 1e-3 ? "This is a training row." : `Nearest training row: ${say(away)} standard deviations away (typical between training rows: ${say(live.typical)}).`;
    said.replaceChildren(...lines, make("p", { class: far ? "caution" : "soft", text: words + (far ? " The model has seen nothing near here." : "") }));
  }
  function show(bar, [least, most], low, mean, high) {
    const [from, to] = [Math.min(least, low), Math.max(most, high)], place = (v) => `${(100 * (v - from)) / (to - from || 1)}%`;
    bar.hidden = false;
    Object.assign(bar.children[0].style, { left: place(low), right: `calc(100% - ${place(high)})` });
    bar.children[1].style.left = place(mean);
  }
  live.columns.forEach((column, c) => {
    const id = `live-${c}`, row = make("div", { class: "input" }, make("label", { for: id, text: column.label }));
    if (column.kind === "category" || column.kind === "flag") {
      const box = make("select", { id }, ...(column.categories ?? ["false", "true"]).map((name) => make("option", { value: name, text: name })));
      values[c] = box.value = column.categories ? column.start : String(column.start > 0.5);
      box.addEventListener("change", () => { values[c] = box.value; update(); });
      row.append(box);
    } else if (column.kind === "date") {
      const written = (at) => new Date(+at).toISOString().slice(0, column.days ? 10 : column.unit > 1000 ? 16 : 23), span = column.high - column.low || 1;
      const slider = make("input", { id, type: "range", min: column.low, max: column.high, step: span / 500, value: column.start });
      const field = make("input", { type: column.days ? "date" : "datetime-local", step: column.days ? 1 : "any", value: written(column.start), "aria-label": `${column.label}, exact value` });
      values[c] = field.value;
      slider.addEventListener("input", () => { values[c] = field.value = written(slider.value); update(); });
      field.addEventListener("input", () => { values[c] = field.value; const at = instant(field.value); if (at === at) slider.value = at; update(); });
      row.classList.add("dated");
      row.append(slider, field);
    } else {
      const span = column.high - column.low || 1;
      const short = (v) => +(+v).toPrecision(Math.min(5 + Math.max(0, Math.ceil(Math.log10(Math.abs(v) / span))), 15)); // five digits of the range
      const slider = make("input", { id, type: "range", min: column.low, max: column.high, step: span / 500, value: column.start });
      const stops = Array.from({ length: 501 }, (_, k) => column.low + (k * span) / 500);
      digits = Math.max(digits, ...[column.start, ...stops].map((v) => String(short(v)).length));
      const field = make("input", { type: "number", step: "any", value: short(column.start), "aria-label": `${column.label}, exact value` });
      values[c] = field.value;
      slider.addEventListener("input", () => { values[c] = field.value = short(slider.value); update(); });
      field.addEventListener("input", () => { values[c] = field.value; if (field.value !== "") slider.value = field.value; update(); });
      row.append(slider, field);
    }
    fields.append(row);
  });
  fields.style.setProperty("--digits", digits);
  holder.append(fields, said);
  update();
})();

// Tables
// Rows of cells; the separator is the one that the header has most of, outside of quotes. Quoted cells may hold separators, quotes and line ends.
function parsed(text) {
  const [first, ...below] = text.replace(/(^|[,;\t\n])(?:"[^"]*")+/g, "$1").split("\n"), before = (name) => (live.columns ?? []).find((column) => column.name === name.trim())?.decimal ?? live.decimal;
  let [separator] = [",", ";", "\t"].sort((a, b) => first.split(b).length - first.split(a).length);
  const commas = below.filter((line) => line.includes(",")), number = (line) => WRITTEN["."].test(line.trim()) || WRITTEN[","].test(line.trim());
  if (!/[,;\t]/.test(first) && commas.every(number) && (commas.length || before(first))) separator = ";"; // of a single column commas are part of numbers
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
  const full = rows.filter((row) => row.some((c) => c.trim() !== ""));
  const [decimal, told] = separator === "," ? [".", false] : decimalSign(full, (full[0] ?? []).map(before));
  return { separator, decimal, told, rows: full };
}
// Whether the first of these rows holds units, as data/units.py finds them: no number in it (1/min and 1e3 are units, unless cells below end in the same or have exponents too), and two columns or more that hold nothing else below it, or one where all other cells are empty or it is a power of ten (10^6); or one number and three such columns.
function unitsAbove([first, ...below], decimal) {
  const cells = first.map((cell) => cell.trim()), number = (text) => !Number.isNaN(writtenNumber(text, decimal));
  const per = cells.map((text) => /^1\s*(\/\s*(?:\p{L}|[°%‰]).*)$/u.exec(text)?.[1]);
  const power = cells.map((text) => /^1e-?[1-9]\d?(?:\s*|\s+(\S.*))$/i.exec(text));
  const same = (other, c) => (per[c] ?? power[c][1] ? other.endsWith(per[c] ?? power[c][1]) : false) || (power[c] && /\de[-+]?\d/i.test(other));
  const begins = (text, c) => number(text) && !((per[c] || power[c]) && !below.some((row) => same((row[c] ?? "").trim(), c)));
  const inside = (text) => /^(?:\[([^[\]]+)\]|\(([^()]+)\))$/.exec(text)?.slice(1).join("").trim() ?? text;
  const factor = /^(?:[x×*·]\s*)?(?:10\s*(?:\^|\*\*)\s*[-+−]?\d{1,2}|10[⁻⁺]?[⁰¹²³⁴-⁹]{1,2})(?![\p{L}\p{N}_.])|^[x×*·]\s*1(?:[ ,.'’]?000)+(?![\p{L}\p{N}_.])/iu;
  const alike = cells.map(begins), most = alike.filter(Boolean).length;
  if (below.length < 2 || most > 1 || cells.some((text) => text.length > 12)) return false;
  const nothing = (text) => EMPTY.test(text) || NO_NUMBER.test(text);
  const full = cells.map((text, c) => {
    const column = below.map((row) => (row[c] ?? "").trim());
    return !nothing(text) && !alike[c] && column.every((at) => nothing(at) || number(at)) && column.filter((at) => !nothing(at)).length > 0.5 * column.length;
  });
  const alone = cells.length > 1 && cells.filter((text) => !EMPTY.test(text)).length === 1;
  const sure = most === 0 && (alone || full.some((numbers, c) => numbers && factor.test(inside(cells[c]))));
  return full.filter(Boolean).length > 1 + most - sure;
}
// Predictions of a table: its rows with further cells, or a sentence that says what is wrong with it.
function predicted(text) {
  let { rows: [head, ...rows], separator, decimal, told } = parsed(text.replace(/^\ufeff/, "").replace(/^(\s*#[^\n]*\n)+/, "")); // without comments above
  if (!head || !rows.length) return "A header row and at least one row of values are needed.";
  const units = unitsAbove(rows, decimal);
  if (units) rows = rows.slice(1);
  const names = head.map((name) => name.trim().replace(/^'(?=[=+@-])/, "")), places = live.columns.map((column) => placeOf(column.name, names));
  const missing = live.columns.filter((_, c) => places[c] < 0).map((column) => column.shown);
  if (missing.length) return `The table lacks these columns: ${missing.join(", ")}.`;
  const added = live.targets.flatMap((name) => [`${name} mean`, `${name} std`, `${name} low`, `${name} high`]);
  const decimals = places.map((place, c) => signOf(rows.map((row) => String(row[place] ?? "").trim()), (!told && live.columns[c].decimal) || decimal));
  const body = rows.map((row) => {
    const x = encoded(places.map((place) => row[place]), decimals);
    if (typeof x === "string") return [...row, ...added.map(() => ""), x];
    const found = model(x);
    return [...row, ...live.targets.flatMap((_, o) => [found.mean[o], found.std[o], ...interval(found, o)]), ""];
  });
  return { head: [...names, ...added, "not predicted because"], body, separator, units };
}
// A cell as text: in quotes, its own doubled, where it holds the separator, a quote or the end of a line.
const quoted = (cell, separator) => (typeof cell === "string" && (cell.includes(separator) || /["\n]/.test(cell)) ? `"${cell.replaceAll('"', '""')}"` : String(cell));
(() => {
  const holder = document.getElementById("live-table"), out = make("div", { role: "status" });
  const box = make("textarea", { rows: 5, spellcheck: "false", "aria-label": "Table with a header row", placeholder: live.columns.map((c) => quoted(c.shown, ",")).join(",") + "\n..." });
  const file = make("input", { type: "file", accept: ".csv,.tsv,.txt", "aria-label": "CSV file" }), go = make("button", { class: "chip", type: "button", text: "Predict the table" });
  function run() {
    const found = predicted(box.value);
    if (typeof found === "string") { out.replaceChildren(make("p", { class: "caution", text: found })); return; }
    const text = [found.head, ...found.body].map((row) => row.map((cell) => quoted(cell, found.separator)).join(found.separator)).join("\n") + "\n";
    const count = found.body.filter((row) => row[row.length - 1] === "").length;
    const link = make("a", { download: "predictions.csv", href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), text: `Download ${count} prediction${count === 1 ? "" : "s"}` });
    const cellOf = (cell) => make("td", { text: typeof cell === "number" ? say(cell) : cell });
    const shown = make("table", {}, make("thead", {}, make("tr", {}, ...found.head.map((name) => make("th", { text: name })))), make("tbody", {}, ...found.body.slice(0, 20).map((row) => make("tr", {}, ...row.map(cellOf)))));
    const more = [found.units ? "The row of units below the names is left out." : "", found.body.length > 20 ? `The first 20 of ${found.body.length} rows.` : ""].join(" ").trim();
    out.replaceChildren(make("p", {}, link, ` ${more}`), make("div", { class: "scroll", tabindex: 0 }, shown));
  }
  const decoded = (bytes) => { // as tables are read: UTF-16 by its mark, UTF-8, else Windows-1252
    const [first, second] = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength)), mark = first * 256 + second;
    if (mark === 0xfffe || mark === 0xfeff) return new TextDecoder(mark === 0xfffe ? "utf-16le" : "utf-16be").decode(bytes);
    try { return new TextDecoder("utf-8", { fatal: true }).decode(bytes); } catch { return new TextDecoder("windows-1252").decode(bytes); }
  };
  const take = async (blob) => { if (blob) { box.value = decoded(await blob.arrayBuffer()); run(); } };
  go.addEventListener("click", run);
  file.addEventListener("change", () => take(file.files[0]));
  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => { if (event.dataTransfer.files.length) { event.preventDefault(); take(event.dataTransfer.files[0]); } });
  holder.append(box, make("p", {}, file, " ", go), out);
})();
