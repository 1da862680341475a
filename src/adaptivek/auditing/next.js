// What to look at next: the pair of labels in which most rows are left that are likely to be noisy.
const LAST = 20, SELDOM = 0.2; // decisions looked back at, and the share of noisy ones below which it is not worth going on
const say = (value) => value.toLocaleString("en");
let nextPair = null;

// Of the flagged rows: how many are left, and of each pair how many are left and were found noisy so far.
function review() {
  const pairs = new Map();
  let left = 0;
  for (let i = 0; i < count; i++) {
    const how = decisionOf(i);
    if (!data.flagged[i] && how === "none") continue;
    const key = `${data.label[i]} ${target(i)}`;
    const pair = pairs.get(key) ?? { observed: data.label[i], suggested: target(i), left: 0, noisy: 0, decided: 0 };
    if (how === "none") {
      pair.left++;
      left++;
    } else {
      pair.decided++;
      pair.noisy += how !== "keep";
    }
    pairs.set(key, pair);
  }
  return { left, pairs: [...pairs.values()] };
}

// Rows of a pair that are likely to be noisy; before anything is decided, half of them.
function worth(pair) {
  return pair.left * (pair.noisy + 1) / (pair.decided + 2);
}

function advise() {
  const { left, pairs } = review();
  const last = [...decided.keys()].slice(-LAST), noisy = last.filter((i) => decisionOf(i) !== "keep").length;
  const best = pairs.filter((pair) => pair.left).sort((a, b) => worth(b) - worth(a))[0];
  nextPair = best ?? null;
  let text;
  if (left === 0 && decided.size === 0) text = "No row is flagged. The rows of the lowest scores are below.";
  else if (left === 0) text = "All flagged rows are decided. Download the decisions and start the next round: it learns from "
    + "the labels as you have fixed them, and may find more.";
  else {
    const name = (code) => `“${names[code]}”`;
    text = `${say(left)} flagged ${left === 1 ? "row is" : "rows are"} undecided. `;
    if (last.length === LAST && noisy < SELDOM * LAST) {
      text += `Of your last ${LAST} decisions ${noisy} found a noisy label: little is left to find, and you may stop here. `;
    }
    text += `Most is to be found among observed ${name(best.observed)}, suggested ${name(best.suggested)}: `
      + `${say(best.left)} left` + (best.decided ? `, ${say(best.noisy)} of ${say(best.decided)} decided were noisy.` : ".");
  }
  field("next-text").textContent = text;
  field("next-go").hidden = nextPair === null;
}

function showNext() {
  field("filters").reset();
  field("observed").value = nextPair.observed;
  field("suggested").value = nextPair.suggested;
  field("decision").value = "none";
  apply();
  list.focus({ preventScroll: true });
}

// Goes on to the next row that is undecided, and leaves this one as it is.
function skip() {
  for (let place = chosen + 1; place < shown.length; place++) {
    if (decisionOf(shown[place]) === "none") {
      pick(place);
      return;
    }
  }
  pick(chosen + 1);
}
