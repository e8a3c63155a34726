"use strict";
// Everything works on the page as it was sent: sorting, filtering, the slice browser, and news of a live run.

const state = new Map(); // what the reader chose, by table, so that it outlives news

function number(cell) {
  const value = cell.dataset.value;
  return value === undefined || value === "" ? NaN : Number(value);
}

function sortTable(table, column, descending) {
  const body = table.tBodies[0];
  const numeric = table.tHead.rows[0].cells[column].dataset.numeric === "true";
  const rows = [...body.rows];
  rows.sort((a, b) => {
    const [left, right] = [a.cells[column], b.cells[column]];
    let order;
    if (numeric) {
      const [x, y] = [number(left), number(right)];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // gaps stay last
      order = x - y;
    } else {
      order = left.textContent.localeCompare(right.textContent, "en", { numeric: true });
    }
    return descending ? -order : order;
  });
  body.append(...rows);
  [...table.tHead.rows[0].cells].forEach((head, index) => {
    if (index === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

function filterTable(table, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const content = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
    row.hidden = !words.every((word) => content.includes(word));
    if (!row.hidden) shown += 1;
  }
  const count = document.querySelector(`[data-count-of="${table.id}"]`);
  if (count) count.textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
}

function prepareTables() {
  for (const table of document.querySelectorAll("table.sortable")) {
    const chosen = state.get(table.id) || {};
    state.set(table.id, chosen);
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") === "ascending";
        Object.assign(chosen, { column, descending });
        sortTable(table, column, descending);
      });
    });
    const field = document.querySelector(`[data-filter-of="${table.id}"]`);
    field.value = chosen.text || "";
    field.addEventListener("input", () => {
      chosen.text = field.value;
      filterTable(table, field.value);
    });
    if (chosen.column !== undefined) sortTable(table, chosen.column, chosen.descending);
    filterTable(table, field.value);
  }
}

// The slice browser. Fields come as deflated bytes: 0 to 254 on a scale, 255 where there is nothing.

const unpacked = new Map();

async function unpack(text) {
  if (!unpacked.has(text)) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    unpacked.set(text, new Uint8Array(await new Response(stream).arrayBuffer()));
  }
  return unpacked.get(text);
}

function colours(text) {
  const bytes = atob(text);
  return (level) => [0, 1, 2].map((channel) => bytes.charCodeAt(3 * level + channel));
}

function drawSlice(canvas, values, shape, cut, index, palette, axes) {
  // The first remaining axis runs across, the second up (depth: down); axes beyond that stand at their middle.
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  const rest = shape.map((_, axis) => axis).filter((axis) => shape.length === 2 || axis !== cut);
  const [across, up] = rest;
  let start = shape.length === 2 ? 0 : index * strides[cut];
  for (const axis of rest.slice(2)) start += Math.floor(shape[axis] / 2) * strides[axis];
  canvas.width = shape[across];
  canvas.height = shape[up];
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let row = 0; row < shape[up]; row += 1) {
    for (let column = 0; column < shape[across]; column += 1) {
      const level = values[start + column * strides[across] + (axes[up].down ? row : shape[up] - 1 - row) * strides[up]];
      const offset = 4 * (row * canvas.width + column);
      if (level === 255) continue;
      image.data.set([...palette(level), 255], offset);
    }
  }
  context.putImageData(image, 0, 0);
}

function drawBar(canvas, palette) {
  canvas.width = 255;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(255, 1);
  for (let level = 0; level < 255; level += 1) image.data.set([...palette(level), 255], 4 * level);
  context.putImageData(image, 0, 0);
}

function options(select, texts, chosen) {
  select.replaceChildren(...texts.map((text, value) => new Option(text, String(value))));
  select.value = String(Math.max(0, texts.indexOf(chosen)));
}

