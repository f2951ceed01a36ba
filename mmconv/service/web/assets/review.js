/* Reviewing drafts: one at a time, edited, accepted or rejected. */
"use strict";
(() => {
  const { byId, make } = dom;
  const done = [];
  let fields = [];
  let drafts = [];
  let place = -1;
  let draft = null;

  const path = (id) => `/web/review/drafts/${encodeURIComponent(id)}`;
  const texts = () => Object.fromEntries([...byId("draft").elements].map((field) => [field.name, field.value]));
  const changed = () => draft && fields.some(({ name }) => texts()[name] !== draft.texts[name]);
  const matches = ({ status }) => !byId("filter").value || status === byId("filter").value;

  function progress() {
    const count = (status) => drafts.filter((one) => one.status === status).length;
    byId("bar").max = Math.max(drafts.length, 1);
    byId("bar").value = drafts.length - count("draft");
    byId("progress").textContent = `${count("verified")} of ${drafts.length} verified, ${count("rejected")} rejected, ${count("draft")} left`;
  }

  function input({ name, title, choices }, number) {
    const id = `field-${number}`;
    const list = choices.length ? make("datalist", { id: `${id}-list` }, ...choices.map((value) => make("option", { value }))) : "";
    const made = choices.length ? make("input", { name, id, list: `${id}-list` }) : make("textarea", { name, id, rows: 2 });
    made.value = draft.texts[name];
    return make("label", { class: "field", for: id }, title, made, list);
  }

  function show() {
    byId("reload").hidden = true;
    byId("draft-title").textContent = `Record ${draft.id}`;
    byId("state").textContent = draft.rater ? `${draft.status} by ${draft.rater}` : draft.status;
    byId("shown").replaceChildren(...draft.shown.map(({ name, text }) =>
      make("div", { class: "asked" }, make("span", { class: "hint" }, name), make("p", {}, text))));
    byId("draft").replaceChildren(...fields.map(input));
    work.pictures(draft.images);
    drafts[place].status = draft.status;
    progress();
  }

  async function open(number) {
    place = number;
    draft = await api.get(path(drafts[number].id));
    show();
    window.scrollTo({ top: 0, behavior: "instant" });
  }

  async function save(status) {
    const before = draft;
    try {
      draft = await api.post(path(draft.id), { rater: work.rater(), version: draft.version, texts: texts(), status });
    } catch (error) {
      byId("reload").hidden = error.code !== "changed";
      throw error;
    }
    done.push(before);
    drafts[place].status = draft.status;
  }

  /* Another draft that the filter shows, in a direction; stays where none is left. */
  async function move(step, edited = changed()) {
    if (edited) await save(draft.status);
    for (let number = place + step; number >= 0 && number < drafts.length; number += step) {
      if (matches(drafts[number])) return open(number);
    }
    return show();
  }

  async function decide(status) {
    await save(status);
    const left = drafts.some((one, number) => number > place && matches(one));
    if (left) return move(1, false);
    const first = drafts.findIndex(matches);
    return first >= 0 ? open(first) : show();
  }

  async function undo() {
    const before = done.pop();
    if (!before) return;
    const number = drafts.findIndex(({ id }) => id === before.id);
    const { version } = await api.get(path(before.id));
    place = number;
    draft = await api.post(path(before.id), { rater: work.rater(), version, texts: before.texts, status: before.status });
    show();
  }

  const ifThere = (something) => () => work.act(async () => (draft ? something() : undefined));
  const acts = {
    a: ifThere(() => decide("verified")),
    r: ifThere(() => decide("rejected")),
    u: ifThere(undo),
    ArrowLeft: ifThere(() => move(-1)),
    ArrowRight: ifThere(() => move(1)),
    l: ifThere(() => open(place)),
    e: () => byId("draft").elements[0]?.focus(),
  };
  work.keys(() => acts, { "Ctrl Enter": acts.a, Escape: () => document.activeElement.blur() });
  byId("draft").addEventListener("submit", (event) => event.preventDefault());
  byId("filter").addEventListener("change", ({ target }) => target.blur());
  byId("filter").addEventListener("change", ifThere(async () => {
    if (!matches(drafts[place])) await move(1);
  }));
  work.begin(async () => {
    ({ fields, drafts } = await api.get("/web/review"));
    progress();
    const first = drafts.findIndex(matches);
    if (first < 0) byId("filter").value = "";
    if (drafts.length) await open(Math.max(first, 0));
    else byId("draft-title").textContent = "The file has no draft";
  });
})();
