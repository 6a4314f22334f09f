"""``python -m manifoldgp`` is ``mgp``."""

from manifoldgp.cli import main

if __name__ == "__main__":
    main()
