"""The command line: `python -m maxk_lab`."""

from maxk_lab.cli import main

if __name__ == "__main__":
    main()
