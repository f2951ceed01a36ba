/* The form of a new run. The API's errors appear at the fields that they name. */
"use strict";
(() => {
  const { byId, make, button, capital } = dom;
  const form = byId("new-form");
  let choices = null;

  const dataSet = () => choices.data.find((each) => each.name === form.elements.data.value);

  /* ---- what depends on the dataset ---- */

  function check(name, value, checked = false) {
    const box = make("input", { type: "checkbox", name, value });
    box.checked = checked;
    return make("label", { class: "check" }, box, ` ${value.replaceAll("_", " ")}`);
  }

  function showConditions(data) {
    byId("conditions").hidden = data.conditions.length < 2;
    byId("conditions").querySelector(".checks").replaceChildren(...data.conditions.map((name) => check("condition", name)));
  }

  /* The judge stays if it can judge this data; else it is the first model that is not the candidate. */
  function showJudges({ judges }) {
    const { "models.judge": select, "models.candidate": candidate } = form.elements;
    const before = select.value;
    shell.options(select, judges ?? choices.models, judges ? undefined : "none", choices.unusable);
    if (!judges) return;
    const fit = [...select.options].map((option) => (option.disabled ? null : option.value)).filter(Boolean);
    select.value = fit.find((name) => name === before) ?? fit.find((name) => name !== candidate.value) ?? fit[0] ?? "";
  }

  /* An option's field. Only what is set to another value than its own default is sent. */
  function optionField(option) {
    const name = `options.${option.name}`;
    const title = option.name.replaceAll("_", " ");
    if (option.kind === "choices") {
      const boxes = option.values.map((value) => check(name, value, (option.default ?? []).includes(value)));
      return make("fieldset", { name, title: option.about }, make("legend", {}, title), ...boxes);
    }
    const own = option.default ?? "";
    let field;
    if (option.kind === "choice") {
      field = make("select", { name });
      shell.options(field, option.values, option.default === null ? "not set" : undefined);
      field.value = own;
    } else if (option.kind === "flag") {
      field = make("select", { name });
      shell.options(field, ["true", "false"]);
      field.value = String(own);
    } else {
      field = make("input", { name, type: option.kind, step: option.step, placeholder: String(own) || "not set" });
    }
    return make("label", { class: "field", title: option.about }, title, field);
  }

  function showOptions(data) {
    byId("options").hidden = !data.options.length;
    byId("options-of").textContent = data.benchmark.name;
    byId("options-about").replaceChildren(...data.about.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part)));
    byId("option-fields").replaceChildren(...data.options.map(optionField));
  }

  function showData() {
    const data = dataSet();
    if (!data) return;
    shell.clearFaults(form);
    showConditions(data);
    showJudges(data);
    showOptions(data);
  }

  /* ---- models on further roles ---- */

  function addRole() {
    const role = make("input", { class: "role-name", pattern: "[A-Za-z0-9._-]+", placeholder: "gpt4", "aria-label": "Role" });
    const model = make("select", { class: "role-model", "aria-label": "Model in this role" });
    shell.options(model, choices.models, undefined, choices.unusable);
    role.addEventListener("input", () => { model.name = role.value ? `models.${role.value}` : ""; });
    const box = make("div", { class: "role" },
      make("label", { class: "field" }, "Role", role), make("label", { class: "field" }, "Model", model),
      button("Remove", () => box.remove()));
    byId("models").append(box);
    role.focus();
  }

  /* ---- sending ---- */

  const same = (one, two) => JSON.stringify(one) === JSON.stringify(two);

  function optionValue(option) {
    const name = `options.${option.name}`;
    if (option.kind === "choices") {
      return [...form.querySelectorAll(`input[name="${name}"]:checked`)].map((box) => box.value);
    }
    const value = shell.valueOf(form.elements[name]);
    return option.kind === "flag" ? value === "true" : value;
  }

  function options(data) {
    const set = data.options.map((option) => [option.name, optionValue(option), option.default])
      .filter(([, value, own]) => value !== undefined && !same(value, own));
    return Object.fromEntries(set.map(([name, value]) => [name, value]));
  }

  /* The request of the form, without fields that are not set. */
  function request() {
    const asked = {};
    for (const field of shell.fieldsOf(form)) {
      if (field.name.startsWith("options.") || field.name === "condition" || field.tagName === "FIELDSET") continue;
      const value = shell.valueOf(field);
      if (value === undefined) continue;
      const steps = field.name.split(".");
      const last = steps.pop();
      steps.reduce((inner, step) => (inner[step] ??= {}), asked)[last] = value;
    }
    const conditions = [...form.querySelectorAll("input[name=condition]:checked")].map((box) => box.value);
    if (conditions.length) asked.conditions = conditions;
    const set = dataSet() ? options(dataSet()) : {};
    if (Object.keys(set).length) asked.options = set;
    return asked;
  }

  /* A number that the browser cannot read has no value, which is an error. */
  function unreadable() {
    return shell.fieldsOf(form).find((field) => field.validity && !field.validity.valid && !field.validity.valueMissing);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    shell.clearFaults(form);
    const wrong = unreadable();
    if (wrong) {
      shell.blame(form, new api.Problem(400, { message: wrong.validationMessage, param: wrong.name }));
      return;
    }
    const start = form.querySelector("button.primary");
    start.disabled = true;
    try {
      const run = await api.post("/v1/runs", request());
      location.assign(jobs.address(run));
    } catch (error) {
      start.disabled = false;
      shell.blame(form, error);
    }
  });

  form.elements.data.addEventListener("change", showData);
  byId("add-role").addEventListener("click", addRole);

  async function begin() {
    choices = await shell.attempt(() => api.get("/web/choices"));
    if (!choices) return;
    shell.options(form.elements.data, choices.data.map((each) => each.name));
    for (const option of form.elements.data.options) {
      const { title } = choices.data.find((each) => each.name === option.value);
      if (title) option.textContent = `${title} (${option.value})`;
    }
    shell.options(form.elements["models.candidate"], choices.models, undefined, choices.unusable);
    showData();
    const allowed = shell.allows(choices, "run", "start runs", form.querySelector("button.primary"));
    if (allowed && !choices.data.length) {
      shell.show(new api.Problem(0, { message: "no dataset is here: runs need one (data: in the server's settings, or POST /v1/data)" }));
    }
    document.documentElement.dataset.ready = "";
  }

  begin();
})();
