# SPDX-License-Identifier: MIT
"""A bar for results that arrive: in a notebook, or on a terminal."""
from __future__ import annotations

import operator
import sys
import time
from typing import Iterable, Iterator, Optional, TypeVar

T = TypeVar("T")

WIDTH = 40  # characters of a terminal's bar
PAUSE = 0.1  # seconds between two pictures, but for the last one


def progress(
    items: Iterable[T], total: Optional[int] = None, name: str = ""
) -> Iterator[T]:
    """Yields the items, and shows how many have come.

    For results of ``Executor.map``, or futures of ``as_completed``. ``total`` is
    how many there will be; without it, the length of ``items`` if they have one.
    In a notebook it is a bar below the cell, on a terminal a line on standard
    error; elsewhere nothing is shown.

    >>> sum(progress([1, 2, 3]))
    6
    """
    if total is None:
        total = operator.length_hint(items) or None
    show = picture_of()
    begun = shown = time.monotonic()
    done = 0
    show(done, total, 0, name)
    try:
        for item in items:
            done += 1
            now = time.monotonic()
            if now - shown >= PAUSE:
                shown = now
                show(done, total, now - begun, name)
            yield item
    finally:
        show(done, total, time.monotonic() - begun, name)
        show(None, None, 0, name)


def picture_of():
    """A function that shows a state; it is called with None after the last one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):  # a notebook's, not a terminal's
        return notebook_picture()
    if sys.stderr is not None and sys.stderr.isatty():
        return terminal_picture
    return lambda *state: None


def words(done, total, seconds):
    """How far it is, and how long it may still take."""
    if not total:
        return "%d, %.0f s" % (done, seconds)
    text = "%d of %d, %.0f s" % (done, total, seconds)
    if 0 < done < total:
        text += ", %.0f s to go" % (seconds * (total - done) / done)
    return text


def terminal_picture(done, total, seconds, name):
    if done is None:
        sys.stderr.write("\n")
    else:
        full = min(WIDTH, WIDTH * done // total) if total else 0
        bar = "#" * full + "." * (WIDTH - full if total else 0)
        text = " ".join(
            part for part in (name, bar, words(done, total, seconds)) if part
        )
        sys.stderr.write("\r%s\x1b[K" % text)
    sys.stderr.flush()


def notebook_picture():
    import html

    from IPython.display import HTML, display

    place = display(HTML(""), display_id=True)

    def show(done, total, seconds, name):
        if done is None:
            return
        state = ' value="%d" max="%d"' % (done, total) if total else ""
        text = words(done, total, seconds)
        place.update(
            HTML("%s <progress%s></progress> %s" % (html.escape(name), state, text))
        )

    return show
