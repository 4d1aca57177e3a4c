"""What the product tells of itself: numbers, lines and traces. It knows no job and no budget.

Nothing of a user is told: no id, key, prompt, text, token, and no path that holds one.
"""
