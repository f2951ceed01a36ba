/* One run: how it gets on, what was found, and its samples; those of an unfinished run as they are. */
"use strict";
(() => {
  const { byId, make, button, count } = dom;
  const RENEW_SECONDS = 5;

  const id = decodeURIComponent(location.pathname.split("/").at(-1));
  const path = `/v1/runs/${encodeURIComponent(id)}`;
  const parts = `/web/runs/${encodeURIComponent(id)}`;
  let run = null;
  let choices = null;
  let shown = "";
  let stop = null;

  /* ---- its head ---- */

  function facts() {
    const { request } = run;
    const roles = Object.entries(request.models).map(([role, model]) => [role === "candidate" ? "model" : role, model]);
    const facts = [...roles, ["data", request.data], ...jobs.settings(request)];
    facts.push(["started", run.started ? jobs.when(run.started) : "not yet"]);
    if (run.ended) facts.push(["ended", jobs.when(run.ended)]);
    // `mmconv show` and its kin know a run by its folder.
    if (run.folder) facts.push(["folder", make("code", {}, run.folder)]);
    return facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  }

  function losses() {
    if (!run.lost) return "";
    return make("p", { class: "problem" }, `${count(run.lost, "call")} without an answer; the scores below say what that left out.`);
  }

  function head() {
    document.title = `${run.model} on ${run.request.data} · mmconv`;
    byId("run-title").textContent = `${run.model} on ${run.request.data}`;
    const bar = byId("run-state");
    const line = make("div", { class: "first" }, jobs.badge(run), jobs.progress(run));
    bar.replaceChildren(line, run.error ? make("p", { class: "problem lines" }, run.error) : "", losses());
    const held = byId("run-actions").contains(document.activeElement);
    byId("run-actions").replaceChildren(...actions());
    if (held) byId("run-actions").querySelector("button")?.focus();
    byId("run-facts").replaceChildren(...facts());
    byId("run-notes").replaceChildren(...jobs.notes(run));
  }

  const annotates = () => choices.annotates && run.folder && (run.owner === choices.caller || choices.scopes.includes("admin"));
  const ended = () => (jobs.active(run) ? [] : [button("Remove", remove)]);
  const actions = () => [
    ...(annotates() ? [button("Note", () => editNotes(true))] : []),
    ...(jobs.owns(run, choices) ? [...jobs.actions(run, change), ...ended()] : []),
  ];

  /* ---- its note and tags ---- */

  const notes = byId("notes");

  function editNotes(open) {
    shell.clearFaults(notes);
    notes.hidden = !open;
    byId("run-notes").hidden = open;
    notes.elements.tags.value = run.tags.join(", ");
    notes.elements.note.value = run.note;
    if (open) notes.elements.tags.focus();
    else byId("run-actions").querySelector("button")?.focus();
  }

  notes.addEventListener("submit", async (event) => {
    event.preventDefault();
    shell.clearFaults(notes);
    const tags = notes.elements.tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
    try {
      const body = { note: notes.elements.note.value.trim(), tags: [...new Set(tags)] };
      change(await api.post(path, body, { method: "PATCH" }));
      editNotes(false);
    } catch (error) {
      shell.blame(notes, error);
    }
  });
  byId("notes-cancel").addEventListener("click", () => editNotes(false));

  async function remove() {
    const words = "Remove this run with its scores and report? Its answers stay in the store: started again, it asks nothing.";
    if (!window.confirm(words)) return;
    if (await shell.attempt(() => api.send(`${path}?purge=true`, { method: "DELETE" }))) location.assign("/");
  }

  const FILES = [
    ["Report as one file", "report", "report.html"],
    ["Report as archive", "report?format=zip", "report.zip"],
    ["Transcripts", "transcripts", "transcripts.jsonl"],
    ["Transcripts: Parquet", "transcripts?format=parquet", "transcripts.parquet"],
    ["Scores", "scores?format=jsonl", "scores.jsonl"],
    ["Tables: CSV", "tables?format=csv", "tables.csv"],
    ["Markdown", "tables?format=md", "tables.md"],
    ["LaTeX", "tables?format=tex", "tables.tex"],
  ];

  function files() {
    byId("run-files").hidden = false;
    byId("run-files").replaceChildren(...FILES.map(([text, from, name]) =>
      button(text, () => shell.attempt(() => api.save(`${path}/${from}`, `${id}-${name}`)))));
  }

  /* ---- what it found ---- */

  const picture = (_, name, small) => api.picture(`${path}/images/${name}${small ? "?small=true" : ""}`);

  async function showFinished() {
    const place = byId("findings");
    place.setAttribute("aria-busy", "true");
    if (!place.children.length) place.replaceChildren(make("p", { class: "hint" }, "The report is being put together…"));
    const of = shown;
    const page = await shell.attempt(() => api.get(parts));
    if (of !== shown) return undefined;
    place.setAttribute("aria-busy", "false");
    if (!page) return place.replaceChildren();
    // The server wrote it; what models said is escaped in it, and the page's policy runs no script.
    place.innerHTML = page.html;
    files();
    const blocks = samples.inBlocks(page.index, (number) => api.get(`${parts}/blocks/${number}`));
    return browse({ index: page.index, ...blocks, picture });
  }

  let live = null;

  async function showLive() {
    const of = shown;
    const source = await jobs.pagedSource("/web/samples", picture, `&runs=${encodeURIComponent(id)}`);
    // It may have come to its end meanwhile.
    if (of !== shown) return;
    live = source;
    byId("run-files").hidden = true;
    const words = run.state === "stopped" || run.state === "failed"
      ? "It has not finished, so there are no scores yet. The replies so far are below."
      : "Scores and plots come when the run is done. The samples below are as far as they have come.";
    byId("findings").replaceChildren(make("p", { class: "hint" }, words));
    await browse(live);
  }

  let renewed = 0;

  /* Planning a page of samples takes the server some time: it is asked now and then. */
  async function renewLive() {
    const now = Date.now();
    if (!live || now - renewed < RENEW_SECONDS * 1000) return;
    renewed = now;
    const of = live;
    const changed = await of.renew();
    if (of === live) samples.renew(changed);
  }

  async function browse(source) {
    byId("browser").hidden = false;
    await samples.show(source);
    document.documentElement.dataset.ready = "";
  }

  /* ---- as time goes on ---- */

  /* Which samples a run shows: none, those of a running session, the finished ones. */
  function stage() {
    if (jobs.active(run) || !jobs.hasResult(run)) return run.progress.total ? `live ${run.state}` : "";
    return `done ${run.ended}`;
  }

  function change(update) {
    run = update;
    head();
    const now = stage();
    if (now !== shown) {
      shown = now;
      live = null;
      if (now.startsWith("done")) showFinished();
      else if (now) shell.attempt(showLive);
    }
    if (jobs.active(run)) {
      renewLive().catch(() => {});
      follow();
    }
  }

  function follow() {
    if (stop || document.hidden) return;
    stop = new AbortController();
    const { signal } = stop;
    jobs.watch(run, signal, (update) => { if (!signal.aborted) change(update); })
      .catch((error) => shell.show(error))
      .finally(() => { if (stop?.signal === signal) stop = null; });
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stop?.abort();
      stop = null;
    } else if (run && jobs.active(run)) {
      follow();
    }
  });

  async function start() {
    const loaded = await shell.attempt(() => Promise.all([api.get("/web/choices"), api.get(path)]));
    if (loaded) {
      [choices] = loaded;
      change(loaded[1]);
    }
    document.documentElement.dataset.ready ??= "";
  }

  start();
})();
