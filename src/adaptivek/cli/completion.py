"""`adaptivek completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

import tyro


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional], /) -> None:
    """Print a script that lets your shell complete commands and options.

    bash: adaptivek completion bash > ~/.local/share/bash-completion/completions/adaptivek

    zsh: adaptivek completion zsh > DIR/_adaptivek, with DIR in your fpath

    fish: adaptivek completion fish > ~/.config/fish/completions/adaptivek.fish

    Args:
        shell: which shell you use
    """
    from . import main

    main(["--tyro-print-completion", shell])
