"""`adaptivek methods`: the listing."""

from __future__ import annotations

from rich.table import Table

from ..support.modules import import_modules
from ..support.terminal import out
from .imports import Imports


def methods(imports: Imports = ()) -> None:
    """List the methods: a line, what each needs, its parameters and its paper.

    What they need beyond plain training: truth (which labels are clean), the noise ratio, warm-up (plain epochs
    first), logits (and not losses alone), rows (the number of each sample), epochs (to be told when one begins),
    a full pass (a forward pass over the training set per epoch), more networks or views of an image than one,
    mixing (of pairs of samples) or freezing (of parts of the network) by the training loop.
    The passes are the forwards and backwards of a step.
    """
    import_modules(imports)

    from ..methods import METHODS, defaults, needs, passes

    table = Table("method", "what it does", "needs", "passes", "parameters", "from", box=None, pad_edge=False)
    for name, method in METHODS.items():
        values = "\n".join(f"{key}={value}" for key, value in defaults(method).items())
        cost = " + ".join(map(str, passes(method)))
        table.add_row(name, method.summary, ", ".join(needs(method)), cost, values, method.paper)
    out.print(table)
