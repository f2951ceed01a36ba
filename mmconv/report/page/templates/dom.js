/* Nodes and what is asked of them. Texts are only ever set as texts, whoever wrote them. */
"use strict";
const dom = (() => {
  const byId = (id) => document.getElementById(id);

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== false && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== ""));
    return node;
  }

  function button(text, act) {
    const made = make("button", { type: "button" }, text);
    made.addEventListener("click", act);
    return made;
  }

  function reveal(node) {
    const top = node.getBoundingClientRect().top;
    if (top < 0 || top > innerHeight * 0.6) node.scrollIntoView({ behavior: "instant" });
  }

  /* What this browser keeps; a page that may not remember starts anew each time. */
  function remember(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      // it is not remembered then
    }
  }

  function remembered(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  }

  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  /* "1 run", "1,200 runs", and with `more` "50 or more runs". */
  function count(number, word, more = false) {
    return `${number.toLocaleString("en")}${more ? " or more" : ""} ${number === 1 && !more ? word : `${word}s`}`;
  }

  return { byId, make, button, reveal, remember, remembered, capital, count };
})();
