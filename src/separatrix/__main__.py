"""`python -m separatrix` runs the command `separatrix`."""

from separatrix.commands.main import main

if __name__ == "__main__":
    main()
