"use strict";
// Everything works on the page as it was sent: light or dark, tables, the slice browser, and news of a live run.

function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A box for each name, checked unless it is among those left out.
function checklist(title, names, without, changed) {
  const boxes = names.map((name) => {
    const box = make("input", { type: "checkbox", checked: !without.has(name) });
    box.addEventListener("change", () => {
      if (box.checked) without.delete(name);
      else without.add(name);
      changed();
    });
    return make("label", {}, box, name);
  });
  return make("fieldset", {}, make("legend", { textContent: title }), ...boxes);
}

// Light or dark: as the system has it until the reader chooses.

function prepareTheme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const other = () => ((root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark" ? "light" : "dark");
  const say = () => { button.textContent = other() === "dark" ? "Dark mode" : "Light mode"; };
  try { // a page from disk may be kept from its own store
    const kept = localStorage.getItem("theme");
    if (kept) root.dataset.theme = kept;
  } catch { /* it stays as the system has it */ }
  button.addEventListener("click", () => {
    root.dataset.theme = other();
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* for this view alone */ }
    say();
  });
  system.addEventListener("change", say);
  button.hidden = false;
  say();
}

// Tables.

const chosen = new Map(); // how the reader sorted, filtered and hid, by table, so that it outlives news

function plain(cell) {
  return cell.textContent.trim().replace(/\s+/g, " ").toLowerCase();
}

function matcher(asked) {
  // "< 0.5" compares; all else is found where a word or a number begins: "5 %" is in "5 %", not in "15 %" or "0.5 %".
  const text = asked.trim().toLowerCase().replace(/\s+/g, " ").replace(/(\d)%/g, "$1 %");
  const [, sign, bound] = text.match(/^([<>]=?|=)\s*(-?[\d.]+(?:e[-+]?\d+)?)(?: ?%)?$/) ?? [];
  if (sign) {
    const holds = { "<": (x, y) => x < y, "<=": (x, y) => x <= y, ">": (x, y) => x > y, ">=": (x, y) => x >= y, "=": (x, y) => x === y };
    return (cell) => holds[sign](parseFloat(plain(cell)), Number(bound));
  }
  const escaped = text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const found = new RegExp((/^[\p{L}\p{N}]/u.test(text) ? "(?<![\\p{L}\\p{N}.])" : "") + escaped, "u");
  return (cell) => found.test(plain(cell));
}

