"""`python -m adaptivek` is the command `adaptivek`."""

from .cli import main

if __name__ == "__main__":
    main()
