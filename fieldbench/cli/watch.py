"""``fieldbench watch RUN``: the page of a run, live."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.options import RunFolder


def watch(
    run: RunFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine.", show_default="a free one")] = 0,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
) -> None:
    """Show the page of a run while it runs, in a browser on this machine.

    Tables, comparison and the time to go follow every trial, figures a little later. Nothing is written, nobody else on
    the network can see it, and Ctrl-C ends it; the run does not notice.

    **Examples**

        fieldbench watch runs/tap-tnn-radiomap1-1a2b3c4d
        fieldbench watch RUN --port 8000 --no-open
    """
    import webbrowser

    from fieldbench.report.watch import LOOPBACK, serve

    with serve(run, port) as server:
        address = f"http://{LOOPBACK}:{server.server_port}/"
        print(f"{address}  (Ctrl-C ends it)", flush=True)
        if show:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
