"""``python -m pumice.cli`` is ``pumice``."""

from pumice.cli.main import main

if __name__ == "__main__":
    main()
