// Sortable tables
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

// Charts that come ready: one spec for each combination of choices, the last choice fastest.
for (const { id, choices, legend, specs } of data.charts || []) {
  const flat = (picked) => picked.reduce((index, i, c) => index * choices[c].options.length + i, 0);
  drawn.push(panel(document.getElementById(`chart-${id}`), choices, legend, (picked) => specs[flat(picked)]));
}
let waiting = 0, last = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === last) return; // a phone's address bar comes and goes
  last = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(() => drawn.forEach((d) => d.redraw()), 120);
});
document.documentElement.dataset.ready = "yes";
