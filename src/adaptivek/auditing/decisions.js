// What was decided for each row, remembered by the browser where it can, undone, and written as CSV.
const KEEP = -1, DROP = -2; // any other decision is the class to fix to
const decided = new Map();
const past = []; // for each step, the rows it changed as they were before
const storeName = `adaptivek-audit-${data.key}`;
let remembers = true, saving = 0;

function decisionOf(i) {
  const value = decided.get(i);
  return value === undefined ? "none" : value === KEEP ? "keep" : value === DROP ? "drop" : "fix";
}

// What Fix of a row makes of it: what is suggested, or else the most likely class besides the label.
function target(i) {
  return data.suggested[i] === data.label[i] ? data.other[i] : data.suggested[i];
}

// `how` is keep, drop, clear, fix (to what is suggested) or the number of a class. Says how many rows it changed.
function decide(places, how) {
  const before = [];
  for (const i of places) {
    let value = { keep: KEEP, drop: DROP, clear: undefined, fix: data.suggested[i] }[how];
    if (typeof how === "number") value = how;
    if (value === data.label[i]) {
      if (how === "fix") continue; // nothing else is suggested: it takes a class to fix it to
      value = KEEP;
    }
    if (value === decided.get(i)) continue;
    before.push([i, decided.get(i)]);
    put(i, value);
  }
  if (before.length) past.push(before);
  save();
  return before.length;
}

// Takes the last step back, and says where it was.
function undo() {
  const before = past.pop() ?? [];
  for (const [i, value] of before) put(i, value);
  save();
  return before.length ? before[0][0] : -1;
}

function put(i, value) {
  if (value === undefined) decided.delete(i);
  else decided.set(i, value);
}

function save(now = false) {
  clearTimeout(saving);
  saving = now ? 0 : setTimeout(save, 300, true);
  if (now) {
    try {
      localStorage.setItem(storeName, JSON.stringify([...decided].map(([i, value]) => [data.row[i], value])));
    } catch {
      remembers = false; // forbidden or full: the download works all the same
    }
  }
}

// Decisions of an earlier round, or what has been decided since. What is stored can be of any page on this disk: only
// what fits is taken.
function load() {
  for (const [i, value] of data.earlier ?? []) decided.set(i, value);
  try {
    const text = localStorage.getItem(storeName);
    if (text === null) return;
    const stored = JSON.parse(text);
    if (Array.isArray(stored)) decided.clear();
    const place = new Map(data.row.map((row, i) => [row, i]));
    for (const [row, value] of stored) {
      const fits = Number.isInteger(value) && value >= DROP && value < data.classes.length;
      if (fits && place.has(row)) decided.set(place.get(row), value);
    }
  } catch {
    remembers = false;
  }
}

// A spreadsheet must not run it, a reader must get it back: an apostrophe goes before what begins like a formula, at the
// start or after what some spreadsheet may split at. Quotes and apostrophes that stand there already count as part of
// it, so that taking one apostrophe away gives the label again. A plain number is no formula and stays.
function csvCell(text) {
  const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);
  const safe = number ? text : text.replace(/(?<=^|[;\t\r\n])(?=["']*[=+\-@\t＝＋－＠])/g, "'");
  return /[",;\r\n\t]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csv() {
  const cells = data.classes.map(csvCell);
  const lines = (data.dropped ?? []).map(([row, label]) => [row, `${row},${cells[label]},,drop`]); // in earlier rounds
  for (const i of sorted("row")) {
    const value = decided.get(i), decision = decisionOf(i);
    const label = decision === "drop" ? "" : decision === "fix" ? cells[value] : cells[data.label[i]];
    const said = decision === "none" ? "undecided" : decision;
    lines.push([data.row[i], `${data.row[i]},${cells[data.label[i]]},${label},${said}`]);
  }
  lines.sort((a, b) => a[0] - b[0]);
  return ["row,label,corrected_label,decision", ...lines.map(([, line]) => line), ""].join("\r\n");
}
