
// Sets the system's theme or the chosen one before anything is drawn.
(() => {
  "use strict";
  const names = ["system", "light", "dark"];
  let theme = "system";
  try {
    theme = localStorage.getItem("wheelsmith-theme") ?? theme;
  } catch { /* a browser may deny storage to a page */ }
  const show = () => {
    if (!names.includes(theme)) theme = "system";
    document.documentElement.dataset.theme = theme;
    const name = document.getElementById("theme-name");
    if (name) name.textContent = theme;
  };
  show();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    button.hidden = false;
    button.addEventListener("click", () => {
      theme = names[(names.indexOf(theme) + 1) % names.length];
      try {
        localStorage.setItem("wheelsmith-theme", theme);
      } catch { /* as above */ }
      show();
    });
    show();
  });
})();
