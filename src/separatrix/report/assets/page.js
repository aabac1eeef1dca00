"use strict";
// Draws the figures in the reader's colours, and makes the table's filter work.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 40rem)");
  const coarse = matchMedia("(pointer: coarse)");
  const theme = document.getElementById("theme").textContent;
  const plots = [...document.querySelectorAll(".plot")];

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

  // Plotly writes into what it is given, so each drawing starts from the text.
  async function draw(plot, colours) {
    try {
      const { data, layout } = JSON.parse(plot.closest("figure").querySelector("script.drawing").textContent);
      Object.assign(layout, { template: coloured(JSON.parse(theme), colours), autosize: true });
      if (narrow.matches) {
        layout.legend = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: -0.3, yanchor: "top" };
        layout.margin = { ...layout.margin, l: 8, r: 8 };
      }
      // Figures side by side keep a width at which they can be read: on a phone one moves along them.
      const side = Object.keys(layout).filter((name) => name.startsWith("xaxis")).length;
      const moves = narrow.matches && side > 1;
      plot.style.minWidth = moves ? `${14 * side}rem` : "";
      plot.parentElement.toggleAttribute("tabindex", moves);
      if (moves) plot.parentElement.tabIndex = 0;
      // A finger that moves over a figure scrolls the page.
      if (coarse.matches) layout.dragmode = false;
      plot.dataset.colours = colours;
      plot.dataset.state = "begun";
      const config = { responsive: true, displaylogo: false };
      if (coarse.matches) config.displayModeBar = false;
      await Plotly.react(plot, data, layout, config);
      plot.dataset.state = "drawn";
    } catch (error) {
      plot.dataset.state = "failed";
      plot.textContent = `This figure could not be drawn: ${error}. Its data and its description are below.`;
      console.error(plot.id, error);
    }
  }

  const screen = () => (dark.matches ? "dark" : "light");
  const every = (chosen, colours) => Promise.all(chosen.map((plot) => draw(plot, colours)));
  const drawn = () => plots.filter((plot) => plot.dataset.state);

  // A page has many figures: each is drawn when the reader comes near it.
  const near = new IntersectionObserver(
    (seen) => {
      for (const { target, isIntersecting } of seen) {
        if (isIntersecting && !target.dataset.state) draw(target, screen());
      }
    },
    { rootMargin: "50% 0%" },
  );
  plots.forEach((plot) => near.observe(plot));
  dark.addEventListener("change", () => every(drawn(), screen()));
  narrow.addEventListener("change", () => every(drawn(), screen()));
  addEventListener("beforeprint", () => every(plots, "paper"));
  addEventListener("afterprint", () => every(plots, screen()));

  // On a phone the contents of a paper would fill the screen.
  if (narrow.matches) document.querySelectorAll(".contents").forEach((contents) => (contents.open = false));

  const form = document.getElementById("filter");
  if (!form) return;
  const rows = [...document.querySelectorAll("#verdicts tbody tr")];
  const texts = rows.map((row) => `${row.textContent} ${row.dataset.text}`.toLowerCase());
  const output = document.getElementById("shown");

  function filter() {
    const { verdict, paper, text } = Object.fromEntries(new FormData(form));
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      const fits =
        (!verdict || row.dataset.verdict === verdict || (verdict === "not as recorded" && "unlike" in row.dataset)) &&
        (!paper || row.dataset.paper === paper) &&
        words.every((word) => texts[i].includes(word));
      row.hidden = !fits;
      shown += fits;
    });
    const total = `${rows.length} claim${rows.length === 1 ? "" : "s"}`;
    output.textContent = shown === rows.length ? total : `${shown} of ${total}`;
    document.getElementById("no-match").hidden = shown > 0;
  }

  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter)); // after the fields are empty
  filter(); // a browser that goes back to the page fills the fields in again
})();