function prepareBrowser() {
  const browser = document.getElementById("browser");
  const album = JSON.parse(document.getElementById("album").textContent);
  if (!browser || !album.entries.length) return;
  const part = (name) => browser.querySelector(`[data-part="${name}"]`);
  const [setting, trial, method, axis, slice] = ["setting", "trial", "method", "axis", "slice"].map(part);
  const entry = () => album.entries.filter((item) => item.setting === setting.selectedOptions[0].text)[trial.value];
  const settings = [...new Set(album.entries.map((item) => item.setting))];

  function chooseSetting() {
    const chosen = settings[setting.value];
    const trials = album.entries.filter((item) => item.setting === chosen).map((item) => item.draw);
    options(trial, trials, trial.selectedOptions[0]?.text);
    chooseTrial();
  }
  function chooseTrial() {
    options(method, entry().methods.map((item) => item.name), method.selectedOptions[0]?.text);
    options(axis, entry().axes.map((item) => item.name), axis.selectedOptions[0]?.text ?? entry().axes.at(-1).name);
    chooseAxis();
  }
  function chooseAxis() {
    const size = entry().shape[axis.value];
    slice.max = String(size - 1);
    slice.value = String(Math.floor(size / 2));
    show();
  }
  async function show() {
    const item = entry();
    const estimate = item.methods[method.value];
    const [cut, index] = [Number(axis.value), Number(slice.value)];
    const along = item.axes[cut];
    const flat = item.shape.length === 2;
    const where = flat ? "" : `${along.name} ${along.at[index]}${along.unit ? ` ${along.unit}` : ""}`;
    part("where").textContent = where;
    slice.setAttribute("aria-valuetext", where);
    for (const control of [axis, slice]) control.parentElement.hidden = flat;
    const [field, error] = [colours(item.colours), colours(album.errorColours)];
    const fields = { truth: item.truth, observed: item.observed, estimate: estimate.values };
    const pictures = { ...fields, error: estimate.error, deviation: estimate.deviation };
    for (const [name, packed] of Object.entries(pictures)) {
      const canvas = part(name);
      canvas.closest("figure").hidden = packed === null;
      if (packed === null) continue;
      const values = await unpack(packed);
      drawSlice(canvas, values, item.shape, cut, index, name in fields ? field : error, item.axes);
      canvas.setAttribute("aria-label", `${name}, ${estimate.name}, ${item.setting}, ${item.draw}${where ? `, ${where}` : ""}`);
    }
    part("caption").textContent = estimate.name;
    part("score").textContent = estimate.score;
    drawBar(part("fieldbar"), field);
    drawBar(part("errorbar"), error);
    part("fieldlabel").textContent = item.label;
    part("low").textContent = item.low;
    part("high").textContent = item.high;
    part("errorlabel").textContent = item.errorLabel;
    part("errorlow").textContent = `-${item.largest}`;
    part("errorhigh").textContent = item.largest;
    browser.dataset.shown = `${item.setting}|${item.draw}|${estimate.name}|${cut}|${index}`;
  }
  options(setting, settings, settings[0]);
  setting.addEventListener("change", chooseSetting);
  trial.addEventListener("change", chooseTrial);
  method.addEventListener("change", show);
  axis.addEventListener("change", chooseAxis);
  slice.addEventListener("input", show);
  chooseSetting();
}

// A live page asks its own server for news and takes over the new parts; what the reader chose stays.

async function follow() {
  let version = "";
  for (;;) {
    try {
      const answer = await fetch(`news?have=${encodeURIComponent(version)}`);
      if (answer.status === 200) {
        version = answer.headers.get("X-Version");
        const open = [...document.querySelectorAll("details[open] > summary")].map((item) => item.textContent);
        const focus = document.activeElement?.dataset?.filterOf;
        document.getElementById("main").innerHTML = await answer.text();
        for (const item of document.querySelectorAll("details > summary")) {
          if (open.includes(item.textContent)) item.parentElement.open = true;
        }
        prepareTables();
        if (focus) document.querySelector(`[data-filter-of="${focus}"]`)?.focus();
      }
    } catch {
      const note = document.querySelector(".live");
      if (note) note.textContent = "The server has stopped; this is the last it said.";
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((item) => (item.open = true)));
prepareTables();
prepareBrowser();
if (document.body.dataset.live === "true") follow();
