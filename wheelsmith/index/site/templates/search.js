
// Shows the projects that contain all words. The address keeps the words.
(() => {
  "use strict";
  const input = document.getElementById("search");
  if (!input) return;
  const rows = Array.from(document.querySelectorAll("#projects tbody tr"), (row) => [
    row,
    `${row.textContent};${row.dataset.finds}`.toLowerCase(),
  ]);
  const show = () => {
    // "torch 2.1" must not find torch 2.11, and "cuda 13" must find CUDA 13.0.
    const words = input.value.toLowerCase().replaceAll(/torch\s+(\d+\.\d+)/g, "torch $1;").match(/torch [\d.]+;|cuda \S+|\S+/g) ?? [];
    let found = 0;
    for (const [row, text] of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      found += !row.hidden;
    }
    document.getElementById("found").textContent = words.length ? `${found} of ${rows.length}` : "";
    document.getElementById("nothing").hidden = found > 0;
  };
  const read = () => {
    input.value = new URLSearchParams(location.hash.slice(1)).get("search") ?? "";
    show();
  };
  input.addEventListener("input", () => {
    show();
    try {
      history.replaceState(null, "", input.value ? `#${new URLSearchParams({ search: input.value })}` : location.pathname);
    } catch { /* browsers limit how often this may be called */ }
  });
  window.addEventListener("hashchange", read);
  document.querySelector(".search").hidden = false;
  read();
})();
