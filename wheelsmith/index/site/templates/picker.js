
// Looks up the answers, which were computed when the page was rendered.
(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);

  const { quoted, joined, rendered, make, words } = Commands;

  const base = document.documentElement.dataset.served;
  for (const code of document.querySelectorAll("[data-base]")) {
    code.textContent = code.textContent.replaceAll(/"\$INDEX\/([^"]*)"/g, (_, rest) => quoted(base + rest));
  }
  for (const place of document.querySelectorAll("[data-index]")) place.textContent = quoted(base);

  const source = $("data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const picker = document.querySelector(".picker");
  const first = { ...Object.fromEntries(new URLSearchParams(data.first)), with: "absent", installer: "pip" };
  const names = Object.keys(first);
  const radios = Object.fromEntries(names.map((name) => [name, Array.from(picker.querySelectorAll(`[name="${name}"]`))]));
  const values = Object.fromEntries(names.map((name) => [name, radios[name].map((radio) => radio.value)]));
  const axes = new Set(data.axes.map(([name]) => name));
  let target = first;

  const answerTo = (wanted) => {
    const place = data.axes.reduce((sum, [name, all]) => sum * all.length + all.indexOf(wanted[name]), 0);
    return data.answers[data.lookup[place]];
  };
  const read = (query, otherwise) => {
    const given = new URLSearchParams(query);
    return Object.fromEntries(names.map((name) => {
      const value = given.get(name);
      return [name, values[name].includes(value) ? value : otherwise[name]];
    }));
  };
  const query = (wanted) => new URLSearchParams(wanted).toString();
  const commandFor = (wanted, answer) => {
    const wheel = data.wheels[answer.wheel];
    const slots = { ...wheel.slots, ...answer.slots, framework: answer.framework[wanted.with], base };
    const template = data.templates[wanted.installer][wanted.with][wheel.slots.requires.length ? 1 : 0];
    return [rendered(template, [slots]), template.note];
  };

  // An anchor in the address would replace the choices, which the address keeps.
  const reveal = (event) => {
    const details = document.querySelector(event.target.getAttribute("href"));
    event.preventDefault();
    for (let around = details; around; around = around.parentElement.closest("details")) around.open = true;
    details.scrollIntoView();
    details.querySelector("summary").focus({ preventScroll: true });
  };
  const showCommand = (answer) => {
    const [command, note] = commandFor(target, answer);
    const wheel = data.wheels[answer.wheel];
    const parts = [make("pre", { className: "command" }, make("code", { id: "command" }, ...words(command)))];
    for (const text of [...answer.notes, ...(note ? [note] : [])]) parts.push(make("p", { className: "note" }, text));
    const file = make("a", { className: "wheel-name", href: joined(base, wheel.slots.path) }, wheel.filename);
    const more = make("a", { href: `#wheel-${wheel.place}` }, "hash, GPU code, provenance");
    more.addEventListener("click", reveal);
    parts.push(make("p", { className: "chosen" }, file, `, ${wheel.size}: `, more));
    return parts;
  };
  const showReason = (answer) => {
    const parts = [make("p", { className: "reason" }, make("b", {}, "No wheel: "), `${answer.reason}.`)];
    if (answer.tail.length) {
      parts.push(make("details", {}, make("summary", {}, "Last lines of the log"),
        make("pre", { className: "code log", tabIndex: 0 }, answer.tail.join("\n"))));
    }
    if (answer.nearest.length) {
      const links = answer.nearest.flatMap(([change, to, fits]) =>
        [make("a", { href: `#${query(read(to, target))}` }, change), ...(fits ? ["(this torch runs it, too)"] : [])]);
      parts.push(make("p", { className: "nearest" }, "Nearest with a wheel: ", ...links));
    }
    return parts;
  };
  const isServed = (name, value) => !("reason" in answerTo({ ...target, [name]: value }));
  const show = () => {
    let dashed = false;
    for (const name of names) {
      // If no value of an axis has a wheel, the fault is in another axis.
      const helps = axes.has(name) && values[name].some((value) => isServed(name, value));
      for (const radio of radios[name]) {
        radio.checked = radio.value === target[name];
        const none = helps && !isServed(name, radio.value);
        dashed ||= none;
        radio.parentElement.classList.toggle("none", none);
        radio.setAttribute("aria-description", none ? "no wheel with the other choices" : "");
      }
    }
    $("dashed").hidden = !dashed;
    const answer = answerTo(target);
    const refused = "reason" in answer;
    $("result").replaceChildren(...(refused ? showReason(answer) : showCommand(answer)));
    $("answer").classList.toggle("refused", refused);
    $("address").textContent = `${base}${refused ? "simple" : answer.slots.root}/`;
  };

  picker.addEventListener("change", (event) => {
    target = { ...target, [event.target.name]: event.target.value };
    history.pushState(null, "", `#${query(target)}`);
    show();
  });
  const follow = () => {
    const hash = location.hash.slice(1);
    const opened = hash && !hash.includes("=") ? document.getElementById(hash) : null;
    if (opened) opened.open = true;
    else target = read(hash, hash ? target : first);
    show();
  };
  window.addEventListener("hashchange", follow);
  window.addEventListener("popstate", follow);
  // A cell of the matrix sets the choices of the picker. Its link itself would only open an anchor.
  for (const link of document.querySelectorAll("[data-target]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      location.hash = query(read(link.dataset.target, target));
      $("answer").scrollIntoView({ block: "center" });
    });
  }
  $("picker").hidden = false;
  follow();
})();
