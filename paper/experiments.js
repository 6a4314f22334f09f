// The paper's experiments: curves to explore, one seed at a time
function explorer(holder, spec) {
  const seeds = { label: "seed", options: spec.seeds.map((s) => `seed ${s.seed}${s.remark ? " · " + s.remark : ""}`), start: spec.start };
  const views = { label: "range", options: spec.views.map((v) => v.name) };
  const legend = spec.methods.map((key) => ({ key, shown: spec.shown.includes(key), ...data.methods[key] }));
  const drawn = panel(holder, [seeds, views], legend, ([s, v]) => {
    const seed = spec.seeds[s], view = spec.views[v], x = seed.x || spec.x, layers = [];
    for (const key of spec.methods) if (seed.series[key]) layers.push({ kind: "band", key, x, ...seed.series[key], color: data.methods[key].color, dash: data.methods[key].dash });
    if (seed.crosses) layers.push({ kind: "points", shape: "cross", color: "var(--ink)", ...seed.crosses });
    if (seed.dots) layers.push({ kind: "points", size: 2.3, color: "var(--ink)", ...seed.dots });
    const idle = "Move over the picture to read values" + (seed.crosses ? "; dots are training data, crosses are test data." : ".");
    return { title: spec.title, hover: "x", layers, idle, observed: seed.observed, x: { label: spec.xlabel, name: spec.xname, range: view.x }, y: { label: spec.ylabel, range: view.y } };
  });
  return { ...drawn, choose(seed) { const i = spec.seeds.findIndex((s) => s.seed === seed); if (i >= 0) drawn.choose(0, i); } };
}

// Every seed of every method as a point
function strip(holder, spec, choose) {
  const metrics = { label: "score", options: spec.metrics.map((m) => m.label), start: spec.start, buttons: true };
  return panel(holder, [metrics], [], ([m]) => {
    const metric = spec.metrics[m], usable = (v) => v !== null && v !== undefined && (!metric.log || v > 0);
    const all = spec.rows.flatMap((r) => [...r.values[metric.key], r.paper[metric.key]]).filter(usable).sort((a, b) => a - b);
    if (!all.length) all.push(0, 1);
    // One catastrophic seed must not flatten the rest: it is drawn at the edge.
    const middle = all[Math.floor(all.length / 2)], edge = metric.log ? Infinity : middle + 3 * Math.max(middle - all[0], 0.5);
    let low = all[0], high = Math.min(all[all.length - 1], edge);
    const pad = 0.05 * (high - low || 1);
    if (metric.log) { low /= 1.3; high *= 1.3; } else { low -= pad; high += pad; }
    const layers = [];
    spec.rows.forEach((row, k) => {
      const { color, label } = data.methods[row.method], values = row.values[metric.key], at = -k;
      const sorted = values.filter(usable).slice().sort((a, b) => a - b), n = sorted.length;
      if (n) {
        const median = Math.min(high, n % 2 ? sorted[(n - 1) / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2);
        layers.push({ kind: "line", x: [median, median], y: [at - 0.33, at + 0.33], color, width: 3 });
      }
      if (usable(row.paper[metric.key])) layers.push({ kind: "points", shape: "ring", x: [row.paper[metric.key]], y: [at], tell: [["paper", "x"]], name: label, color });
      const dots = values.map((v, i) => ({ v, seed: row.seeds[i], y: at + (values.length > 1 ? 0.4 * (0.5 - i / (values.length - 1)) : 0) })).filter((d) => usable(d.v));
      for (const beyond of [false, true]) {
        const mine = dots.filter((d) => d.v > high === beyond);
        if (mine.length) layers.push({ kind: "points", shape: beyond ? "beyond" : "dot", size: 4.2, color, name: label, x: mine.map((d) => Math.min(d.v, high)), y: mine.map((d) => d.y), seeds: mine.map((d) => d.seed),
          seed: mine.map((d) => String(d.seed)), value: mine.map((d) => say(d.v) + (beyond ? " (beyond the edge)" : "")), tell: [["seed", "seed"], [metric.label, "value"]] });
      }
    });
    return { title: `${metric.label} of every seed`, hover: "nearest", layers, height: 30 * spec.rows.length + 52, pick: choose,
      idle: `Every dot is one seed; touch it for its value${choose ? ", click to see it above" : ""}.`,
      x: { label: `${metric.label}, lower is better · ring: paper · bar: median`, range: [low, high], log: metric.log },
      y: { range: [0.5 - spec.rows.length, 0.5], fixed: true, ticks: spec.rows.map((row, k) => [-k, data.methods[row.method].label]) } };
  });
}

// Everything that the data asks for.
const explorers = {};
for (const spec of data.explorers || []) drawn.push((explorers[spec.id] = explorer(document.getElementById(`explorer-${spec.id}`), spec)));
for (const spec of data.strips || []) {
  const partner = explorers[spec.id];
  drawn.push(strip(document.getElementById(`strip-${spec.id}`), spec, partner ? (seed) => partner.choose(seed) : null));
}
