"""The audit beside the best, on made and on real noise.

    ADAPTIVEK_DATA=data python benchmarks/audit_real.py --out runs/audit-real
    python benchmarks/audit_real.py --out runs/audit-real --cells "news8 pair 0.2" labelme_amt
    python benchmarks/audit_real.py --out runs/audit-real --table          # the tables again from what is there
    python benchmarks/audit_real.py --out runs/audit-real --held-back      # the sets by which nothing was chosen
    python benchmarks/audit_real.py --speed                                # seconds for up to 20,000 rows

Rivals: cleanlab with 5-fold logistic regression (TF-IDF or scaled features), cleanlab with our held-out predictions
(its score is then their probability of the label), the area under the margin of a linear model trained for 20 epochs
(AUM), and the share of the ten nearest rows with the same label (SimiFeat's idea; nearest by the 100 largest components
of TF-IDF, or by scaled features). The better way of cleanlab is that with the higher value, in each cell and for each
measure. Downstream: balanced accuracy of the usual logistic regression, trained on the data as given, on the cleaned
data of ours, and on the rows that cleanlab does not flag; on test rows with true labels. Seconds are the processor's;
the data is in memory. Lines go to results.jsonl as they come, held-out predictions beside it; cells that are there are
not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from audit_cells import DATA, HELD_BACK, Cell, cells, linear, take
from measurements import read_lines
from sklearn.datasets import make_classification
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

import adaptivek

EPOCHS, NEIGHBOURS = 20, 10


def flat(cell: Cell) -> Any:
    return cell.x if cell.kind == "text" else np.reshape(cell.x, (len(cell.labels), -1)).astype(np.float32)


def embedded(cell: Cell) -> np.ndarray:
    if cell.kind != "text":
        return StandardScaler().fit_transform(flat(cell))
    words = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(cell.x)
    found = TruncatedSVD(min(100, words.shape[1] - 1), random_state=0).fit_transform(words)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


def margins(cell: Cell) -> np.ndarray:
    """The mean over the epochs of the label's logit less the highest other one."""
    if cell.kind == "text":
        x = TfidfVectorizer().fit_transform(cell.x).tocsr()
    else:
        x = StandardScaler().fit_transform(flat(cell))
    classes, rows = np.unique(cell.labels), np.arange(len(cell.labels))
    model = SGDClassifier(loss="log_loss", alpha=1e-4, random_state=0)
    total = np.zeros(len(rows))
    for _ in range(EPOCHS):
        logits = model.partial_fit(x, cell.labels, classes).decision_function(x)
        logits = np.stack([-logits, logits], 1) / 2 if logits.ndim == 1 else logits
        own = np.searchsorted(classes, cell.labels)
        label = logits[rows, own].copy()
        logits[rows, own] = -np.inf
        total += label - logits.max(1)
    return total


def neighbours(cell: Cell) -> np.ndarray:
    """How many of the nearest rows have the same label; of equally many, by how near they are."""
    x = embedded(cell)
    far, near = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(x).kneighbors(x)
    same = cell.labels[near[:, 1:]] == cell.labels[:, None]
    return same.mean(1) - 1e-3 * far[:, 1:].mean(1) / far[:, 1:].mean()


def cleanlab(labels: np.ndarray, p: np.ndarray) -> dict[str, np.ndarray]:
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    kept = np.unique(labels)  # it wants every class to have a row
    codes, p = np.searchsorted(kept, labels), p[:, kept].astype(np.float64)
    p = np.maximum(p, 1e-9) / np.maximum(p, 1e-9).sum(1, keepdims=True)
    return {"score": get_label_quality_scores(codes, p), "flagged": find_label_issues(codes, p, n_jobs=1)}


def measured(
    cell: Cell, score: np.ndarray, flagged: np.ndarray | None, seconds: float, removed: np.ndarray | None = None
) -> dict[str, Any]:
    line: dict[str, Any] = {"seconds": round(seconds, 2)}
    if cell.noisy.any():
        line["auroc"] = round(float(roc_auc_score(cell.noisy, -score)), 4)
        line["ap"] = round(float(average_precision_score(cell.noisy, -score)), 4)
    if flagged is not None:
        hits = int((flagged & cell.noisy).sum())
        line["flagged"] = round(float(flagged.mean()), 4)
        line["precision"] = round(hits / max(1, int(flagged.sum())), 4) if flagged.any() else None
        line["recall"] = round(hits / cell.noisy.sum(), 4) if cell.noisy.any() else None
        line["downstream"] = downstream(cell, ~(flagged if removed is None else removed))
    return line


