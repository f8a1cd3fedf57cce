"""Whether a print is what a page says: words exactly; numbers nearly, for processors round in their own ways."""

import re

NUMBER = r"-?[\d,]*\d(?:\.\d*)?(?:e-?\d+)?"


def same(printed: str, claimed: str) -> bool:
    """Compare word by word, lines folded anywhere, `...` in the claim standing for anything.

    Numbers agree to five percent, or to 0.03 of what is at most 1, or to three from ten on, as of shares in percent.
    """
    pattern = ""
    for part in re.split(rf"(\.\.\.|(?<![\w.]){NUMBER}(?!\w))", " ".join(claimed.split())):
        if part == "...":
            pattern += ".*?"
        else:
            pattern += f"({NUMBER})" if re.fullmatch(NUMBER, part) else re.escape(part)
    found = re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL)
    if found is None:
        return False
    numbers = [part for part in re.findall(rf"\.\.\.|(?<![\w.]){NUMBER}(?!\w)", claimed) if part != "..."]
    return all(near(here, there) for here, there in zip(found.groups(), numbers, strict=True))


def near(here: str, there: str) -> bool:
    """Compare two numbers as they are printed."""
    a, b = (float(number.replace(",", "")) for number in (here, there))
    least = 3 if abs(b) >= 10 else 0.03 if abs(b) <= 1 else 0
    return abs(a - b) <= max(0.05 * abs(b), least)
