// What is on the page, to redraw it when the window's width changes.
const drawn = [];

// A chart with what can be chosen above it
// choices: [{label, options, start, buttons}]. legend: [{key, label, color, shown}]. specOf: from the chosen numbers to a chart's spec.
function panel(holder, choices, legend, specOf) {
  const controls = make("div", { class: "controls" });
  holder.append(controls);
  const picked = choices.map((c) => c.start || 0);
  const hidden = new Set(legend.filter((l) => l.shown === false).map((l) => l.key));
  const drawing = chart(holder, hidden), setters = [];
  const update = () => drawing.show(specOf(picked));
  choices.forEach((choice, c) => {
    setters.push((i) => { picked[c] = i; if (box) box.value = i; update(); });
    let box = null;
    if (choice.options.length < 2) return;
    if (choice.buttons) {
      const chips = choice.options.map((text, i) => {
        const chip = make("button", { class: "chip", type: "button", "aria-pressed": i === picked[c], style: "--chip:var(--accent)", text });
        chip.addEventListener("click", () => { picked[c] = i; chips.forEach((other, k) => other.setAttribute("aria-pressed", k === i)); update(); });
        return chip;
      });
      controls.append(...chips);
      return;
    }
    box = make("select", { "aria-label": choice.label });
    choice.options.forEach((text, i) => box.append(make("option", { value: i, text })));
    box.value = picked[c];
    box.addEventListener("change", () => { picked[c] = +box.value; update(); });
    controls.append(choice.shown ? make("label", {}, `${choice.label} `, box) : box);
  });
  for (const { key, label, color } of legend) {
    const chip = make("button", { class: "chip", type: "button", "aria-pressed": !hidden.has(key), style: `--chip:${color}` }, swatch(color), label);
    chip.addEventListener("click", () => {
      hidden.has(key) ? hidden.delete(key) : hidden.add(key);
      chip.setAttribute("aria-pressed", !hidden.has(key));
      drawing.redraw();
    });
    controls.append(chip);
  }
  update();
  if (drawing.movable) controls.append(drawing.tools);
  if (!controls.childElementCount) controls.remove();
  return { choose: (c, i) => setters[c](i), redraw: drawing.redraw };
}
