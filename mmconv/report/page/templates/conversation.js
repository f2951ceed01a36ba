/* Conversations side by side, turn by turn: questions, answers, and how they were judged. */
"use strict";
const conversation = (() => {
  const { make, capital } = dom;

  /* Text with words marked in it. */
  function marked(text, words) {
    if (!words.length) return [text];
    const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const parts = text.split(new RegExp(`(${escaped.join("|")})`, "gi"));
    return parts.map((part, place) => (place % 2 ? make("mark", {}, part) : part));
  }

  /* A text under a title; open where it holds the words that are sought. */
  function folded(title, text, how) {
    const sought = how.words.length > 0 && text.toLowerCase().includes(how.words.join(" ").toLowerCase());
    return make("details", { class: "verdict", open: how.open || sought ? "" : null },
      make("summary", {}, ...title), make("p", {}, ...marked(text, how.words)));
  }

  function verdict(each, how) {
    const [, judge, call] = each.call.match(/^(?:(judge_\d+)\/)?(.*)$/s);
    const name = call.split("/")[0].replace(/_[AB]$/, "");
    const title = [make("span", { class: "how" }, judge ? `${name}, ${judge} ` : `${name} `)];
    if (each.said === undefined) title.push(make("span", { class: each.waits ? "waits" : "problem" }, each.problem));
    else title.push(make("b", {}, each.said));
    if (each.tries) title.push(make("span", { class: "how" }, ` (read after ${each.tries} tries)`));
    return folded(title, each.text, how);
  }

  function answer(each, how) {
    const box = make("div", { class: each.given ? "answer given" : "answer" });
    if (each.given) box.append(make("p", { class: "label" }, how.given));
    if (each.prompt) box.append(make("p", { class: "small" }, `asked by the prompt file ${each.prompt}`));
    if (each.thought) box.append(folded(["thought aloud"], each.thought, { words: how.words }));
    if (each.problem) box.append(make("p", { class: each.waits ? "waits" : "problem" }, each.problem));
    else box.append(make("p", { class: "text" }, ...(each.text ? marked(each.text, how.words) : [make("i", {}, "(empty)")])));
    if (each.facts || each.cut) {
      box.append(make("p", { class: "small" }, each.cut ? make("span", { class: "cut" }, "cut off ") : "", each.facts ?? ""));
    }
    box.append(...(each.verdicts ?? []).map((one) => verdict(one, how)));
    return box;
  }

  function question(message, how) {
    const text = marked(message.text, how.words);
    if (message.role !== "system") {
      const pictures = (message.pictures ?? []).map((name) => how.picture?.(name) ?? "");
      return make("div", { class: "asked" }, ...pictures, make("p", {}, ...text));
    }
    return make("details", { class: "asked" }, make("summary", {}, "system prompt"), make("p", {}, ...text));
  }

  /* A heading `below` the page's own heading of a turn, which is on `how.level`. */
  function heading(how, below, ...content) {
    return make(`h${how.level + below}`, ...content);
  }

  function side(cells, how, fill) {
    const box = make("div", { class: "columns", style: `--columns: ${cells.length}` });
    for (const [column, each] of cells) {
      const title = how.title(column);
      const head = title ? heading(how, 1, { class: "column-title", style: `--colour: ${how.colour(column)}` }, title) : "";
      box.append(make("div", { class: "column" }, head, ...(each ? fill(each) : [])));
    }
    return box;
  }

  /* Questions that all columns share stand above them, once. */
  function turn(number, cells, how) {
    const asked = JSON.stringify(cells.find(([, each]) => each)[1].asked);
    const shared = cells.every(([, each]) => !each || JSON.stringify(each.asked) === asked);
    const title = [how.turnName(number), ...how.tags(number)].join(" · ");
    const box = make("section", { class: "turn" }, heading(how, 0, { class: "turn-title" }, capital(title)));
    if (shared) box.append(...JSON.parse(asked).map((each) => question(each, how)));
    box.append(side(cells, how, (each) => [
      ...(shared ? [] : each.asked.map((one) => question(one, how))),
      ...each.answers.map((one) => answer(one, how)),
    ]));
    return box;
  }

  /* The turns of all columns, and what was said of whole conversations.

     `how` says how it is shown: `title` and `colour` of a column, `turnName` and `tags` of a turn,
     `overall` and `given` as words, `picture` of a question (a node by its name), `words` that are
     marked, `open` for rationales that are, `level` of the headings of turns. */
  function draw(columns, how) {
    const all = new Set(columns.flatMap((column) => column.turns.map((each) => each.n)));
    const boxes = [...all].sort((one, two) => one - two).map((number) => {
      const cells = columns.map((column) => [column, column.turns.find((each) => each.n === number)]);
      return turn(number, cells, how);
    });
    if (columns.some((column) => column.verdicts.length)) {
      const box = make("section", { class: "turn" }, heading(how, 0, { class: "turn-title" }, capital(how.overall)));
      const cells = columns.map((column) => [column, column]);
      box.append(side(cells, how, (column) => column.verdicts.map((one) => verdict(one, how))));
      boxes.push(box);
    }
    return boxes;
  }

  return { draw, folded };
})();
