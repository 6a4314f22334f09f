// One chart: layers in data units; hover reads values, wheel, drag and pinch zoom and move, double click resets
// spec: {title, height, x, y: {label, quantity, name, range, log, names, fixed, ticks, date: {origin, unit, days}}, hover: "x" | "nearest" | "cell", layers, idle, scale}
// layers: band {x, mean, lower, upper}, line {x, y, label?: where its name stands}, area {x, lower, upper}, points {x, y, lower?, upper?, values?}, bars {x0, x1, y0, y1},
//   rug {x}, cells {x: [a, b], y: [c, d], n: [n1, n2], values}. key: the chip that hides it. tell: [[words, field], ...] of a point or bar.
function chart(holder, hidden) {
  const svg = draw("svg", { class: "plot", tabindex: 0, role: "img" }), readout = make("div", { class: "readout", "aria-live": "polite" });
  const legend = make("div", { class: "scale" }), plot = make("div", { class: "canvas" });
  plot.append(svg);
  holder.append(plot, legend, readout);
  let spec, full, view, box, reading = null;
  const clip = `clip-${holder.id}`;

  const told = (axis, v) => (axis.date && typeof v === "number" ? dateText(axis.date, v) : say(v));
  const unit = (axis, v) => (v === null || v === undefined ? NaN : axis.log ? Math.log10(v) : v);
  const X = (v) => box.left + ((unit(spec.x, v) - view.x[0]) / (view.x[1] - view.x[0])) * (box.right - box.left);
  const Y = (v) => box.bottom - ((unit(spec.y, v) - view.y[0]) / (view.y[1] - view.y[0])) * (box.bottom - box.top);
  const far = (v) => Math.max(-9999, Math.min(9999, v)).toFixed(1); // lines that leave the picture stay short enough to draw
  const zoomed = () => ["x", "y"].some((a) => view[a][0] !== full[a][0] || view[a][1] !== full[a][1]);
  const visible = (layer) => !layer.key || !hidden.has(layer.key);
  const tint = (share) => {
    const at = Math.max(0, Math.min(1, share)) * (data.ramp.length - 1), k = Math.min(data.ramp.length - 2, Math.floor(at));
    return [1, 3, 5].map((c) => Math.round(parseInt(data.ramp[k].slice(c, c + 2), 16) * (k + 1 - at) + parseInt(data.ramp[k + 1].slice(c, c + 2), 16) * (at - k)));
  };
  const scaled = (v) => (v - spec.scale.low) / (spec.scale.high - spec.scale.low || 1);

  function show(next) {
    spec = next;
    full = { x: spec.x.range.map((v) => unit(spec.x, v)), y: spec.y.range.map((v) => unit(spec.y, v)) };
    view = { x: [...full.x], y: [...full.y] };
    svg.setAttribute("aria-label", spec.title);
    legend.replaceChildren();
    if (spec.scale) {
      const bar = make("span", { class: "ramp", style: `background:linear-gradient(to right,${data.ramp.join()})` });
      legend.append(`${spec.scale.label}: `, shortTick(+spec.scale.low.toPrecision(3)), bar, shortTick(+spec.scale.high.toPrecision(3)));
    }
    redraw();
  }

  function axisTicks(axis, range, n) {
    if (axis.ticks) return axis.ticks.map(([at, text]) => [at, text]);
    if (axis.date) return dateTicks(axis.date, ...range, n);
    if (!axis.log) return ticks(...range, n).map((t) => [t, shortTick(t)]);
    const whole = [...new Set(ticks(...range, n).map(Math.round))].filter((t) => t >= range[0] && t <= range[1]);
    return (whole.length > 1 ? whole : range).map((t) => [10 ** t, (10 ** t).toExponential(whole.length > 1 ? 0 : 1)]);
  }

  function redraw() {
    if (!spec) return;
    const width = Math.max(260, plot.clientWidth || 640), height = spec.height || 340, narrow = width < 560;
    const yTicks = axisTicks(spec.y, view.y, spec.y.ticks ? 0 : Math.max(3, Math.round(height / 60)));
    const longest = Math.min(Math.max(...yTicks.map(([, text]) => text.length), 3), narrow ? 18 : 34);
    box = { left: 8 + 6.7 * longest + (spec.y.label ? 22 : 4), right: width - 14, top: 10, bottom: height - 42 };
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.classList.toggle("zoomed", zoomed());
    svg.replaceChildren();
    const xTicks = axisTicks(spec.x, view.x, Math.max(3, Math.round((box.right - box.left) / 95)));
    for (const [t, text] of xTicks) {
      if (X(t) < box.left - 1 || X(t) > box.right + 1) continue;
      draw("line", { class: "grid", x1: X(t), x2: X(t), y1: box.top, y2: box.bottom }, svg);
      draw("text", { x: Math.min(X(t), width - 3.4 * text.length), y: box.bottom + 16, "text-anchor": "middle", text }, svg); // the last one whole
    }
    for (const [t, text] of yTicks) {
      if (Y(t) < box.top - 1 || Y(t) > box.bottom + 1) continue;
      if (!spec.y.ticks) draw("line", { class: "grid", x1: box.left, x2: box.right, y1: Y(t), y2: Y(t) }, svg);
      draw("text", { class: spec.y.ticks ? "label" : "", x: box.left - 7, y: Y(t) + 4, "text-anchor": "end", text: text.length > longest ? text.slice(0, longest - 1) + "…" : text }, svg);
    }
    draw("text", { x: (box.left + box.right) / 2, y: height - 8, "text-anchor": "middle", text: fitted(spec.x.label, width - box.left, spec.x.quantity) }, svg);
    if (spec.y.label) draw("text", { x: 13, y: (box.top + box.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 13 ${(box.top + box.bottom) / 2})`, text: fitted(spec.y.label, Math.min(box.top + box.bottom, 2 * height - box.top - box.bottom), spec.y.quantity) }, svg);
    draw("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }, draw("clipPath", { id: clip }, draw("defs", {}, svg)));
    const inside = draw("g", { "clip-path": `url(#${clip})` }, svg);
    for (const layer of spec.layers) if (visible(layer)) painters[layer.kind](layer, inside);
    reading = draw("g", { class: "reading", "clip-path": `url(#${clip})` }, svg);
    quiet();
  }

  const path = (x, y, backwards = false) => {
    let d = "";
    for (let k = 0; k < x.length; k++) {
      const i = backwards ? x.length - 1 - k : k, a = X(x[i]), b = Y(y[i]);
      if (Number.isFinite(a) && Number.isFinite(b)) d += `${d ? "L" : "M"}${far(a)} ${far(b)}`;
    }
    return d;
  };
  const filled = (l) => { const there = path(l.x, l.upper), back = path(l.x, l.lower, true); return there && `${there}L${back.slice(1)}Z`; };
  const painters = {
    area: (l, g) => draw("path", { d: filled(l), fill: l.color, "fill-opacity": l.opacity || 0.16 }, g),
    line(l, g) {
      draw("path", { d: path(l.x, l.y), fill: "none", stroke: l.color, "stroke-width": l.width || 2, "stroke-opacity": l.opacity || 1, "stroke-dasharray": l.dash || "none", "stroke-linejoin": "round" }, g);
      if (l.label) draw("text", { class: "own", style: `fill:${l.color}`, x: X(l.x[l.label]), y: Y(l.y[l.label]) - 6, text: l.name }, g);
    },
    band(l, g) {
      draw("path", { d: filled(l), fill: l.color, "fill-opacity": 0.16, stroke: l.color, "stroke-opacity": 0.35, "stroke-width": 0.6, "data-band": l.key || l.name }, g);
      draw("path", { d: path(l.x, l.mean), fill: "none", stroke: l.color, "stroke-width": 2, "stroke-dasharray": l.dash || "none", "stroke-linejoin": "round", "data-mean": l.key || l.name }, g);
    },
    rug: (l, g) => draw("path", { d: l.x.map((v) => `M${far(X(v))} ${box.bottom}v-9`).join(""), stroke: l.color, "stroke-opacity": 0.55, "stroke-width": 1 }, g),
    bars: (l, g) => l.x0.forEach((_, i) => {
      const [a, b, c, d] = [X(l.x0[i]), X(l.x1[i]), Y(l.y1[i]), Y(l.y0[i])];
      draw("rect", { class: "bar", x: Math.min(a, b), y: Math.min(c, d), width: Math.max(Math.abs(b - a), 0.5), height: Math.max(Math.abs(d - c), 0.5), fill: l.color, "fill-opacity": l.opacity || 0.85 }, g);
    }),
    cells(l, g) {
      const canvas = make("canvas", { width: l.n[0], height: l.n[1] }), pen = canvas.getContext("2d"), pixels = pen.createImageData(...l.n);
      for (let i = 0; i < l.n[0]; i++) for (let j = 0; j < l.n[1]; j++) pixels.data.set([...tint(scaled(l.values[i * l.n[1] + j])), 255], 4 * ((l.n[1] - 1 - j) * l.n[0] + i));
      pen.putImageData(pixels, 0, 0);
      draw("image", { href: canvas.toDataURL(), preserveAspectRatio: "none", x: X(l.x[0]), y: Y(l.y[1]), width: X(l.x[1]) - X(l.x[0]), height: Y(l.y[0]) - Y(l.y[1]) }, g);
    },
    points(l, g) {
      if (l.lower) draw("path", { class: "errors", d: l.x.map((v, i) => `M${far(X(v))} ${far(Y(l.lower[i]))}V${far(Y(l.upper[i]))}`).join(""), stroke: l.color, "stroke-opacity": 0.4, "stroke-width": 1 }, g);
      l.x.forEach((v, i) => {
        const a = X(v), b = Y(l.y[i]), size = l.size || 2.6;
        if (!(a > box.left - 9 && a < box.right + 9 && b > box.top - 9 && b < box.bottom + 9)) return;
        const color = l.values ? `rgb(${tint(scaled(l.values[i]))})` : l.color;
        const node = l.shape === "cross" ? draw("path", { d: `M${a - 3} ${b - 3}l6 6m0 -6l-6 6`, stroke: color, "stroke-width": 1.1, "stroke-opacity": 0.6, fill: "none" }, g)
          : l.shape === "ring" ? draw("circle", { class: "ring", cx: a, cy: b, r: 7 }, g)
          : l.shape === "beyond" ? draw("path", { d: `M${box.right - 8} ${b - 5}l8 5l-8 5z`, fill: color }, g)
          : draw("circle", { class: "dot", cx: a.toFixed(1), cy: b.toFixed(1), r: size, fill: color, "fill-opacity": l.opacity || 0.75 }, g);
        if (l.seeds) { node.setAttribute("data-seed", l.seeds[i]); node.style.cursor = "pointer"; node.addEventListener("click", () => { tell(l, i); if (spec.pick) spec.pick(l.seeds[i]); }); }
      });
    },
  };

  // What is under the pointer, in words.
  function quiet() {
    if (reading) reading.replaceChildren();
    readout.replaceChildren(spec.idle || "Move over the picture to read values.");
  }
  function tell(l, i) {
    reading.replaceChildren();
    if (l.kind === "points") draw("circle", { cx: X(l.x[i]), cy: Y(l.y[i]), r: (l.size || 2.6) + 3, class: "found" }, reading);
    const parts = l.name ? [make("span", {}, swatch(l.values ? `rgb(${tint(scaled(l.values[i]))})` : l.color), l.name)] : [];
    for (const [words, field] of l.tell) parts.push(make("span", {}, `${words} `, make("b", { text: field === "x" ? told(spec.x, l[field][i]) : say(l[field][i]) })));
    readout.replaceChildren(...parts);
  }
  const nearestIndex = (x, at) => { let best = 0; for (let i = 1; i < x.length; i++) if (Math.abs(x[i] - at) < Math.abs(x[best] - at)) best = i; return best; };
  function read(px, py) {
    if (px < box.left - 4 || px > box.right + 4 || py < box.top - 4 || py > box.bottom + 4) return quiet();
    const back = (axis, share) => { const v = view[axis][0] + share * (view[axis][1] - view[axis][0]); return spec[axis].log ? 10 ** v : v; };
    const at = { x: back("x", (px - box.left) / (box.right - box.left)), y: back("y", (box.bottom - py) / (box.bottom - box.top)) };
    const layers = spec.layers.filter(visible);
    if (spec.hover === "x") {
      const lines = layers.filter((l) => (l.kind === "band" || l.kind === "line") && !l.quiet);
      if (!lines.length) return quiet();
      const x = lines[0].x[nearestIndex(lines[0].x, at.x)];
      reading.replaceChildren();
      draw("line", { class: "cursor", x1: X(x), x2: X(x), y1: box.top, y2: box.bottom }, reading);
      const parts = [make("span", {}, `${spec.x.name} = ${told(spec.x, x)}`)];
      for (const l of lines) {
        const i = nearestIndex(l.x, x), y = (l.mean || l.y)[i];
        if (l.x[l.x.length - 1] < x - 1e-9 && l.kind === "line") continue;
        draw("circle", { cx: X(l.x[i]), cy: Y(y), r: 3.5, fill: l.color }, reading);
        parts.push(make("span", {}, swatch(l.color), l.name ? `${l.name} ` : "", make("b", { text: say(y) }), l.lower ? ` [${say(l.lower[i])}, ${say(l.upper[i])}]` : ""));
      }
      if (spec.observed) parts.splice(1, 0, make("span", {}, "observed ", make("b", { text: say(spec.observed[nearestIndex(lines[0].x, x)]) })));
      return readout.replaceChildren(...parts);
    }
    if (spec.hover === "cell") {
      const l = layers.find((c) => c.kind === "cells");
      const [i, j] = ["x", "y"].map((a, k) => Math.max(0, Math.min(l.n[k] - 1, Math.floor(((at[a] - l[a][0]) / (l[a][1] - l[a][0])) * l.n[k]))));
      reading.replaceChildren();
      draw("circle", { cx: px, cy: py, r: 5, class: "found" }, reading);
      return readout.replaceChildren(...[[spec.x.name, told(spec.x, at.x)], [spec.y.name, told(spec.y, at.y)], [spec.scale.label, say(l.values[i * l.n[1] + j])]].map(([words, text]) => make("span", {}, `${words} `, make("b", { text }))));
    }
    let best = null, nearest = 30;
    for (const l of layers) {
      if (!l.tell) continue;
      if (l.kind === "points") l.x.forEach((v, i) => { const d = Math.hypot(X(v) - px, Y(l.y[i]) - py); if (d < nearest) { nearest = d; best = [l, i]; } });
      if (l.kind === "bars") l.x0.forEach((_, i) => {
        const hit = l.along === "y" ? at.y >= Math.min(l.y0[i], l.y1[i]) && at.y <= Math.max(l.y0[i], l.y1[i]) && at.x >= l.x0[i] && (at.x <= l.x1[i] || l.last) : at.x >= l.x0[i] && at.x <= l.x1[i];
        if (hit) { nearest = 0; best = [l, i]; }
      });
    }
    best ? tell(...best) : quiet();
  }

  // Zoom and move; never beyond the whole picture.
  function move(axis, low, high) {
    if (spec[axis].fixed) return;
    const [a, b] = full[axis], size = Math.min(Math.max(high - low, 1e-4 * (b - a)), b - a);
    const from = Math.max(a, Math.min(low, b - size));
    view[axis] = size === b - a ? [a, b] : [from, from + size];
  }
  function zoom(factor, px = (box.left + box.right) / 2, py = (box.top + box.bottom) / 2) {
    const share = { x: (px - box.left) / (box.right - box.left), y: (box.bottom - py) / (box.bottom - box.top) };
    for (const axis of ["x", "y"]) {
      const [a, b] = view[axis], at = a + share[axis] * (b - a);
      move(axis, at - (at - a) * factor, at + (b - at) * factor);
    }
    redraw();
  }
  function shift(dx, dy) {
    const sx = (-dx / (box.right - box.left)) * (view.x[1] - view.x[0]), sy = (dy / (box.bottom - box.top)) * (view.y[1] - view.y[0]);
    move("x", view.x[0] + sx, view.x[1] + sx);
    move("y", view.y[0] + sy, view.y[1] + sy);
    redraw();
  }
  const reset = () => show(spec);
  const place = (event) => { const r = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / r.width; return [(event.clientX - r.left) * scale, (event.clientY - r.top) * scale]; };
  const fingers = new Map();
  svg.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, place(event));
    if (event.pointerType !== "mouse") read(...place(event));
    else if (event.button === 0) svg.focus({ preventScroll: true });
  });
  svg.addEventListener("pointermove", (event) => {
    const at = place(event), before = fingers.get(event.pointerId);
    if (before && fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const apart = (p) => Math.max(20, Math.hypot(p[0] - other[0], p[1] - other[1]));
      zoom(apart(before) / apart(at), (at[0] + other[0]) / 2, (at[1] + other[1]) / 2);
      fingers.set(event.pointerId, at);
    } else if (before && zoomed() && Math.hypot(at[0] - before[0], at[1] - before[1]) > 2) {
      if (!svg.hasPointerCapture(event.pointerId)) try { svg.setPointerCapture(event.pointerId); } catch { /* the finger is already gone */ }
      shift(at[0] - before[0], at[1] - before[1]);
      fingers.set(event.pointerId, at);
    } else if (!before || event.pointerType !== "mouse") read(...at);
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, (event) => fingers.delete(event.pointerId));
  svg.addEventListener("pointerleave", (event) => { fingers.delete(event.pointerId); if (event.pointerType === "mouse") quiet(); });
  // The wheel scrolls the page until the picture is clicked, or Ctrl is held.
  svg.addEventListener("wheel", (event) => {
    if (spec.x.fixed && spec.y.fixed) return;
    if (document.activeElement !== svg && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004), ...place(event));
  }, { passive: false });
  svg.addEventListener("dblclick", reset);
  svg.addEventListener("keydown", (event) => {
    const keys = { "+": () => zoom(0.7), "-": () => zoom(1 / 0.7), 0: reset, ArrowLeft: () => shift(40, 0), ArrowRight: () => shift(-40, 0), ArrowUp: () => shift(0, 40), ArrowDown: () => shift(0, -40) };
    if (keys[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); keys[event.key](); }
  });
  const tool = (text, label, act) => { const b = make("button", { class: "tool", type: "button", "aria-label": label, title: label, text }); b.addEventListener("click", act); return b; };
  const tools = make("span", { class: "tools" }, tool("−", "zoom out", () => zoom(1 / 0.6)), tool("+", "zoom in", () => zoom(0.6)), tool("reset", "show everything", reset));
  return { show, redraw, tools, get movable() { return !(spec.x.fixed && spec.y.fixed); } };
}
