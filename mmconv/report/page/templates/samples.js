/* The browser of samples: list, filters, search, keys, and the sample that is open.

   Where samples come from is a source: `index`, the document of all of them; `sample(at)`;
   `picture(at, name, small)`, an address or null; `enlarged(at, name)`, the address of a larger
   picture, where `picture` gives out a small one in any case; `texts()`, all samples with their places, or null
   and why one cannot be had, without which there is no search; `more()`, which adds samples to the
   index, where there are more. */
"use strict";
const samples = (() => {
  const SHOWN_AT_ONCE = 150;
  const BLOCKS_KEPT = 64;
  const LETTERS = "mmconv-letter-keys";
  const COLOURS = ["series-1", "series-2", "series-3", "series-4", "series-5"];
  const { byId, make, button, reveal, capital, count } = dom;

  const state = {};
  let source = null;
  let index = null;
  let chosen = null;
  let found = null;
  let unread = { count: 0, why: "" };
  let order = [];
  let shownRows = SHOWN_AT_ONCE;
  let allOpen = false;
  let pictured = false;
  let used = false;

  /* `sample` and `texts` of a source whose samples come in blocks; `read` fetches one by number. */
  function inBlocks(document, read) {
    const blocks = new Map();
    function block(number) {
      if (!blocks.has(number)) {
        const reading = read(number);
        reading.catch(() => blocks.delete(number));
        blocks.set(number, reading);
        if (blocks.size > BLOCKS_KEPT) blocks.delete(blocks.keys().next().value);
      }
      return blocks.get(number);
    }
    const blockOf = (at) => block(Math.floor(at / document.block));
    return {
      blockOf,
      sample: async (at) => (await blockOf(at)).samples[at % document.block],
      async *texts() {
        for (let at = 0; at < document.samples.length; at += document.block) {
          const lost = document.samples.slice(at, at + document.block).fill(null);
          const held = await blockOf(at).catch((error) => ({ samples: lost, why: error.message }));
          yield* held.samples.map((sample, place) => [at + place, sample, held.why]);
        }
      },
    };
  }

  /* ---- the address says what is chosen ---- */

  function readAddress() {
    const text = location.hash.slice(1);
    if (!text.includes("=")) return false;
    for (const name of Object.keys(state)) delete state[name];
    for (const [name, value] of new URLSearchParams(text)) if (value) state[name] = value;
    return true;
  }

  const address = (change) => `#${new URLSearchParams(Object.entries({ ...state, ...change }).filter(([, value]) => value))}`;

  function writeAddress() {
    const text = address({});
    history.replaceState(null, "", text.length > 1 ? text : location.pathname + location.search);
  }

  /* ---- search ---- */

  const words = () => (state.q ?? "").split(/\s+/).filter(Boolean);

  function* textsIn(value) {
    if (typeof value === "string") yield value;
    else if (Array.isArray(value)) for (const each of value) yield* textsIn(each);
    else if (value) {
      for (const name of ["text", "about", "thought", "problem", "asked", "answers", "verdicts", "turns", "columns"]) {
        yield* textsIn(value[name]);
      }
    }
  }

  let searching = 0;
  async function search() {
    const mine = ++searching;
    const wanted = words().map((word) => word.toLowerCase());
    const missed = { count: 0, why: "" };
    if (!wanted.length || !source.texts) {
      found = null;
      unread = missed;
      return true;
    }
    const hits = new Set();
    for await (const [at, sample, why] of source.texts()) {
      if (mine !== searching) return false;
      if (!sample) {
        missed.count += 1;
        missed.why ||= why;
        continue;
      }
      const text = [sample.id, ...textsIn(sample)].join("\n").toLowerCase();
      if (wanted.every((word) => text.includes(word))) hits.add(at);
    }
    if (mine !== searching) return false;
    found = hits;
    unread = missed;
    return true;
  }

  /* ---- the list ---- */

  /* A square for each turn (across) under each condition of each run (down). */
  function matrix(sample) {
    const rows = index.runs.flatMap((_, run) => index.conditions.map((condition) => [run, condition]));
    if (!chosen.turns.length || chosen.turns.length > 12 || rows.length > 6) return null;
    const box = make("span", { class: "matrix", "aria-hidden": "true", style: `grid-template-columns: repeat(${chosen.turns.length}, auto)` });
    for (const [run, condition] of rows) {
      for (const turn of chosen.turns) {
        const value = chosen.score(sample, run, condition, chosen.scale, turn);
        const kind = typeof value === "number" ? null : typeof value === "string" ? "lost" : "none";
        const score = kind === "lost" ? `no score, ${index.reasons[value]}` : value;
        const title = `${chosen.label(condition)}, ${chosen.turnName(Number(turn))}: ${score}`;
        const shade = kind ? null : `--shade: ${Math.round(100 * chosen.shade(value))}%`;
        box.append(make("i", { class: kind, title: kind === "none" ? null : title, style: shade }));
      }
    }
    return box;
  }

  function row(at) {
    const sample = index.samples[at];
    const link = make("a", { href: address({ sample: sample.i }), class: pictured ? null : "plain", "aria-current": state.sample === sample.i ? "true" : null });
    if (pictured) {
      const image = make("img", { alt: "", width: 48, height: 48, class: "blank" });
      pictures.observe(image);
      image.dataset.at = at;
      link.append(image);
    }
    link.append(make("span", {}, make("span", { class: "name" }, sample.i), make("span", { class: "snippet" }, sample.t)));
    const box = matrix(sample);
    if (box) link.append(box);
    return make("li", {}, link);
  }

  const pictures = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      pictures.unobserve(entry.target);
      const at = Number(entry.target.dataset.at);
      const name = index.samples[at]?.p;
      if (name) source.picture(at, name, true).then((found) => found && entry.target.setAttribute("src", found), () => {});
    }
  });

  function list() {
    const held = [...byId("list").children].findIndex((each) => each.contains(document.activeElement));
    byId("list").replaceChildren(...order.slice(0, shownRows).map(row));
    byId("list").children[held]?.firstElementChild.focus({ preventScroll: true });
    byId("more").hidden = order.length <= shownRows && !source.more;
    const whole = count(index.samples.length, "sample", Boolean(source.more));
    const part = order.length === index.samples.length ? whole : `${order.length} of ${whole}`;
    byId("count").textContent = unread.count ? `${part} (${unread.count} could not be searched: ${unread.why})` : part;
  }

  async function more() {
    shownRows += SHOWN_AT_ONCE;
    if (order.length < shownRows && source.more) {
      await source.more();
      order = chosen.arranged(found);
    }
    list();
    markCurrent();
  }

  function markCurrent() {
    for (const link of byId("list").querySelectorAll("a[aria-current]")) link.removeAttribute("aria-current");
    const place = order.findIndex((at) => index.samples[at].i === state.sample);
    if (place < 0) return;
    if (place >= shownRows) {
      shownRows = place + SHOWN_AT_ONCE;
      list();
    }
    const link = byId("list").children[place].firstElementChild;
    link.setAttribute("aria-current", "true");
    const pane = byId("list").parentElement;
    const top = link.getBoundingClientRect().top - pane.getBoundingClientRect().top + pane.scrollTop;
    if (top < pane.scrollTop || top + link.offsetHeight > pane.scrollTop + pane.clientHeight) {
      pane.scrollTop = top - pane.clientHeight / 3;
    }
  }

  /* ---- one sample ---- */

  function columnTitle(column) {
    const many = index.conditions.length > 1;
    const parts = [index.runs.length > 1 ? index.runs[column.run] : "", many ? chosen.label(column.condition) : ""];
    return parts.filter(Boolean).join(" · ");
  }

  function colour(column) {
    const place = index.runs.length > 1 ? column.run : index.conditions.indexOf(column.condition);
    return `var(--${COLOURS[place % COLOURS.length]})`;
  }

  function how(entry, picture) {
    return {
      picture,
      title: columnTitle,
      colour,
      turnName: chosen.turnName,
      tags: (number) => chosen.tagsOf(entry, number).map(([, value]) => value),
      level: 4,
      overall: index.levels[0] ?? "Verdicts",
      given: index.given,
      words: words(),
      open: allOpen,
    };
  }

  const drawn = (entry, { found, larger, which }) => (found
    ? enlarging.picture(found, `${which} of sample ${entry.i}`, larger)
    : make("p", { class: "small" }, "The picture could not be had."));

  function head(entry, sample, images) {
    const box = make("div", { class: "detail-head" });
    box.append(...images.map((found) => drawn(entry, found)));
    const marks = (entry.m ?? []).map((mark) => make("li", { class: "mark" }, index.marks[mark]));
    const tags = chosen.tagsOf(entry).map(([name, value]) => make("li", { title: name }, value));
    box.append(make("div", { class: "about" },
      make("h3", {}, `Sample ${entry.i}`),
      tags.length + marks.length ? make("ul", { class: "tags" }, ...tags, ...marks) : "",
      make("div", { class: "steps" }, button("Previous", () => step(-1)), button("Next", () => step(1)),
        button(allOpen ? "Close rationales" : "Open rationales", openAll)),
      ...sample.about.map(({ name, text }) => conversation.folded([aboutTitle(name)], text, { words: words() }))));
    return box;
  }

  /* What the data say of a sample: its caption, and under a level's name the answer that is given. */
  const aboutTitle = (name) => (Object.values(index.levels).includes(name) ? `${index.given}: ${name}` : name);

  async function detail() {
    const from = source;
    const pane = byId("detail");
    const at = index.samples.findIndex((sample) => sample.i === state.sample);
    if (at < 0) {
      pane.replaceChildren(make("p", {}, state.sample ? `There is no sample ${state.sample} in this page.` : "No sample is open."));
      return;
    }
    const entry = index.samples[at];
    const current = () => from === source && entry.i === state.sample;
    let sample;
    try {
      sample = await from.sample(at);
    } catch (error) {
      if (current()) pane.replaceChildren(make("p", { class: "problem" }, error.message));
      return;
    }
    const images = await Promise.all((sample.pictures ?? []).map(async (name, place, { length }) => {
      const found = await from.picture(at, name, false);
      const which = length > 1 ? `Picture ${place + 1} of ${length}` : "The picture";
      return { found, which, larger: async () => (from.enlarged ? from.enlarged(at, name) : found) };
    }));
    if (!current()) return;
    const under = sample.columns.filter((column) => !chosen.condition() || column.condition === chosen.condition());
    const columns = under.length ? under : sample.columns;
    // Several pictures stand in the turns that they are of.
    const names = sample.pictures ?? [];
    const asked = names.length > 1 ? columns.flatMap((column) => column.turns).flatMap((turn) => turn.asked) : [];
    const inTurns = asked.flatMap((message) => message.pictures ?? []);
    const placeOf = (short) => names.findIndex((name) => name.startsWith(short));
    const apart = images.filter((_, place) => !inTurns.some((short) => placeOf(short) === place));
    const picture = (short) => (inTurns.includes(short) ? drawn(entry, images[placeOf(short)]) : "");
    replace(pane, head(entry, sample, apart), ...conversation.draw(columns, how(entry, picture)));
    byId("opened").textContent = `Sample ${entry.i}`;
  }

  /* Whoever was at one of the buttons is at the same one of the sample that is shown now. */
  function replace(pane, ...children) {
    const held = pane.contains(document.activeElement);
    const place = [...pane.querySelectorAll(".steps button")].indexOf(document.activeElement);
    pane.replaceChildren(...children);
    if (held) (pane.querySelectorAll(".steps button")[place] ?? pane).focus({ preventScroll: true });
  }

  /* ---- moving about ---- */

  async function open(name) {
    state.sample = name;
    writeAddress();
    markCurrent();
    await detail();
  }

  function step(by) {
    if (!order.length) return;
    tabs.show("samples");
    const now = order.findIndex((at) => index.samples[at].i === state.sample);
    const next = now < 0 ? 0 : Math.min(order.length - 1, Math.max(0, now + by));
    open(index.samples[order[next]].i);
    reveal(byId("detail"));
  }

  function openAll() {
    tabs.show("samples");
    allOpen = !allOpen;
    detail();
  }

  const isKnown = () => index.samples.some((sample) => sample.i === state.sample);

  /* The list as it is chosen; a sample that is not in it stays open only if the address asks for
     one that does not exist, which is told then. */
  async function refresh(asked = false) {
    const from = source;
    while (asked && state.sample && !isKnown() && from === source && from.more) await from.more();
    if (!(await search())) return;
    order = chosen.arranged(found);
    shownRows = SHOWN_AT_ONCE;
    list();
    const isMissing = asked && state.sample && !isKnown();
    if (!isMissing && !order.some((at) => index.samples[at].i === state.sample)) {
      state.sample = order.length ? index.samples[order[0]].i : "";
    }
    if (used) writeAddress();
    markCurrent();
    await detail();
  }

  /* ---- the filters' fields ---- */

  function choice(name, title, groups) {
    const select = make("select", { name });
    for (const [group, options] of groups) {
      const made = options.map(([value, text]) => make("option", { value }, text));
      if (group) select.append(make("optgroup", { label: group }, ...made));
      else select.append(...made);
    }
    return make("label", {}, title, select);
  }

  const any = (text) => ["", [["", text]]];

  function facetChoice(facet, number) {
    const groups = new Map();
    facet.values.forEach(([at, value], id) => {
      const group = facet.turned ? chosen.turnName(at) : "";
      if (!groups.has(group)) groups.set(group, new Map());
      groups.get(group).set(chosen.keys[number][id], value);
    });
    const sorted = [...groups].map(([group, options]) => [group, [...options].sort((one, two) => one[1].localeCompare(two[1], "en", { numeric: true }))]);
    return choice(facet.name, capital(facet.name), [any("any"), ...sorted]);
  }

  function scoreFields(several) {
    const { label, scale, metrics } = chosen;
    const conditions = index.conditions.map((name) => [name, label(name)]);
    const made = [choice("show", "Show", [any("all"), ...chosen.findings()])];
    if (chosen.turns.length > 1) made.push(choice("turn", "Turn", [any("any"), ["", chosen.turns.map((at) => [at, chosen.turnName(Number(at))])]]));
    if (conditions.length > 1) made.push(choice("condition", "Condition", index.runs.length > 1 ? [["", [["", conditions[0][1]], ...conditions.slice(1)]]] : [any("all"), ["", conditions]]));
    if (metrics.length > 1) made.push(choice("metric", "Metric", [any(label(scale)), ["", metrics.filter((name) => name !== scale).map((name) => [name, label(name)])]]));
    made.push(...index.facets.map(facetChoice));
    const from = make("input", { type: "number", name: "from", step: "any", "aria-label": "score from" });
    const to = make("input", { type: "number", name: "to", step: "any", "aria-label": "score to" });
    made.push(make("label", {}, "Score from, to", make("span", {}, from, " ", to)));
    const sorts = [["", "as run"], ["low", "lowest score first"], ["high", "highest score first"]];
    if (several && index.runs.length < 3) sorts.push(["gain", "largest gain first"]);
    else sorts.push(...index.runs.slice(1).map((name, at) => [`gain${at + 1}`, `largest gain of ${name} first`]));
    made.push(choice("sort", "Sort", [["", sorts]]));
    return made;
  }

  /* Without scores, only which condition of several runs is shown. */
  function conditionField() {
    const several = index.runs.length > 1 && index.conditions.length > 1;
    const [first, ...others] = index.conditions.map((name) => [name, chosen.label(name)]);
    return several ? [choice("condition", "Condition", [["", [["", first[1]], ...others]]])] : [];
  }

  function fields() {
    const made = index.columns.length ? scoreFields(index.conditions.length > 1 || index.runs.length > 1) : conditionField();
    const reset = button("Reset", () => {
      for (const name of Object.keys(state)) if (name !== "sample") delete state[name];
      showState();
      refresh();
    });
    byId("choices").replaceChildren(...made, reset);
    byId("filters").hidden = !source.texts && !made.length;
    byId("query").parentElement.hidden = !source.texts;
  }

  function showState() {
    byId("query").value = state.q ?? "";
    for (const field of byId("choices").querySelectorAll("select, input")) field.value = state[field.name] ?? "";
  }

  /* ---- events ---- */

  const KEYS = {
    j: () => step(1),
    ArrowRight: () => step(1),
    k: () => step(-1),
    ArrowLeft: () => step(-1),
    v: openAll,
    t: () => theme.change(),
    "/": () => {
      tabs.show("samples");
      byId("query").focus();
      byId("samples").scrollIntoView({ behavior: "instant" });
    },
    "?": () => byId("help").showModal(),
  };

  /* Whether arrows move what is on the keyboard's place to the side. */
  function scrolls(node) {
    if (!node) return false;
    const wide = node.scrollWidth > node.clientWidth && /auto|scroll/.test(getComputedStyle(node).overflowX);
    return wide || scrolls(node.parentElement);
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (!source || !KEYS[event.key] || (event.key.length === 1 && !byId("letters").checked)) return;
    if (event.key.startsWith("Arrow") && scrolls(event.target)) return;
    event.preventDefault();
    used = true;
    KEYS[event.key]();
  }

  function listen() {
    let waiting = 0;
    byId("letters").checked = dom.remembered(LETTERS) !== "off";
    byId("letters").addEventListener("change", (event) => dom.remember(LETTERS, event.target.checked ? "on" : "off"));
    document.addEventListener("keydown", key);
    byId("query").addEventListener("input", (event) => {
      state.q = event.target.value;
      used = true;
      clearTimeout(waiting);
      waiting = setTimeout(() => refresh(), 150);
    });
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("choices").addEventListener("change", (event) => {
      state[event.target.name] = event.target.value;
      used = true;
      refresh();
    });
    byId("more").addEventListener("click", more);
    byId("help-button").addEventListener("click", () => byId("help").showModal());
    addEventListener("hashchange", follow);
    addEventListener("beforeprint", () => {
      for (const each of document.querySelectorAll("#detail details")) each.open = true;
    });
  }

  /* Go where the address says: to a sample, to a choice of samples, or to a section. */
  async function follow() {
    if (!source || !readAddress()) return;
    used = true;
    showState();
    await refresh(true);
    reveal(state.sample ? byId("detail") : byId("samples"));
    byId("detail").focus({ preventScroll: true });
  }

  /* Show a source's samples, in place of those of another. */
  async function show(from) {
    const first = source === null;
    source = from;
    index = from.index;
    chosen = selection(index, state);
    pictured = index.samples.some((sample) => sample.p);
    if (first) {
      listen();
      if (matchMedia("(max-width: 48rem)").matches) byId("more-filters").open = false;
    }
    const asked = first && readAddress();
    fields();
    showState();
    await refresh(asked);
    if (asked) {
      used = true;
      byId("samples").scrollIntoView({ behavior: "instant" });
    }
  }

  /* The source's index tells other things of its samples: list them again, and where the one that
     is open is among the `changed`, show it again. */
  function renew(changed) {
    list();
    markCurrent();
    if (changed.has(state.sample)) detail();
  }

  return { show, renew, inBlocks };
})();
