
// Fills in where this index is served, and copies what stands beside a button.
(() => {
  "use strict";
  // The rule of install_commands.py, once more: nothing in it that a shell reads.
  const clean = (address) => address.replace(/[^A-Za-z0-9._~:/@%+=,[\]-]/gu, (sign) =>
    Array.from(new TextEncoder().encode(sign), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join(""));
  const root = document.documentElement;
  const here = location.href.split(/[?#]/)[0];
  const end = root.dataset.page === "project" ? here.lastIndexOf("/projects/") : -1;
  root.dataset.served = clean(end < 0 ? new URL(root.dataset.page === "project" ? "../../" : "./", here).href : here.slice(0, end + 1));
  for (const place of document.querySelectorAll("[data-address]")) place.textContent = root.dataset.served + place.dataset.address;
  for (const element of document.querySelectorAll("[data-scripted]")) element.hidden = false;

  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copy]");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy);
    const said = button.querySelector("span");
    try {
      await navigator.clipboard.writeText(text.textContent);
      said.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      said.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl-C";
    }
    setTimeout(() => { said.textContent = "Copy"; }, 2000);
  });
})();
