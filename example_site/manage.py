#!/usr/bin/env python
"""Django's commands for the example site: `python -m example_site.manage check`."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command that the command line names."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    # Started as a file, Python looks in example_site/ instead of beside it.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    main()
