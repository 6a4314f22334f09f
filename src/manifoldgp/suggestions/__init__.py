"""Which experiments to do next: those that probably give more (or less), or those that teach the model most."""

from manifoldgp.suggestions.suggesting import Suggestions, suggest

__all__ = ["Suggestions", "suggest"]
