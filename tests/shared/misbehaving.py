"""A subject for the fuzzer whose cases do everything that a reader must not do, one after the other."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from typing import ClassVar

from floatlens.core.errors import FloatlensError


class Misbehaving:
    count = 8
    kinds: ClassVar[dict[str, str]] = {}

    def prepare(self, folder: Path) -> None:
        (folder / "prepared").write_text("yes")

    def warm(self, folder: Path) -> None:
        assert (folder / "prepared").read_text() == "yes"

    def damage(self, folder: Path, rng: Random, target: Path) -> str:
        assert (folder / "prepared").read_text() == "yes"
        (target / "number").write_text(str(rng.random()))
        return "damaged"

    def read(self, target: Path, folder: Path) -> str:
        done = folder.parent / "done"
        number = len(done.read_text()) if done.exists() else 0
        if (target / "number").read_text() != str(Random("shared.misbehaving:Misbehaving 3 -1").random()):
            done.write_text("x" * (number + 1))  # the rehearsal before the first case does not count
        else:
            return "unchanged"
        return (self.refuse, self.fail, self.hang, self.grow, self.die, self.differ, self.ramble, self.accept)[number]()

    def refuse(self) -> str:
        raise FloatlensError("one line")

    def fail(self) -> str:
        raise ZeroDivisionError

    def hang(self) -> str:
        time.sleep(60)
        return "unchanged"

    def grow(self) -> str:
        return "unchanged" * len(bytearray(1 << 31))

    def die(self) -> str:
        os._exit(3)

    def differ(self) -> str:
        return "different"

    def ramble(self) -> str:
        raise FloatlensError("word " * 1000)

    def accept(self) -> str:
        return "told"
