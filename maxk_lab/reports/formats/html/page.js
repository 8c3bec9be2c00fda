// The glue of the page: rows for Tabulator, charts for Vega, and what a row rests on.
// Texts of a run are only ever set as textContent: nothing in them is markup.
"use strict";

(async () => {
  const $ = (selector, inside = document) => inside.querySelector(selector);
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

  /** An element with attributes and children; a text among them is shown as it is. */
  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else made.setAttribute(key, value);
    }
    made.append(...children.flat(Infinity));
    return made;
  }

  const bytes = Uint8Array.from(atob($("#data").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = JSON.parse(await new Response(stream).text());

  // ---- light and dark -------------------------------------------------------------------------

  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;

  function setTheme(theme) {
    root.dataset.theme = theme;
    $("#theme").textContent = theme === "dark" ? "☀ Light" : "☾ Dark";
    all(".plot[data-drawn]").forEach(draw);
  }
  $("#theme").addEventListener("click", () => setTheme(chosen = root.dataset.theme === "dark" ? "light" : "dark"));
  dark.addEventListener("change", () => chosen || setTheme(dark.matches ? "dark" : "light"));

  // ---- figures --------------------------------------------------------------------------------

  const narrow = matchMedia("(max-width: 600px)");
  narrow.addEventListener("change", () => all(".plot[data-drawn]").forEach(draw));

  /** The same chart with its panels below each other, as a phone has room for. */
  function stacked({ hconcat, ...spec }) {
    const parts = hconcat ?? spec.vconcat;
    if (parts) return { ...spec, vconcat: parts.map(stacked) };
    return spec.facet ? { ...spec, columns: 1 } : spec;
  }

  /** Draw a chart in the colours and the width of the page, again where it was drawn before. */
  function draw(plot) {
    const spec = data.figures[plot.dataset.figure];
    plot.dataset.drawn = "true";
    const config = { ...data.themes[root.dataset.theme], background: null };
    vegaEmbed(plot, { ...(narrow.matches ? stacked(spec) : spec), config },
      { ast: true, actions: false, renderer: "svg" }).catch((error) => { plot.textContent = String(error); });
  }

  setTheme(dark.matches ? "dark" : "light");
  const seen = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      seen.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "600px" });
  for (const plot of all(".plot")) seen.observe(plot);

  let before = null;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    setTheme("light");
    all(".plot:not([data-drawn])").forEach(draw);
  });
  addEventListener("afterprint", () => setTheme(before));

  // ---- the table of a kind of study -----------------------------------------------------------

  const several = data.runs.length > 1;
  const infinite = { inf: Infinity, "-inf": -Infinity };
  const RUN = { key: "run", heading: "run", tip: "", axis: true, first: true };

  // Every table of every run; a row knows its place among them, as the library copies all that it holds.
  const tables = Object.values(data.tables).flat();
  const tableOf = (row) => tables[row._table];

  /** The rows of all runs: objects with the values by the keys of their columns. */
  function rowsOf(section) {
    return data.tables[section].flatMap((table) => table.cells.map((cells, place) => {
      const row = { _table: tables.indexOf(table), _place: place, run: table.run };
      for (const [key, values] of Object.entries(table.values)) row[key] = infinite[values[place]] ?? values[place] ?? null;
      return row;
    }));
  }

  /** The text of a value of a row: a number with its interval, a word, — where there is none. */
  function shown(column, row) {
    return tableOf(row).texts[column.key]?.[row._place] ?? (row[column.key] == null ? (column.numeric ? "—" : "") : String(row[column.key]));
  }

  const tipOf = (column, row) => data.terms[column.key]?.[row[column.key]]
    ?? (row[column.key] == null ? tableOf(row).undefined[row._place][column.key] ?? "" : "");
  const tip = (title, text) => text && element("div", { class: "tip" }, element("b", {}, title), text);

  /** Whether a number is one of `8, 16`, or fits one of `< 0.5`, `>= 2` and `1..5`. */
  function fits(written, value) {
    const parts = written.replaceAll(" ", "").split(",").filter(Boolean);
    return !parts.length || (value != null && parts.some((part) => {
      const [, sign, end] = part.match(/^([<>]=?)?(.*)$/), [low, high] = end.split("..").map(Number);
      if (high !== undefined) return low <= value && value <= high;
      return { "<": value < low, "<=": value <= low, ">": value > low, ">=": value >= low }[sign] ?? value === low;
    }));
  }

  /** A filter above a column: a choice where there are few values, else a number or a word. */
  function filterOf(column, rows) {
    const values = new Set(rows.map((row) => row[column.key]));
    const label = { elementAttributes: { "aria-label": `Filter ${column.heading}` } };
    if (values.size < 2) return {};
    if (column.numeric && (values.size > 15 || column.key in tableOf(rows[0]).texts)) {
      return { headerFilter: "input", headerFilterFunc: fits, headerFilterPlaceholder: "< 0.5", headerFilterParams: label };
    }
    return values.size > 15 ? { headerFilter: "input", headerFilterPlaceholder: "a word", headerFilterParams: label }
      : { headerFilter: "list", headerFilterFunc: "in", headerFilterParams: { ...label, valuesLookup: "all", multiselect: true, clearable: true } };
  }

  // A spreadsheet takes a text that begins so for a formula, and runs it.
  const harmless = (value) => typeof value === "string" && /^\s*[=+@-]/.test(value) ? `'${value}` : value ?? "";

  function columnOf(column, rows) {
    const title = { field: column.key, title: column.heading, titleDownload: column.key, download: true, accessorDownload: harmless };
    if (column.ends) return { ...title, visible: false };
    return {
      ...title,
      ...filterOf(column, rows),
      visible: column.first,
      hozAlign: column.numeric ? "right" : "left",
      headerHozAlign: "left",
      minWidth: 64,
      sorter: column.numeric ? "number" : "alphanum",
      sorterParams: { alignEmptyValues: "bottom" },
      headerTooltip: () => tip(column.heading, column.tip),
      tooltip: (event, cell) => tip(shown(column, cell.getData()), tipOf(column, cell.getData())),
      titleFormatter: () => element("span", { class: column.tip ? "defined" : "" }, column.heading),
      formatter: (cell) => {
        const row = cell.getData();
        return element("span", { class: tipOf(column, row) ? "defined" : "" }, shown(column, row));
      },
      formatterPrint: (cell) => document.createTextNode(shown(column, cell.getData())),
    };
  }

  function build(panel) {
    const section = panel.dataset.section, rows = rowsOf(section);
    const columns = several ? [RUN, ...data.columns[section]] : data.columns[section];
    const grid = new Tabulator($(".grid", panel), {
      data: rows,
      columns: columns.map((column) => columnOf(column, rows)),
      nestedFieldSeparator: false,
      layout: "fitDataFill",
      maxHeight: "75vh",
      movableColumns: true,
      placeholder: "No row matches; clear the filters to see all.",
      printAsHtml: true,
      printRowRange: "active",
      rowFormatter: (row) => {
        row.getElement().tabIndex = 0;
        row.getElement().setAttribute("aria-label", "Row: Enter shows its cells");
      },
    });
    panel.dataset.built = "true";
    grid.on("tableBuilt", () => {
      for (const column of grid.getColumns()) column.getElement().tabIndex = 0;
      panel.dataset.ready = "true";
    });
    grid.on("dataFiltered", (filters, left) => {
      $(".count", panel).textContent = left.length === rows.length ? `${rows.length} rows` : `${left.length} of ${rows.length} rows`;
    });
    grid.on("rowClick", (event, row) => open(columns, row.getData()));
    // What a click does, Enter does, too; arrows go from row to row.
    $(".grid", panel).addEventListener("keydown", (event) => {
      const at = event.target, row = at.classList.contains("tabulator-row");
      const beside = { ArrowDown: at.nextElementSibling, ArrowUp: at.previousElementSibling }[event.key];
      if (event.key === "Enter" && (row || at.classList.contains("tabulator-col"))) at.click();
      else if (row && beside) beside.focus();
      else return;
      event.preventDefault();
    });
    $(".clear", panel).addEventListener("click", () => grid.clearHeaderFilter());
    $(".download", panel).addEventListener("click", () => grid.download("csv", `${section}.csv`));
    $(".chooser .names", panel).append(...columns.filter((column) => !column.ends).map((column) => {
      const box = element("input", { type: "checkbox", value: column.key, onchange: () => grid.toggleColumn(column.key) });
      box.checked = column.first;
      return element("label", { title: column.tip }, box, ` ${column.heading}`);
    }));
  }

  // ---- what a row rests on --------------------------------------------------------------------

  const heading = (text) => element("h4", {}, text);
  const json = (value) => element("pre", {}, JSON.stringify(value, null, 2));
  const facts = (pairs, look = "facts") =>
    element("dl", { class: look }, pairs.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  const time = (seconds) => seconds == null ? "" : `${new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, 19)} UTC`;

  function open(columns, row) {
    const table = tableOf(row), { of: known, origins } = data.cells[table.run];
    const headings = Object.fromEntries(columns.map((column) => [column.key, column.heading]));
    const there = columns.filter((column) => row[column.key] != null && row[column.key] !== "" && !column.ends);
    const cells = table.cells[row._place].map(([seed, id]) => [seed, id, ...known[id]]);
    const settings = Object.entries(table.settings).map(([key, { of, at }]) => [key, of[at[row._place]]]);
    const terms = Object.keys(data.terms).map((axis) => [`${axis} ${row[axis]}`, data.terms[axis][row[axis]]]);
    const missing = Object.entries(table.undefined[row._place]).map(([key, reason]) => [headings[key] ?? key, reason]);
    const field = (name, ...of) => element("td", { "data-name": name }, ...of);
    $("#details").replaceChildren(
      element("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => $("#details").close() }, "✕"),
      element("h3", { id: "details-title" }, (several ? `${table.run}: ` : "") + there
        .filter((column) => column.axis && column.key !== "run").map((column) => `${column.heading} ${shown(column, row)}`).join(" · ")),
      facts(terms.filter(([, told]) => told)),
      heading("Cells"),
      element("div", { class: "wide" }, element("table", { class: "sheet cells" },
        element("thead", {}, element("tr", {}, ["seed", "cell", "status", "took", "finished"].map((text) => element("th", { scope: "col" }, text)))),
        element("tbody", {}, cells.map(([seed, id, status, took, finished]) => element("tr", {}, field("seed", seed), field("cell", element("code", {}, `maxk-lab show ${id}`)),
          field("status", element("span", { class: `badge ${status.split(":")[0]}` }, status)),
          field("took", took == null ? "" : `${took.toPrecision(3)} s`), field("finished", time(finished))))))),
      ...cells.filter((cell) => cell[5]).flatMap((cell) => [heading(`Error of seed ${cell[0]}`), element("pre", {}, cell[5])]),
      heading("Numbers of this row"),
      facts(there.filter((column) => !column.axis).map((column) => [column.heading, shown(column, row)]), "facts numbers"),
      ...(missing.length ? [heading("Without a value (—)"), facts(missing)] : []),
      heading("Settings of these cells"), json(Object.fromEntries(settings)),
      ...[...new Set(cells.map((cell) => cell[6]))].filter((place) => place != null).flatMap((place) => [
        heading(`Measured with (seeds ${cells.filter((cell) => cell[6] === place).map(([seed]) => seed).join(", ")})`), json(origins[place])]));
    $("#details").showModal();
    $("#details").scrollTop = 0;
  }
  $("#details").addEventListener("click", (event) => event.target === event.currentTarget && event.currentTarget.close());

  for (const panel of all("details.rows")) {
    panel.addEventListener("toggle", () => panel.open && !panel.dataset.built && build(panel));
    if (panel.open) build(panel);
  }
  root.dataset.ready = "true";
})();
