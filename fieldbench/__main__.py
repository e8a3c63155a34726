"""``python -m fieldbench``: the command line, where the script ``fieldbench`` is not installed."""

from __future__ import annotations

from fieldbench.cli.main import main

if __name__ == "__main__":
    main()
