"""The command line: `python -m maxk_lab`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the current folder first; it stays only if this package lies in it.
    if not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
        del sys.path[0]
    from maxk_lab.cli import main

    main()
