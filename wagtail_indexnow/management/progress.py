"""A progress bar for commands, on terminals only."""

from django.core.management.base import OutputWrapper

WIDTH = 40


def draw(output: OutputWrapper, done: int, count: int) -> None:
    """Draw how much is done; nothing where nobody is watching."""
    if not output.isatty():
        return
    filled = WIDTH * min(done, count) // max(count, 1)
    end = "\n" if done >= count else ""
    output.write(f"\r[{'#' * filled:{WIDTH}}] {done}/{count}", ending=end)
