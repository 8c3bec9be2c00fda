// The glue of the page: rows for Tabulator, charts for Vega, and what a row rests on.
// Texts of a run are only ever set as textContent: nothing in them is markup.
"use strict";

(async () => {
  const $ = (selector, inside = document) => inside.querySelector(selector);
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const UNDEFINED = "—";

  /** An element with attributes and children; a text among them is shown as it is. */
  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.flat(Infinity).filter((child) => child != null && child !== ""));
    return made;
  }

  // ---- light and dark -------------------------------------------------------------------------

  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = { get: () => null, set: () => {} };
  try {
    const storage = window.localStorage;
    kept.get = () => storage.getItem("maxk-lab-theme");
    kept.set = (value) => storage.setItem("maxk-lab-theme", value);
  } catch { /* a page from disk may be forbidden to keep anything */ }

  function setTheme(theme) {
    root.dataset.theme = theme;
    $("#theme").textContent = theme === "dark" ? "☀ Light" : "☾ Dark";
    for (const plot of all(".plot[data-drawn]")) draw(plot);
  }
  $("#theme").addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    kept.set(theme);
    setTheme(theme);
  });
  dark.addEventListener("change", () => kept.get() || setTheme(dark.matches ? "dark" : "light"));
  setTheme(kept.get() || (dark.matches ? "dark" : "light"));

  // ---- the data -------------------------------------------------------------------------------

  async function read() {
    const bytes = Uint8Array.from(atob($("#data").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  /** The value of a packed column at a place; see `packed` in pack.py. */
  function at(column, place) {
    if (column == null) return undefined;
    if (Array.isArray(column)) return column[place];
    return "all" in column ? column.all : column.of[column.at[place]];
  }

  const data = await read();
  const several = data.runs.length > 1;
  const infinite = { inf: Infinity, "-inf": -Infinity };
  const numeric = (column) => column.kind === "number" || column.kind === "whole";
  const tables = {};

  /** The rows of a section, of all runs: objects with the values by the keys of their columns. */
  function rowsOf(section) {
    const columns = data.columns[section];
    const rows = [];
    data.runs.forEach((run, number) => {
      const table = run.tables[section];
      if (!table) return;
      let cell = offset(run, section);
      const fallen = Object.fromEntries(
        Object.entries(table.fallen).map(([key, places]) => [key, new Set(places)]));
      for (let place = 0; place < table.rows; place++) {
        const row = { _id: rows.length, _run: number, _place: place, _first: cell, _fallen: [], run: run.name };
        cell += at(table.seeds, place).length;
        for (const [key, packed] of Object.entries(table.values)) {
          const value = at(packed, place);
          row[key] = infinite[value] ?? value ?? null;
        }
        for (const key in fallen) if (fallen[key].has(place)) row._fallen.push(key);
        row._words = words(row, columns, table.cells[place]);
        rows.push(row);
      }
    });
    return rows;
  }

  /** The place of the first cell of a section among the cells of a run. */
  function offset(run, section) {
    let count = 0;
    for (const [name, table] of Object.entries(run.tables)) {
      if (name === section) break;
      for (let place = 0; place < table.rows; place++) count += at(table.seeds, place).length;
    }
    return count;
  }

  /** The words by which the search finds a row: those that say which row it is, and its cells. */
  function words(row, columns, cells) {
    const found = { texts: several ? [row.run] : [], exact: [], cells: cells.split(" ") };
    for (const column of columns.filter((one) => one.axis)) {
      const value = row[column.key];
      if (value == null) continue;
      found[typeof value === "string" ? "texts" : "exact"].push(String(value));
      found.exact.push(`${column.key}=${value}`, `${column.heading}=${value}`);
    }
    return Object.fromEntries(Object.entries(found).map(([key, list]) => [key, list.map((word) => word.toLowerCase())]));
  }

  const reasons = (section, row) => at(data.runs[row._run].tables[section].undefined, row._place) || {};
  /** Why a number of a row is not there; one reason may hold for all of them. */
  const why = (section, row, column) => {
    const told = reasons(section, row);
    return row[column.key] == null && numeric(column) ? told[column.key] ?? told.all : undefined;
  };

  // ---- numbers as the other formats write them ------------------------------------------------

  /** A size that lies in the middle between two of so many digits as the even one of them, as Python rounds it. */
  function settled(size, digits) {
    // These are all digits of a number in the middle.
    const [mantissa, exponent] = size.toExponential(60).split("e");
    const kept = mantissa.slice(0, digits + 1);
    return /^50*$/.test(mantissa.slice(digits + 1)) && /[02468]$/.test(kept) ? Number(`${kept}e${exponent}`) : size;
  }

  /** Three significant digits, as `number` in document.py. */
  function number(value) {
    if (value == null || Number.isNaN(value)) return UNDEFINED;
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const size = Math.abs(value), sign = value < 0 ? "-" : "";
    if (size !== 0 && (size < 1e-3 || size >= 1e5)) {
      return sign + settled(size, 3).toExponential(2).replace(/e([+-])(\d)$/, (_, way, digit) => `e${way}0${digit}`);
    }
    if (size < 999.5) return sign + settled(size, 3).toPrecision(3);
    return sign + settled(size, Math.floor(size).toString().length).toFixed(0);
  }

  /** The text of a value of a row: a number with its interval, a word, — where there is none. */
  function shown(column, row) {
    const value = row[column.key];
    if (value == null || value === "") return numeric(column) ? UNDEFINED : "";
    if (column.kind === "flag") return column.heading !== "★" ? (value ? "yes" : "no") : value ? "★" : "";
    if (column.kind !== "number") return String(value);
    if (!column.ends) return number(value);
    const low = row[`${column.key}_low`], high = row[`${column.key}_high`];
    const mark = row._fallen.includes(column.key) ? " †" : "";
    return `${number(value)} [${number(low)}, ${number(high)}]${mark}`;
  }

  // ---- definitions ----------------------------------------------------------------------------

  function definition(told, title) {
    const better = { lower: "lower is better", higher: "higher is better" }[told.better];
    const about = told.about ? `its interval is about ${told.about}` : null;
    const rest = [told.unit ? `unit: ${told.unit}` : null, better, about].filter(Boolean).join(" · ");
    return element("div", { class: "tip" },
      element("b", {}, title),
      told.meaning ? element("span", {}, told.meaning) : null,
      told.formula ? element("code", {}, told.formula) : null,
      rest ? element("span", {}, rest) : null,
      told.source ? element("span", { class: "quiet" }, `source: ${told.source}`) : null);
  }

  const explained = (told) => Boolean(told && (told.meaning || told.formula));

  function cellTip(section, column, row) {
    const value = row[column.key];
    const name = data.names[column.key]?.[value];
    if (explained(name)) return definition(name, value);
    if (value == null) {
      const reason = why(section, row, column);
      return reason ? element("div", { class: "tip" }, element("b", {}, "No value"), element("span", {}, reason)) : "";
    }
    if (!column.ends) return "";
    const mark = row._fallen.includes(column.key)
      ? "† about these instances: of others like them it cannot be told" : null;
    return element("div", { class: "tip" },
      element("b", {}, `${column.heading}: ${value}`),
      element("span", {}, `${100 * data.level} % interval: ${row[`${column.key}_low`] ?? UNDEFINED} to ${row[`${column.key}_high`] ?? UNDEFINED}`),
      mark ? element("span", {}, mark) : null);
  }

  // ---- the table ------------------------------------------------------------------------------

  const NUMBER = String.raw`([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)`;
  const BOUND = new RegExp(`^(<=|>=|<|>|≤|≥|=)?\\s*${NUMBER}$`);
  const RANGE = new RegExp(`^${NUMBER}\\s*\\.\\.\\s*${NUMBER}$`);
  const THOUSANDS = /(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])/g;
  const HOLDS = {
    "<": (value, end) => value < end, "<=": (value, end) => value <= end, "≤": (value, end) => value <= end,
    ">": (value, end) => value > end, ">=": (value, end) => value >= end, "≥": (value, end) => value >= end,
    "=": (value, end) => value === end,
  };

  /** What is asked of a number by `8`, `8, 16`, `<= 0.5`, `> 1,000` or `1..5`, one of which is to hold; null if none of these. */
  function asked(written) {
    const text = written.toLowerCase().replaceAll("−", "-").replace(THOUSANDS, (digits) => digits.replaceAll(",", ""));
    const found = text.split(",").map((word) => word.trim()).filter(Boolean).map((word) => {
      const bound = word.match(BOUND), range = word.match(RANGE);
      if (bound) return (value) => HOLDS[bound[1] ?? "="](value, Number(bound[2]));
      return range && ((value) => Number(range[1]) <= value && value <= Number(range[2]));
    });
    return found.includes(null) ? null : found;
  }

  /** Whether a number fits what is written above its column; any does while that is not understood. */
  function fitsNumber(written, value) {
    const found = asked(String(written));
    return !found?.length || (typeof value === "number" && found.some((holds) => holds(value)));
  }

  /** Whether a text has one of the words that are written above its column. */
  function fitsText(written, value) {
    const found = String(written).toLowerCase().split(",").map((word) => word.trim()).filter(Boolean);
    return !found.length || found.some((word) => String(value ?? "").toLowerCase().includes(word));
  }

  // Made once: a thousand times faster than a comparison that makes its own.
  const { compare } = new Intl.Collator("en", { numeric: true });

  /** Undefined values last, whichever way the others go. */
  function ordered(a, b, rowA, rowB, column, direction) {
    const lost = (value) => value == null || value === "";
    if (lost(a) || lost(b)) {
      if (lost(a) && lost(b)) return 0;
      return (lost(a) ? 1 : -1) * (direction === "asc" ? 1 : -1);
    }
    if (typeof a === "string" || typeof b === "string") return compare(String(a), String(b));
    return a - b;
  }

  const WRITTEN = "Write 8, or 8, 16, or < 0.5, or 1..5.";
  /** The filter above a column: a choice where there are few values, else a text. */
  function filterOf(column, rows) {
    const values = [...new Set(rows.map((row) => row[column.key]).filter((value) => value != null))];
    if (values.length < 2) return null;
    const few = column.kind !== "number" && values.length <= 15;
    return (cell, onRendered, success) => {
      const label = `Filter ${column.heading}`;
      if (!few) {
        const input = element("input", { type: "search", "aria-label": label });
        input.addEventListener("input", () => {
          const lost = numeric(column) && asked(input.value) === null;
          input.setAttribute("aria-invalid", String(lost));
          input.title = lost ? `Not understood, and so all rows are shown. ${WRITTEN}` : "";
          success(input.value);
        });
        input.addEventListener("keydown", (event) => event.stopPropagation());
        return input;
      }
      values.sort((a, b) => ordered(a, b, null, null, null, "asc"));
      const choice = element("select", { "aria-label": label }, element("option", { value: "" }, "all"),
        values.map((value) => element("option", { value: JSON.stringify(value) }, shown(column, { [column.key]: value }) || `no ${column.heading}`)));
      choice.addEventListener("change", () => success(choice.value));
      return choice;
    };
  }

  const fits = (column) => (written, value) => {
    try {
      const exact = JSON.parse(written);
      if (typeof exact === typeof value) return exact === value;
    } catch { /* it was typed */ }
    return (numeric(column) ? fitsNumber : fitsText)(written, value);
  };

  function columnOf(section, column, rows) {
    const filter = filterOf(column, rows);
    return {
      field: column.key,
      title: column.heading,
      visible: column.first,
      hozAlign: numeric(column) ? "right" : "left",
      headerHozAlign: "left",
      minWidth: 64,
      sorter: ordered,
      headerSortStartingDir: "asc",
      titleFormatter: () => element("span", { class: explained(column) ? "defined" : "" }, column.heading),
      headerTooltip: explained(column) ? () => definition(column, column.heading) : false,
      tooltip: (event, cell) => cellTip(section, column, cell.getData()),
      formatter: (cell) => {
        const row = cell.getData();
        const text = shown(column, row);
        const tip = explained(data.names[column.key]?.[row[column.key]]) || why(section, row, column);
        return element("span", { class: [tip ? "defined" : "", text === UNDEFINED ? "gone" : ""].join(" ").trim() }, text);
      },
      formatterPrint: (cell) => document.createTextNode(shown(column, cell.getData())),
      ...(filter && { headerFilter: filter, headerFilterFunc: fits(column), headerFilterLiveFilter: false,
        // The library sets this over any hint of the field's own.
        headerFilterPlaceholder: numeric(column) ? "< 0.5" : "a word" }),
    };
  }

  function build(section, panel) {
    const rows = rowsOf(section);
    const run = { key: "run", heading: "run", kind: "text", axis: true, first: true, ends: false };
    const columns = several ? [run, ...data.columns[section]] : data.columns[section];
    const grid = new Tabulator($(".grid", panel), {
      data: rows,
      columns: columns.map((column) => columnOf(section, column, rows)),
      index: "_id",
      nestedFieldSeparator: false,
      layout: "fitDataFill",
      maxHeight: "75vh",
      movableColumns: true,
      placeholder: "No row matches; clear the filters to see all.",
      printAsHtml: true,
      printRowRange: "active",
      rowFormatter: (row) => {
        const at = row.getElement();
        at.tabIndex = 0;
        at.setAttribute("aria-label", "Row: Enter shows its cells");
      },
    });
    tables[section] = { grid, rows, columns, built: false };
    grid.on("tableBuilt", () => {
      tables[section].built = true;
      for (const column of grid.getColumns()) reachable(grid, column);
      filter(section);
      panel.dataset.ready = "true";
    });
    grid.on("dataFiltered", (filters, left) => section === current() && count(left.length, rows.length));
    grid.on("rowClick", (event, row) => open(section, row.getData()));
    $(".grid", panel).addEventListener("keydown", (event) => {
      const row = event.target.closest(".tabulator-row");
      if (!row || event.target !== row) return;
      const beside = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
      if (event.key === "Enter") open(section, grid.getRow(row).getData());
      else if (beside) beside.focus();
      else return;
      event.preventDefault();
    });
  }

  /** A heading that sorts by Enter, too. */
  function reachable(grid, column) {
    const heading = column.getElement();
    heading.tabIndex = 0;
    heading.addEventListener("keydown", (event) => {
      if (event.target !== heading || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      const [sorted] = grid.getSorters();
      const again = sorted?.field === column.getField() && sorted.dir === "asc";
      grid.setSort(column.getField(), again ? "desc" : "asc");
    });
  }

  const current = () => $('[role="tab"][aria-selected="true"]')?.dataset.section;
  const count = (left, whole) => { $("#count").textContent = left === whole ? `${whole} rows` : `${left} of ${whole} rows`; };

  /** Every word of the search is in the row: in a text of it, or it is a number, an axis or the beginning of a cell's id. */
  function filter(section) {
    const { grid, built } = tables[section];
    if (!built) return;
    const asked = $("#search").value.toLowerCase().replace(/\s*=\s*/g, "=").split(/[\s,]+/).filter(Boolean);
    grid.setFilter(({ _words: { texts, exact, cells } }) => asked.every((word) => exact.includes(word)
      || (!word.includes("=") && (texts.some((own) => own.includes(word)) || cells.some((id) => id.startsWith(word))))));
  }

  function select(tab, focus = false) {
    for (const other of all('[role="tab"]')) {
      const is = other === tab;
      other.setAttribute("aria-selected", String(is));
      other.tabIndex = is ? 0 : -1;
      $(`#${other.getAttribute("aria-controls")}`).hidden = !is;
    }
    if (focus) tab.focus();
    const section = tab.dataset.section, panel = $(`#${tab.getAttribute("aria-controls")}`);
    if (!tables[section]) build(section, panel);
    else if (tables[section].built) {
      tables[section].grid.redraw(true);
      filter(section);
    }
    fillChooser(section);
  }

  function fillChooser(section) {
    const { grid, columns } = tables[section];
    const boxes = columns.map((column) => {
      const box = element("input", { type: "checkbox", value: column.key });
      box.checked = column.first;
      if (tables[section].built) box.checked = grid.getColumn(column.key).isVisible();
      box.addEventListener("change", () => grid[box.checked ? "showColumn" : "hideColumn"](column.key));
      return [column, box];
    });
    const set = (wanted) => () => {
      grid.blockRedraw();
      for (const [column, box] of boxes) {
        box.checked = wanted(column);
        grid[box.checked ? "showColumn" : "hideColumn"](column.key);
      }
      grid.restoreRedraw();
    };
    const labels = boxes.map(([column, box]) =>
      element("label", { title: column.meaning || column.formula || false }, box, ` ${column.heading}`));
    const find = element("input", { type: "search", placeholder: "Find a column", "aria-label": "Find a column", autocomplete: "off" });
    find.addEventListener("input", () => boxes.forEach(([column], number) => {
      labels[number].hidden = !`${column.key} ${column.heading}`.toLowerCase().includes(find.value.trim().toLowerCase());
    }));
    $("#chooser .choices").replaceChildren(
      element("p", {}, find,
        element("button", { type: "button", onclick: set((column) => column.first) }, "As at first"),
        element("button", { type: "button", onclick: set(() => true) }, "All")),
      element("div", { class: "names" }, labels));
  }

  // ---- copies of the view ---------------------------------------------------------------------

  function view() {
    const { grid, columns } = tables[current()];
    const visible = grid.getColumns().filter((column) => column.isVisible()).map((column) => column.getField());
    return {
      rows: grid.getData("active"),
      columns: visible.map((key) => columns.find((column) => column.key === key)),
    };
  }

  const marks = new RegExp([...Object.keys(data.latex)].sort((a, b) => b.length - a.length)
    .map((letter) => letter.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|") + "|[^\\0-\\u017f]", "gu");
  const latexText = (text) => text.replace(marks, (letter) =>
    data.latex[letter] ?? `[U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

  function asLatex() {
    const { rows, columns } = view();
    const line = (texts) => `{}${texts.map(latexText).join(" & ")} \\\\`;
    return ["% \\usepackage{booktabs}",
      `\\begin{tabular}{${columns.map((column) => (numeric(column) ? "r" : "l")).join("")}}`, "\\toprule",
      line(columns.map((column) => column.heading)), "\\midrule",
      ...rows.map((row) => line(columns.map((column) => shown(column, row)))),
      "\\bottomrule", "\\end{tabular}", ""].join("\n");
  }

  function asCsv() {
    const { rows, columns } = view();
    const keys = columns.flatMap((column) => (column.ends ? ["", "_low", "_high"] : [""]).map((end) => column.key + end));
    const text = (value) => {
      if (value == null) return "";
      let told = String(value);
      if (typeof value === "string" && data.formula.some((mark) => told.trimStart().startsWith(mark))) told = `'${told}`;
      return /[",\n\r]/.test(told) ? `"${told.replaceAll('"', '""')}"` : told;
    };
    return [keys, ...rows.map((row) => keys.map((key) => row[key]))].map((line) => line.map(text).join(",")).join("\n") + "\n";
  }

  let silence;
  function say(text) {
    const said = $("#said");
    said.textContent = text;
    said.classList.add("seen");
    clearTimeout(silence);
    silence = setTimeout(() => said.classList.remove("seen"), 2500);
  }

  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = element("textarea", { "aria-hidden": "true" });
      area.value = text;
      (document.querySelector("dialog[open]") || document.body).append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    say(`Copied ${what}.`);
  }

  // ---- what a row rests on --------------------------------------------------------------------

  /** Settings as YAML: blocks for mappings, JSON (which is YAML) for everything else. */
  function yaml(value, indent = "") {
    return Object.entries(value).map(([key, inner]) => {
      const name = /^[A-Za-z_][\w.@-]*$/.test(key) ? key : JSON.stringify(key);
      const block = inner && typeof inner === "object" && !Array.isArray(inner) && Object.keys(inner).length;
      return block ? `${indent}${name}:\n${yaml(inner, `${indent}  `)}` : `${indent}${name}: ${scalar(inner)}\n`;
    }).join("");
  }

  const plainWord = /^[A-Za-z][\w ./@+-]*$/;
  const reserved = /^(true|false|null|yes|no|on|off|y|n)$/i;
  const scalar = (value) => typeof value === "string" && plainWord.test(value) && !reserved.test(value) && value.trim() === value
    ? value : JSON.stringify(value);

  function facts(pairs, look = "facts") {
    const told = pairs.filter(([, value]) => value != null && value !== "");
    return element("dl", { class: look }, told.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }

  function origin(told) {
    const commit = (git) => git?.commit ? `${git.commit}${git.dirty ? " (with uncommitted changes)" : ""}` : null;
    const versions = Object.entries(told.versions || {}).filter(([, version]) => version != null)
      .map(([name, version]) => `${name} ${version}`).join(", ");
    const rest = Object.entries(told).filter(([key]) => !["git", "project", "versions", "platform", "started"].includes(key))
      .map(([key, value]) => [key.replaceAll("_", " "), value == null ? null : typeof value === "string" ? value : JSON.stringify(value)]);
    return facts([["git commit", commit(told.git)], ["project commit", commit(told.project)], ["versions", versions],
      ["platform", told.platform], ["started", told.started], ...rest]);
  }

  const command = (text) => element("button",
    { type: "button", title: text, "aria-label": `Copy ${text}`, onclick: () => copy(text, `“${text}”`) }, "Copy command");
  const time = (seconds) => seconds == null ? "" : new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, 19) + " UTC";
  const lasted = (seconds) => seconds == null ? "" : `${number(seconds)} s`;

  function open(section, row) {
    const run = data.runs[row._run], table = run.tables[section], told = run.cells;
    const columns = tables[section].columns;
    const seeds = at(table.seeds, row._place), ids = (table.cells[row._place] || "").split(" ");
    const places = seeds.map((_, number) => row._first + number);
    const title = columns.filter((column) => column.axis && row[column.key] != null && column.key !== "run")
      .map((column) => `${column.heading} ${shown(column, row)}`).join(" · ");
    const missing = reasons(section, row);
    const values = columns.filter((column) => !column.axis && row[column.key] != null && row[column.key] !== "")
      .map((column) => [column.heading, shown(column, row)]);
    const spec = Object.fromEntries(Object.entries(table.spec).map(([key, packed]) => [key, at(packed, row._place)])
      .filter(([, value]) => value != null));
    const cells = seeds.map((seed, number) => {
      const place = places[number], status = at(told.status, place);
      const field = (name, look, ...of) => element("td", { class: look, "data-name": name }, ...of);
      return element("tr", {}, field("seed", "number", String(seed)), field("cell", "", element("code", {}, ids[number])),
        field("status", "", element("span", { class: `badge ${status.split(":")[0]}` }, status)),
        field("took", "number", lasted(at(told.seconds, place))), field("finished", "", time(at(told.finished, place))),
        field("all of its numbers", "", command(`maxk-lab show ${ids[number]}`)));
    });
    const errors = places.map((place, number) => [seeds[number], at(told.error, place)]).filter(([, error]) => error);
    const origins = new Map();
    places.forEach((place, number) => {
      const key = at(told.origin, place);
      if (key != null) origins.set(key, [...(origins.get(key) || []), seeds[number]]);
    });
    const heading = (text) => element("h4", {}, text);
    const names = Object.entries(data.names).map(([axis, names]) => [axis, row[axis], names[row[axis]]]).filter(([, , known]) => explained(known));
    $("#details").replaceChildren(
      element("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => $("#details").close() }, "✕"),
      element("h3", { id: "details-title" }, (several ? `${run.name}: ` : "") + title),
      names.length ? facts(names.map(([axis, name, known]) => [`${axis} ${name}`, definition(known, "")])) : "",
      ...(cells.length ? [heading("Cells"), element("div", { class: "wide" }, element("table", { class: "sheet cells" },
        element("thead", {}, element("tr", {}, ["seed", "cell", "status", "took", "finished", "all of its numbers"].map((text) => element("th", { scope: "col" }, text)))),
        element("tbody", {}, cells)))] : []),
      ...errors.flatMap(([seed, error]) => [heading(`Error of seed ${seed}`), element("pre", {}, error)]),
      ...(values.length ? [heading("Numbers of this row"), facts(values, "facts numbers")] : []),
      ...(Object.keys(missing).length ? [heading(`Without a value (${UNDEFINED})`),
        facts(Object.entries(missing).map(([key, reason]) => [columns.find((column) => column.key === key)?.heading || (key === "all" ? "all numbers" : key), reason]))] : []),
      ...(Object.keys(spec).length ? [heading("Settings of these cells"), element("pre", {}, yaml(spec))] : []),
      ...[...origins].flatMap(([key, of]) => [heading(`Measured with (seed${of.length > 1 ? "s" : ""} ${of.join(", ")})`), origin(told.origins[key])]));
    $("#details").showModal();
    $("#details").scrollTop = 0;
  }
  $("#details").addEventListener("click", (event) => event.target === event.currentTarget && event.currentTarget.close());

  // ---- figures --------------------------------------------------------------------------------

  const narrow = matchMedia("(max-width: 600px)");
  narrow.addEventListener("change", () => all(".plot[data-drawn]").forEach(draw));

  /** The same chart with its panels below each other, as a phone has room for. */
  function stacked(spec) {
    const parts = spec.vconcat ?? (spec.hconcat ? null : undefined);
    if (spec.hconcat) return { ...spec, hconcat: undefined, vconcat: spec.hconcat.map(stacked) };
    if (parts) return { ...spec, vconcat: parts.map(stacked) };
    return spec.facet ? { ...spec, columns: 1 } : spec;
  }

  /** Draw a chart in the colours and the width of the page, again where it was drawn before. */
  function draw(plot) {
    const spec = data.figures[plot.dataset.figure];
    plot.dataset.drawn = "true";
    const config = data.themes[root.dataset.theme];
    vegaEmbed(plot, { ...(narrow.matches ? stacked(spec) : spec), config: { ...config, background: null } },
      { ast: true, actions: false, renderer: "svg" }).catch((error) => { plot.textContent = String(error); });
  }

  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "600px" });
  for (const plot of all(".plot")) seen.observe(plot);
  let before = null;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    if (before === "dark") setTheme("light");
    all(".plot:not([data-drawn])").forEach(draw);
  });
  addEventListener("afterprint", () => before === "dark" && setTheme("dark"));

  // ---- the rest -------------------------------------------------------------------------------

  const defined = [...Object.values(data.columns).flat(), ...Object.values(data.names).flatMap((names) =>
    Object.entries(names).map(([name, told]) => ({ ...told, heading: name })))].filter(explained);
  const once = [...new Map(defined.map((told) => [told.heading, told])).values()];
  $("#definitions dl").append(...once.flatMap((told) => {
    const parts = all(":scope > :not(b)", definition(told, told.heading));
    return [element("dt", {}, told.heading), element("dd", {}, parts)];
  }));

  const tabs = all('[role="tab"]');
  tabs.forEach((tab, number) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) select(tabs[(number + step + tabs.length) % tabs.length], true);
    });
  });
  if (tabs.length) {
    select(tabs[0]);
    let pause;
    $("#search").addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(() => filter(current()), 120);
    });
    $("#clear").addEventListener("click", () => {
      $("#search").value = "";
      const { grid } = tables[current()];
      grid.clearHeaderFilter();
      for (const field of all(".tabulator-header-filter select, .tabulator-header-filter input")) {
        field.value = "";
        field.removeAttribute("aria-invalid");
        field.title = "";
      }
      filter(current());
    });
    $("#copy-latex").addEventListener("click", () => copy(asLatex(), "the rows as LaTeX"));
    $("#copy-csv").addEventListener("click", () => copy(asCsv(), "the rows as CSV"));
  }
  addEventListener("keydown", (event) => {
    const writing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && $("#search")) {
      event.preventDefault();
      $("#search").focus();
    } else if (event.key === "Escape") {
      $("#chooser")?.removeAttribute("open");
      if (event.target.id === "search") event.target.blur();
    }
  });
  addEventListener("click", (event) => event.target.closest?.("#chooser") || $("#chooser")?.removeAttribute("open"));
  root.dataset.ready = "true";
})();
