"""`make fuzz`: files, data, configurations, names and sequences of calls that nobody would think of. Allowed are usable answers and clear refusals."""

from __future__ import annotations

from programmes import call_sequences, configurations, mutated_files, nasty_data, nasty_questions
from programmes.cases import Case, command_line

AREAS: dict[str, Case] = {
    **mutated_files.AREAS,
    **configurations.AREAS,
    **nasty_data.AREAS,
    **nasty_questions.AREAS,
    **call_sequences.AREAS,
}

if __name__ == "__main__":
    command_line(__doc__ or "", "programmes.fuzz", AREAS, minutes=60)
