"use strict";
// Hides the cases that a filter leaves out, and opens the case that a link names. The page has everything without it.
(() => {
  const form = document.getElementById("filter");
  const [text, operation, type, shown] = ["text", "operation", "type", "shown"].map(id => document.getElementById(id));
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const words = cell => cell.textContent.split(" ");
  const cases = [...document.getElementById("rows").rows].map(row => {
    const link = row.cells[1].querySelector("a");
    return {
      row,
      section: link && document.getElementById(link.hash.slice(1)).closest("details"),
      name: row.cells[1].textContent.toLowerCase(),
      status: row.cells[0].textContent,
      operations: words(row.cells[2]),
      types: words(row.cells[3]),
    };
  });
  const sections = document.getElementById("failures");
  const causes = [...document.querySelectorAll("details.cause")];

  function filter() {
    const wanted = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const statuses = new Set(boxes.filter(box => box.checked).map(box => box.value));
    let count = 0, open = 0;
    for (const one of cases) {
      const fits = statuses.has(one.status)
        && (!operation.value || one.operations.includes(operation.value))
        && (!type.value || one.types.includes(type.value))
        && wanted.every(word => one.name.includes(word));
      one.row.hidden = !fits;
      if (one.section) one.section.hidden = !fits;
      count += fits;
      open += fits && one.section ? 1 : 0;
    }
    for (const cause of causes) cause.hidden = !cause.querySelector("details.case:not([hidden])");
    if (sections) sections.hidden = open === 0;
    shown.textContent = `${count.toLocaleString("en")} of ${cases.length.toLocaleString("en")} cases`;
  }

  function openTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const details = target && target.closest("details");
    if (!details) return;
    for (let one = details; one; one = one.parentElement.closest("details")) {
      one.hidden = false;
      one.open = true;
    }
    (details.classList.contains("case") ? details : target).scrollIntoView();
  }

  for (const link of document.querySelectorAll(".matrix a")) {
    link.addEventListener("click", event => {
      event.preventDefault();
      operation.value = link.dataset.o || "";
      type.value = link.dataset.t || "";
      filter();
      form.scrollIntoView();
    });
  }
  form.addEventListener("input", filter);
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  window.addEventListener("hashchange", openTarget);
  form.hidden = false;
  filter();
  openTarget();
  performance.mark("usable");
})();
