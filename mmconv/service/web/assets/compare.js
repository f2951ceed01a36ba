/* Finished runs side by side: which, then what their comparison finds, then their samples. */
"use strict";
(() => {
  const { byId, make } = dom;
  const form = byId("compare-form");
  const asked = new URLSearchParams(location.search);
  const ids = (asked.get("runs") ?? "").split(",").filter(Boolean);

  function row(run) {
    const name = `${run.model} on ${run.request.data}`;
    const box = make("input", { type: "checkbox", name: "runs", value: run.id, "aria-label": name });
    const base = make("input", { type: "radio", name: "baseline", value: run.id, "aria-label": `${name} is the baseline` });
    box.checked = ids.includes(run.id);
    base.checked = ids[0] === run.id;
    base.addEventListener("change", () => { box.checked = true; });
    const link = make("a", { href: jobs.address(run) }, run.model);
    return make("tr", {}, make("td", { class: "tick" }, box), make("td", { class: "tick" }, base),
      make("th", { scope: "row" }, link),
      make("td", { class: "words" }, [run.request.data, run.request.limit ? `first ${run.request.limit}` : ""].filter(Boolean).join(", ")),
      make("td", { class: "words" }, run.ended ? jobs.when(run.ended) : ""));
  }

  /* Every finished run of the last few hundred; a run that the address names is there in any case. */
  async function listRuns() {
    const { data } = await api.get("/v1/runs?limit=200");
    const listed = new Map(data.filter(jobs.hasResult).map((run) => [run.id, run]));
    for (const id of ids.filter((each) => !listed.has(each))) {
      const run = await api.get(`/v1/runs/${encodeURIComponent(id)}`);
      listed.set(id, run);
    }
    byId("compare-runs").replaceChildren(...[...listed.values()].map(row));
    if (!listed.size) byId("compare-runs").append(make("tr", {}, make("td", { colspan: 5, class: "words" }, "No run is finished yet.")));
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const data = new FormData(form);
    const baseline = data.get("baseline");
    const runs = data.getAll("runs").filter((id) => id !== baseline);
    if (baseline) runs.unshift(baseline);
    const to = new URLSearchParams(data.getAll("despite").map((name) => ["despite", name]));
    if (runs.length < 2) return shell.show(new api.Problem(400, { message: "choose at least two runs" }));
    return location.assign(`/compare?runs=${runs.map(encodeURIComponent).join(",")}${to.size ? `&${to}` : ""}`);
  });

  async function showComparison() {
    const place = byId("findings");
    place.setAttribute("aria-busy", "true");
    place.replaceChildren(make("p", { class: "hint" }, "The runs are being compared…"));
    const page = await shell.attempt(() => api.get(`/web/compare?${asked}`));
    place.setAttribute("aria-busy", "false");
    if (!page) return showSamples();
    byId("choose").open = false;
    byId("compare-title").textContent = page.title;
    document.title = `${page.title} · mmconv`;
    // The server wrote it; what models said is escaped in it, and the page's policy runs no script.
    place.innerHTML = page.html;
    byId("browser").hidden = false;
    const blocks = samples.inBlocks(page.index, (number) => api.get(`/web/compare/blocks/${number}?${asked}`));
    return samples.show({ index: page.index, ...blocks, picture });
  }

  const picture = (_, name, small) =>
    api.picture(`/v1/runs/${encodeURIComponent(ids[0])}/images/${name}${small ? "?small=true" : ""}`);

  /* Runs that cannot be compared, or go on: their conversations side by side, without statistics. */
  async function showSamples() {
    byId("findings").replaceChildren();
    const query = `&runs=${ids.map(encodeURIComponent).join(",")}`;
    const source = await jobs.pagedSource("/web/samples", picture, query).catch(() => null);
    if (!source) return undefined;
    byId("findings").append(make("p", { class: "hint" }, "Without statistics: the conversations side by side."));
    byId("browser").hidden = false;
    return samples.show(source);
  }

  async function start() {
    for (const box of form.querySelectorAll("input[name=despite]")) {
      box.checked = asked.getAll("despite").includes(box.value);
    }
    await shell.attempt(listRuns);
    if (ids.length) await showComparison();
    document.documentElement.dataset.ready = "";
  }

  start();
})();
