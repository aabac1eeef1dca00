"use strict";
// A file that is too big is refused before it is read: a browser would read all of it first, and then say nothing.
(() => {
  const wrong = "is not a .safetensors file";

  function check(event, files) {
    const place = event.target.closest?.("[data-most]");
    const said = place?.parentElement.querySelector(".refused");
    if (!said || !files?.length) return;
    const most = Number(place.dataset.most);
    const [file] = files;
    let refused = "";
    if (files.length > 1) refused = `file: expected one file, got ${files.length}.`;
    else if (!file.name.endsWith(".safetensors")) refused = `file: ${file.name.slice(0, 80)} ${wrong}.`;
    else if (file.size > most) {
      refused = `file: expected at most ${most / 2 ** 20} MiB, got ${(file.size / 2 ** 20).toFixed(1)} MiB.`;
    }
    said.textContent = refused;
    if (refused) {
      event.preventDefault();
      event.stopImmediatePropagation();
      if (event.type === "change") event.target.value = "";
    }
  }

  addEventListener("change", (event) => check(event, event.target.files), true);
  addEventListener("drop", (event) => check(event, event.dataTransfer?.files), true);
})();
