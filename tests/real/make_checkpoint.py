"""Saves a tiny checkpoint: `python -m tests.real.make_checkpoint FAMILY FOLDER`.

In a process of its own because torchvision has to be made importable before transformers is
imported, and in a test session other tests have imported it already.
"""

import sys

from tests import torchvision_stub
from tests.tiny_checkpoints import make_checkpoint


def main(family: str, folder: str) -> None:
    """Save it, or end with the reason why it cannot be saved."""
    reason = torchvision_stub.install()
    if reason is not None:
        sys.exit(reason)
    make_checkpoint(family, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
