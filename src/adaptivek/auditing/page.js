// Filters, clicks and keys.
const field = (id) => document.getElementById(id);
const SELECTS = ["observed", "suggested", "decision", "sort"];
let typing = 0;

function filter() {
  return {
    query: field("query").value, observed: Number(field("observed").value), suggested: Number(field("suggested").value),
    decision: field("decision").value, sort: field("sort").value, onlyFlagged: field("only-flagged").checked,
  };
}

function apply() {
  const now = chosen < 0 ? -1 : shown[chosen];
  show(choose(filter(), decisionOf), now);
  const rows = shown.length === 1 ? "row" : "rows";
  field("shown").textContent = `${shown.length.toLocaleString("en")} ${rows} shown of ${count.toLocaleString("en")}`;
  for (const button of document.querySelectorAll("[data-observed]")) {
    const { observed, suggested } = button.dataset;
    button.setAttribute("aria-pressed", observed === field("observed").value && suggested === field("suggested").value);
  }
}

function progress() {
  const numbers = { keep: 0, fix: 0, drop: (data.dropped ?? []).length }; // dropped in earlier rounds
  let flagged = 0;
  for (const i of decided.keys()) {
    numbers[decisionOf(i)]++;
    flagged += data.flagged[i];
  }
  const all = data.flagged.reduce((sum, each) => sum + each, 0);
  field("progress").textContent = `${say(flagged)} of ${say(all)} flagged rows decided: ${say(numbers.keep)} to keep, `
    + `${say(numbers.fix)} to fix, ${say(numbers.drop)} to drop in all.`;
  field("done").style.setProperty("--part", `${all ? 100 * flagged / all : 0}%`);
  field("undo").disabled = past.length === 0;
  advise();
  field("remembered").textContent = remembers ? "This browser remembers your decisions."
    : "This browser does not remember decisions of such a page: download before you close it.";
}

// Decides for the row that is chosen; by key, the next one follows.
function decideChosen(how, goOn) {
  if (chosen < 0) return;
  const same = decisionOf(shown[chosen]) === how;
  const to = how === "fix" ? target(shown[chosen]) : how;
  const done = decide([shown[chosen]], same && !goOn ? "clear" : to); // a second click takes it back
  if (goOn && (done || same)) pick(chosen + 1);
  else redraw();
  progress();
}

function takeBack() {
  const place = shown.indexOf(undo());
  if (place >= 0) pick(place);
  else redraw();
  progress();
}

for (const id of ["observed", "suggested"]) field(id).append(...names.map((name, code) => new Option(name, code)));
for (const id of [...SELECTS, "only-flagged"]) field(id).addEventListener("change", apply);
field("query").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(apply, 150);
});
field("filters").addEventListener("submit", (event) => event.preventDefault());
field("clear").addEventListener("click", () => {
  field("filters").reset();
  apply();
});

for (const button of document.querySelectorAll("[data-observed]")) {
  button.addEventListener("click", () => {
    field("observed").value = button.dataset.observed;
    field("suggested").value = button.dataset.suggested;
    // what agrees is not flagged
    if (button.dataset.observed === button.dataset.suggested) field("only-flagged").checked = false;
    apply();
    field("suspects").scrollIntoView();
    list.focus({ preventScroll: true });
  });
}

for (const button of document.querySelectorAll("[data-all]")) {
  button.addEventListener("click", () => {
    decide(shown, button.dataset.all);
    redraw();
    progress();
  });
}
field("undo").addEventListener("click", takeBack);
field("next-go").addEventListener("click", showNext);

list.addEventListener("scroll", () => requestAnimationFrame(draw));
list.addEventListener("click", (event) => {
  const row = event.target.closest(".row"), how = event.target.dataset.how;
  if (!row) return;
  pick(Number(row.dataset.place), false);
  if (how) decideChosen(how, false);
  else detail.classList.add("open");
});
list.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const page = Math.max(1, Math.floor(list.clientHeight / rowHeight) - 1);
  const moves = {
    ArrowDown: chosen + 1, ArrowUp: chosen - 1, PageDown: chosen + page, PageUp: chosen - page, Home: 0,
    End: shown.length - 1,
  };
  const keys = { k: "keep", f: "fix", d: "drop", u: "clear" };
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key in moves) pick(moves[key]);
  else if (key in keys) decideChosen(keys[key], true);
  else if (key === "s") skip();
  else if (key === "z") takeBack();
  else if (key === "Enter") {
    detail.classList.add("open");
    another.focus();
  }
  else return;
  event.preventDefault();
});
detail.addEventListener("click", (event) => {
  if (event.target.dataset.how === "skip") skip();
  else if (event.target.dataset.how) decideChosen(event.target.dataset.how, false);
  if (event.target.classList.contains("close")) detail.classList.remove("open");
});
another.addEventListener("change", () => decideChosen(Number(another.value) < 0 ? "clear" : Number(another.value), false));
another.addEventListener("keydown", (event) => {
  if (event.key === "Escape") list.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, select")) {
    field("query").focus();
    event.preventDefault();
  }
});
field("download").addEventListener("click", () => {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  link.download = "corrected.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
});
addEventListener("resize", measureRows);
addEventListener("pagehide", () => saving && save(true));

load();
field("only-flagged").defaultChecked = data.flagged.includes(1); // else the list would be empty
measureRows();
apply();
progress();
