"""Colours of all pictures: legible in print, and told apart without seeing colours as most people do."""

from __future__ import annotations

INK = "#1b1f24"
FAINT = "#8a929b"

# Okabe and Ito's palette, with a grey instead of its yellow, which print loses.
BLUE, VERMILLION, GREEN, SKY, GREY, PURPLE, ORANGE, BROWN = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#56B4E9",
    "#7F7F7F",
    "#AA4499",
    "#E69F00",
    "#8C510A",
)

SEQUENCE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BROWN, GREY)
"""In the order in which pictures with several series take them."""

VIRIDIS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")
"""From low to high, evenly spaced: lighter is more, also in grey (the colour map of that name)."""

NAMED = {
    "blue": BLUE, "vermillion": VERMILLION, "green": GREEN, "sky": SKY, "grey": GREY, "purple": PURPLE, "orange": ORANGE, "brown": BROWN,
}  # fmt: skip
ON_DARK = {
    "blue": "#4fb0ea", "vermillion": "#f7914d", "green": "#35cb9f", "sky": "#8fd0f5", "grey": "#a9a9a9", "purple": "#dd8fce", "orange": "#f0b840",
    "brown": "#d19a5b",
}  # fmt: skip
"""The same by name, and lighter ones for a dark ground."""
