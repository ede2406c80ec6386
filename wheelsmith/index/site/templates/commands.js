
// Fills the templates of install commands. The same rules as in install_commands.py: fill the slots, then quote.
const Commands = (() => {
  "use strict";
  const quoted = (word) => (word && !/[^\w@%+=:,./-]/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
  const filled = (word, slots) => {
    const whole = /^\{([a-z0-9_]+)\}$/.exec(word);
    if (whole && Array.isArray(slots[whole[1]])) return slots[whole[1]];
    return [word.replaceAll(/\{([a-z0-9_]+)\}/g, (_, name) => slots[name])];
  };
  const joined = (base, path = "") => (path.includes("://") ? path : base + path);
  const rendered = (template, wheels) => {
    const all = (word) => Array.from(new Set(wheels.flatMap((slots) => filled(word, { ...slots, url: joined(slots.base, slots.path) }))));
    const lines = template.lines.map((line) => line.flatMap(all));
    if (!template.shell) return lines.map((words) => words.join(" ")).join("\n");
    return template.before + lines.map((words) => words.map(quoted).join(" ")).join(" && ");
  };
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  // Lines may break between words, but not at the hyphens of an option.
  const words = (command) => command.split(/([ \n])/).map((word) => (word.trim() ? make("span", {}, word) : word));
  return { quoted, joined, rendered, make, words };
})();
