/* Tabs: one panel of the page at a time, named by the address. The style sheet hides the others.

   An address with `=` chooses samples; any other is the id of a panel or of something in one. */
"use strict";
const tabs = (() => {
  const root = document.documentElement;
  const panelOf = (id) => document.getElementById(id)?.closest("[data-panel]")?.dataset.panel;

  function show(name) {
    root.dataset.tab = name;
    for (const link of document.querySelectorAll(".tabs a")) {
      if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  function follow() {
    const name = decodeURIComponent(location.hash.slice(1));
    if (name.includes("=")) return show("samples");
    show(panelOf(name) ?? "overview");
    const target = name && document.getElementById(name);
    if (!target) return undefined;
    const folded = target.closest("details");
    if (folded) folded.open = true;
    if (target.dataset.panel) scrollTo({ top: 0, behavior: "instant" });
    else target.scrollIntoView({ behavior: "instant" });
    return undefined;
  }

  addEventListener("hashchange", follow);
  // A panel may come later than the address, and links to the tab that is open change no address.
  new MutationObserver(() => show(root.dataset.tab ?? "overview")).observe(root, { childList: true, subtree: true });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.(".tabs a, a.to-tab");
    if (link && link.hash === location.hash) follow();
  });
  follow();

  return { show };
})();
