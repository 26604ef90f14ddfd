"""The wording of stored values, the same in the terminal and on pages; `terminal` and `pages` do the layout."""
