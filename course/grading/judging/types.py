"""What the grader's parts hand to each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Submission:
    """What was taken from one student's zip or folder."""

    student: str  # letters and digits of any script, _ and - only: it names files
    part: int
    files: Mapping[str, bytes] = field(default_factory=dict)  # path in the repository → content
    notes: tuple[str, ...] = ()  # what was repaired or left out, for the student
    refused: str = ""  # why nothing was taken
    sha256: str = ""  # of what was handed in

    def sources(self, others: Collection[str] = ()) -> dict[str, str]:
        """Its Python files as text, but those of some names."""
        return {
            name: content.decode()
            for name, content in self.files.items()
            if name.endswith(".py") and name not in others
        }
