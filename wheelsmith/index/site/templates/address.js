
// Inserts the address of this index, and copies the text next to a button.
(() => {
  "use strict";
  // The same rule as in install_commands.py: quote characters that a shell interprets.
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
    const label = button.querySelector("span");
    try {
      await navigator.clipboard.writeText(text.textContent);
      label.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      label.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl-C";
    }
    setTimeout(() => { label.textContent = "Copy"; }, 2000);
  });
})();
