"""TEXT -> TOKEN IDS: rules, words, learning a vocabulary, encoding with offsets, windows; no torch."""
