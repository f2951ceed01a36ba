/* What the pages of people's work share: who works, keys, one act at a time, images. */
"use strict";
const work = (() => {
  const { byId, make } = dom;
  let busy = false;

  const rater = () => new URL(location.href).searchParams.get("rater")?.trim() ?? "";

  /* Begin as the rater that the address names, or ask who it is and write it there. */
  function begin(start) {
    const enter = () => {
      byId("who").hidden = true;
      byId("work").hidden = false;
      act(start).finally(() => { document.documentElement.dataset.ready = ""; });
    };
    if (rater()) return enter();
    byId("who").hidden = false;
    byId("rater").focus();
    document.documentElement.dataset.ready = "";
    byId("who").addEventListener("submit", (event) => {
      event.preventDefault();
      const name = byId("rater").value.trim();
      if (!name) return;
      const address = new URL(location.href);
      address.searchParams.set("rater", name);
      history.replaceState(null, "", address);
      enter();
    });
    return undefined;
  }

  /* Do one thing; what is pressed meanwhile would be about something not yet seen. */
  async function act(something) {
    if (busy) return;
    busy = true;
    document.documentElement.dataset.busy = "";
    await shell.attempt(something);
    busy = false;
    delete document.documentElement.dataset.busy;
  }

  const isField = (node) => ["INPUT", "TEXTAREA", "SELECT"].includes(node.tagName);

  /* Let keys and buttons do what `acts` says by key; within fields only those in `inFields`. */
  function keys(acts, inFields = {}) {
    const help = () => byId("keys").showModal();
    byId("help-button").addEventListener("click", help);
    document.addEventListener("keydown", (event) => {
      if (byId("work").hidden || document.querySelector("dialog[open]") || event.altKey || event.metaKey) return;
      const name = event.ctrlKey ? `Ctrl ${event.key}` : event.key;
      const found = isField(event.target) ? inFields[name] : { ...acts(), "?": help }[name];
      if (!found || event.repeat) return;
      event.preventDefault();
      found();
    });
    document.addEventListener("click", (event) => {
      const pressed = event.target.closest("[data-press]")?.dataset.press;
      if (pressed) acts()[pressed]?.();
    });
  }

  /* Images in their order, each once. */
  function pictures(names) {
    byId("images").replaceChildren(...names.map((name, place) => {
      const address = `/v1/images/${name}`;
      return enlarging.picture(address, names.length > 1 ? `Image ${place + 1}` : "The image", () => address);
    }));
  }

  const text = (content) => make("p", { class: "text" }, content || make("i", {}, "(empty)"));

  return { rater, begin, act, keys, pictures, text };
})();
