"use strict";
// Draws the figures in the reader's colours, filters the claims, and keeps what is seen in the address.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 40rem)");
  const coarse = matchMedia("(pointer: coarse)");
  const theme = document.getElementById("theme").textContent;
  const plots = [...document.querySelectorAll(".plot")];
  const claims = [...document.querySelectorAll("article > details")];

  // A text that the page holds packed: five digits of base 85 are four bytes, and the last group may be shorter.
  const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%.()*+-;,=:?@^_/{|}~";
  async function unpacked(content) {
    const value = new Uint8Array(128);
    for (let i = 0; i < 85; i++) value[DIGITS.charCodeAt(i)] = i;
    const bytes = new Uint8Array(4 * Math.ceil(content.length / 5));
    const numbers = new DataView(bytes.buffer);
    for (let i = 0; i < content.length; i += 5) {
      let number = 0;
      for (let j = i; j < i + 5; j++) number = 85 * number + (j < content.length ? value[content.charCodeAt(j)] : 84);
      numbers.setUint32((i / 5) * 4, number);
    }
    const missing = (5 - (content.length % 5)) % 5;
    const read = bytes.subarray(0, bytes.length - missing);
    return new Response(new Blob([read]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  // The page's policy lets exactly this script run.
  let plotly = null;
  function withPlotly() {
    plotly ??= unpacked(document.getElementById("plotly").textContent).then((text) => {
      document.head.append(Object.assign(document.createElement("script"), { text }));
      if (!window.Plotly) throw new Error("the library that draws did not start");
    });
    return plotly;
  }

  // Several places may show the same drawing. Its text is unpacked once, and each plot parses it: Plotly modifies its input.
  const contents = new Map();
  function content(figure) {
    const key = figure.dataset.drawing;
    if (!contents.has(key)) {
      const figureData = { text: null, csv: null };
      figureData.ready = unpacked(document.getElementById(`drawing-${key}`).textContent).then((text) => {
        const { csv, drawing } = JSON.parse(text);
        Object.assign(figureData, { csv, text: JSON.stringify(drawing) });
      });
      contents.set(key, figureData);
    }
    return contents.get(key);
  }

  // The theme with the page's own ink and lines, for the screen as it is now or for paper.
  function coloured(template, colours) {
    const page = getComputedStyle(document.documentElement);
    const paper = colours === "paper";
    const ink = paper ? "#000" : page.getPropertyValue("--ink");
    const line = paper ? "#bbb" : page.getPropertyValue("--line");
    const clear = "rgba(0, 0, 0, 0)";
    const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line, automargin: true };
    const { layout } = template;
    Object.assign(layout, { paper_bgcolor: clear, plot_bgcolor: clear, font: { ...layout.font, color: ink } });
    layout.xaxis = { ...layout.xaxis, ...axis };
    layout.yaxis = { ...layout.yaxis, ...axis };
    return template;
  }

  // Draws at once: what it needs has been unpacked.
  async function drawNow(plot, colours) {
    const { data, layout } = JSON.parse(content(plot.closest("figure")).text);
    Object.assign(layout, { template: coloured(JSON.parse(theme), colours), autosize: true });
    if (narrow.matches) {
      layout.legend = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: -0.3, yanchor: "top" };
      layout.margin = { ...layout.margin, l: 8, r: 8 };
    }
    // Figures side by side keep a width at which they can be read: on a phone one moves along them.
    const across = Object.keys(layout).filter((name) => name.startsWith("xaxis"));
    const side = new Set(across.map((name) => layout[name].domain?.[0] ?? 0)).size;
    const moves = narrow.matches && side > 1;
    plot.style.minWidth = moves ? `${14 * side}rem` : "";
    plot.parentElement.toggleAttribute("tabindex", moves);
    if (moves) plot.parentElement.tabIndex = 0;
    // A finger that moves over a figure scrolls the page.
    if (coarse.matches) layout.dragmode = false;
    plot.dataset.colours = colours;
    plot.dataset.state = "begun";
    const config = { responsive: true, displaylogo: false, displayModeBar: coarse.matches ? false : "hover" };
    plot.querySelector(".sketch")?.remove();
    await Plotly.react(plot, data, layout, config);
    plot.dataset.state = "drawn";
  }

  function failed(plot, error) {
    plot.dataset.state = "failed";
    plot.textContent = `This figure could not be drawn: ${error}. Its description is below.`;
    console.error(plot.id, error);
  }

  const screen = () => (dark.matches ? "dark" : "light");
  async function draw(plot) {
    try {
      await Promise.all([withPlotly(), content(plot.closest("figure")).ready]);
      await drawNow(plot, screen());
    } catch (error) {
      failed(plot, error);
    }
  }

  // Each figure is drawn when the reader comes near it; in a claim that is folded that cannot happen.
  const asked = new Set();
  function ask(plot) {
    if (asked.has(plot)) return;
    asked.add(plot);
    draw(plot);
  }
  const near = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => ask(entry.target)),
    { rootMargin: "50% 0%" },
  );
  plots.forEach((plot) => near.observe(plot));
  document.querySelectorAll(".highlight figure").forEach(content);

  // A printer does not wait: what was unpacked is drawn, and that is all that stands open.
  const folded = (plot) => plot.closest("article > details:not([open])");
  const ready = (plot) => window.Plotly && content(plot.closest("figure")).text !== null;
  function again(colours) {
    for (const plot of plots) {
      if (!folded(plot) && ready(plot)) drawNow(plot, colours).catch((error) => failed(plot, error));
    }
  }
  const recolour = () => plots.filter((plot) => plot.dataset.state).forEach(draw);
  dark.addEventListener("change", recolour);
  narrow.addEventListener("change", recolour);
  addEventListener("beforeprint", () => again("paper"));
  addEventListener("afterprint", () => again(screen()));

  // The keys of cells, when someone looks at them.
  for (const list of document.querySelectorAll("pre.cells")) {
    list.parentElement.addEventListener("toggle", async () => (list.textContent = await unpacked(list.dataset.packed)), {
      once: true,
    });
  }

  // The numbers of a figure, as a file.
  for (const button of document.querySelectorAll("button.data")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const figureData = content(button.closest("figure"));
      await figureData.ready;
      const href = URL.createObjectURL(new Blob([figureData.csv], { type: "text/csv" }));
      Object.assign(document.createElement("a"), { href, download: button.dataset.file }).click();
      setTimeout(() => URL.revokeObjectURL(href), 60_000);
    });
  }

  const form = document.getElementById("filter");
  if (!form) return;
  const output = document.getElementById("shown");
  const rows = claims.map((details) => {
    const article = details.parentElement;
    const tile = document.querySelector(`#map a[href="#${CSS.escape(article.id)}"]`);
    const said = details.querySelector("summary").textContent;
    return { article, details, tile, text: `${said} ${article.dataset.paper} ${article.id}`.toLowerCase() };
  });

  function filter() {
    const { verdict, paper, text } = Object.fromEntries(new FormData(form));
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const { dataset } = row.article;
      const fits =
        (!verdict || dataset.verdict === verdict || (verdict === "not as recorded" && "unlike" in dataset)) &&
        (!paper || dataset.paper === paper) &&
        words.every((word) => row.text.includes(word));
      row.article.hidden = !fits;
      row.tile.classList.toggle("out", !fits);
      shown += fits;
    }
    for (const section of document.querySelectorAll("section.paper")) {
      section.hidden = !section.querySelector("article:not([hidden])");
    }
    const total = `${rows.length} claim${rows.length === 1 ? "" : "s"}`;
    output.textContent = shown === rows.length ? total : `${shown} of ${total}`;
    document.getElementById("no-match").hidden = shown > 0;
  }

  // The address has the filter and the claims that are open: #verdict=holds&open=kronecker/lemma-1
  function write() {
    const fields = [...new FormData(form)].filter(([, value]) => value);
    const open = rows.filter((row) => row.details.open).map((row) => row.article.id);
    const state = new URLSearchParams([...fields, ...open.map((id) => ["open", id])]).toString().replaceAll("%2F", "/");
    if (location.hash.slice(1) === state) return;
    history.replaceState(null, "", state ? `#${state}` : location.pathname + location.search);
  }

  function open(row) {
    row.details.open = true;
    for (const figure of row.details.querySelectorAll("figure")) content(figure);
    withPlotly();
  }

  // A URL whose fragment is a place of the page leads to the place; any other fragment lists the open claims.
  function read() {
    const hash = decodeURIComponent(location.hash.slice(1));
    const place = document.getElementById(hash);
    if (place) {
      const row = rows.find((candidate) => candidate.article === place);
      if (row) open(row);
      if (place.closest("[hidden]")) {
        form.reset();
        filter();
      }
      place.scrollIntoView();
      if (row) write();
      return;
    }
    const state = new URLSearchParams(location.hash.slice(1));
    form.reset();
    for (const name of ["verdict", "paper", "text"]) {
      if (state.has(name)) form.elements[name].value = state.get(name);
    }
    if (form.elements.paper.selectedIndex < 0) form.elements.paper.value = "";
    filter();
    const wanted = new Set(state.getAll("open"));
    for (const row of rows) {
      if (wanted.has(row.article.id)) open(row);
      else row.details.open = false;
    }
    if (wanted.size) rows.find((row) => row.details.open)?.article.scrollIntoView();
  }

  form.hidden = false;
  form.addEventListener("input", () => {
    filter();
    write();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("[type=button]").addEventListener("click", () => {
    form.reset();
    filter();
    write();
  });
  for (const row of rows) {
    row.details.addEventListener("toggle", () => {
      if (row.details.open) open(row);
      write();
    });
  }
  addEventListener("hashchange", read);
  read();
})();
