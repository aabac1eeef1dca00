"use strict";
// What the page does by itself: sliders, the address, tabs by keyboard, copying and saving.
(() => {
  const none = () => window.dash_clientside.no_update;

  // The number that a text stands for: 1e6, 10^6, 1,000, 0.25.
  function number(text) {
    if (/^\s*[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*$/.test(text ?? "")) return Number(text.replaceAll(",", ""));
    const power = /^\s*10\^(-?\d{1,4})\s*$/.exec(text ?? "");
    return power ? 10 ** Number(power[1]) : text === "" || text == null ? NaN : Number(text);
  }

  const places = (step) => (step.split(".")[1] || "").length;

  // Steps of 1, 2, 5 in each power of ten: positions count thirds of a decade.
  const nice = (thirds) => [1, 2, 5][((thirds % 3) + 3) % 3] * 10 ** Math.floor(thirds / 3);
  const niceText = (thirds) => {
    const [digit, power] = [[1, 2, 5][((thirds % 3) + 3) % 3], Math.floor(thirds / 3)];
    return power >= 6 || power < -4 ? `${digit}e${power}` : String(Number(`${digit}e${power}`));
  };

  function atPosition(position, scale) {
    const share = position / scale.steps;
    if (scale.log) {
      const [low, high] = [Math.log10(scale.low), Math.log10(scale.high)];
      let thirds = Math.round(3 * (low + share * (high - low)));
      while (nice(thirds) < scale.low * (1 - 1e-9)) thirds += 1;
      while (nice(thirds) > scale.high * (1 + 1e-9)) thirds -= 1;
      return niceText(thirds);
    }
    const step = Number(scale.step);
    const value = Math.round((scale.low + share * (scale.high - scale.low)) / step) * step;
    return String(Number(Math.min(scale.high, Math.max(scale.low, value)).toFixed(places(scale.step))));
  }

  function positionOf(text, scale) {
    const value = number(text);
    if (!(value >= scale.low && value <= scale.high)) return null;
    const share = scale.log
      ? Math.log10(value / scale.low) / Math.log10(scale.high / scale.low)
      : (value - scale.low) / (scale.high - scale.low);
    return Math.round(share * scale.steps);
  }

  // Dash gives a slider no name, and its position is no value. Its code may come later than we do.
  function name(id, scale, text, tries = 200) {
    const written = JSON.stringify(id, Object.keys(id).sort());
    const thumb = document.getElementById(written)?.querySelector("[role=slider]");
    thumb?.setAttribute("aria-label", scale.label);
    thumb?.setAttribute("aria-valuetext", text ?? "");
    if (!thumb && tries) setTimeout(() => name(id, scale, text, tries - 1), 50);
  }

  // What the controls showed when the address was written last, and the address that is being gone back to.
  const CHANGE_MILLISECONDS = 1000;
  let fields = null;
  let back = null;

  // The controls take the values of an address that has them all, without a new page. Whether it has is the answer.
  function restore(address) {
    const wanted = new URLSearchParams(address);
    const seconds = [...wanted.keys()].filter((name) => name.endsWith(".2")).length;
    if (wanted.get("tab") !== fields?.tab || !fields.ids.every(({ of }) => wanted.has(of))) return false;
    if (seconds !== fields.ids.filter(({ of }) => of.endsWith(".2")).length) return false;
    back = search([["tab", fields.tab], ...fields.ids.map(({ of }) => [of, wanted.get(of)])]);
    setTimeout(() => (back = null), 2000); // what cannot be restored does not stop the address for good
    const { ids, values } = fields;
    ids.forEach((id, i) => {
      const text = wanted.get(id.of);
      if (String(values[i] ?? "") === text) return;
      const value = Array.isArray(values[i]) ? text.split(",").filter(Boolean) : text || null;
      window.dash_clientside.set_props(id, { value });
    });
    return true;
  }

  addEventListener("popstate", () => restore(location.search));

  // A setting to try is a change like others.
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a.try");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const { search: to } = new URL(link.href);
    history.pushState(history.state, "", to);
    if (!restore(to)) window.dash_clientside.set_props("url", { search: to });
  });

  const search = (pairs) => `?${new URLSearchParams(pairs)}`;

  // Plotly's script keeps the browser busy for long. Dash waits for it, as for any promise, and here it begins only
  // after the page has been painted, with the outlines of its figures.
  let plotly = null;
  const load = (resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/_dash-component-suites/plotly/package_data/plotly.min.js";
    script.onload = () => resolve();
    script.onerror = () => reject(new Error("Plotly could not be loaded."));
    document.head.append(script);
  };
  const painted = async (then) => {
    await Promise.allSettled([...document.querySelectorAll("img.sketch")].map((image) => image.decode()));
    requestAnimationFrame(() => setTimeout(then));
  };
  window.Plotly = {
    then(resolve, reject) {
      plotly ??= new Promise((...both) => painted(() => load(...both)));
      plotly.then(resolve, reject);
    },
  };

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.separatrix = {
    // A slider that was moved writes the text; a text that was changed moves the slider.
    slide(text, position, scale, id) {
      const context = window.dash_clientside.callback_context;
      const wanted = positionOf(text, scale);
      name(id, scale, text);
      if (context.triggered_id?.kind === "slider") {
        return position === wanted ? [none(), none()] : [atPosition(position, scale), none()];
      }
      return [none(), wanted === null || wanted === position ? none() : wanted];
    },

    // The address follows the controls. Each change is a step that the browser's button takes back; a slider on its
    // way, or a word being typed, is one change.
    write(values, ids) {
      if (!ids.length) return none();
      const pairs = [["tab", ids[0].tab], ...ids.map(({ of }, i) => [of, String(values[i] ?? "")])];
      const before = fields;
      fields = { tab: ids[0].tab, ids, values, moved: null, at: 0 };
      const to = search(pairs);
      if (back) {
        if (to === back) back = null;
        return none();
      }
      if (to === location.search) return none();
      const same = before?.tab === fields.tab && before.ids.length === ids.length;
      const moved = same ? ids.findIndex((_, i) => String(before.values[i] ?? "") !== String(values[i] ?? "")) : null;
      const on = same && moved === before.moved && Date.now() - before.at < CHANGE_MILLISECONDS;
      Object.assign(fields, { moved, at: Date.now() });
      history[same && !on ? "pushState" : "replaceState"](history.state, "", to);
      return none();
    },

    // A tab, or the second setting, is a new address: the page of it is made by the server.
    go() {
      const chosen = window.dash_clientside.callback_context.triggered_id;
      const clicks = window.dash_clientside.callback_context.triggered[0]?.value;
      if (!chosen || !clicks) return none();
      const pairs = [...new URLSearchParams(location.search)];
      if (chosen.kind === "tab") return search([["tab", chosen.of]]);
      const plain = pairs.filter(([name]) => !name.endsWith(".2"));
      if (chosen.of === "close") return search(plain);
      // The second setting differs from the first in one value, so that there is something to see.
      const { differs, values } = document.querySelector("[data-differs]").dataset;
      const other = (value) => values.split(" ").find((option) => option !== value);
      const second = plain.filter(([name]) => name !== "tab");
      return search([...plain, ...second.map(([name, value]) => [`${name}.2`, name === differs ? other(value) : value])]);
    },
  };

  // Tabs by keyboard: the arrows go along them, as everywhere.
  addEventListener("keydown", (event) => {
    const tab = event.target.closest?.("[role=tab]");
    if (!tab) return;
    const tabs = [...tab.parentElement.querySelectorAll("[role=tab]")];
    const here = tabs.indexOf(tab);
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs[to % tabs.length];
    next.focus();
    next.click();
  });

  // Beside the button, for a while or until the next word.
  function tell(button, text, { wrong = false, stays = false } = {}) {
    const said = button.parentElement.querySelector(".told");
    said.textContent = text;
    said.classList.toggle("wrong", wrong);
    if (!stays) setTimeout(() => said.textContent === text && (said.textContent = ""), 4000);
  }

  function save(name, kind, file) {
    const link = document.createElement("a");
    const address = URL.createObjectURL(file);
    Object.assign(link, { href: address, download: `${name}.${kind}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  }

  // As it is on the screen, on the page's own paper.
  async function picture(figure, kind) {
    const plot = figure.querySelector(".js-plotly-plot");
    const page = getComputedStyle(document.documentElement);
    const [paper, ink] = ["--paper", "--ink"].map((colour) => page.getPropertyValue(colour).trim());
    const layout = { ...plot.layout, paper_bgcolor: paper, font: { ...plot.layout.font, color: ink } };
    const { clientWidth: width, clientHeight: height } = plot;
    const size = { width, height, scale: kind === "png" ? 2 : 1 };
    const data = await Plotly.toImage({ data: plot.data, layout }, { format: kind, imageDataOnly: true, ...size });
    return kind === "png"
      ? new Blob([Uint8Array.from(atob(data), (character) => character.charCodeAt(0))], { type: "image/png" })
      : new Blob([data], { type: "image/svg+xml" });
  }

  async function copy(button) {
    const text = button.parentElement.querySelector("pre");
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text.textContent);
      tell(button, "Copied.");
    } else {
      // Without encryption a browser lets no page copy: the text is marked for the reader to.
      getSelection().selectAllChildren(text);
      tell(button, "Marked: press Ctrl-C.");
    }
  }

  async function take(button, kind) {
    const figure = button.closest("figure");
    if (kind === "csv") {
      return save(figure.dataset.name, kind, new Blob([figure.querySelector("pre.csv").textContent], { type: "text/csv" }));
    }
    tell(button, "Drawing it…", { stays: true });
    save(figure.dataset.name, kind, await picture(figure, kind));
    tell(button, "Saved.");
  }

  addEventListener("click", async (event) => {
    const button = event.target.closest?.("button");
    const { copy: copies, save: kind } = button?.dataset ?? {};
    if (!copies && !kind) return;
    try {
      await (copies ? copy(button) : take(button, kind));
    } catch (error) {
      tell(button, `That did not work: ${error.message ?? error}`, { wrong: true, stays: true });
      throw error;
    }
  });
})();