def downstream(cell: Cell, kept: np.ndarray) -> float | None:
    if not len(cell.test.y):
        return None
    rows, kind = np.flatnonzero(kept), "text" if cell.kind == "text" else "features"
    test = cell.test.x if kind == "text" else np.reshape(cell.test.x, (len(cell.test.y), -1))
    model = linear(kind, cell.x).fit(take(flat(cell), rows), cell.labels[rows])
    return round(float(balanced_accuracy_score(cell.test.y, model.predict(test))), 4)


def run(cell: Cell, folder: Path) -> dict[str, Any]:
    classes = int(max(cell.labels.max(), cell.gold.max())) + 1
    line: dict[str, Any] = {"cell": cell.name, "group": cell.group, "kind": cell.kind, "rows": len(cell.labels)}
    line |= {"classes": classes, "true": round(float(cell.noisy.mean()), 4)}
    line["as given"] = {"downstream": downstream(cell, np.ones(len(cell.labels), bool))}
    x = cell.x if cell.kind in ("text", "image") else np.asarray(cell.x, np.float32)
    started = time.process_time()
    result = adaptivek.audit(x, cell.labels, device="cpu")
    seconds = time.process_time() - started
    if len(result.row) != len(cell.labels):
        raise ValueError(f"{cell.name}: no row may be skipped, got {len(result.skipped)}")
    line["ours"] = measured(cell, result.score, result.is_issue, seconds, result.removed)
    line["ours"] |= {"ratio": result.noise_ratio, "low": result.noise_ratio_low, "high": result.noise_ratio_high,
                     "by_rule": result.by_rule, "warned": bool(result.warnings)}  # fmt: skip
    found = result.held_out
    assert found is not None
    p = np.zeros((len(cell.labels), classes), np.float32)
    seen = np.array([int(name) for name in result.classes])
    p[:, seen] = found.of_all(len(seen))
    name = "".join(letter if letter.isalnum() else "_" for letter in cell.name)
    np.savez_compressed(folder / f"{name}.npz", p=p, labels=cell.labels, gold=cell.gold)
    chosen = p[np.arange(len(p)), cell.labels]
    line["held-out probability"] = measured(cell, chosen, None, 0)
    line["cleanlab, ours"] = measured(cell, **cleanlab(cell.labels, p), seconds=seconds)
    if cell.kind != "image" or len(cell.labels) < 5_000:
        started = time.process_time()
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        model = linear("text" if cell.kind == "text" else "features", cell.x)
        out = np.zeros((len(cell.labels), classes))
        out[:, np.unique(cell.labels)] = cross_val_predict(
            model, flat(cell), cell.labels, cv=folds, method="predict_proba"
        )
        theirs = cleanlab(cell.labels, out)
        line["cleanlab, LR"] = measured(cell, **theirs, seconds=time.process_time() - started)
        for name, score in (("AUM", margins), ("neighbours", neighbours)):
            started = time.process_time()
            line[name] = measured(cell, score(cell), None, time.process_time() - started)
    return line


def speed(sizes: tuple[int, ...] = (1_000, 5_000, 20_000)) -> None:
    """Seconds of the clock, and of the processor, beside cleanlab with five folds of logistic regression."""
    texts = pd.read_parquet(DATA / "sarcasm/train.parquet")
    adaptivek.audit(list(texts["text"][:200]), texts["label"][:200], device="cpu")  # so that imports do not count
    print("| data | rows | ours | cleanlab, LR | ours, of the processor | cleanlab, LR |\n|---|---|---|---|---|---|")
    for rows in sizes:
        frame = texts.sample(rows, random_state=0)
        table, classes = make_classification(rows, 20, n_informative=12, n_classes=6, random_state=0)
        for kind, x, y in (
            ("text", list(frame["text"]), frame["label"].to_numpy()),
            ("table", table.astype(np.float32), classes),
        ):
            start = clocks()
            adaptivek.audit(x, y, device="cpu")
            between = clocks()
            cleanlab(y, cross_val_predict(linear(kind, x), x, y, method="predict_proba"))
            times = [between - start, clocks() - between]
            clock = " | ".join(f"{both[place]:.2f}" for place in (0, 1) for both in times)
            print(f"| {kind} | {rows:,} | {clock} |", flush=True)


def clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}".replace("0.", ".", 1) if value < 1 else f"{value:.3f}"


def share(hits: list[bool]) -> str:
    return f"{sum(hits)} of {len(hits)}"