function sortRows(table, column, descending) {
  const key = (row) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : cell.dataset.value === "" ? NaN : Number(cell.dataset.value);
  };
  const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
  rows.sort(([x], [y]) => {
    if (typeof x === "string" || typeof y === "string") {
      const order = String(x).localeCompare(String(y), "en", { numeric: true });
      return descending ? -order : order;
    }
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // gaps stay last
    return descending ? y - x : x === y ? 0 : x - y;
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
  table.dataset.sorted = "";
  [...table.tHead.rows[0].cells].forEach((head, index) => {
    if (index === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

function prepareTable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const names = heads.map((head) => head.textContent);
  const rows = [...table.tBodies[0].rows];
  const state = chosen.get(table.id) ?? { filters: {}, hidden: {}, rows: new Set() };
  chosen.set(table.id, state);
  const key = (row) => row.id || row.textContent; // the same after news
  const count = make("span", { className: "quiet", role: "status" });

  function show() {
    const tests = names.flatMap((name, column) => {
      const [asked, without] = [state.filters[name]?.trim(), state.hidden[name]];
      return [
        ...(asked ? [[column, matcher(asked)]] : []),
        ...(without?.size ? [[column, (cell) => !without.has(cell.textContent)]] : []),
      ];
    });
    let shown = 0;
    for (const row of rows) {
      row.hidden = state.rows.has(key(row)) || !tests.every(([column, holds]) => holds(row.cells[column]));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  }

  const filters = table.tHead.insertRow();
  heads.forEach((head, column) => {
    const name = names[column];
    const cell = filters.insertCell();
    cell.className = head.className;
    if (head.className === "chart") return;
    const sort = make("button", { type: "button", textContent: name });
    sort.addEventListener("click", () => {
      Object.assign(state, { column: name, descending: head.getAttribute("aria-sort") === "ascending" });
      sortRows(table, column, state.descending);
    });
    head.replaceChildren(sort);
    const field = make("input", { type: "search", autocomplete: "off", value: state.filters[name] ?? "" });
    field.setAttribute("aria-label", `Filter ${name}`);
    field.placeholder = head.className === "number" ? "< 1.5" : "filter";
    field.dataset.filter = name;
    field.addEventListener("input", () => {
      state.filters[name] = field.value;
      show();
    });
    cell.append(field);
  });

  for (const row of rows) {
    const button = make("button", { type: "button", className: "hide", title: "Hide this row" });
    button.setAttribute("aria-label", `Hide ${[...row.cells].slice(0, 3).map((cell) => cell.textContent).join(", ")}`);
    button.addEventListener("click", () => {
      const shown = [...table.tBodies[0].rows].filter((other) => !other.hidden);
      const next = shown[shown.indexOf(row) + 1] ?? shown[shown.indexOf(row) - 1];
      state.rows.add(key(row));
      show();
      next?.querySelector(".hide").focus();
    });
    row.cells[0].append(button);
  }

  const menu = make("details", {}, make("summary", { textContent: "Hide rows" }));
  heads.forEach((head, column) => {
    const levels = [...new Set(rows.map((row) => row.cells[column].textContent))];
    if (head.className !== "text" || levels.length < 2 || levels.length > 60) return;
    const hidden = (state.hidden[names[column]] ??= new Set());
    menu.append(checklist(names[column], levels, hidden, show));
  });
  const all = make("button", { type: "button", textContent: "Show all rows" });
  all.addEventListener("click", () => {
    state.filters = {};
    state.rows.clear();
    Object.values(state.hidden).forEach((levels) => levels.clear());
    table.tHead.querySelectorAll("input").forEach((field) => { field.value = ""; });
    menu.querySelectorAll("input").forEach((box) => { box.checked = true; });
    show();
  });
  table.closest(".scroll").before(make("div", { className: "controls" }, menu, all, count));
  if (names.includes(state.column)) sortRows(table, names.indexOf(state.column), state.descending);
  show();
}

function prepareTables() {
  document.querySelectorAll("table.sortable").forEach(prepareTable);
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

function levelsOf(values, shape, cut, index) {
  // The plane that is shown: the first remaining axis runs across, the second up; axes beyond stand at their middle.
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  const [across, up, ...rest] = planeAxes(shape, cut);
  const start = rest.reduce((sum, axis) => sum + Math.floor(shape[axis] / 2) * strides[axis], shape.length === 2 ? 0 : index * strides[cut]);
  return (column, row) => values[start + column * strides[across] + row * strides[up]];
}

function planeAxes(shape, cut) {
  return shape.map((_, axis) => axis).filter((axis) => shape.length === 2 || axis !== cut);
}

function paint(canvas, width, height, palette, level) {
  const small = make("canvas", { width, height });
  const image = new ImageData(width, height);
  for (let row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) {
      const value = level(column, row);
      if (value !== 255) image.data.set([...palette(value), 255], 4 * (row * width + column));
    }
  }
  small.getContext("2d").putImageData(image, 0, 0);
  const cell = Math.ceil(480 / width); // in pixels: a printer would blur a small picture
  Object.assign(canvas, { width: cell * width, height: cell * height });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  canvas.dataset.cell = cell;
}

function options(select, texts, wanted) {
  select.replaceChildren(...texts.map((text, value) => new Option(text, String(value))));
  select.value = String(Math.max(0, texts.indexOf(wanted)));
}

const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);
const MOST_SIDE_BY_SIDE = 6;

function prepareBrowser() {
  const browser = document.getElementById("browser");
  const album = JSON.parse(document.getElementById("album").textContent);
  if (!browser) return;
  const control = (name, text, element) => {
    element.dataset.part = name;
    return [element, make("label", {}, text, element)];
  };
  const [setting, settingLabel] = control("setting", "Setting", make("select"));
  const [trial, trialLabel] = control("trial", "Trial", make("select"));
  const [axis, axisLabel] = control("axis", "Cut along", make("select"));
  const [slice, sliceLabel] = control("slice", "Slice", make("input", { type: "range", min: "0", step: "1" }));
  const menu = make("details", {}, make("summary", { textContent: "Methods" }));
  const panels = make("div", { className: "panels", tabIndex: 0, role: "group" });
  panels.setAttribute("aria-label", "Slices side by side; arrow keys move the point whose values are shown");
  const caption = make("figcaption");
  const spoken = make("p", { className: "unseen", role: "status" });
  const scales = make("div", { className: "scales" });
  browser.append(
    make("div", { className: "controls" }, settingLabel, trialLabel, axisLabel, sliceLabel, menu),
    make("figure", {}, panels, scales, caption), spoken,
  );

  const settings = [...new Set(album.entries.map((item) => item.setting))];
  const of = (title) => album.entries.filter((item) => item.setting === title);
  const entry = () => of(settings[setting.value])[trial.value];
  const without = new Set(entryNames().slice(MOST_SIDE_BY_SIDE));
  const error = colours(album.errorColours);
  let point = null; // column and row of the plane, the row counted from above
  let view = null; // what is on the screen

  function entryNames() {
    return [...new Set(album.entries.flatMap((item) => item.methods.map((method) => method.name)))];
  }
  function chooseSetting() {
    options(trial, of(settings[setting.value]).map((item) => item.draw), trial.selectedOptions[0]?.text);
    chooseTrial();
  }
  function chooseTrial() {
    const axes = entry().axes.map((item) => item.name);
    options(axis, axes, axis.selectedOptions[0]?.text ?? axes.at(-1));
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
    const [cut, index] = [Number(axis.value), Number(slice.value)];
    const flat = item.shape.length === 2;
    const along = item.axes[cut];
    const where = flat ? "" : withUnit(`${along.name} ${along.at[index]}`, along.unit);
    const [across, up] = planeAxes(item.shape, cut);
    const field = colours(item.colours);
    const of = [field, item.low, item.high];
    const off = [error, -item.largest, item.largest];
    const columns = [
      [["truth", "truth", item.truth, of, ""], ["observation", "observed", item.observed, of, ""]],
      ...item.methods.filter((method) => !without.has(method.name)).map((method) => [
        [method.name, `estimate of ${method.name}`, method.values, of, method.score],
        ["error", `error of ${method.name}`, method.error, off, ""],
        ["deviation", `deviation of ${method.name}`, method.deviation, off, ""],
      ]),
    ];
    const [width, height] = [item.shape[across], item.shape[up]];
    const down = item.axes[up].down;
    const shown = [];
    const cells = [];
    const put = (element, row, column) => {
      element.style.gridArea = `${row} / ${column}`;
      cells.push(element);
    };
    for (const [column, parts] of columns.entries()) {
      for (const [row, [title, alt, packed, [palette, low, high], note]] of parts.entries()) {
        if (packed === null) continue;
        const level = levelsOf(await unpack(packed), item.shape, cut, index);
        const upright = (x, y) => level(x, down ? y : height - 1 - y);
        const canvas = make("canvas", { role: "img" });
        canvas.dataset.part = alt;
        canvas.setAttribute("aria-label", [alt, item.setting, item.draw, where].filter(Boolean).join(", "));
        paint(canvas, width, height, palette, upright);
        const value = make("span", { className: "value", textContent: note });
        const fixed = column === 0 ? " fixed" : "";
        put(make("div", { className: `name${fixed}` }, title, value), 3 * row + 1, column + 2);
        const plot = make("div", { className: `plot${fixed}` }, canvas);
        plot.style.aspectRatio = String(aspect(item, across, up));
        put(plot, 3 * row + 2, column + 2);
        if (row === parts.findLastIndex(([, , other]) => other !== null)) {
          put(make("div", { className: `ticks${fixed}` }, ...ends(item.axes[across]), titleOf(item.axes[across], "→")), 3 * row + 3, column + 2);
        }
        if (column === 0) {
          const at = make("div", { className: "at" }, ...(down ? ends(item.axes[up]) : ends(item.axes[up]).reverse()));
          // The label is turned to be read from below: an arrow to its left points down.
          put(make("div", { className: "axis fixed" }, titleOf(item.axes[up], down ? "←" : "→"), at), 3 * row + 2, 1);
        }
        shown.push({ alt, value, note, low, high, upright });
      }
    }
    panels.replaceChildren(...cells);
    panels.style.setProperty("--w", `${100 / width}%`);
    panels.style.setProperty("--h", `${100 / height}%`);
    view = { item, across, up, width, height, down, shown };
    scales.replaceChildren(
      scale(field, item.label, String(item.low), String(item.high)),
      scale(error, item.errorLabel, `≤ ${-item.largest}`, `≥ ${item.largest}`),
    );
    caption.textContent = [
      "Above: truth and estimates; below: observation, errors (estimate minus truth) and deviations",
      item.setting, item.draw, where, down ? `${item.axes[up].name} grows downwards` : "",
    ].filter(Boolean).join("; ") + ".";
    for (const label of [axisLabel, sliceLabel]) label.hidden = flat;
    sliceLabel.firstChild.textContent = `Slice: ${where}`;
    slice.setAttribute("aria-valuetext", where);
    pointAt(point && { x: Math.min(point.x, width - 1), y: Math.min(point.y, height - 1) });
    browser.dataset.shown = `${item.setting}|${item.draw}|${cut}|${index}`;
  }

  function pointAt(next) {
    point = next;
    panels.classList.toggle("pointed", point !== null);
    if (point === null) {
      for (const { value, note } of view.shown) value.textContent = note;
      return;
    }
    const { item, across, up, width, height, down, shown } = view;
    panels.style.setProperty("--x", `${(100 * point.x) / width}%`);
    panels.style.setProperty("--y", `${(100 * point.y) / height}%`);
    for (const { value, low, high, upright } of shown) {
      value.textContent = valueOf(upright(point.x, point.y), Number(low), Number(high), item.unit);
    }
    const [x, y] = [item.axes[across], item.axes[up]];
    const row = down ? point.y : height - 1 - point.y;
    const at = `${withUnit(`${x.name} ${x.at[point.x]}`, x.unit)}, ${withUnit(`${y.name} ${y.at[row]}`, y.unit)}`;
    spoken.textContent = `${at}: ${shown.map(({ alt, value }) => `${alt} ${value.textContent}`).join(", ")}`;
    panels.title = at;
  }

  panels.addEventListener("pointermove", (event) => {
    const plot = event.target.closest(".plot");
    if (!plot || !view) return;
    const box = plot.getBoundingClientRect();
    const index = (at, size, cells) => Math.max(0, Math.min(cells - 1, Math.floor((at / size) * cells)));
    pointAt({ x: index(event.clientX - box.left, box.width, view.width), y: index(event.clientY - box.top, box.height, view.height) });
  });
  panels.addEventListener("pointerleave", () => view && pointAt(null));
  panels.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step || !view) return;
    event.preventDefault();
    const from = point ?? { x: Math.floor(view.width / 2), y: Math.floor(view.height / 2) };
    const inside = (at, cells) => Math.max(0, Math.min(cells - 1, at));
    pointAt({ x: inside(from.x + step[0], view.width), y: inside(from.y + step[1], view.height) });
  });
  const names = entryNames();
  menu.append(checklist("side by side", names, without, show));
  menu.hidden = names.length < 2;
  options(setting, settings, settings[0]);
  setting.addEventListener("change", chooseSetting);
  trial.addEventListener("change", chooseTrial);
  axis.addEventListener("change", chooseAxis);
  slice.addEventListener("input", show);
  chooseSetting();
}

function ends(axis) {
  const ticks = [...new Set([0, Math.floor((axis.at.length - 1) / 2), axis.at.length - 1])];
  return ticks.map((index) => make("span", { textContent: axis.at[index] }));
}

function titleOf(axis, arrow) {
  return make("span", { className: "title", textContent: `${axis.unit ? `${axis.name} (${axis.unit})` : axis.name} ${arrow}` });
}

function aspect(item, across, up) {
  // True to scale where both axes have one unit, square otherwise, and never a sliver.
  const [x, y] = [item.axes[across], item.axes[up]].map(({ unit, at }) => [unit, Math.abs(at.at(-1) - at[0]) || 1]);
  return x[0] === y[0] ? Math.max(0.5, Math.min(2, x[1] / y[1])) : 1;
}

function valueOf(level, low, high, unit) {
  if (level === 255) return "none";
  const digits = Math.max(0, 2 - Math.floor(Math.log10((high - low) / 2)));
  const text = (low + (level / 254) * (high - low)).toFixed(Math.min(digits, 20)).replace("-", "−");
  const beyond = level === 0 ? "≤ " : level === 254 ? "≥ " : "";
  return withUnit(beyond + text, unit);
}

function scale(palette, label, low, high) {
  const canvas = make("canvas", { className: "bar-scale", role: "presentation" });
  paint(canvas, 255, 1, palette, (column) => column);
  const numbers = [low, high].map((text) => make("span", { textContent: text.replace("-", "−") }));
  return make("div", { className: "quiet" }, label, canvas, make("div", { className: "ends" }, ...numbers));
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
        const field = document.activeElement?.dataset?.filter;
        const table = document.activeElement?.closest("table")?.id;
        document.getElementById("main").innerHTML = await answer.text();
        prepareTables();
        for (const item of document.querySelectorAll("details > summary")) {
          if (open.includes(item.textContent)) item.parentElement.open = true;
        }
        if (field) document.querySelector(`#${table} [data-filter="${CSS.escape(field)}"]`)?.focus();
      }
      const going = document.getElementById("to-go");
      const words = answer.headers.get("X-To-Go");
      if (going && words !== null) going.textContent = words;
    } catch {
      const note = document.querySelector(".live");
      if (note) note.textContent = "The server has stopped; this is the last it said.";
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

prepareTheme();
prepareTables();
prepareBrowser();
if (document.body.dataset.live === "true") follow();
