"""`python -m rbench` is `rbench`, for where the command is not on the PATH."""

from rbench.cli import main

if __name__ == "__main__":
    main()