def tables(lines: list[dict[str, Any]]) -> str:
    """A line a cell; then a line a kind of noise."""
    rivals = ("cleanlab, LR", "AUM", "neighbours")
    text = [
        "| cell | true | ratio, ours (interval) | AUROC, ours / LR / AUM / neighbours | average precision | "
        "flagged: precision, recall, ours | cleanlab, LR | cleanlab, ours | balanced accuracy as given / ours / "
        "cleanlab, LR | seconds, ours / LR |",
        "|" + "---|" * 10,
    ]
    for line in lines:
        ours = line["ours"]
        low, true, high = ours["low"], line["true"], ours["high"]
        mark = "" if low <= true <= high else " (missed)"
        ranked = [
            " / ".join(number(line.get(who, {}).get(what)) for who in ("ours", *rivals)) for what in ("auroc", "ap")
        ]
        flags = [
            f"{number(line.get(who, {}).get('precision'))}, {number(line.get(who, {}).get('recall'))}"
            for who in ("ours", "cleanlab, LR", "cleanlab, ours")
        ]
        after = " / ".join(number(line.get(who, {}).get("downstream")) for who in ("as given", "ours", "cleanlab, LR"))
        times = f"{ours['seconds']:.1f} / {line.get('cleanlab, LR', {}).get('seconds', float('nan')):.1f}"
        text.append(
            f"| {line['cell']} | {number(true)} | {number(ours['ratio'])} ({number(low)} to {number(high)}){mark} | "
            + " | ".join([*ranked, *flags, after, times])
            + " |"
        )
    text += [
        "",
        "| noise | cells | interval holds | its mean width | AUROC, average precision at least those of cleanlab, LR | "
        "of cleanlab, the better way | at most .005 AUROC and .02 average precision below the held-out probability | "
        "balanced accuracy at most half a point below as given |",
        "|" + "---|" * 8,
    ]
    groups = sorted({line["group"] for line in lines})
    for group in [*groups, "all"]:
        mine = [line for line in lines if group in (line["group"], "all")]
        ranked_lines = [line for line in mine if "auroc" in line["ours"]]
        beside = [line for line in ranked_lines if "cleanlab, LR" in line]
        after_lines = [line for line in mine if line["as given"]["downstream"] is not None]
        text.append(
            f"| {group} | {len(mine)} | "
            + share([line["ours"]["low"] <= line["true"] <= line["ours"]["high"] for line in mine])
            + f" | {np.mean([line['ours']['high'] - line['ours']['low'] for line in mine]):.3f} | "
            + ", ".join(ahead(beside, what, ("cleanlab, LR",)) for what in ("auroc", "ap"))
            + " | "
            + ", ".join(ahead(ranked_lines, what, ("cleanlab, LR", "cleanlab, ours")) for what in ("auroc", "ap"))
            + " | "
            + share([
                line["ours"]["auroc"] >= line["held-out probability"]["auroc"] - 0.005
                and line["ours"]["ap"] >= line["held-out probability"]["ap"] - 0.02
                for line in ranked_lines
            ])
            + " | "
            + share([line["ours"]["downstream"] >= line["as given"]["downstream"] - 0.005 for line in after_lines])
            + " |"
        )  # fmt: skip
    return "\n".join([*text, "", *means(lines)])


def means(lines: list[dict[str, Any]]) -> list[str]:
    """Over the noisy cells in which all were run."""
    names = ("ours", "held-out probability", "cleanlab, LR", "AUM", "neighbours")
    whole = [line for line in lines if all("auroc" in line.get(name, {}) for name in names)]
    text = [f"| mean of {len(whole)} cells | {' | '.join(names)} |", "|" + "---|" * 6]
    for what, title in (("auroc", "AUROC"), ("ap", "average precision")):
        text.append(
            f"| {title} | {' | '.join(number(np.mean([line[name][what] for line in whole])) for name in names)} |"
        )
    return text


def ahead(lines: list[dict[str, Any]], what: str, rivals: tuple[str, ...]) -> str:
    """In how many cells this measure is at least that of every one of the rivals that were run."""
    return share([all(line["ours"][what] >= line[name][what] for name in rivals if name in line) for line in lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/audit-real"))
    parser.add_argument("--speed", action="store_true", help="seconds alone, for many rows")
    parser.add_argument("--cells", nargs="+", help="by default all that were developed on")
    parser.add_argument("--held-back", action="store_true", help="the sets by which nothing was chosen")
    parser.add_argument("--table", action="store_true", help="the tables alone, from the lines that are there")
    given = parser.parse_args()
    if given.speed:
        speed()
        return
    given.out.mkdir(parents=True, exist_ok=True)
    path, made = given.out / "results.jsonl", cells()
    lines = read_lines(path)
    if not given.table:
        chosen = given.cells or [name for name in made if (name in HELD_BACK) == given.held_back]
        done = {line["cell"] for line in lines}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in chosen:
                if name not in done:
                    lines.append(run(made[name](), given.out))
                    with path.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
                    print(json.dumps(lines[-1]), flush=True)
    shown = [line for line in lines if (line["cell"] in HELD_BACK) == given.held_back]
    (given.out / "table.md").write_text(tables(shown) + "\n")
    print(tables(shown))


if __name__ == "__main__":
    main()
