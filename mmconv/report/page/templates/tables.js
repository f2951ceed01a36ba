/* Rows in the order of a column whose head is clicked: falling, rising, and as they were. */
"use strict";
addEventListener("click", (event) => {
  const head = event.target.closest?.("button.sort")?.parentElement;
  if (!head) return;
  const body = head.closest("table").tBodies[0];
  const rows = [...body.rows];
  rows.forEach((row, place) => (row.dataset.place ??= place));
  const order = { none: "descending", descending: "ascending", ascending: "none" }[head.ariaSort ?? "none"];
  for (const other of head.parentElement.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
  if (order !== "none") head.ariaSort = order;

  // A cell's first text is its value; what stands below it is the interval.
  const text = (row) => row.cells[head.cellIndex].firstChild?.textContent.trim() ?? "";
  const number = (row) => parseFloat(text(row).replaceAll(",", "").replace("\u2212", "-"));
  const place = (row) => Number(row.dataset.place);
  const sign = order === "descending" ? -1 : 1;
  const isWords = head.classList.contains("words");
  const compare = (one, two) => {
    if (order === "none") return place(one) - place(two);
    // a word may start with digits
    const [first, second] = isWords ? [NaN, NaN] : [number(one), number(two)];
    // rows without a number come last in either order
    if (isNaN(first) || isNaN(second)) return isNaN(first) - isNaN(second) || sign * text(one).localeCompare(text(two)) || place(one) - place(two);
    return sign * (first - second) || place(one) - place(two);
  };
  body.append(...rows.sort(compare));
});
