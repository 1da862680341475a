// The row that is chosen, whole, with its decision.
const detail = document.getElementById("detail");
const another = document.createElement("select"); // made once: there can be many classes
another.id = "another";
another.append(new Option("another label…", "-1"), ...names.map((name, code) => new Option(name, code)));

function drawDetail() {
  const i = chosen < 0 ? -1 : shown[chosen];
  detail.classList.toggle("nothing", i < 0);
  if (i < 0) {
    detail.replaceChildren(element("p", "none", "No row passes the filters."));
    return;
  }
  const hadFocus = document.activeElement;
  const back = detail.contains(hadFocus) ? (hadFocus.dataset.how ?? hadFocus.id) : "";
  const head = element("p", "top");
  head.append(element("b", "", `Row ${data.row[i]}`), element("span", "", data.flagged[i] ? "flagged"
    : data.trusted && data.trusted[i] ? "trusted" : "not flagged"));
  const close = element("button", "close", "Close");
  close.type = "button";
  head.append(close);
  const facts = element("dl");
  const suggests = data.suggested[i] !== data.label[i];
  const other = element("span");
  other.append(bdi(names[data.other[i]]), ` (${percent(data.chance[i])})`);
  for (const [name, value] of [["observed", bdi(names[data.label[i]])],
    ["suggested", suggests ? bdi(names[data.suggested[i]]) : "–"], ["most likely besides", other],
    ["score", element("span", "", score(i))], ["loss", element("span", "", number(data.loss[i]))],
    ...(data.alike && data.alike[i] >= 0 ? [["same content, other label", `row ${data.alike[i]}`]] : []),
    ...(data.file ? [["file", bdi(data.file[i])]] : [])]) {
    const line = element("div"), right = element("dd");
    right.append(value);
    line.append(element("dt", "", name), right);
    facts.append(line);
  }
  const choice = element("div", "choice"), label = element("label", "", "Fix to ");
  another.value = decisionOf(i) === "fix" && decided.get(i) !== target(i) ? decided.get(i) : "-1";
  label.append(another);
  const skip = element("button", "skip", "Skip");
  skip.type = "button";
  skip.dataset.how = "skip";
  const decide = buttons(i, true);
  decide.append(skip);
  decide.querySelector(".fix").title = `to ${names[target(i)]}`;
  choice.append(decide, label);
  detail.dataset.decision = decisionOf(i);
  detail.replaceChildren(head, whole(i), facts, choice);
  if (back) (detail.querySelector(`[data-how="${back}"]`) ?? another).focus();
}

function percent(parts) {
  return `${(parts / 100).toFixed(1)} %`;
}

function whole(i) {
  if (data.pictures) return picture(i);
  if (data.columns) {
    const box = element("div", "whole"), cells = element("dl");
    for (const column of data.columns) {
      const line = element("div"), right = element("dd");
      right.append(bdi(number(column.cells[i])));
      const left = element("dt");
      left.append(bdi(column.name));
      line.append(left, right);
      cells.append(line);
    }
    box.append(cells);
    return box;
  }
  if (!data.text) return element("p", "none", "Features have no look: see the row in your data.");
  const box = element("div", "whole");
  box.append(bdi(data.text[i].trim() === "" ? "(empty)" : data.text[i]));
  const missing = data.missing[i];
  if (missing > 0) box.append(element("small", "", ` … and ${missing.toLocaleString("en")} more characters`));
  return box;
}
