/* What every page has: light or dark, the token's button, and a place for what went wrong. */
"use strict";
const shell = (() => {
  const { byId } = dom;

  theme.start();
  byId("forget").hidden = !api.token();
  byId("forget").addEventListener("click", api.forget);

  /* Tell of a problem above everything, or (without one) of none. */
  function show(error) {
    const place = byId("problem");
    place.textContent = error ? dom.capital(error.message) : "";
    place.hidden = !error;
    if (error && !(error instanceof api.Problem)) throw error;
  }

  /* Do something, and show an error of the API on the page. */
  async function attempt(act) {
    try {
      const done = await act();
      show(null);
      return done;
    } catch (error) {
      if (error.name !== "AbortError") show(error);
      return undefined;
    }
  }

  /* A field's value as JSON has it; undefined where it is empty. */
  function valueOf(field) {
    if (field.type === "checkbox") return field.checked;
    if (field.value === "") return undefined;
    return field.type === "number" ? Number(field.value) : field.value;
  }

  const fieldsOf = (form) => [...form.elements].filter((field) => field.name);

  function clearFaults(form) {
    show(null);
    for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
    for (const fault of form.querySelectorAll(".fault")) fault.remove();
  }

  /* The field that a problem is about: the one of that name, or the nearest that holds it. */
  function faultyField(form, problem) {
    const fields = fieldsOf(form);
    const outer = (name) => name.slice(0, Math.max(name.lastIndexOf("."), name.lastIndexOf("["), 0));
    for (let name = problem.param ?? ""; name; name = outer(name)) {
      const match = fields.find((field) => field.name === name);
      if (match) return match;
    }
    return null;
  }

  /* Tell of a problem at the field that it is about; above the form where it is about none. */
  function blame(form, error) {
    const field = error instanceof api.Problem ? faultyField(form, error) : null;
    if (!field) {
      show(error);
      byId("problem").scrollIntoView({ block: "center" });
      return;
    }
    const id = `fault-${field.name}`;
    const fault = dom.make("span", { class: "fault problem", id, role: "alert" }, dom.capital(error.message));
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", id);
    (field.closest("label.field, fieldset") ?? field).append(fault);
    for (let box = field.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    field.focus();
    fault.scrollIntoView({ block: "nearest" });
  }

  /* Whether the token may use this page. If not, an error shows why, and the button is disabled. */
  function allows({ scopes }, scope, action, button) {
    const may = scopes.includes(scope);
    if (!may) show(new api.Problem(403, { message: `this token may not ${action}` }));
    if (button) button.disabled = !may;
    return may;
  }

  /* The choices of a select; those that are `unusable` can be seen, and not chosen. */
  function options(select, values, first, unusable = []) {
    const nodes = values.map((value) => {
      const option = dom.make("option", { value }, unusable.includes(value) ? `${value} (no key here)` : value);
      option.disabled = unusable.includes(value);
      return option;
    });
    if (first !== undefined) nodes.unshift(dom.make("option", { value: "" }, first));
    select.replaceChildren(...nodes);
  }

  return { show, attempt, valueOf, fieldsOf, clearFaults, blame, allows, options };
})();
