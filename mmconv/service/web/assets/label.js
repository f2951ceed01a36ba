/* Rating answers: one dialogue at a time, and in it one question after the other. */
"use strict";
(() => {
  const { byId, make, count } = dom;
  const done = [];
  let scale = null;
  let items = [];
  let place = 0;
  let page = null;
  let cursor = 0;

  const query = () => `rater=${encodeURIComponent(work.rater())}`;
  const send = (path, body) => api.post(`/web/label/${path}`, { rater: work.rater(), ...body });

  function take(state) {
    items = state.items;
    byId("bar").max = Math.max(state.total, 1);
    byId("bar").value = state.done;
    byId("progress").textContent = `You: ${count(state.own, "rating")}. All raters: ${state.done.toLocaleString("en")} of ${state.total.toLocaleString("en")}.`;
  }

  /* ---- what is shown ---- */

  function answers(turn, rated) {
    const now = rated.turn === turn.n;
    // A later turn is answered after the history that the model saw.
    const isHistory = turn.given !== null && rated.turn > turn.n;
    const boxes = (isHistory ? [turn.given] : turn.answers).map((answer, side) => {
      const title = !isHistory && turn.answers.length > 1 ? make("p", { class: "column-title" }, "AB"[side]) : "";
      return make("div", { class: now ? "answer now" : "answer" }, title, work.text(answer));
    });
    return make("div", { class: "columns", style: `--columns: ${boxes.length}` }, ...boxes);
  }

  function dialogue() {
    const rated = page.rated[cursor];
    const images = [...new Set(page.turns.flatMap((turn) => turn.asked.flatMap((asked) => asked.images)))];
    const asked = (one) => {
      const numbers = images.length > 1 ? one.images.map((name) => `image ${images.indexOf(name) + 1}`) : [];
      const note = numbers.length ? make("span", { class: "hint" }, `(${numbers.join(", ")}) `) : "";
      return make("div", { class: "asked" }, make("p", {}, note, one.text));
    };
    const turns = page.turns.map((turn) => make("section", { class: "turn" },
      make("h3", { class: "turn-title" }, `Turn ${turn.n}`), ...turn.asked.map(asked), answers(turn, rated)));
    const about = page.about.length ? [make("details", { id: "about" }, make("summary", {}, "What the data say"),
      ...page.about.flatMap(({ name, text }) => [make("h4", {}, name), work.text(text)]))] : [];
    const isOpen = byId("about")?.open;
    byId("dialogue").replaceChildren(...turns, ...about);
    if (isOpen) byId("about").open = true;
    work.pictures(images);
  }

  function panel() {
    const rated = page.rated[cursor];
    byId("question").textContent = scale.pairwise ? `Which is better: ${rated.name}?` : `Rate ${rated.name}`;
    const texts = scale.keys.map(({ text }) => text);
    byId("hint").textContent = scale.pairwise ? "" : `${scale.metric}: ${texts[0]} is lowest, ${texts.at(-1)} highest`;
    byId("choices").replaceChildren(...scale.keys.map(({ key, text }) => make("button", {
      type: "button", "data-press": key, "aria-pressed": String(rated.key === key), title: `Key ${key}`,
    }, text)));
    byId("ratings").replaceChildren(...page.rated.map(({ name, key }, number) => {
      const value = key === "" ? "skipped" : scale.keys.find((one) => one.key === key)?.text ?? "–";
      return make("li", { "aria-current": number === cursor ? "true" : null }, `${name}: `, make("b", {}, value));
    }));
  }

  function show() {
    dialogue();
    panel();
    byId("dialogue").querySelector(".now")?.scrollIntoView({ block: "nearest" });
  }

  function showEnd() {
    page = null;
    byId("question").textContent = "Nothing is left for you";
    byId("hint").textContent = "Thank you. What is still missing is with other raters.";
    for (const name of ["choices", "ratings", "dialogue", "images"]) byId(name).replaceChildren();
  }

  /* ---- moving ---- */

  async function open(number, turn) {
    place = items.findIndex(({ item }) => item === number);
    page = await api.get(`/web/label/items/${number}?${query()}`);
    const unrated = page.rated.findIndex(({ key }) => key === null);
    const named = turn === "last" ? page.rated.length - 1 : page.rated.findIndex((one) => one.turn === turn);
    cursor = Math.max(turn === undefined ? unrated : named, 0);
    show();
    if (!turn) window.scrollTo({ top: 0, behavior: "instant" });
  }

  /* The next question without a rating: here, in a later dialogue, in a new one, in an earlier one. */
  async function advance() {
    const following = page ? page.rated.findIndex(({ key }, number) => key === null && number > cursor) : -1;
    if (following >= 0) {
      cursor = following;
      return show();
    }
    const waiting = items.findIndex((one, number) => one.open && number > place);
    if (page && waiting >= 0) return open(items[waiting].item);
    const { item } = await send("next", {});
    if (item !== null) {
      items.push({ item, open: 1 });
      return open(item);
    }
    const earlier = items.find((one) => one.open);
    return earlier ? open(earlier.item) : showEnd();
  }

  async function back() {
    if (page && cursor > 0) {
      cursor -= 1;
      return show();
    }
    const before = page ? place - 1 : items.length - 1;
    return before >= 0 ? open(items[before].item, "last") : undefined;
  }

  async function forward() {
    if (!page) return undefined;
    if (cursor + 1 < page.rated.length) {
      cursor += 1;
      return show();
    }
    if (place + 1 < items.length) return open(items[place + 1].item, null);
    return page.rated.some(({ key }) => key === null) ? undefined : advance();
  }

  /* ---- rating ---- */

  async function rate(key) {
    if (!page) return;
    const rated = page.rated[cursor];
    const { item } = page;
    take(await send("ratings", { item, turn: rated.turn, key }));
    done.push({ item, turn: rated.turn, key: rated.key });
    rated.key = key;
    await advance();
  }

  async function undo() {
    const last = done.pop();
    if (!last) return;
    take(await send("ratings", last));
    await open(last.item, last.turn);
  }

  function about() {
    if (byId("about")) byId("about").open = !byId("about").open;
  }

  const acts = () => ({
    ...Object.fromEntries((scale?.keys ?? []).map(({ key }) => [key, () => work.act(() => rate(key))])),
    ArrowLeft: () => work.act(back),
    ArrowRight: () => work.act(forward),
    s: () => work.act(() => rate("")),
    u: () => work.act(undo),
    i: about,
  });
  work.keys(acts);
  work.begin(async () => {
    const state = await api.get(`/web/label?${query()}`);
    scale = state;
    take(state);
    const begun = items.find((one) => one.open);
    await (begun ? open(begun.item) : advance());
  });
})();
