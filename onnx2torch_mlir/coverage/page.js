"use strict";
(() => {
  const form = document.getElementById("filters");
  const field = (name) => document.getElementById(name);
  const operators = [...document.querySelectorAll(".op")].map((element) => ({
    element,
    name: element.dataset.op,
    domain: element.dataset.domain,
    rows: [...element.querySelectorAll(".row")].map((row) => ({
      element: row,
      since: Number(row.dataset.since),
      until: row.dataset.until ? Number(row.dataset.until) : Infinity,
      marks: row.dataset.marks.split(" "),
    })),
  }));

  function fits(row, wanted) {
    if (wanted.opset && (wanted.opset < row.since || wanted.opset > row.until)) return false;
    const prefix = wanted.group + "." + wanted.mode + ".";
    return row.marks.some((mark) => mark.startsWith(prefix) && (!wanted.status || mark === prefix + wanted.status));
  }

  function apply() {
    const wanted = { opset: Number(field("opset").value) };
    for (const name of ["domain", "mode", "group", "status"]) wanted[name] = field(name).value;
    const text = field("search").value.trim().toLowerCase();
    let shown = 0, rows = 0;
    for (const operator of operators) {
      const named = operator.name.includes(text) && (!wanted.domain || wanted.domain === operator.domain);
      let some = false;
      for (const row of operator.rows) {
        row.element.hidden = !(named && fits(row, wanted));
        if (!row.element.hidden) { some = true; rows += 1; }
      }
      operator.element.hidden = !some;
      if (some) shown += 1;
    }
    field("count").textContent = shown + " of " + operators.length + " operators, " + rows + " version ranges";
    const state = new URLSearchParams();
    for (const control of form.elements) {
      if (control.id && control.value && control.value !== control.dataset.first) state.set(control.id, control.value);
    }
    try {
      history.replaceState(null, "", "#" + state);
    } catch {
      // Some browsers refuse this for a file that was opened from disk; the filters work all the same.
    }
  }

  for (const control of form.elements) control.dataset.first = control.value;
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (field(name) && form.contains(field(name))) field(name).value = value;
  }
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
})();
