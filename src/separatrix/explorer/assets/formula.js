"use strict";
// The component Formula: MathML that the server wrote, read as XML and made anew element by element.
(() => {
  const NAMESPACE = "http://www.w3.org/1998/Math/MathML";

  function made(node, key) {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    const attributes = { key };
    for (const { name, value } of node.attributes) attributes[name] = value;
    return React.createElement(node.nodeName, attributes, ...Array.from(node.childNodes, made));
  }

  function Formula({ mathml }) {
    const read = new DOMParser().parseFromString(`<math xmlns="${NAMESPACE}">${mathml}</math>`, "application/xml");
    const children = Array.from(read.documentElement.childNodes, made);
    return React.createElement("math", null, ...children);
  }

  window.separatrix_explorer = { Formula };
})();
