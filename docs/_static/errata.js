"use strict";
// A field on the page of the errata that shows only those which have all of its words.
addEventListener("DOMContentLoaded", () => {
  const sections = [...document.querySelectorAll("article section")];
  const errata = sections.filter((section) => /^\d+\. /.test(section.querySelector("h3, h4")?.textContent ?? ""))
    .filter((section) => !section.querySelector("section"));
  if (!/errata(\.html)?$/.test(location.pathname) || !errata.length) return;
  const label = document.createElement("label");
  label.className = "errata-filter";
  label.append("Show only errata with: ");
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Lemma D.6, threshold, ...";
  const count = document.createElement("span");
  count.setAttribute("aria-live", "polite");
  label.append(field, count);
  document.querySelector("article h1").after(label);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const section of errata) {
      const text = section.textContent.toLowerCase();
      section.hidden = !words.every((word) => text.includes(word));
      shown += section.hidden ? 0 : 1;
    }
    count.textContent = words.length ? ` ${shown} of ${errata.length}` : "";
  });
});
