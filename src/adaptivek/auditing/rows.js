"use strict";
// The rows, a column each, the lowest score first, and which of them are shown in which order. Whatever they hold is text
// and nothing else.
const data = JSON.parse(document.getElementById("data").textContent);
const count = data.row.length;
const names = data.classes.map((name) => clip(name.trim() === "" ? "(empty)" : name, 80));
const collator = new Intl.Collator(undefined, { numeric: true });
const nameRank = ranks(data.classes);
const orders = {}; // each sorted once, when it is first asked for
const words = []; // what a search looks into, likewise
const SORTS = {
  score: (i) => i,
  "score-down": (i) => -i,
  loss: (i) => -(data.loss[i] ?? -Infinity),
  row: (i) => data.row[i],
  label: (i) => nameRank[data.label[i]],
  suggested: (i) => nameRank[data.suggested[i]],
};

function clip(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function ranks(texts) {
  const rank = new Array(texts.length);
  [...texts.keys()].sort((a, b) => collator.compare(texts[a], texts[b])).forEach((code, place) => (rank[code] = place));
  return rank;
}

function sorted(name) {
  if (!orders[name]) {
    const key = Float64Array.from({ length: count }, (_, i) => SORTS[name](i));
    const order = Uint32Array.from({ length: count }, (_, i) => i);
    orders[name] = order.sort((a, b) => key[a] - key[b] || a - b);
  }
  return orders[name];
}

function wordsOf(i) {
  if (words[i] === undefined) {
    const cells = data.columns ? data.columns.map((column) => column.cells[i] ?? "") : [data.text ? data.text[i] : ""];
    if (data.file) cells.push(data.file[i]);
    words[i] = cells.join("\n").toLowerCase();
  }
  return words[i];
}

// The places of the rows that pass, in order; `decisionOf` says keep, fix, drop or none.
function choose(filter, decisionOf) {
  const query = filter.query.trim().toLowerCase();
  const row = /^#\d+$/.test(query) ? Number(query.slice(1)) : null;
  return sorted(filter.sort).filter((i) =>
    (!filter.onlyFlagged || data.flagged[i]) &&
    (filter.observed < 0 || data.label[i] === filter.observed) &&
    (filter.suggested < 0 || data.suggested[i] === filter.suggested) &&
    (filter.decision === "any" || decisionOf(i) === filter.decision) &&
    (query === "" || (row === null ? wordsOf(i).includes(query) : data.row[i] === row)));
}
