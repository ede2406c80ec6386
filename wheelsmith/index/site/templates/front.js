
// Filters the grid by what is true in one of its cells, and gives a command for the chosen projects.
// The address keeps the filters and the choice.
(() => {
  "use strict";
  const table = document.getElementById("projects");
  if (!table) return;
  const { rendered, make, words } = Commands;
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const columns = Array.from(table.querySelectorAll("thead [data-release]"), (heading) => ({ ...heading.dataset, heading }));
  const split = (text) => (text ? text.split(" ") : []);

  // All marks of the grid, each with its column, compute platform, CPU architectures and Pythons.
  const marksOf = (cell, column) => Array.from(cell.querySelectorAll(".mark"), (link) => {
    const compute = new URLSearchParams(link.hash).get("compute");
    const { arch, python } = link.parentElement.dataset;
    const { requirement, root, others } = link.dataset;
    return { link, column, compute, archs: split(arch), pythons: split(python), requirement, root, others: JSON.parse(others ?? "[]"),
      text: `${column.title};${column.framework} ${column.release};${link.title};${arch};`.toLowerCase() };
  });
  const projects = Array.from(table.tBodies[0].rows, (row) => {
    const cells = Array.from(row.querySelectorAll("[data-label]"));
    return { row, cells, name: row.dataset.project, box: row.querySelector("input"), text: row.cells[0].textContent.toLowerCase(),
      marks: cells.flatMap((cell, place) => marksOf(cell, columns[place])) };
  });
  const filters = { search: $("search"), torch: $("torch"), compute: $("compute"), arch: $("arch") };
  let at = ""; // the chosen combination of the group

  const chosen = () => projects.filter(({ box }) => box.checked);

  // --- the filters ---------------------------------------------------------------------------------------------------

  const filter = () => {
    // "torch 2.1" must not find torch 2.11, and "cuda 13" must find CUDA 13.0.
    const asked = filters.search.value.toLowerCase().replaceAll(/torch\s+(\d+\.\d+)/g, "torch $1;").match(/torch [\d.]+;|cuda \S+|\S+/g) ?? [];
    const [torch, compute, arch] = ["torch", "compute", "arch"].map((name) => filters[name].value);
    const narrow = torch || compute || arch;
    let found = 0;
    for (const { row, cells, text, marks } of projects) {
      // The rest of the words must be true of one combination.
      const rest = asked.filter((word) => !text.includes(word));
      const fits = (mark) => mark.requirement && (!torch || mark.column.title === torch) && (!compute || mark.compute === compute)
        && (!arch || mark.archs.includes(arch)) && rest.every((word) => mark.text.includes(word));
      const fitting = new Set(marks.filter(fits));
      for (const mark of marks) mark.link.classList.toggle("off", Boolean(narrow || rest.length) && !fitting.has(mark));
      row.hidden = Boolean(narrow || rest.length) && !fitting.size;
      found += !row.hidden;
      cells.forEach((cell, place) => { cell.hidden = Boolean(torch) && columns[place].title !== torch; });
    }
    for (const { heading, title } of columns) heading.hidden = Boolean(torch) && title !== torch;
    $("found").textContent = narrow || asked.length ? `${found} of ${projects.length}` : `${projects.length} projects`;
    $("nothing").hidden = found > 0;
    $("reset").hidden = !narrow && !asked.length;
  };

  // --- the group -----------------------------------------------------------------------------------------------------

  // Return the combinations that all of some projects have: column and compute platform → the wheels of each machine.
  const common = (group) => {
    const found = new Map();
    for (const { column, compute } of group[0]?.marks ?? []) {
      const key = `${column.title}/${compute}`;
      if (found.has(key) || (filters.torch.value && filters.torch.value !== column.title)) continue;
      if (filters.compute.value && filters.compute.value !== compute) continue;
      const here = group.map(({ marks }) => marks.filter((mark) => mark.requirement && mark.column === column && mark.compute === compute));
      const archs = new Set(here.flat().flatMap((mark) => mark.archs));
      const pythons = new Set(here.flat().flatMap((mark) => mark.pythons));
      for (const arch of archs) for (const python of pythons.size ? pythons : [""]) {
        const wheels = here.map((marks) => marks.find((mark) => mark.archs.includes(arch) && (!mark.pythons.length || mark.pythons.includes(python))));
        if (!wheels.every(Boolean) || (filters.arch.value && filters.arch.value !== arch)) continue;
        if (!found.has(key)) found.set(key, { column, compute, machines: [] });
        found.get(key).machines.push({ arch, python, wheels });
      }
    }
    return found;
  };
  const commandFor = ({ column, compute, machines }) => {
    const { wheels } = machines[0];
    const [installer, presence] = ["installer", "with"].map((name) => document.querySelector(`#group [name=${name}]:checked`).value);
    const torch = column.framework === "torch";
    const templates = data.templates[torch ? "torch" : "none"][installer][presence];
    const roots = new Set(wheels.map((mark) => mark.root));
    const shared = { base: document.documentElement.dataset.served, root: roots.size > 1 ? "simple" : wheels[0].root,
      ...(torch ? data.torch[column.release][compute][presence] : {}) };
    return rendered(templates[wheels.some(({ others }) => others.length) ? 1 : 0],
      wheels.map(({ requirement, others }) => ({ ...shared, requirement, requires: others })));
  };
  const same = (one, other) => one.wheels.every((mark, place) => mark.requirement === other.wheels[place].requirement);
  const names = (values) => Array.from(new Set(values)).join(", ");
  const combinations = (found) => names(Array.from(found.values(), ({ column }) => column.title));

  const choices = (found) => {
    const groups = new Map(columns.map(({ title }) => [title, []]));
    for (const [key, { column, compute }] of found) {
      const radio = make("input", { type: "radio", name: "at", value: key, checked: key === at });
      groups.get(column.title).push(make("label", {}, radio, make("span", {}, filters.compute.querySelector(`[value="${compute}"]`).textContent)));
    }
    return Array.from(groups, ([title, labels]) => (labels.length ? make("div", { className: "combinations" }, make("b", {}, title), ...labels) : ""));
  };
  const inTheWay = (group) => {
    const ways = group.map((project) => [project, common(group.filter((other) => other !== project))]).filter(([, rest]) => rest.size);
    if (group.length < 3 || !ways.length) return ["They have no combination in common."];
    return ways.flatMap(([project, rest], place) => [place ? make("br", {}) : "", make("b", {}, project.name), ` is in the way: the others have ${combinations(rest)} in common.`]);
  };
  const showGroup = () => {
    const group = chosen();
    $("group").hidden = !group.length;
    if (!group.length) return;
    const found = common(group);
    if (!found.has(at)) at = Array.from(found.keys()).sort((a, b) => columns.indexOf(found.get(a).column) - columns.indexOf(found.get(b).column))[0] ?? "";
    const best = [...found].filter(([, { column }]) => column === found.get(at)?.column).pop();
    if (best && !asked.has(at)) [at] = best;
    $("chosen").textContent = `Install ${group.length} ${group.length > 1 ? "projects" : "project"}`;
    $("summed").textContent = found.size ? `${combinations(found)} in common` : "nothing in common";
    $("members").replaceChildren(...group.map(({ name }) => make("button", { type: "button", className: "member", value: name, ariaLabel: `Remove ${name}` }, `${name} ×`)));
    $("common").replaceChildren(...choices(found));
    $("group").classList.toggle("refused", !found.size);
    const taken = found.get(at);
    $("command").replaceChildren(...(taken ? words(commandFor(taken)) : []));
    if (taken) {
      const machines = taken.machines.filter((machine) => same(machine, taken.machines[0]));
      const pythons = names(machines.map(({ python }) => python));
      $("machines").replaceChildren(`For ${names(machines.map(({ arch }) => arch))}${pythons ? `, Python ${pythons}` : ""}.`);
    } else $("machines").replaceChildren(...inTheWay(group));
  };

  // --- the address ---------------------------------------------------------------------------------------------------

  const asked = new Set(); // combinations that the user chose
  const show = () => { filter(); showGroup(); };
  const read = () => {
    const query = new URLSearchParams(location.hash.slice(1));
    for (const [name, field] of Object.entries(filters)) {
      field.value = query.get(name) ?? "";
      if (field.selectedIndex === -1) field.value = "";
    }
    const picked = split((query.get("projects") ?? "").replaceAll(",", " "));
    for (const { box, name } of projects) box.checked = picked.includes(name);
    at = query.get("at") ?? "";
    if (at) asked.add(at);
    show();
  };
  const write = () => {
    const values = Object.entries(filters).map(([name, field]) => [name, field.value]);
    const query = new URLSearchParams([...values, ["projects", chosen().map(({ name }) => name).join(",")], ["at", asked.has(at) ? at : ""]].filter(([, value]) => value));
    try {
      history.replaceState(null, "", query.size ? `#${query}` : location.pathname + location.search);
    } catch { /* browsers limit how often this may be called */ }
  };
  document.addEventListener("input", ({ target }) => {
    if (target.name === "at") asked.add(at = target.value);
    show();
    write();
  });
  document.addEventListener("click", ({ target }) => {
    const member = target.closest(".member");
    if (target.id === "reset") for (const field of Object.values(filters)) field.value = "";
    else if (target.id === "clear") for (const { box } of projects) box.checked = false;
    else if (member) projects.find(({ name }) => name === member.value).box.checked = false;
    else return;
    show();
    write();
  });
  window.addEventListener("hashchange", read);
  // On a phone, the group would hide the grid.
  document.querySelector("#group details").open = !matchMedia("(max-width: 36rem)").matches;
  read();
})();
