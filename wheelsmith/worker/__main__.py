"""``python -m wheelsmith.worker [FOLDER]``."""

from wheelsmith.worker.serving import main

if __name__ == "__main__":
    main()
