"use strict";
// The page's few moving parts: sortable tables, curves to explore, scores of every seed. No library, no network.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
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
  function show(v) {
    if (v === null || v === undefined) return "–";
    const size = Math.abs(v);
    return minus(size !== 0 && (size < 0.001 || size >= 10000) ? v.toExponential(2) : v.toFixed(size < 0.1 ? 4 : size < 10 ? 3 : 1));
  }

  // Round numbers that cover [low, high] in about n steps.
  function ticks(low, high, n) {
    const raw = (high - low) / n, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(+(k * step).toPrecision(12));
    return found;
  }
  const shortTick = (v) => minus(Math.abs(v) < 1e-12 ? "0" : Math.abs(v) < 0.001 || Math.abs(v) >= 1e5 ? v.toExponential(0) : String(+v.toPrecision(6)));

  function frame(holder, width, height, margin, label) {
    const svg = draw("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    holder.append(svg);
    return { svg, left: margin[3], right: width - margin[1], top: margin[0], bottom: height - margin[2] };
  }

  // ---- sortable tables
  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("thead tr:last-child th").forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("th[aria-sort]").forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => { const text = row.cells[column].dataset.value; return text === undefined || text === "" ? null : Number.isNaN(+text) ? text : +text; };
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => {
          const [x, y] = [key(a), key(b)];
          if (x === null || y === null) return (x === null) - (y === null); // unknown values stay at the end
          return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  // ---- curves to explore: bands of several methods, one seed at a time
  function explorer(holder, spec) {
    const state = { seed: spec.start, view: 0, shown: new Set(spec.shown) };
    const controls = make("div", { class: "controls" }), plot = make("div"), readout = make("div", { class: "readout", "aria-live": "polite" });
    holder.append(controls, plot, readout);
    const seeds = make("select", { "aria-label": "seed" });
    spec.seeds.forEach((s, i) => seeds.append(make("option", { value: i, text: `seed ${s.seed}${s.remark ? " · " + s.remark : ""}` })));
    seeds.value = state.seed;
    seeds.addEventListener("change", () => { state.seed = +seeds.value; redraw(); });
    if (spec.seeds.length > 1) controls.append(seeds);
    if (spec.views.length > 1) {
      const views = make("select", { "aria-label": "range" });
      spec.views.forEach((v, i) => views.append(make("option", { value: i, text: v.name })));
      views.addEventListener("change", () => { state.view = +views.value; redraw(); });
      controls.append(views);
    }
    for (const key of spec.methods) {
      const method = data.methods[key];
      const chip = make("button", { class: "chip", type: "button", "aria-pressed": state.shown.has(key), style: `--chip:${method.color}` }, swatch(method.color), method.label);
      chip.addEventListener("click", () => {
        state.shown.has(key) ? state.shown.delete(key) : state.shown.add(key);
        chip.setAttribute("aria-pressed", state.shown.has(key));
        redraw();
      });
      controls.append(chip);
    }

    function redraw() {
      plot.replaceChildren();
      const narrow = holder.clientWidth < 560;
      const [width, height] = narrow ? [480, 340] : [900, 340];
      const f = frame(plot, width, height, [10, 14, 40, 66], spec.title);
      const seed = spec.seeds[state.seed], view = spec.views[state.view], x = seed.x || spec.x;
      const [x0, x1] = view.x, [y0, y1] = view.y;
      const X = (v) => f.left + ((v - x0) / (x1 - x0)) * (f.right - f.left), Y = (v) => f.bottom - ((v - y0) / (y1 - y0)) * (f.bottom - f.top);
      for (const t of ticks(x0, x1, narrow ? 5 : 9)) {
        draw("line", { class: "grid", x1: X(t), x2: X(t), y1: f.top, y2: f.bottom }, f.svg);
        draw("text", { x: X(t), y: f.bottom + 16, "text-anchor": "middle", text: shortTick(t) }, f.svg);
      }
      for (const t of ticks(y0, y1, 6)) {
        draw("line", { class: "grid", x1: f.left, x2: f.right, y1: Y(t), y2: Y(t) }, f.svg);
        draw("text", { x: f.left - 6, y: Y(t) + 4, "text-anchor": "end", text: shortTick(t) }, f.svg);
      }
      draw("text", { x: (f.left + f.right) / 2, y: height - 6, "text-anchor": "middle", text: spec.xlabel }, f.svg);
      draw("text", { x: 14, y: (f.top + f.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(f.top + f.bottom) / 2})`, text: spec.ylabel }, f.svg);
      const clip = `clip-${spec.id}`;
      draw("rect", { x: f.left, y: f.top, width: f.right - f.left, height: f.bottom - f.top }, draw("clipPath", { id: clip }, draw("defs", {}, f.svg)));
      const inside = draw("g", { "clip-path": `url(#${clip})` }, f.svg);
      // Only what is in view, and one point more at either side so that lines run to the edge.
      let first = x.findIndex((v) => v >= x0), last = x.length - 1;
      while (last > 0 && x[last] > x1) last--;
      first = Math.max(0, first - 1); last = Math.min(x.length - 1, last + 1);
      const path = (curve) => { let d = ""; for (let i = first; i <= last; i++) d += `${d ? "L" : "M"}${X(x[i]).toFixed(1)} ${Y(Math.max(Math.min(curve[i], y1 + 9 * (y1 - y0)), y0 - 9 * (y1 - y0))).toFixed(1)}`; return d; };
      for (const key of spec.methods) {
        const s = seed.series[key];
        if (!s || !state.shown.has(key)) continue;
        const { color, dash } = data.methods[key];
        const back = path(s.lower).slice(1).split("L").reverse().join("L");
        draw("path", { d: `${path(s.upper)}L${back}Z`, fill: color, "fill-opacity": 0.16, stroke: color, "stroke-opacity": 0.35, "stroke-width": 0.6, "data-band": key }, inside);
        draw("path", { d: path(s.mean), fill: "none", stroke: color, "stroke-width": 2, "stroke-dasharray": dash, "stroke-linejoin": "round", "data-mean": key }, inside);
      }
      const visible = (points) => points.x.map((v, i) => [v, points.y[i]]).filter(([v]) => v >= x0 && v <= x1);
      if (seed.crosses) for (const [px, py] of visible(seed.crosses)) { const [a, b] = [X(px), Y(py)]; draw("path", { class: "test", d: `M${a - 3} ${b - 3}l6 6m0 -6l-6 6` }, inside); }
      if (seed.dots) for (const [px, py] of visible(seed.dots)) draw("circle", { class: "train", cx: X(px), cy: Y(py), r: 2.3 }, inside);
      const cursor = draw("line", { class: "cursor", y1: f.top, y2: f.bottom, visibility: "hidden" }, f.svg);
      const idle = "Move over the picture to read values" + (seed.crosses ? "; dots are training data, crosses are test data." : ".");
      readout.replaceChildren(idle);
      f.svg.addEventListener("pointermove", (event) => {
        const box = f.svg.getBoundingClientRect();
        const at = x0 + (((event.clientX - box.left) / box.width) * width - f.left) / (f.right - f.left) * (x1 - x0);
        if (at < x0 || at > x1) return;
        let i = 0;
        for (let k = first; k <= last; k++) if (Math.abs(x[k] - at) < Math.abs(x[i] - at)) i = k;
        cursor.setAttribute("x1", X(x[i])); cursor.setAttribute("x2", X(x[i])); cursor.setAttribute("visibility", "visible");
        const parts = [make("span", {}, `${spec.xname} = ${show(x[i])}`)];
        if (seed.observed) parts.push(make("span", {}, "observed ", make("b", { text: show(seed.observed[i]) })));
        for (const key of spec.methods) {
          const s = seed.series[key];
          if (s && state.shown.has(key)) parts.push(make("span", {}, swatch(data.methods[key].color), make("b", { text: show(s.mean[i]) }), ` [${show(s.lower[i])}, ${show(s.upper[i])}]`));
        }
        readout.replaceChildren(...parts);
      });
      f.svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); readout.replaceChildren(idle); });
    }
    redraw();
    return { choose(seed) { const i = spec.seeds.findIndex((s) => s.seed === seed); if (i >= 0) { seeds.value = state.seed = i; redraw(); } }, redraw };
  }

  // ---- every seed of every method as a point
  function strip(holder, spec, choose) {
    const state = { metric: spec.start };
    const controls = make("div", { class: "controls" }), plot = make("div"), readout = make("div", { class: "readout", "aria-live": "polite" });
    holder.append(controls, plot, readout);
    spec.metrics.forEach((metric, i) => {
      const chip = make("button", { class: "chip", type: "button", "aria-pressed": i === state.metric, style: "--chip:var(--accent)", text: metric.label });
      chip.addEventListener("click", () => {
        state.metric = i;
        controls.querySelectorAll(".chip").forEach((c, k) => c.setAttribute("aria-pressed", k === i));
        redraw();
      });
      controls.append(chip);
    });
    function redraw() {
      plot.replaceChildren();
      const metric = spec.metrics[state.metric], narrow = holder.clientWidth < 560;
      const width = narrow ? 480 : 900, rowHeight = 30, height = spec.rows.length * rowHeight + 44;
      const f = frame(plot, width, height, [6, 24, 38, narrow ? 150 : 190], `${metric.label} of every seed`);
      const value = metric.log ? Math.log10 : (v) => v;
      const usable = (v) => v !== null && v !== undefined && (!metric.log || v > 0);
      const all = spec.rows.flatMap((r) => [...r.values[metric.key], r.paper[metric.key]]).filter(usable).map(value).sort((a, b) => a - b);
      if (!all.length) return;
      // One catastrophic seed must not flatten the rest: it is drawn at the edge.
      const middle = all[Math.floor(all.length / 2)], edge = metric.log ? Infinity : middle + 3 * Math.max(middle - all[0], 0.5);
      let low = all[0], high = Math.min(all[all.length - 1], edge);
      const pad = 0.05 * (high - low || 1); low -= pad; high += pad;
      const X = (v) => f.left + ((Math.min(value(v), high) - low) / (high - low)) * (f.right - f.left);
      const marks = metric.log ? [...new Set(ticks(low, high, 6).map(Math.round))].filter((t) => t >= low && t <= high) : ticks(low, high, narrow ? 4 : 7);
      for (const t of marks.length > 1 || !metric.log ? marks : [low, high]) {
        const at = f.left + ((t - low) / (high - low)) * (f.right - f.left);
        draw("line", { class: "grid", x1: at, x2: at, y1: f.top, y2: f.bottom }, f.svg);
        draw("text", { x: at, y: f.bottom + 16, "text-anchor": "middle", text: metric.log ? (10 ** t).toExponential(marks.length > 1 ? 0 : 1) : shortTick(t) }, f.svg);
      }
      draw("text", { x: (f.left + f.right) / 2, y: height - 4, "text-anchor": "middle", text: `${metric.label}, lower is better · ring: paper · bar: median` }, f.svg);
      const idle = `Every dot is one seed; touch it for its value${choose ? ", click to see it above" : ""}.`;
      spec.rows.forEach((row, k) => {
        const y = f.top + (k + 0.5) * rowHeight, { color, label } = data.methods[row.method];
        draw("text", { class: "label", x: f.left - 10, y: y + 4, "text-anchor": "end", text: label }, f.svg);
        const values = row.values[metric.key];
        const sorted = values.filter(usable).slice().sort((a, b) => a - b);
        if (sorted.length) {
          const n = sorted.length, median = n % 2 ? sorted[(n - 1) / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
          draw("line", { x1: X(median), x2: X(median), y1: y - 10, y2: y + 10, stroke: color, "stroke-width": 3 }, f.svg);
        }
        if (usable(row.paper[metric.key])) draw("circle", { class: "ring", cx: X(row.paper[metric.key]), cy: y, r: 7 }, f.svg);
        values.forEach((v, i) => {
          if (!usable(v)) return;
          const beyond = value(v) > high;
          const at = y + (values.length > 1 ? (i / (values.length - 1) - 0.5) * 12 : 0);
          const dot = draw(beyond ? "path" : "circle", beyond ? { d: `M${f.right - 6} ${at - 5}l8 5l-8 5z`, fill: color } : { cx: X(v), cy: at, r: 4.2, fill: color, "fill-opacity": 0.7 }, f.svg);
          dot.setAttribute("data-seed", row.seeds[i]);
          dot.style.cursor = "pointer";
          const tell = () => readout.replaceChildren(make("span", {}, swatch(color), `${label}, seed ${row.seeds[i]}: `, make("b", { text: show(v) }), beyond ? " (beyond the edge)" : ""));
          dot.addEventListener("pointerenter", tell);
          dot.addEventListener("click", () => { tell(); if (choose) choose(row.seeds[i]); });
        });
      });
      readout.replaceChildren(idle);
    }
    redraw();
    return { redraw };
  }

  const drawn = [], explorers = {};
  for (const spec of data.explorers) drawn.push((explorers[spec.id] = explorer(document.getElementById(`explorer-${spec.id}`), spec)));
  for (const spec of data.strips) {
    const partner = explorers[spec.id];
    drawn.push(strip(document.getElementById(`strip-${spec.id}`), spec, partner ? (seed) => partner.choose(seed) : null));
  }
  let waiting = 0, last = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === last) return; // a phone's address bar comes and goes
    last = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => drawn.forEach((d) => d.redraw()), 120);
  });
  document.documentElement.dataset.ready = "yes";
})();
