"""`python -m director`: the same as `director`."""

from director.cli import main

if __name__ == "__main__":
    main()
