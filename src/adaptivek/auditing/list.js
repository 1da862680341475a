// The list of rows. Only those in sight are in the page, however many there are.
const list = document.getElementById("list"), spacer = document.getElementById("spacer");
const pane = document.getElementById("window");
const TALLEST = 8e6; // pixels: browsers cannot make an element much taller than twice this
const BEYOND = 4; // rows above and below the sight
const DECISIONS = { keep: "Keep", fix: "Fix", drop: "Drop" };
let shown = new Uint32Array(0), chosen = -1; // places of the rows; which of them is chosen
let rowHeight = 96, drawn = new Map();

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text; // never as HTML
  return made;
}

function bdi(text, className = "") {
  const made = element("bdi", className, text); // right-to-left writing stays inside
  made.dir = "auto";
  return made;
}

function score(i) {
  return (data.score[i] / 1e4).toFixed(3);
}

function number(value) {
  return value === null || value === undefined ? "–" : String(value);
}

function labels(i) {
  const line = element("span", "labels");
  line.append(bdi(names[data.label[i]], "observed"));
  const value = decided.get(i);
  const target = decisionOf(i) === "fix" ? value : data.suggested[i];
  if (target !== data.label[i]) line.append(element("i", "arrow", "→"), bdi(names[target], "suggested"));
  if (data.alike && data.alike[i] >= 0) line.append(element("small", "alike", `same content as row ${data.alike[i]}`));
  return line;
}

function picture(i) {
  const url = data.pictures[i];
  if (!url) return element("span", "thumb", "no picture");
  const image = element("img", "thumb");
  image.src = url;
  image.alt = "";
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= 64)); // else it is a blur
  return image;
}

function content(i) {
  if (data.columns) {
    const line = element("span", "content");
    for (const column of data.columns.slice(0, 12)) {
      const pair = element("span", "cell");
      pair.append(bdi(`${clip(column.name, 40)} `, "name"), bdi(clip(number(column.cells[i]), 60)));
      line.append(pair, " ");
    }
    return line;
  }
  if (data.file) return bdi(data.file[i], "content file");
  if (data.text) return bdi(data.text[i].trim() === "" ? "(empty)" : clip(data.text[i], 300), "content");
  return "";
}

// Keep, Fix and Drop of a row; `reach` says whether the tab key gets to them.
function buttons(i, reach) {
  const group = element("span", "decide");
  for (const [how, name] of Object.entries(DECISIONS)) {
    const button = element("button", how, name);
    button.type = "button";
    button.dataset.how = how;
    button.tabIndex = reach ? 0 : -1;
    button.setAttribute("aria-pressed", decisionOf(i) === how);
    group.append(button);
  }
  return group;
}

function makeRow(place) {
  const i = shown[place], row = element("div", "row");
  row.id = `row-${i}`;
  row.dataset.place = place;
  row.dataset.decision = decisionOf(i);
  row.setAttribute("role", "row");
  row.setAttribute("aria-selected", place === chosen);
  row.setAttribute("aria-rowindex", place + 1);
  row.classList.toggle("flagged", Boolean(data.flagged[i]));
  const measure = element("span", "score");
  measure.append(element("b", "", score(i)), element("small", "", `row ${data.row[i]}`));
  const middle = element("span", "middle");
  middle.append(labels(i), content(i));
  const decide = buttons(i, false);
  decide.setAttribute("aria-hidden", "true"); // the keys do the same
  if (data.trusted && data.trusted[i]) measure.append(element("small", "", "trusted"));
  row.append(measure, ...(data.pictures ? [picture(i)] : []), middle, decide);
  for (const part of [measure, middle]) part.setAttribute("role", "gridcell");
  return row;
}

// Where the list is, in rows: the same as pixels over height, unless there are too many rows for that.
function tall() {
  const all = shown.length * rowHeight;
  return { all, spacer: Math.min(all, TALLEST), room: list.clientHeight };
}

function scrolled() {
  const { all, spacer, room } = tall();
  return spacer > room ? list.scrollTop * (all - room) / (spacer - room) : 0;
}

function draw() {
  const { spacer: height, room } = tall();
  spacer.style.height = `${height}px`;
  const top = scrolled();
  const first = Math.max(0, Math.floor(top / rowHeight) - BEYOND);
  const last = Math.min(shown.length, Math.ceil((top + room) / rowHeight) + BEYOND);
  const next = new Map();
  for (let place = first; place < last; place++) next.set(place, drawn.get(place) ?? makeRow(place));
  drawn = next;
  pane.style.transform = `translateY(${list.scrollTop - (top - first * rowHeight)}px)`;
  const rows = [...drawn.values()];
  if (rows.length !== pane.children.length || rows.some((row, k) => row !== pane.children[k])) {
    pane.replaceChildren(...rows);
  }
  list.classList.toggle("empty", shown.length === 0);
  list.setAttribute("aria-rowcount", shown.length);
}

function redraw() {
  drawn.clear();
  draw();
  drawDetail();
  if (chosen >= 0) list.setAttribute("aria-activedescendant", `row-${shown[chosen]}`);
  else list.removeAttribute("aria-activedescendant");
}

function measureRows() {
  const probe = pane.appendChild(element("div", "row"));
  rowHeight = probe.getBoundingClientRect().height || 96; // can be a fraction
  probe.remove();
  redraw();
}

function show(places, keep = -1) {
  shown = places;
  chosen = shown.length ? Math.max(0, shown.indexOf(keep)) : -1;
  list.scrollTop = 0;
  redraw();
  if (chosen > 0) into(chosen);
}

// Scrolls no further than it takes to have a row in sight.
function into(place) {
  const { all, spacer, room } = tall();
  const top = scrolled(), start = place * rowHeight;
  const wanted = start < top ? start : start + rowHeight > top + room ? start + rowHeight - room : top;
  if (wanted !== top) list.scrollTop = spacer > room ? wanted * (spacer - room) / (all - room) : 0;
}

function pick(place, scroll = true) {
  if (!shown.length) return;
  chosen = Math.min(shown.length - 1, Math.max(0, place));
  if (scroll) into(chosen);
  redraw();
}
